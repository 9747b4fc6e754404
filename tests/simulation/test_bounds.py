"""What one sink can make its owner hold is bounded: outcomes, rows, matches of one record."""

import tracemalloc

import pytest

from distributary.core import journal
from distributary.core.deliver import Limits, _queue
from distributary.core.demand import DemandDetails
from distributary.core.engine import EngineLimits, _backfill, _matching
from distributary.core.event import Event, record
from distributary.core.flow import Position, RecordKind, Task, events_for
from distributary.core.policy import DeliveryPolicy
from distributary.datadir import StatusField
from distributary.partitions import _intake
from distributary.partitions._reload import Reload
from distributary.testing.scripted_transport import Step
from kit.simulation.partition import answers, hangs

FAST, SLOW = "http://fast.example/", "http://slow.example/"
PATIENT = DeliveryPolicy(timeout_s=600.0)
"""A sink that hangs holds each attempt for ten minutes."""


@pytest.fixture
def roomy(make_partition, monkeypatch):
    """A partition with queues of the usual size, and small bounds of what is remembered."""
    monkeypatch.setattr(journal, "COMPACT_BYTES", 16 * 1024)
    partition = make_partition(limits=Limits())
    partition.engine_limits = EngineLimits(
        window_outcomes=500, demote_outcomes=250, finished_max=500
    )
    return partition


def most_remembered(partition, seconds):
    """Let *seconds* pass; the most outcomes that the journal held meanwhile."""
    most = 0
    for _ in range(int(seconds * 10)):
        partition.advance(0.1)
        most = max(most, len(partition._life.ownership.state.done))
    return most


def test_batches_behind_an_attempt_that_hangs_are_not_remembered_without_bound(roomy):
    """A record holds a hundred outcomes of others: what counts is outcomes, not records."""
    roomy.put_route("slow", SLOW, types=["s"], policy=PATIENT)
    roomy.put_route("fast", FAST)
    roomy.sinks[SLOW] = hangs
    roomy.start()
    roomy.publish("s")
    most = 0
    for _ in range(60):
        roomy.publish(*["f"] * 100)
        most = max(most, most_remembered(roomy, 0.2))
    sent = [uri for _, _, uri in roomy.sends]
    assert (sent.count(FAST), sent.count(SLOW)) == (6_001, 1)  # the others go on
    assert most < 2_000
    roomy.crash()
    roomy.start()
    roomy.rest()


def test_a_backfill_behind_an_attempt_that_hangs_is_not_remembered_without_bound(roomy):
    """The attempt becomes a row; the backfill's mark, and the journal, follow what is done."""
    hung = []

    def first_hangs(chance):
        hung.append(1)
        return hangs(chance) if len(hung) == 1 else Step(answers()(chance).answer, 0.005)

    roomy.sinks[FAST] = first_hangs
    for _ in range(60):
        roomy.publish(*["f"] * 100)
    roomy.put_route("replayed", FAST, policy=PATIENT, begin_ms=0)
    roomy.start()
    assert most_remembered(roomy, 30.0) < 2_000
    assert len(roomy.sends) == 6_000
    assert list(roomy.store.kept_rows) == [(0, 0, "replayed")]
    assert not roomy.store.kept_backfills  # it has joined: the row alone is left
    roomy.crash()
    roomy.start()
    roomy.rest()


def test_a_backfill_that_is_stuck_again_and_again_keeps_each_match_once(roomy):
    """Rows that were made for the sake of its mark are delivered once each, also after a crash."""
    roomy.sinks[FAST] = lambda chance: (
        hangs(chance) if chance.random() < 0.02 else answers()(chance)
    )
    for _ in range(30):
        roomy.publish(*["f"] * 100)
    roomy.put_route("replayed", FAST, policy=DeliveryPolicy(retry=5, timeout_s=20.0), begin_ms=0)
    roomy.start()
    for _ in range(5):
        roomy.advance(1.5)
        roomy.crash()
        roomy.start()
    roomy.rest()


@pytest.mark.slow
@pytest.mark.parametrize("crashes", [False, True])
def test_sinks_that_hang_hold_no_more_than_the_limits_and_delay_others_for_a_while(
    make_partition, crashes
):
    """Each idle queue would take an event more; those that are refused go on as bytes fall."""
    partition = make_partition(limits=Limits(held_bytes_total_max=12_000, retry_reserve=2))
    policy = DeliveryPolicy(retry=100, backoff_max_s=5.0, timeout_s=10.0)
    for number in range(60):
        partition.put_route(f"r{number}", f"http://slow{number}.example/", policy=policy)
        partition.sinks[f"http://slow{number}.example/"] = hangs
    partition.put_route("fast", FAST)
    partition.start()
    for _ in range(3):
        partition.publish("t")
        partition.advance(3.0)
        assert 12_000 < partition.consumer.dispatcher.held_bytes < 19_000
    assert partition.status_page[StatusField.BACKFILLING] > 30
    assert FAST not in {uri for _, _, uri in partition.sends}
    if crashes:
        partition.crash()
        partition.start()
    partition.advance(60.0)
    assert [uri for _, _, uri in partition.sends].count(FAST) == 3
    for _ in range(10):
        partition.publish("t")
    partition.advance(15.0)
    assert [uri for _, _, uri in partition.sends].count(FAST) == 13
    for _ in range(20):
        partition.advance(10.0)
        assert partition.consumer.dispatcher.held_bytes < 22_000
    assert len({uri for _, _, uri in partition.sends}) == 61
    partition.sinks.clear()
    partition.rest()


def test_rows_that_wait_for_a_full_queue_are_not_read_meanwhile(make_partition, monkeypatch):
    """Those that were due are read once each; they are read again once there is room."""
    whole, read = Reload.read, []
    monkeypatch.setattr(
        Reload, "read", lambda self, rows, then: read.extend(rows) or whole(self, rows, then)
    )
    partition = make_partition(limits=Limits(queued_max=2, retry_reserve=2))
    partition.engine_limits = EngineLimits(row_events_bytes_max=0)
    policy = DeliveryPolicy(retry=50, backoff_delay_s=5.0, backoff_max_s=5.0, timeout_s=600.0)
    partition.put_route("r", SLOW, policy=policy)
    partition.sinks[SLOW] = answers(404)
    partition.start()
    for _ in range(60):
        partition.publish("t")
        partition.advance(0.05)
    partition.sinks[SLOW] = hangs
    partition.advance(10.0)
    assert len({row.key for row in read}) == len(read) == 60
    partition.advance(60.0)
    assert len(read) == 60
    partition.sinks[SLOW] = answers()
    partition.rest()


# -- the matches of one record ------------------------------------------------------------------


def count_made(monkeypatch):
    """Matches that were made in each turn of the intake."""
    made, turns = [0], []

    def make(*arguments):
        made[0] += 1
        return Task(*arguments)

    def pump(intake):
        before = made[0]
        whole(intake)
        turns.append(made[0] - before)

    whole = _intake.Intake._pump
    monkeypatch.setattr(_matching, "Task", make)
    monkeypatch.setattr(_intake.Intake, "_pump", pump)
    return turns


def test_a_batch_that_many_routes_see_is_taken_in_slices(make_partition, monkeypatch):
    """Other sinks and timers get their turn meanwhile, and few of its matches stand in memory."""
    partition = make_partition(limits=Limits())
    for number in range(60):
        partition.put_route(f"r{number}", f"http://sink-{number}.example/")
    turns = count_made(monkeypatch)
    partition.start()
    partition.publish(*["t"] * 100)
    partition.advance(0.1)
    assert sum(turns) == 6_000
    assert max(turns) <= 1_000
    partition.rest()


def test_one_event_that_many_routes_see_is_taken_in_slices(make_partition, monkeypatch):
    """As a batch is."""
    partition = make_partition(limits=Limits())
    for number in range(2_000):
        partition.put_route(f"r{number}", f"http://sink-{number % 50}.example/")
    turns = count_made(monkeypatch)
    partition.start()
    partition.advance(5.0)
    partition.publish("t")
    partition.advance(0.1)
    assert sum(turns) == 2_000
    assert max(turns) <= 1_000
    partition.rest()


def test_a_crash_amid_a_batch_loses_and_repeats_nothing_that_is_durable(make_partition):
    """The cursor waits for all matches of the record, those that were not made yet included."""
    partition = make_partition()  # Queues so small that the batch waits for them.
    for number in range(30):
        partition.put_route(f"r{number}", f"http://sink-{number % 3}.example/")
    partition.start()
    partition.publish(*["t"] * 40)
    for _ in range(12):
        partition.advance(0.05)
        partition.crash()
        partition.start()
        assert partition.cursor <= 31
    partition.rest()


def test_a_tick_does_not_look_at_every_queue(make_partition, monkeypatch):
    """There may be 10,000 sinks: what is asked ten times a second is counted as it changes."""
    looks = []
    for name in ("state", "oldest_in_flight_s"):
        whole = getattr(_queue.DestinationQueue, name)
        monkeypatch.setattr(
            _queue.DestinationQueue, name, lambda *a, w=whole: (looks.append(1), w(*a))[1]
        )
    partition = make_partition(limits=Limits())
    for number in range(50):
        partition.put_route(f"r{number}", f"http://sink-{number}.example/", policy=PATIENT)
        partition.sinks[f"http://sink-{number}.example/"] = hangs
    partition.start()
    partition.publish("t")
    partition.advance(1.0)
    looks.clear()
    partition.advance(10.0)
    assert partition.status_page[StatusField.IN_FLIGHT] == 50
    assert partition.status_page[StatusField.OLDEST_IN_FLIGHT_MS] > 10_000
    assert len(looks) < 50


def test_a_large_event_is_not_decoded_for_each_route_that_is_paused(make_partition):
    """A hundred routes; each would hold the megabyte until it is resumed."""
    partition = make_partition(limits=Limits())
    routes = [f"r{number}" for number in range(100)]
    for route in routes:
        partition.put_route(route, SLOW)
    partition.start()
    for route in routes:
        partition.targets.halt(route)
    partition.advance(5.0)
    data = b"x" * 1024 * 1024
    event = Event({"specversion": "1.0", "id": "large", "source": "/s", "type": "t"}, data)
    tracemalloc.start()
    try:
        partition.log.append([(RecordKind.EVENTS, record.encode([event]))])
        partition.advance(20.0)
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 * len(data)


MEBIBYTE = 1024 * 1024


def held_by_slow_sinks(make_partition, sinks, events):
    """Bytes that a hundred backfills hold that wait for room at *sinks*, and the partition."""
    partition = make_partition(limits=Limits(queued_max=8, held_bytes_max=2 * MEBIBYTE))
    partition.engine_limits = EngineLimits(backfill_tasks_bytes_max=MEBIBYTE)
    for number in range(100):
        partition.put_route(f"r{number}", sinks[number % len(sinks)], policy=PATIENT)
    for sink in sinks:
        partition.sinks[sink] = answers(after_s=5.0)
    partition.start()
    partition.advance(1.0)
    offset = partition.log.append([(RecordKind.EVENTS, record.encode(events))])
    for index, event in enumerate(events):
        partition.checker.published(Position(0, offset, index), event)
        for number in range(100):
            partition.checker.expect(Position(0, offset, index), f"r{number}", event)
    tracemalloc.start()
    try:
        partition.advance(20.0)
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return held, partition


def made(count, data):
    """Events with the same data."""
    head = {"specversion": "1.0", "source": "/s", "type": "t"}
    return [Event(head | {"id": f"e{number}"}, data) for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "events", [made(1, b"x" * MEBIBYTE), made(300, b"x")], ids=["large", "many"]
)
def test_a_record_is_not_decoded_for_each_route_that_waits_for_room(make_partition, events):
    """A slow sink, with its breaker closed, takes a few at a time; a hundred routes wait for it."""
    held, partition = held_by_slow_sinks(make_partition, [SLOW], events)
    assert partition.status_page[StatusField.BACKFILLING] > 50
    assert held < 12 * MEBIBYTE


@pytest.mark.slow
def test_matches_that_were_let_go_are_sent_once_each(make_partition):
    """Decoded again when there is room, also after a crash between two of a record."""
    _, partition = held_by_slow_sinks(make_partition, [SLOW, FAST], made(20, b"x" * 60_000))
    for sink in (SLOW, FAST):
        partition.sinks[sink] = answers(after_s=0.05)
    partition.advance(3.0)
    partition.crash()
    partition.start()
    partition.rest()


@pytest.mark.slow
def test_a_sink_without_room_is_asked_without_decoding(make_partition, monkeypatch):
    """Each tick wakes resting backfills: what they let go is not decoded for each look."""
    _, partition = held_by_slow_sinks(make_partition, [SLOW], made(1, b"x" * 40_000))
    decoded = []
    monkeypatch.setattr(_backfill, "events_for", lambda *of: decoded.append(of) or events_for(*of))
    partition.sinks[SLOW] = hangs
    before = len(partition.sends)
    partition.advance(60.0)
    assert len(decoded) < 3 * (len(partition.sends) - before) + 20


def publish(partition, events, routes):
    """Publish each of *events* to all *routes*, as a record of its own."""
    for event in events:
        offset = partition.log.append([(RecordKind.EVENTS, record.encode([event]))])
        partition.checker.published(Position(0, offset, 0), event)
        for route in routes:
            partition.checker.expect(Position(0, offset, 0), route, event)
        partition.advance(0.5)


@pytest.mark.slow
def test_replays_to_sinks_that_hang_share_what_they_hold(make_partition):
    """One to a sink that answers ends beside them; they go on, and count each match once."""
    small = Limits(queued_max=8, held_bytes_max=MEBIBYTE, held_bytes_total_max=4 * MEBIBYTE)
    partition = make_partition(limits=small)
    partition.engine_limits = EngineLimits(replay_tasks_bytes_max=MEBIBYTE)
    sinks = {f"r{number}": f"http://sink-{number}.example/" for number in range(40)}
    for route, sink in sinks.items():
        partition.put_route(route, sink, policy=PATIENT)
    partition.start()
    publish(partition, made(16, b"x" * 128 * 1024), sinks)
    partition.advance(10.0)
    partition.sinks |= dict.fromkeys(list(sinks.values())[:-1], hangs)
    before = len(partition.sends)
    tracemalloc.start()
    try:
        for route in sinks:
            partition.checker.replayed(route)
            partition.targets.ask("replay", route, DemandDetails(), partition.clock.wall_ms())
        partition.advance(20.0)
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    sent = [uri for _, _, uri in partition.sends[before:]]
    assert sent.count(sinks["r39"]) == 16
    assert held < 16 * MEBIBYTE
    partition.sinks |= dict.fromkeys(sinks.values(), answers(after_s=0.05))
    partition.crash()
    partition.start()
    partition.rest()
    runs = partition.store.runs([demand.seq for demand in partition.targets.asked]).values()
    assert {(row.selected, row.handled, row.passed, row.done) for row in runs} == {
        (16, 16, 0, True)
    }
    assert {row.looked - row.total for row in runs} == {0}
