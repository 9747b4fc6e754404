"""Lifecycle events: what they say, and how they come from the outbox to the log."""

import asyncio
import json

import jsonschema
import pytest
from structlog.testing import capture_logs

from distributary.core.errors import LogUnavailableError, StoreError
from distributary.core.event import Event, validate
from distributary.core.flow import (
    TTL_DEFAULT,
    RecordKind,
    decode_addressed,
    decode_timer_event,
)
from distributary.core.outcome import Tally
from distributary.subscriptions import status
from distributary.subscriptions.lifecycle import (
    DATA_SCHEMA,
    TRANSITIONS,
    LifecyclePublisher,
    event_of,
    heard,
)
from distributary.subscriptions.lifecycle._publisher import HANDED_MAX
from distributary.subscriptions.store.demands import RouteName
from distributary.subscriptions.store.lifecycle_rows import (
    FAILING,
    RECOVERED,
    LifecycleOutbox,
    OutboxRow,
    Transition,
)
from distributary.subscriptions.store.stored import Put

ROW = OutboxRow(
    1,
    "u1/2/failing/0",
    "failing",
    "subscription",
    "orders",
    "shop",
    "u1",
    2,
    0,
    {"sink": "http://s/", "reason": "timeout", "since": "1970-01-01T00:00:00Z", "count": 3},
    to_broker=True,
    to_sink=False,
)


class Log:
    """A log that may refuse."""

    def __init__(self):
        self.entries, self.failing, self.taken, self.sick = [], False, None, set()

    async def append_events(self, entries):
        """Append, or fail."""
        if self.sick & {partition for partition, _, _ in entries}:
            return 0
        self.entries += entries[: self.taken]
        if self.failing:
            raise LogUnavailableError("told to fail")
        return len(entries[: self.taken])


@pytest.fixture
def log():
    """A log in memory."""
    return Log()


@pytest.fixture
def outbox(url, store):  # noqa: ARG001 - it makes the file
    """The outbox of the store."""
    made = LifecycleOutbox(url)
    yield made
    made.close()


@pytest.fixture
def publisher(outbox, log, clock):
    """The publisher of that outbox, with the counts that it makes."""
    counts: dict[str, int] = {}
    made = LifecyclePublisher(
        outbox,
        log,
        clock,
        base_url="https://events.example/",
        partition_count=3,
        count=lambda name, more: counts.update({name: counts.get(name, 0) + more}),
    )
    made.counts, made.outbox = counts, outbox
    return made


def make(store, *changes):
    """Make changes that the log has."""
    store.mark_appended(store.apply(changes, 5_000)[-1].seq)


def events(log):
    """What the log has: partition, address or route, and the event."""
    found = []
    for partition, kind, body in log.entries:
        if kind == RecordKind.ADDRESSED:
            held = decode_addressed(body)
            assert held.ttls == (TTL_DEFAULT,)
            found.append((partition, held.address, *held.events))
        else:
            tick = decode_timer_event(body)
            assert tick.number == 0
            found.append((partition, tick.uid, tick.event))
    return found


def test_an_event_says_what_happened_to_which_subscription():
    """Everything that a program needs is in the data, and fits its schema."""
    event = event_of(ROW, "https://events.example")
    assert event.attributes == {
        "specversion": "1.0",
        "id": "u1/2/failing/0",
        "source": "https://events.example/namespaces/shop",
        "type": "dev.distributary.subscription.failing.v1",
        "subject": "orders",
        "time": "1970-01-01T00:00:00Z",
        "datacontenttype": "application/json",
    }
    assert isinstance(event, Event)
    data = json.loads(event.data)
    jsonschema.validate(data, DATA_SCHEMA)
    assert data == {
        "kind": "subscription",
        "id": "orders",
        "namespace": "shop",
        "uid": "u1",
        "revision": 2,
        **ROW.members,
    }


@pytest.mark.parametrize("transition", sorted(TRANSITIONS))
@pytest.mark.parametrize("id_", ["orders", "ä b", "x" * 128])
def test_each_transition_of_each_subscription_makes_a_valid_event(transition, id_):
    """Ids may hold any text."""
    event = event_of(ROW._replace(transition=transition, id=id_), "http://[::1]:8080")
    assert validate(event.attributes) == []


def test_an_object_is_told_from_a_subscription_by_its_subject():
    """Both may have one name."""
    event = event_of(ROW._replace(kind="trigger", id="orders"), "http://h")
    assert event.attributes["subject"] == "trigger/orders"


def test_what_waits_is_published_in_order_and_deleted(publisher, log, outbox, store, spec):
    """At the Broker, and for the sink where it asks; one subscription keeps to one partition."""
    make(store, Put("ear", spec(config={"broker": "lifecycle"}), "u0"))
    make(store, Put("a", spec(config={"lifecycle": True}), "u1"))
    make(store, Put("a", spec(types=["t"]), "u1"))
    asyncio.run(publisher.turn())
    found = events(log)
    assert [(place, event.attributes["id"]) for _, place, event in found] == [
        ("!default", "u1/1/started"),
        ("u1", "u1/1/started"),
        ("!default", "u1/2/updated"),
    ]
    assert len({partition for partition, _, _ in found}) == 1
    assert outbox.waiting() == []
    assert publisher.counts == {"lifecycle_events_total": 2}


@pytest.mark.parametrize("fault", [{"failing": True}, {"taken": 1}, {"failing": True, "taken": 1}])
def test_what_the_log_did_not_take_comes_again_with_the_same_ids(
    publisher, log, store, spec, fault
):
    """None is lost; some may come twice."""
    make(store, Put("ear", spec(config={"broker": "lifecycle"}), "u0"))
    make(store, Put("a", spec(), "u1"), Put("a", spec(), "u1"))
    vars(log).update(fault)
    assert asyncio.run(publisher.turn()) == 1.0
    assert len(publisher.outbox.waiting()) == 2
    first = {event.attributes["id"] for _, _, event in events(log)}
    vars(log).update(failing=False, taken=None, entries=[])
    asyncio.run(publisher.turn())
    again = {event.attributes["id"] for _, _, event in events(log)}
    assert again == {"u1/1/started", "u1/2/updated"}
    assert first <= again
    assert publisher.outbox.waiting() == []


def test_what_is_held_up_for_a_moment_is_no_warning(publisher, log, store, spec, clock):
    """As at each start; what lasts is told once, and again when it comes again."""
    make(store, Put("ear", spec(config={"broker": "lifecycle"}), "u0"), Put("a", spec(), "u1"))
    told = []
    for failing, after_s in ((True, 0), (True, 9), (True, 1), (True, 1), (False, 1), (True, 1)):
        log.failing = failing
        clock.now_ms += after_s * 1_000
        make(store, Put("a", spec(), "u1"))
        with capture_logs() as lines:
            asyncio.run(publisher.turn())
        told.append([line["event"] for line in lines])
    assert told == [[], [], ["lifecycle-events-held-up"], [], [], []]


def test_a_partition_that_takes_nothing_makes_no_other_get_its_events_again(
    publisher, log, store, spec
):
    """It would get them every second, for as long as that lasts."""
    make(store, Put("ear", spec(config={"broker": "lifecycle"}), "u0"))
    make(store, *(Put(f"s{number}", spec(), f"u{number}") for number in range(1, 9)))
    asyncio.run(publisher.turn())
    everything = {event.attributes["id"]: partition for partition, _, event in events(log)}
    sick = everything["u1/1/started"]
    assert {*everything.values()} > {sick}
    log.entries.clear()
    make(store, *(Put(f"s{number}", spec(), f"u{number}") for number in range(1, 9)))
    log.sick = {sick}
    for _ in range(3):
        assert asyncio.run(publisher.turn()) == 1.0
    appended = [event.attributes["subject"] for _, _, event in events(log)]
    assert sorted(appended) == sorted({*appended})
    log.sick = set()
    asyncio.run(publisher.turn())
    assert sorted(event.attributes["subject"] for _, _, event in events(log)) == [
        f"s{number}" for number in range(1, 9)
    ]


def test_an_idle_publisher_reads_nothing(outbox, log, clock, monkeypatch):
    """Only a look at the file is made while nothing changes."""
    news = iter([False, False, True])
    made = LifecyclePublisher(
        outbox, log, clock, base_url="", partition_count=1, may_have_news=lambda: next(news)
    )
    asyncio.run(made.turn())  # whatever an earlier process left
    reads = []
    monkeypatch.setattr(outbox, "waiting", lambda: reads.append(1) or [])
    asyncio.run(made.turn())
    assert reads == []
    asyncio.run(made.turn())
    assert reads == [1]


def test_the_time_of_an_event_is_that_of_the_transition(publisher, log, outbox, store, spec):
    """Not that of its publishing, so it is the same when it comes again."""
    make(store, Put("ear", spec(config={"broker": "lifecycle"}), "u0"))
    make(store, Put("a", spec(), "u1"))
    outbox.note([Transition("u1", FAILING, 7_500, {"reason": "refused"})])
    asyncio.run(publisher.turn())
    assert [event.attributes["time"] for _, _, event in events(log)] == [
        "1970-01-01T00:00:05Z",
        "1970-01-01T00:00:07.500Z",
    ]


def test_what_was_handed_over_is_noted_and_published(publisher, log, outbox, store, spec):
    """A store that takes nothing now keeps it waiting; the id follows from what it is about."""
    make(store, Put("ear", spec(config={"broker": "lifecycle"}), "u0"), Put("a", spec(), "u1"))
    asyncio.run(publisher.turn())
    log.entries.clear()
    recovered = Transition("u1", RECOVERED, 9_000, {"count": 4}, key_ms=7_000)
    publisher.hand([Transition("u1", FAILING, 7_000, {"reason": "timeout"}), recovered])
    note = outbox.note
    outbox.note = lambda _some: (_ for _ in ()).throw(StoreError("busy"))
    assert asyncio.run(publisher.turn()) == 1.0
    assert log.entries == []
    outbox.note = note
    asyncio.run(publisher.turn())
    assert [(event.attributes["id"], event.attributes["time"]) for _, _, event in events(log)] == [
        ("u1/1/failing/7000", "1970-01-01T00:00:07Z"),
        ("u1/1/recovered/7000", "1970-01-01T00:00:09Z"),
    ]
    asyncio.run(publisher.turn())
    assert len(log.entries) == 2


def test_of_too_many_the_newest_are_kept(publisher, log, store, spec):
    """Memory is bounded while the store is away."""
    make(store, Put("ear", spec(config={"broker": "lifecycle"}), "u0"), Put("a", spec(), "u1"))
    asyncio.run(publisher.turn())
    log.entries.clear()
    publisher.hand(Transition("u1", FAILING, number, {}) for number in range(HANDED_MAX + 3))
    asyncio.run(publisher.turn())
    first = events(log)[0][2]
    assert first.attributes["id"] == "u1/1/failing/3"


def transition(kind, **tally):
    """What the watcher tells of one route."""
    name = RouteName("subscription", "a", "default")
    sink = "http://s/in?token=hidden"
    return status.Transition(kind, "u1", name, 7_000, "timeout", "", sink, Tally(**tally))


def test_failing_and_recovered_are_heard_of_the_watcher():
    """The rest comes with changes of the store; both are known by when the failing began."""
    kinds = status.TransitionKind
    found = list(
        heard(
            [
                transition(kinds.FAILING, failing_count=3),
                *(
                    transition(kind)
                    for kind in kinds
                    if kind not in (kinds.FAILING, kinds.RECOVERED)
                ),
                transition(kinds.RECOVERED, failing_count=4, success_ms=9_000),
            ]
        )
    )
    members = {"since": "1970-01-01T00:00:07Z", "sink": "http://s/in"}
    assert found == [
        Transition("u1", FAILING, 7_000, members | {"count": 3, "reason": "timeout"}),
        Transition("u1", RECOVERED, 9_000, members | {"count": 4}, 7_000),
    ]
    row = ROW._replace(members={**members, "count": 3, "reason": "timeout"})
    jsonschema.validate(json.loads(event_of(row, "http://h").data), DATA_SCHEMA)
