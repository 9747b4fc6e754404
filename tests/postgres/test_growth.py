"""Partitions are added to a log with real brokers and a real store; an end in the middle too."""

import asyncio
import base64
import os
from pathlib import Path

import pytest

from distributary.core.cluster import KafkaPlace
from distributary.core.database import StorePlace
from distributary.core.errors import SettingsError, StoreError
from distributary.core.flow import RecordKind, RouteRecord, decode_route, encode_route
from distributary.core.log.kafka import KafkaRecords, KafkaRoutes, prepare_topics
from distributary.core.log.kafka.store_snapshots import StoreSnapshots
from distributary.core.route import BlindMatcher, RouteTable
from distributary.server.nodes.postgres import (
    make_tables,
    partitions_in_use,
    raise_partitions,
    settle_partitions,
)
from distributary.server.processes.node import _growth as module
from distributary.server.processes.node._growth import Growth, check_partitions
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store
from kit.running_server import wait_until

KEY = base64.b64encode(bytes(32)).decode()


class Lines:
    """What people would read."""

    def __init__(self):
        self.lines = []

    def info(self, event, **fields):
        self.lines.append((event, fields))

    error = info


@pytest.fixture
def place(kafka_cluster):
    """A log of two partitions."""
    made = KafkaPlace(servers=kafka_cluster.servers, prefix=f"growth-{os.getpid()}")
    prepare_topics(made, 2)
    return made


@pytest.fixture
def store(emptied_url):
    """A store that nobody leads, with the tables of nodes."""
    Store(emptied_url, sealer=Sealer(Keys(Path(os.devnull), KEY))).close()
    make_tables(emptied_url)
    return StorePlace(emptied_url)


def change(seq, uid):
    """Change *seq*: the route *uid* takes everything."""
    return encode_route(RouteRecord(seq=seq, op="put", uid=uid, revision=1))


def routes_of(place, store, partition):
    """The routes at the end of *partition*."""
    snapshots = StoreSnapshots(store)
    records = KafkaRecords(place, partition, snapshots)
    found = records.route_snapshot()
    table = (
        RouteTable(BlindMatcher) if found is None else RouteTable.restore(found[1], BlindMatcher)
    )
    for logged in records.kinds(0, records.durable_end(), RecordKind.ROUTE):
        table.apply(decode_route(logged.body))
    records.close()
    snapshots.close()
    return table.last_seq


def test_what_ends_in_the_middle_is_done_by_repeating(place, store, monkeypatch):
    """The number in the store is raised last; routes that changed since are in new partitions."""
    assert settle_partitions(store.url, 2) == 2
    assert settle_partitions(store.url, 9) == 2  # the topic has more, which nobody uses yet
    lines = Lines()

    async def run():
        loop = asyncio.get_running_loop()
        routes = KafkaRoutes(place, 2, loop)
        await routes.append_routes([change(1, "a")])
        with monkeypatch.context() as patched:
            patched.setattr(module, "raise_partitions", failing)
            with pytest.raises(StoreError):
                await Growth(place, store, routes, lines).add(4)
        await routes.close()  # the process ends here
        assert partitions_in_use(store.url) == 2
        again = KafkaRoutes(place, 2, loop)
        await again.append_routes([change(2, "b")])
        growth = asyncio.create_task(Growth(place, store, again, lines).follow(lambda: 4))
        await asyncio.to_thread(wait_until, lambda: lines.lines, 60.0, "partitions are added")
        assert partitions_in_use(store.url) == 4
        await again.append_routes([change(3, "c")])
        growth.cancel()
        await again.close()

    asyncio.run(run())
    assert [routes_of(place, store, each) for each in range(4)] == [3, 3, 3, 3]
    assert lines.lines == [("partitions-added", {"before": 2, "partitions": 4})]
    raise_partitions(store, 3)
    assert partitions_in_use(store.url) == 4  # never fewer


def failing(*_arguments):
    """Fails as a store that is away."""
    raise StoreError("the store is away")


def test_numbers_that_a_log_cannot_have_are_refused():
    """Fewer than there are, and a topic that has lost some."""
    check_partitions(None, 4, 4)
    check_partitions(8, 4, 4)
    with pytest.raises(SettingsError, match=r"never become fewer\. Set 4 or more"):
        check_partitions(2, 4, 4)
    with pytest.raises(SettingsError, match="made anew"):
        check_partitions(None, 4, 2)
