"""Subscriptions of the store as the Kubernetes API shows them."""

import asyncio

import msgspec
import pytest

from distributary.core.database import sqlite_url
from distributary.core.outcome import DeliveryReader, Tally
from distributary.resource import SinkRule
from distributary.server.processes.control._shown_subscriptions import ShownSubscriptions
from distributary.subscriptions.service import Statuses, Subscriptions, rules
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Precondition
from distributary.testing.memory_tallies import MemoryTallies, MemoryTallyReader
from distributary.testing.virtual import VirtualClock
from kit.memory_routes import MemoryRouteAppender
from kit.standing import watcher_of

DEAD = "http://127.0.0.1:9/dead?code=canary"
SPEC = {
    "sink": "http://127.0.0.1:9/?token=canary",
    "protocol": "HTTP",
    "protocolsettings": {
        "headers": {"Authorization": "canary"},
        "delivery": {"deadLetterSink": DEAD},
    },
}


class Shop:
    """Subscriptions, what became of their matches, and how they are shown."""

    def __init__(self, folder, runner):
        clock = VirtualClock()
        self.store = Store(sqlite_url(folder / "state.db"))
        self.tallies = MemoryTallies()
        self.watcher = watcher_of(self.store, clock, MemoryTallyReader(self.tallies))
        statuses = Statuses(
            self.store,
            [DeliveryReader(folder / "0.db", 0)],
            [folder / "0.json"],
            self.watcher,
            clock=clock,
        )
        self.shown = ShownSubscriptions(self.store, statuses)
        self.subscriptions = Subscriptions(
            self.store, MemoryRouteAppender(), rules(SinkRule(local_allowed=True)), clock
        )
        self.run = runner.run
        self.run(self.subscriptions.start())

    def put(self, id_, namespace="default", spec=SPEC):
        """Subscribe; returns the uid."""
        self.run(self.subscriptions.replace(id_, spec, Precondition(), namespace))
        return self.store.find(id_, namespace).uid


@pytest.fixture
def shop(tmp_path):
    """One without subscriptions."""
    with asyncio.Runner() as runner:
        made = Shop(tmp_path, runner)
        yield made
        runner.run(made.subscriptions.close())
        made.store.close()


def test_a_subscription_is_found_by_id_and_by_uid(shop):
    """With its whole status, in its own namespace alone."""
    uid = shop.put("Orders_EU")
    failed = {"failing_since_ms": 1, "failing_last_ms": 2, "failing_count": 3}
    shop.tallies.put({uid: Tally(delivered=7, waiting=2, failing_reason="status-500", **failed)})
    shop.watcher.turn()
    found = shop.shown.find("default", "Orders_EU")
    assert found == shop.shown.find("default", uid)
    assert (found.id, found.uid, found.revision) == ("Orders_EU", uid, 1)
    assert (found.status["state"], found.status["delivered"]) == ("failing", 7)
    assert found.status["failing"]["reason"] == "status-500"
    assert {one["type"] for one in found.status["conditions"]} >= {"Ready", "Delivering"}
    assert not {"id", "route", "revision"} & found.status.keys()
    assert shop.shown.find("other", "Orders_EU") is None
    assert shop.shown.find("other", uid) is None


@pytest.mark.parametrize(
    "dead", [DEAD, {"sink": DEAD, "protocol": "HTTP", "protocolsettings": {}}, None]
)
def test_no_secret_is_shown(shop, dead):
    """Neither keys in headers nor queries of sinks."""
    delivery = {} if dead is None else {"deadLetterSink": dead}
    settings = SPEC["protocolsettings"] | {"delivery": delivery}
    shop.put("a", spec=SPEC | {"protocolsettings": settings})
    (listed,) = shop.shown.page("default", ("", ""), 10)
    for one in (listed, shop.shown.find("default", "a")):
        assert one.spec["sink"] == "http://127.0.0.1:9/"
        assert b"canary" not in msgspec.json.encode((one.spec, one.status))


def test_pages_follow_each_other(shop):
    """Of one namespace or of all, each with its short status."""
    for id_, namespace in (("b", "default"), ("a", "other"), ("a", "default"), ("c", "default")):
        shop.put(id_, namespace)
    seen = [(one.namespace, one.id) for one in shop.shown.page("default", ("default", "a"), 5)]
    assert seen == [("default", "b"), ("default", "c")]
    first = shop.shown.page(None, ("", ""), 2)
    second = shop.shown.page(None, (first[-1].namespace, first[-1].id), 5)
    assert [(one.namespace, one.id) for one in (*first, *second)] == [
        *(("default", id_) for id_ in "abc"),
        ("other", "a"),
    ]
    assert {one.status["state"] for one in (*first, *second)} == {"ready"}
