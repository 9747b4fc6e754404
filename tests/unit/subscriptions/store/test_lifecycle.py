"""The outbox of lifecycle events: what is noted of which change, for whom, and when it is given."""

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa

from distributary.core.policy import DeliveryPolicy
from distributary.routes.changes import DropRoute, PutRoute
from distributary.routes.settings import RouteEndpoint, RouteSettings
from distributary.subscriptions.resource import Rotation
from distributary.subscriptions.store import lifecycle_rows
from distributary.subscriptions.store.lifecycle_rows import (
    FAILING,
    RECOVERED,
    LifecycleOutbox,
    Transition,
)
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Delete, Put, Rotate

LISTEN = {"config": {"broker": "lifecycle"}}
TOLD = {"config": {"lifecycle": True}}
SETTINGS = {
    "sink": RouteEndpoint("http://127.0.0.1:9/in?token=hidden"),
    "policy": DeliveryPolicy(retry=1),
}


@pytest.fixture
def outbox(url, store):  # noqa: ARG001 - it makes the file
    """The outbox of the store."""
    made = LifecycleOutbox(url)
    yield made
    made.close()


@pytest.fixture
def do(store, spec):
    """Make changes, all of which must succeed; the log has them at once."""

    def change(*changes, log=True):
        outcomes = store.apply(changes, 5_000)
        assert [one for one in outcomes if isinstance(one, Exception)] == []
        if log:
            store.mark_appended(outcomes[-1].seq)
        return outcomes

    change.put = lambda id_, uid, namespace="default", **members: change(
        Put(id_, spec(**members), uid, namespace=namespace)
    )
    return change


def route(uid, name="Trigger default/t", namespace="default", address="", **more):
    """A change of the route of an object."""
    settings = RouteSettings(name=name, namespace=namespace, **SETTINGS, **more)
    return PutRoute(uid, address, (), (), settings)


def told(outbox):
    """What waits: transition, id, reason, and for whom."""
    return [
        (row.transition, row.id, row.members["reason"], row.to_broker, row.to_sink)
        for row in outbox.waiting()
    ]


def test_more_than_a_bound_do_not_wait_for_the_log(do, outbox, monkeypatch):
    """Of those that nobody takes the oldest are forgotten, whoever wrote them."""
    monkeypatch.setattr(lifecycle_rows, "KEPT_MAX", 3)
    do.put("watch", "w", **LISTEN)
    do.put("a", "u1")
    for number in range(4):
        outbox.note([Transition("u1", FAILING, number, {"reason": str(number)})])
    assert [one[2] for one in told(outbox)] == ["1", "2", "3"]
    do(Delete("a"))
    assert [one[:3] for one in told(outbox)] == [
        (FAILING, "a", "2"),
        (FAILING, "a", "3"),
        ("ended", "a", "deleted"),
    ]


def test_a_namespace_with_many_events_forgets_its_own(do, outbox, monkeypatch):
    """The older ones of another stay, which has no more than its share."""
    monkeypatch.setattr(lifecycle_rows, "KEPT_MAX", 6)
    for namespace in ("few", "many"):
        do.put("watch", f"w-{namespace}", namespace, **LISTEN)
        do.put("a", f"u-{namespace}", namespace)
    outbox.done([row.number for row in outbox.waiting()])

    def fail(namespace, first, end):
        reasons = ((number, {"reason": f"{namespace} {number}"}) for number in range(first, end))
        outbox.note([Transition(f"u-{namespace}", FAILING, *reason) for reason in reasons])

    fail("few", 0, 2)
    fail("many", 0, 4)
    fail("many", 4, 9)
    kept = ["few 0", "few 1", "many 5", "many 6", "many 7", "many 8"]
    assert [one[2] for one in told(outbox)] == kept
    fail("few", 2, 9)  # now it has more than its share itself
    kept = ["many 6", "many 7", "many 8", "few 6", "few 7", "few 8"]
    assert [one[2] for one in told(outbox)] == kept


def test_some_more_are_forgotten_at_once(do, outbox, monkeypatch):
    """A hundredth of all: not every further change has to look for them."""
    monkeypatch.setattr(lifecycle_rows, "KEPT_MAX", 200)
    do.put("watch", "w", **LISTEN)
    do.put("a", "u1")
    outbox.note([Transition("u1", FAILING, number, {"reason": ""}) for number in range(201)])
    counts = [len(outbox.waiting())]
    for number in range(201, 205):
        outbox.note([Transition("u1", FAILING, number, {"reason": ""})])
        counts.append(len(outbox.waiting()))
    assert counts == [198, 199, 200, 198, 199]


def test_what_follows_a_change_waits_with_it_for_the_log(do, store, spec, outbox):
    """A subscription that is paused at once: it is told to be paused after it was started."""
    do.put("ear", "u0", **LISTEN)
    do.put("b", "u2")
    (made,) = do(Put("a", spec(), "u1"), log=False)
    store.pause("u1", "anna", 5_001)
    outbox.note([Transition("u1", FAILING, 5_002, {}), Transition("u2", FAILING, 5_003, {})])
    assert [(row.transition, row.id) for row in outbox.waiting()] == [
        ("started", "b"),
        (FAILING, "b"),
    ]
    store.mark_appended(made.seq)
    assert [row.transition for row in outbox.waiting() if row.id == "a"] == [
        "started",
        "paused",
        FAILING,
    ]


def test_a_change_while_the_rows_are_read_waits_for_the_log(store, spec, outbox):
    """It is committed after any statement of the reader: ``started`` comes after its route."""
    made = []

    def commit(*_):
        if not made:
            made.extend(store.apply([Put("a", spec(**TOLD), "u1")], 5_000))

    sa.event.listen(outbox._reader, "after_cursor_execute", commit)
    assert outbox.waiting() == []
    assert isinstance(made[0], Applied)
    assert outbox.waiting() == []
    store.mark_appended(made[0].seq)
    assert [row.transition for row in outbox.waiting()] == ["started"]


def test_nothing_is_noted_where_nobody_listens(do, outbox):
    """Neither of subscriptions nor of Triggers."""
    do.put("a", "u1")
    do.put("a", "u1", types=["t"])
    do(route("u2"), Delete("a"), DropRoute("u2"))
    assert outbox.waiting() == []


def test_changes_are_told_to_those_who_listen_in_the_namespace(do, outbox):
    """In their order, with the reason of the end; the listener itself is not told of."""
    do.put("ear", "u0", **LISTEN)
    do.put("a", "u1")
    do.put("a", "u1", types=["t"])
    do(Delete("a", reason="expired"))
    assert told(outbox) == [
        ("started", "a", "created", True, False),
        ("updated", "a", "replaced", True, False),
        ("ended", "a", "expired", True, False),
    ]
    assert [row.event_id for row in outbox.waiting()] == [
        "u1/1/started",
        "u1/2/updated",
        "u1/2/ended",
    ]
    assert {row.at_ms for row in outbox.waiting()} == {5_000}
    do(Delete("ear"))
    do.put("b", "u3")
    assert len(outbox.waiting()) == 3


def test_triggers_and_messaging_subscriptions_are_told_of_too(do, outbox):
    """By the name of their object; the query of a sink is nobody's business."""
    do(route("u0", address="!default"))
    do(route("u1"), route("u2", "Subscription default/s"))
    do(route("u1", unusable="no"), DropRoute("u2"), DropRoute("u0"))
    assert [
        (row.kind, *what[:3]) for row, what in zip(outbox.waiting(), told(outbox), strict=True)
    ] == [
        ("trigger", "started", "t", "created"),
        ("messaging-subscription", "started", "s", "created"),
        ("trigger", "updated", "t", "replaced"),
        ("messaging-subscription", "ended", "s", "deleted"),
    ]
    assert {row.members["sink"] for row in outbox.waiting()} == {"http://127.0.0.1:9/in"}
    do(route("u3"))
    assert len(outbox.waiting()) == 4


def test_the_sink_is_told_where_the_subscription_asks_for_it(do, outbox):
    """Of what it can still get: with the route, its deliveries end."""
    do.put("a", "u1", **TOLD)
    do.put("b", "u2", types=["t"], config={"interval": 1, "data": {"lifecycle": True}})
    do(route("u3", lifecycle=True))
    do(Delete("a"), DropRoute("u3"))
    assert told(outbox) == [
        ("started", "a", "created", False, True),
        ("started", "t", "created", False, True),
    ]


def test_nobody_is_told_of_what_listens(do, outbox):
    """Not of its changes, its failures nor its end: such events would make others for ever."""
    do.put("first", "u0", **LISTEN)
    do.put("second", "u1", config={"broker": "lifecycle", "lifecycle": True})
    do.put("second", "u1", config={"broker": "lifecycle"}, types=["t"])
    assert outbox.note([Transition("u1", FAILING, 7, {})]) == 0
    do(Delete("second"))
    assert outbox.waiting() == []


def test_a_subscription_that_leaves_the_broker_is_told_of_again(do, outbox):
    """And the other way round."""
    do.put("ear", "u0", **LISTEN)
    do.put("a", "u1", **LISTEN)
    do.put("a", "u1")
    assert told(outbox) == [("updated", "a", "replaced", True, False)]
    do.put("a", "u1", **LISTEN)
    assert len(outbox.waiting()) == 1


def test_tenants_are_told_of_their_own_alone(do, outbox):
    """Who listens in one namespace makes no event in another."""
    do.put("ear", "u0", "mine", **LISTEN)
    do.put("a", "u1", "theirs")
    do(route("u2", "Trigger theirs/t", "theirs"))
    assert outbox.note([Transition("u1", FAILING, 7, {})]) == 0
    assert outbox.waiting() == []
    do.put("b", "u3", "mine")
    assert [row.namespace for row in outbox.waiting()] == ["mine"]


def test_a_rotated_key_is_an_update(do, store, outbox):
    """So whoever verifies may look for the new one."""
    do.put("ear", "u0", **LISTEN)
    do.put("a", "u1", protocolsettings={"signature": {"scheme": "v1"}})
    (made,) = store.apply([Rotate("a", Rotation(overlap_s=60.0, scheme=None))], 6_000)
    assert isinstance(made, Applied)
    store.mark_appended(made.seq)
    assert [row[:3] for row in told(outbox)][1:] == [("updated", "a", "rotated")]


def test_an_event_waits_until_the_log_has_the_change(do, spec, store, outbox):
    """So the event about a subscription comes after its route."""
    do.put("ear", "u0", **LISTEN)
    (made,) = do(Put("a", spec(), "u1"), log=False)
    assert outbox.waiting() == []
    store.mark_appended(made.seq)
    assert len(outbox.waiting()) == 1


def test_other_transitions_are_noted_once_while_they_wait(do, outbox):
    """Whoever notes them may repeat it after a crash: the id is the same."""
    do.put("ear", "u0", **LISTEN)
    do.put("a", "u1")
    outbox.done([row.number for row in outbox.waiting()])
    failing = Transition("u1", FAILING, 7_000, {"reason": "timeout", "count": 3})
    assert outbox.note([failing, Transition("gone", FAILING, 7_000, {})]) == 1
    outbox.note([failing, Transition("u1", RECOVERED, 9_000, {"count": 4})])
    first, second = outbox.waiting()
    assert (first.event_id, first.at_ms) == ("u1/1/failing/7000", 7_000)
    assert first.members == {"sink": "http://127.0.0.1:9/", "reason": "timeout", "count": 3}
    assert (second.event_id, second.transition) == ("u1/1/recovered/9000", "recovered")
    outbox.done([first.number, second.number])
    outbox.note([failing])
    assert [row.event_id for row in outbox.waiting()] == ["u1/1/failing/7000"]


def test_who_steers_is_told_once_for_each_change(do, store, outbox):
    """What was so before is no change; the listener itself may be paused in silence."""
    do.put("ear", "u0", **LISTEN)
    do.put("a", "u1")
    outbox.done([row.number for row in outbox.waiting()])
    for uid in ("u0", "u1"):
        store.pause(uid, "anna", 10)
        store.pause(uid, "bert", 11)
        store.resume(uid, "bert", 12)
        store.disable(uid, "too slow", "server", 13)
        store.enable(uid, "anna", 14)
        store.enable(uid, "anna", 15)
    sink = {"sink": "http://127.0.0.1:9/"}
    assert [(row.transition, row.uid, row.at_ms, row.members) for row in outbox.waiting()] == [
        ("paused", "u1", 10, sink | {"by": "anna"}),
        ("resumed", "u1", 12, sink | {"by": "bert"}),
        ("disabled", "u1", 13, sink | {"by": "server", "reason": "too slow"}),
        ("enabled", "u1", 14, sink | {"by": "anna"}),
    ]


def test_a_trigger_that_fails_is_told_of(do, outbox):
    """Also to its subscriber alone, where its annotation asks for it."""
    do(route("u1", lifecycle=True), route("u2"))
    outbox.done([row.number for row in outbox.waiting()])
    assert outbox.note([Transition(uid, FAILING, 7, {}) for uid in ("u1", "u2")]) == 1
    (row,) = outbox.waiting()
    assert (row.kind, row.id, row.to_broker, row.to_sink) == ("trigger", "t", False, True)


def test_what_is_stored_survives(do, url, store, outbox):
    """Who listens, and what waits."""
    do.put("ear", "u0", **LISTEN)
    do.put("a", "u1")
    before = outbox.waiting()
    store.close()
    again = Store(url)
    assert outbox.waiting() == before
    assert isinstance(again.apply([Delete("a")], 9_000)[0], Applied)
    again.close()
    with closing(sqlite3.connect(url.database)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM lifecycle_event").fetchone() == (2,)


def test_a_store_of_an_earlier_version_gets_the_tables(url, store, spec):
    """Its subscriptions stay, and are told of from then on."""
    store.apply([Put("a", spec(), "u1")], 1)
    store.close()
    with closing(sqlite3.connect(url.database)) as connection, connection:
        connection.execute("DROP TABLE lifecycle_event")
        connection.execute("DROP TABLE lifecycle_route")
    again = Store(url)
    seq = again.apply([Put("ear", spec(**LISTEN), "u0"), Delete("a")], 2)[1].seq
    again.mark_appended(seq)
    again.close()
    outbox = LifecycleOutbox(url)
    assert told(outbox) == [("ended", "a", "deleted", True, False)]
    outbox.close()
