"""A replay sends what a subscription had already, each event once more, beside the live flow."""

import itertools

import pytest

from distributary.core.demand import DemandDetails
from distributary.core.engine import EngineLimits
from distributary.core.flow import DoneKey, RecordKind, Stage
from distributary.core.outcome import Changes, RetryRow, RunRow
from distributary.core.policy import DeliveryPolicy
from kit.simulation.partition import answers

EVENTS = int(RecordKind.EVENTS)
A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
POLICY = DeliveryPolicy(retry=2, backoff_delay_s=0.1, timeout_s=1.0)


def arrivals(partition, uri):
    """Ids of the events that were sent there, in order."""
    return [event for _, event, to in partition.sends if to == uri]


def replay(partition, route, since_ms=None, until_ms=None, **more):
    """Ask for a replay of all that the log has now, or of a part."""
    now_ms = partition.clock.wall_ms()
    if not more.get("dry"):
        partition.checker.replayed(route)
    details = DemandDetails(since_ms=since_ms, until_ms=until_ms, **more)
    return partition.targets.ask("replay", route, details, now_ms)


def seq_of(partition, run):
    """The number of its demand."""
    return next(demand.seq for demand in partition.targets.asked if demand.run == run)


def counts(partition, run):
    """Selected, handled and passed of a run."""
    seq = seq_of(partition, run)
    row = partition.store.runs([seq])[seq]
    return row.selected, row.handled, row.passed


@pytest.fixture
def past(make_partition):
    """A partition whose route ``r`` has had 200 events, and ``q`` too."""
    partition = make_partition(seed=21)
    partition.put_route("r", A, policy=POLICY)
    partition.put_route("q", B, policy=POLICY)
    partition.start()
    partition.events = [event for _ in range(200) for event in partition.publish("t")]
    partition.advance(10.0)
    assert arrivals(partition, A) == partition.events
    return partition


def test_a_replay_sends_everything_once_more_to_its_route_alone(past):
    """In the order of the log, more or less; the run counts it."""
    run = replay(past, "r")
    past.advance(30.0)
    assert sorted(arrivals(past, A)) == sorted(past.events * 2)
    assert arrivals(past, B) == past.events
    assert counts(past, run) == (200, 200, 0)
    assert ("replay-done", {"run": run, "count": 200, "passed": 0}) in past.reports
    past.rest()


def test_a_replay_of_a_time_sends_what_was_accepted_then(past):
    """From the first time on, and before the second."""
    past.advance(5.0)
    since_ms = past.clock.wall_ms()
    past.advance(1.0)
    middle = past.publish("t", "t")
    past.advance(1.0)
    until_ms = past.clock.wall_ms()
    past.advance(1.0)
    past.publish("t")
    past.advance(5.0)
    before = len(arrivals(past, A))
    run = replay(past, "r", since_ms, until_ms)
    past.advance(10.0)
    assert sorted(arrivals(past, A)[before:]) == sorted(middle)
    assert counts(past, run) == (2, 2, 0)
    past.rest()


def test_live_events_go_on_beside_a_replay(past):
    """What comes meanwhile is sent once."""
    past.sinks[A] = answers(204, after_s=0.05)
    replay(past, "r")
    past.advance(0.1)
    later = []
    for _ in range(40):
        later += past.publish("t")
        past.advance(0.1)
    past.advance(60.0)
    assert sorted(arrivals(past, A)) == sorted(past.events * 2 + later)
    past.rest()


@pytest.mark.parametrize("step_s", [0.003, 0.02, 0.11])
def test_a_replay_survives_a_crash_wherever_it_stands(past, step_s):
    """Nothing is lost, and copies are of attempts that were under way at a crash alone."""
    run = replay(past, "r")
    for _ in range(30):
        past.advance(step_s)
        past.crash()
        past.start()
    past.advance(60.0)
    assert counts(past, run)[0] == 200
    ended = [fate for fate in past.checker.fates() if fate.route == "r"]
    assert {fate.final for fate in ended} == {"delivered"}
    found = arrivals(past, A)
    assert all(found.count(event) >= 2 for event in past.events)
    past.rest()


def test_a_replay_goes_by_the_newest_filters(past):
    """Also an event that the route did not match when it came."""
    other = past.publish("other")
    past.put_route("r", DEAD, types=["other"], policy=POLICY)
    past.advance(5.0)
    replay(past, "r")
    past.advance(10.0)
    assert arrivals(past, DEAD) == other
    past.rest()


def test_a_replay_waits_behind_what_its_route_has_yet_to_get(past):
    """A match that a backfill still has is delivered once by it, and once more by the replay."""
    past.targets.halt("r")
    past.advance(1.0)
    later = [event for _ in range(50) for event in past.publish("t")]
    past.advance(5.0)
    replay(past, "r")
    past.advance(5.0)
    assert arrivals(past, A) == past.events
    past.targets.unhalt("r")
    past.advance(60.0)
    assert sorted(arrivals(past, A)) == sorted((past.events + later) * 2)
    past.rest()


def test_a_replay_waits_for_the_record_of_a_new_route(past):
    """Asked for at once after it was created, which its owner has not met in the log yet."""
    past.sinks[A] = answers(204, after_s=0.4)  # holds the owner up
    late = [event for _ in range(400) for event in past.publish("t")]
    past.put_route("new", DEAD, policy=POLICY)
    run = replay(past, "new")
    past.advance(120.0)
    assert sorted(arrivals(past, DEAD)) == sorted(past.events + late)
    assert counts(past, run) == (600, 600, 0)
    past.rest()


def test_a_replay_keeps_its_rate(past):
    """50 a second: 200 take about four seconds, and never more than the rate with one burst."""
    began_s = past.clock.monotonic_s()
    replay(past, "r", rate=50.0)
    past.advance(1.0)
    assert 20 <= len(arrivals(past, A)) - 200 <= 70
    past.advance(60.0)
    times = [at for at, _, to in past.sends if to == A and at > began_s]
    assert len(times) == 200
    assert times[-1] - times[0] > 3.0
    past.rest()


def test_a_cancelled_replay_stops_and_stays_so(past):
    """What is under way ends; a restart does not go on with the run."""
    run = replay(past, "r", rate=20.0)
    past.advance(2.0)
    past.targets.cancel(run)
    past.advance(1.0)
    sent = len(arrivals(past, A))
    past.crash()
    past.start()
    past.advance(60.0)
    assert 200 < len(arrivals(past, A)) == sent < 300
    assert [name for name, _ in past.reports if name.startswith("replay-")] == ["replay-cancelled"]
    past.rest()


def test_a_run_cancelled_before_anybody_saw_it_does_nothing(past):
    """The owner meets the request and its end together."""
    past.crash()
    run = replay(past, "r")
    past.targets.cancel(run)
    past.start()
    past.advance(10.0)
    assert len(arrivals(past, A)) == 200
    assert counts(past, run) == (0, 0, 0)
    past.rest()


def test_a_dry_run_counts_and_does_nothing(past):
    """Also of matches that a backfill has yet to deliver."""
    run = replay(past, "r", dry=True)
    past.advance(5.0)
    assert counts(past, run) == (200, 200, 0)
    assert len(arrivals(past, A)) == 200
    past.rest()


def test_what_a_replay_may_not_deliver_becomes_a_dead_letter(past):
    """It has an outcome like any other match."""
    past.sinks[A] = answers(400)
    replay(past, "r")
    past.advance(30.0)
    assert {kept.key.route for kept in past.store.dead_letters(1_000)} == {"r"}
    assert len(past.store.dead_letters(1_000)) == 200
    past.rest()


def test_a_replay_is_counted_against_maxevents(past):
    """It delivers no more than the subscription may have in all."""
    past.put_route("n", DEAD, types=["n"], policy=POLICY, events_max=30)
    past.advance(1.0)
    past.put_route("n", DEAD, policy=POLICY, events_max=30)
    past.advance(1.0)
    replay(past, "n")
    past.advance(30.0)
    assert past.reservations.delivered("n") == 30
    assert len(set(arrivals(past, DEAD))) == 30
    past.rest()


def test_a_replay_from_before_the_log_tells_where_the_log_begins(past):
    """Retention has the rest; what is there is sent."""
    past.advance(5.0)
    late = past.publish("t", "t")
    past.advance(5.0)
    past.retain()
    assert past.log.start() > 0
    run = replay(past, "r", since_ms=0)
    past.advance(10.0)
    seq = next(demand.seq for demand in past.targets.asked if demand.run == run)
    row = past.store.runs([seq])[seq]
    assert row.oldest_ms is not None
    assert row.done
    assert set(arrivals(past, A)[202:]) <= {*past.events, *late}
    past.rest()


def test_retention_keeps_what_a_replay_needs(past):
    """A slow one is not overtaken."""
    run = replay(past, "r", rate=40.0)
    for _ in range(20):
        past.advance(0.5)
        past.publish("t")
        past.retain()
    past.advance(60.0)
    assert counts(past, run)[:2] == (200, 200)
    past.rest()


def test_a_replay_makes_no_more_rows_than_its_route_may_have(past):
    """The log keeps the rest."""
    past.rollover()
    past.engine_limits = EngineLimits(rows_per_route_max=20)
    past.start()
    past.sinks[A] = answers(503)
    past.put_route("r", A, policy=DeliveryPolicy(retry=9, backoff_delay_s=30.0))
    past.advance(1.0)
    replay(past, "r")
    past.advance(20.0)
    assert len([row for row in past.store.rows() if not row.done]) <= 20
    past.sinks.clear()
    past.advance(900.0)
    assert sorted(set(arrivals(past, A))) == sorted(past.events)
    past.rest()


def test_a_retry_on_demand_does_not_wait_for_the_breaker(past):
    """One of them tries the sink, and the others follow; a breaker pauses 30 s."""
    past.sinks[A] = answers(503)
    past.put_route("r", A, policy=DeliveryPolicy(retry=99, backoff_delay_s=0.5))
    for _ in range(12):
        past.publish("t")
    past.advance(300.0)
    before = len(arrivals(past, A))
    while len(arrivals(past, A)) == before:
        past.advance(1.0)
    assert len(arrivals(past, A)) == before + 1  # a probe has failed: the next is 30 s away
    past.sinks.clear()
    past.advance(1.0)
    before = len(arrivals(past, A))
    past.targets.ask("retry", "r")
    past.advance(10.0)
    assert len(arrivals(past, A)) == before + 12
    past.rest()


def test_retries_are_made_now_on_demand(past):
    """Those that wait for their time; once, also over a crash."""
    past.sinks[A] = answers(503)
    past.put_route("r", A, policy=DeliveryPolicy(retry=9, backoff_delay_s=600.0))
    past.advance(1.0)
    for _ in range(3):
        past.publish("t")
    past.advance(10.0)
    before = len(arrivals(past, A))
    past.sinks.clear()
    past.advance(60.0)
    assert len(arrivals(past, A)) == before
    past.targets.ask("retry", "r")
    past.advance(40.0)
    assert len(arrivals(past, A)) == before + 3
    past.sinks[A] = answers(503)
    past.publish("t")
    past.advance(10.0)
    before = len(arrivals(past, A))
    past.crash()
    past.start()
    past.advance(60.0)
    assert len(arrivals(past, A)) == before
    past.rest()


def hangs_first(partition, uri):
    """The first attempt at *uri* is answered after a minute, the others at once; rows that come."""
    steps = itertools.chain([60.0], itertools.repeat(0.005))

    def behaviour(_chance):
        return answers(204, next(steps))(_chance)

    partition.sinks[uri] = behaviour


def test_a_replay_writes_no_row_for_what_is_delivered(past):
    """Its position and the journal tell what is done."""
    run = replay(past, "r")
    while counts_or_none(past, run) != (200, 200, 0):
        assert past.store.rows() == []
        past.advance(0.01)
    assert sorted(arrivals(past, A)) == sorted(past.events * 2)
    past.rest()


def counts_or_none(partition, run):
    """As ``counts``; None before the run has begun."""
    seq = seq_of(partition, run)
    return counts(partition, run) if partition.store.runs([seq]) else None


def test_a_kill_repeats_only_what_was_under_way(past):
    """The first one hangs, so the position has not moved; the journal has the others.

    An outcome is in doubt for at most 75 ms: the answer takes 5, a flush under way 2 x 20 (to its
    work, and back), the next one begins 10 later and takes 20 to its work. At 100/s these are 8.
    """
    hangs_first(past, A)
    run = replay(past, "r", rate=100.0)
    past.advance(1.0)
    before = arrivals(past, A)[200:]
    assert len(before) > 50
    past.crash()
    past.start()
    past.advance(30.0)
    again = arrivals(past, A)[200:]
    copies = [event for event in past.events if again.count(event) == 2]
    assert set(again) == set(past.events)
    assert before[0] in copies
    assert len(copies) <= 1 + 8
    assert counts(past, run) == (200, 200, 0)
    past.rest()


@pytest.mark.parametrize("step_s", [0.01, 0.3])
def test_a_replay_stands_while_its_subscription_is_paused(past, step_s):
    """And goes on where it was, over a crash too: each event comes once more.

    The owner looks for pauses every 100 ms, in which 10 are sent at 100/s. It sends every 20 ms at
    most, so two more may be due.
    """
    run = replay(past, "r", rate=100.0)
    past.advance(0.5)
    past.targets.halt("r")
    sent = len(arrivals(past, A))
    past.advance(step_s)
    past.advance(5.0)
    assert len(arrivals(past, A)) <= sent + 10 + 2
    past.crash()
    past.start()
    past.advance(1.0)
    past.targets.unhalt("r")
    past.advance(30.0)
    assert sorted(arrivals(past, A)) == sorted(past.events * 2)
    assert counts(past, run) == (200, 200, 0)
    past.rest()


def test_what_a_cancelled_replay_has_under_way_has_an_outcome(past):
    """Also over a crash: it is a row then."""
    past.sinks[A] = answers(204, after_s=0.3)
    run = replay(past, "r")
    while len(arrivals(past, A)) == 200:
        past.advance(0.01)
    past.targets.cancel(run)
    past.advance(0.25)
    sent = counts(past, run)[1]
    past.crash()
    past.start()
    past.advance(30.0)
    assert len(set(arrivals(past, A)[200:])) == sent
    past.rest()


def test_two_replays_of_a_route_send_an_event_once_where_they_meet(past):
    """A match that one has under way is passed by the other, and both end."""
    past.sinks[A] = answers(204, after_s=0.5)
    runs = [replay(past, "r"), replay(past, "r", rate=400.0)]
    past.advance(60.0)
    for run in runs:
        selected, handled, passed = counts(past, run)
        assert selected == handled + passed == 200
    sent = sum(counts(past, run)[1] for run in runs)
    assert len(arrivals(past, A)) == 200 + sent
    past.rest()


@pytest.mark.parametrize("step_s", [0.0, 0.02, 0.15])
@pytest.mark.parametrize("crashes", [False, True])
def test_a_replay_that_met_another_sends_all_though_that_one_is_cancelled(past, step_s, crashes):
    """What the slow one has chosen and not sent is passed by the fast one, and must not be lost."""
    slow = replay(past, "r", rate=5.0)
    past.advance(1.0)
    fast = replay(past, "r")
    while not counts_or_none(past, fast):
        past.advance(0.01)
    past.advance(step_s)
    past.targets.cancel(slow)
    if crashes:
        past.crash()
        past.start()
    past.advance(30.0)
    assert set(arrivals(past, A)[200:]) == set(past.events)
    selected, handled, passed = counts(past, fast)
    assert selected == handled + passed == 200
    past.rest()


def test_a_replay_of_an_earlier_version_goes_on(past):
    """It had made a row of each match below its place, and the journal has nothing of it."""
    past.crash()
    run = replay(past, "r")
    entries = [each for each in past.log.read(0, past.log.durable_end()) if each.kind == EVENTS]
    rows = {}
    for entry in entries[70:100]:
        key = DoneKey(entry.offset, 0, "r")
        rows[key] = RetryRow(key, entry.checksum, Stage.PRIMARY, 1, 0, None, done=False)
    row = RunRow(seq_of(past, run), entries[100].offset, entries[-1].offset + 1, 100, 0, done=False)
    past.store.apply(Changes(rows=rows, runs={row.seq: row._replace(selected=100)}))
    past.start()
    past.advance(30.0)
    assert sorted(arrivals(past, A)[200:]) == sorted(past.events[70:])
    assert counts(past, run) == (200, 200, 0)
    past.rest()


def test_a_replay_after_the_clock_was_set_back_sends_what_came_since(make_partition):
    """Times of the log never fall, so what was accepted since has one that is to come."""
    partition = make_partition(seed=22)
    partition.put_route("r", A, policy=POLICY)
    partition.start()
    events = partition.publish("t")
    partition.advance(1.0)
    partition.clock.jump(-3 * 3600 * 1000)
    events += [event for _ in range(10) for event in partition.publish("t")]
    partition.advance(600.0)
    run = replay(partition, "r")
    partition.advance(30.0)
    assert sorted(arrivals(partition, A)) == sorted(events * 2)
    assert counts(partition, run) == (11, 11, 0)
    partition.rest()
