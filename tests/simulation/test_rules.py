"""The rules that keep it correct (DESIGN), each broken on purpose."""

import pytest

from distributary.deliver import Limits
from distributary.errors import LogLockedError, StoreError
from distributary.flow import Kind, Leg
from distributary.outcome import read_journal
from distributary.pipeline import OwnerLock, Word, _owner
from distributary.policy import BackoffPolicy, DeliveryPolicy
from distributary.testing.simulation import answers, hangs
from distributary.testing.virtual import VirtualClock

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
STEADY = DeliveryPolicy(
    retry=3, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=2.0, timeout_s=1.0
)


def arrivals(partition, uri):
    """Ids of the events that were sent to *uri*, in order."""
    return [event for _, event, to in partition.sends if to == uri]


# -- rule 1: the cursor -------------------------------------------------------------------------


def test_the_cursor_waits_for_an_attempt_under_way(partition):
    """An event whose match has neither outcome nor row holds it, whatever finished behind it."""
    partition.put_route("slow", A, types=["s"], policy=DeliveryPolicy(timeout_s=60.0))
    partition.put_route("fast", B, types=["f"])
    partition.sinks[A] = hangs
    partition.start()
    partition.publish("s")
    for _ in range(5):
        partition.publish("f")
    partition.advance(2.0)
    assert len(arrivals(partition, B)) == 5
    assert partition.cursor == 2
    assert {key.offset for key in partition._life.journal.state.done} == {3, 4, 5, 6, 7}


def test_a_retry_row_lets_the_cursor_pass(partition):
    """Once it is durable, the event needs the cursor no more; retention still keeps it."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    partition.publish("t")
    partition.advance(1.0)
    assert partition.cursor == 2
    assert partition.board[Word.KEEP_FROM] == 1
    partition.rest()
    partition.advance(1.0)
    assert partition.board[Word.KEEP_FROM] == 2


def test_what_was_done_above_the_cursor_is_not_done_again_after_a_crash(partition):
    """Outcomes above the cursor are reloaded and skipped."""
    partition.put_route("slow", A, types=["s"], policy=DeliveryPolicy(timeout_s=60.0))
    partition.put_route("fast", B, types=["f"])
    partition.sinks[A] = hangs
    partition.start()
    partition.publish("s")
    fast = [*partition.publish("f"), *partition.publish("f", "f")]
    partition.advance(1.0)
    partition.crash()
    partition.start()
    partition.advance(1.0)
    assert arrivals(partition, B) == fast
    assert len(arrivals(partition, A)) == 2  # it was under way: it is sent again
    partition.rest()


def test_a_delivery_whose_outcome_was_not_durable_is_repeated(partition):
    """At least once: the power went between the answer and the flush."""
    partition.put_route("r", A)
    partition.start()
    (event,) = partition.publish("t")
    partition.files.torn_bytes = 5
    partition.advance(0.5)
    assert not partition.lives
    partition.start()
    partition.advance(1.0)
    assert arrivals(partition, A) == [event, event]
    partition.rest()


@pytest.mark.parametrize("fault", ["between-store-and-journal", "torn-frame"])
def test_a_crash_inside_a_flush_loses_nothing(partition, fault):
    """The store is written first; a frame of the journal is there or it is not."""
    partition.put_route("r", A, policy=STEADY)
    partition.put_route("q", B)
    partition.sinks[A] = answers(503)
    partition.start()
    partition.advance(1.0)
    if fault == "torn-frame":
        partition.files.torn_bytes = 9
    else:
        partition.store.crash_after = 0
    partition.publish("t")
    partition.advance(1.0)
    assert not partition.lives
    assert partition.store.kept_rows
    partition.start()
    assert partition.cursor == 2
    partition.rest()


def test_a_finished_row_stays_until_the_cursor_has_passed_it(partition):
    """Or the event would be matched anew after a crash, and sent again."""
    partition.put_route("slow", A, types=["s"], policy=DeliveryPolicy(timeout_s=60.0))
    partition.put_route("r", B, types=["f"], policy=STEADY)
    partition.sinks[A] = hangs
    partition.sinks[B] = answers(503)
    partition.start()
    partition.publish("s")
    partition.publish("f")
    partition.advance(0.5)
    partition.sinks[B] = answers()
    partition.advance(5.0)
    assert [row.done for row in partition.store.kept_rows.values()] == [True]
    partition.crash()
    partition.start()
    partition.advance(5.0)
    assert len(arrivals(partition, B)) == 2  # the first attempt and its retry
    partition.rest()
    assert not partition.store.kept_rows


def test_a_log_that_lost_its_tail_voids_the_outcomes_of_what_it_lost(partition):
    """Another event stands at the position now: it is delivered, though an outcome is there."""
    partition.put_route("slow", A, types=["s"], policy=DeliveryPolicy(timeout_s=60.0))
    partition.put_route("r", B, types=["f"])
    partition.sinks[A] = hangs
    partition.start()
    partition.publish("s")
    lost = partition.publish("f")
    partition.advance(1.0)
    assert arrivals(partition, B) == lost
    partition.crash()
    partition.log.lose_tail(3)
    partition.witness.lost(3, 4)
    again = partition.publish("f")
    partition.start()
    partition.advance(1.0)
    assert arrivals(partition, B) == lost + again
    partition.rest()


def test_a_cursor_beyond_the_log_goes_back_to_a_record_that_stands(partition):
    """The medium took the tail that the cursor had passed: what is written there is delivered."""
    partition.put_route("r", A)
    partition.start()
    for _ in range(5):
        partition.publish("t")
        partition.advance(0.5)
    assert partition.cursor == 6
    partition.crash()
    partition.log.lose_tail(4)
    partition.witness.lost(4, 6)
    partition.witness.died()
    for fate in partition.witness.fates():
        fate.durable = False  # a cursor that goes back may deliver again what it had passed
    new = partition.publish("t")
    partition.start()
    assert partition.cursor == 4
    partition.rest()
    assert new[0] in arrivals(partition, A)


def test_a_retry_row_of_a_lost_record_is_void(partition):
    """Its position holds another event, which has an outcome of its own."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    partition.publish("t")
    partition.advance(0.5)
    assert len(partition.store.kept_rows) == 1
    partition.crash()
    partition.log.lose_tail(1)
    partition.witness.lost(1, 2)
    partition.sinks[A] = answers()
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(10.0)
    assert arrivals(partition, A)[1:] == [event]
    assert "void-row" in [name for name, _ in partition.reports]
    partition.rest()


def test_beyond_the_window_the_oldest_matches_move_to_rows(partition, monkeypatch):
    """One event that hangs must not hold the cursor for ever."""
    monkeypatch.setattr(_owner, "WINDOW_EVENTS", 30)
    monkeypatch.setattr(_owner, "SPILL_RECORDS", 5)
    partition.put_route("slow", A, types=["s"], policy=DeliveryPolicy(timeout_s=60.0))
    partition.put_route("fast", B, types=["f"])
    partition.sinks[A] = hangs
    partition.start()
    partition.publish("s")
    for _ in range(40):
        partition.publish("f")
    partition.advance(5.0)
    assert partition.cursor == 43
    (row,) = partition.store.kept_rows.values()
    assert (row.key.offset, row.attempt, row.failure) == (2, 1, None)
    partition.crash()
    partition.sinks.clear()
    partition.start()
    partition.rest()
    assert len(arrivals(partition, A)) == 2


# -- rule 2: one owner --------------------------------------------------------------------------


def test_the_second_owner_waits_for_the_lock(tmp_path):
    """It gets the partition when the first lets go, and an error when that takes too long."""
    clock = VirtualClock()
    path = tmp_path / "OWNER"
    first = OwnerLock(path, 1.0, clock, pytest.fail)

    def sleep(seconds):
        clock.move_to(clock.monotonic_s() + seconds)

    with pytest.raises(LogLockedError, match=r"owns the partition .* within 1 s"):
        OwnerLock(path, 1.0, clock, sleep)
    assert clock.monotonic_s() == pytest.approx(1.0, abs=0.05)

    def sleep_until_released(seconds):
        sleep(seconds)
        if clock.monotonic_s() > 1.5:
            first.release()

    second = OwnerLock(path, 5.0, clock, sleep_until_released)
    assert clock.monotonic_s() < 2.0
    second.release()


def test_an_owner_whose_medium_failed_starts_nothing_more(make_partition):
    """What cannot be written down must not be sent: queued tasks, retries and lags stay."""
    partition = make_partition(limits=Limits(queued_max=50))
    partition.put_route("r", A)
    partition.sinks[A] = answers(after_s=0.3)
    partition.start()
    for _ in range(30):
        partition.publish("t")
    partition.files.failing = True
    partition.advance(1.0)
    assert isinstance(partition.failure, StoreError)
    sent = len(partition.sends)
    assert sent < 30
    partition.advance(60.0)
    assert len(partition.sends) == sent
    partition.rest()


# -- rule 3: lags -------------------------------------------------------------------------------


def test_a_sink_that_takes_no_more_lags_alone_and_joins_again(partition):
    """One row replaces its matches, the cursor passes, the others are served; then it catches up."""
    partition.put_route("slow", A, policy=DeliveryPolicy(retry=0, timeout_s=50.0))
    partition.put_route("fast", B)
    partition.sinks[A] = hangs
    partition.start()
    events = []
    for _ in range(60):
        events += partition.publish("t")
        partition.advance(0.02)
    partition.advance(1.0)
    assert arrivals(partition, B) == events
    (lag,) = partition.store.kept_lags.values()
    assert (lag.route, lag.to_offset) == ("slow", None)
    assert partition.board[Word.LAGGING] == 1
    assert partition.board[Word.KEEP_FROM] <= lag.from_offset
    partition.sinks[A] = answers()
    partition.advance(120.0)
    assert not partition.store.kept_lags
    sent = len(partition.sends)
    more = partition.publish("t")
    partition.advance(0.02)
    assert [event for _, event, _ in partition.sends[sent:]] == more * 2  # live again
    partition.rest()
    partition.retain()
    assert partition.log.start() > 50


def test_a_lag_survives_a_crash_wherever_it_stands(make_partition):
    """Before it joined, while it joins, and once it has ended: nothing lost, nothing twice."""
    partition = make_partition(seed=3)
    partition.put_route("slow", A, policy=DeliveryPolicy(retry=9, timeout_s=0.5))
    partition.put_route("fast", B)
    partition.sinks[A] = answers(after_s=0.4)
    partition.start()
    for _ in range(25):
        for _ in range(9):
            partition.publish("t", "t")
        partition.advance(0.31)
        partition.crash()
        partition.start()
    assert partition.store.kept_lags
    partition.rest()


def test_a_lag_judges_by_the_filters_that_stood_at_each_event(partition):
    """Filters change while the route lags, and while its matches wait in a lane (promise 2)."""
    partition.put_route("r", A, types=["a"], policy=DeliveryPolicy(retry=9, timeout_s=0.4))
    partition.sinks[A] = hangs
    partition.start()
    for types in (["b"], ["a", "b"], ["a"]):
        for _ in range(10):
            partition.publish("a")
            partition.publish("b")
        partition.advance(0.1)
        partition.put_route("r", A, types=types, policy=DeliveryPolicy(retry=9, timeout_s=0.4))
    partition.advance(3.0)
    partition.crash()
    partition.start()
    partition.rest()
    assert {fate.final for fate in partition.witness.fates()} == {"delivered"}


def test_more_rows_than_one_slice_leave_a_sink_that_came_back(partition):
    """Rows parked behind an open breaker all go on when it closes; none waits for the next."""
    partition.put_route("r", A, policy=DeliveryPolicy(retry=20, backoff_delay_s=0.01))
    partition.sinks[A] = answers(503)
    partition.start()
    for _ in range(200):
        partition.publish("t")
        partition.advance(0.05)
    partition.sinks.clear()
    partition.advance(60.0)
    assert not partition.witness.open_count
    partition.rest()


# -- rules 4 and 5: routes ----------------------------------------------------------------------


def test_a_damaged_route_record_is_restored_from_the_store(partition):
    """Never skipped: the events behind it go to the route that it created."""
    partition.put_route("r", A)
    (event,) = partition.publish("t")
    partition.log.damage(0)
    partition.start()
    partition.advance(1.0)
    assert arrivals(partition, A) == [event]


def test_retention_leaves_the_routes_that_stood_at_the_cut(partition):
    """The record that created the route is deleted; the route is not."""
    partition.put_route("r", A)
    partition.start()
    for _ in range(5):
        partition.publish("t")
    partition.rest()
    partition.advance(1.0)
    partition.retain()
    assert partition.log.start() > 0
    partition.hand_over()
    (partition._folder / "routes").unlink(missing_ok=True)
    (event,) = partition.publish("t")
    partition.start()
    partition.rest()
    assert event in arrivals(partition, A)


def test_what_waits_for_a_deleted_route_is_dropped_with_the_reason(partition):
    """In a lane, in a row and in a lag alike."""
    partition.put_route("r", A, policy=DeliveryPolicy(retry=5, timeout_s=0.5))
    partition.sinks[A] = hangs
    partition.start()
    for _ in range(30):
        partition.publish("t")
    partition.advance(2.0)
    assert partition.store.kept_rows
    assert partition.store.kept_lags
    partition.delete_route("r")
    partition.rest()
    dropped = [fields for name, fields in partition.reports if name == "dropped"]
    assert {fields["reason"] for fields in dropped} == {"route-deleted"}
    assert not [fate for fate in partition.witness.fates() if fate.final == "delivered"]


def test_an_update_of_the_sink_applies_to_the_next_attempt(partition):
    """A row that waits goes to the sink of the newest revision, with its attempt number."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(1.0)
    partition.put_route("r", B, policy=STEADY)
    partition.advance(3.0)
    assert arrivals(partition, B) == [event]
    fate = partition.witness.fate(event, "r")
    assert (fate.final, fate.numbers[Leg.EVENT]) == ("delivered", [(1, 1), (1, 2)])
    partition.rest()


def test_an_update_of_the_sink_applies_to_what_waits_in_its_lane(make_partition):
    """Tasks that were not started do not go to a sink that the subscriber has left."""
    partition = make_partition(limits=Limits(queued_max=50))
    partition.put_route("r", A, policy=DeliveryPolicy(timeout_s=60.0))
    partition.sinks[A] = hangs
    partition.start()
    events = [event for _ in range(20) for event in partition.publish("t")]
    partition.advance(0.5)
    under_way = arrivals(partition, A)
    partition.put_route("r", B, policy=DeliveryPolicy(timeout_s=60.0))
    partition.advance(5.0)
    assert arrivals(partition, A) == under_way
    assert sorted(arrivals(partition, B) + under_way) == sorted(events)
    partition.rest()


# -- retries and dead letters -------------------------------------------------------------------


def test_a_retry_row_survives_a_restart_and_keeps_its_attempt_number(partition):
    """The next owner makes attempt 3, when it is due."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(3.5)
    partition.crash()
    partition.start()
    partition.advance(30.0)
    fate = partition.witness.fate(event, "r")
    assert fate.numbers[Leg.EVENT] == [(1, 1), (1, 2), (2, 3), (2, 4)]
    assert fate.final == "kept"
    partition.rest()


def test_the_dead_letter_leg_survives_a_restart(partition):
    """What failed at its sink is not tried there again; its letter tells why it failed."""
    partition.put_route("r", A, dead_letter=DEAD, policy=STEADY)
    partition.sinks[A] = answers(400, body=b"bad")
    partition.sinks[DEAD] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(1.0)
    (row,) = partition.store.kept_rows.values()
    assert (row.leg, row.failure.code, row.failure.dest) == (Leg.DEAD_LETTER, 400, A)
    partition.crash()
    partition.sinks[DEAD] = answers()
    partition.start()
    partition.rest()
    assert arrivals(partition, A) == [event]
    assert partition.witness.fate(event, "r").final == "dead-lettered"


@pytest.mark.parametrize("dead_letter", [None, DEAD], ids=["absent", "failing"])
def test_what_nobody_takes_is_kept_in_the_store(partition, dead_letter):
    """Never dropped because of a sink: it can be redriven."""
    partition.put_route("r", A, dead_letter=dead_letter, policy=STEADY)
    partition.sinks[A] = partition.sinks[DEAD] = answers(500)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(60.0)
    (letter,) = partition.store.letters.values()
    assert letter.failure.dest == (dead_letter or A)
    assert partition.witness.fate(event, "r").final == "kept"
    partition.rest()


def test_a_dead_letter_sink_that_is_taken_away_leaves_its_letters_in_the_store(partition):
    """The letter waited for an attempt that can no longer be made."""
    partition.put_route("r", A, dead_letter=DEAD, policy=STEADY)
    partition.sinks[A] = answers(400)
    partition.sinks[DEAD] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(1.0)
    partition.put_route("r", A, policy=STEADY)
    partition.advance(5.0)
    assert partition.witness.fate(event, "r").final == "kept"
    partition.rest()


@pytest.mark.parametrize("days", [-1, 1])
def test_a_wall_clock_that_jumps_a_day_neither_hurries_nor_stalls_retries(partition, days):
    """Waits are of the monotonic clock; after a restart no wait is longer than its policy's."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(0.5)
    partition.clock.jump(days * 86_400_000)
    partition.advance(1.0)
    assert len(arrivals(partition, A)) == 1
    partition.advance(1.5)
    assert len(arrivals(partition, A)) == 2
    partition.clock.jump(days * 86_400_000)
    partition.crash()
    partition.sinks.clear()
    partition.start()
    partition.advance(STEADY.backoff_max_s * 1.2 + 1.0)
    assert partition.witness.fate(event, "r").final == "delivered"


# -- rule 7: stopping ---------------------------------------------------------------------------


def test_a_drain_starts_nothing_and_makes_everything_durable(partition):
    """Attempts under way are waited for; what waits, lags or is queued is the next owner's."""
    partition.put_route("slow", A, policy=DeliveryPolicy(retry=0, timeout_s=5.0))
    partition.put_route("fast", B)
    partition.sinks[A] = answers(after_s=0.5)
    partition.start()
    for _ in range(40):
        partition.publish("t")
    partition.advance(1.0)
    assert partition.store.kept_lags
    assert partition.hand_over(5.0) == 0
    assert partition.witness.undurable_count == 0
    partition.start()
    partition.rest()


def test_a_drain_ends_at_its_deadline(partition):
    """What has no answer by then is left without an outcome, as after a crash."""
    partition.put_route("r", A, policy=DeliveryPolicy(retry=0, timeout_s=60.0))
    partition.sinks[A] = hangs
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(0.5)
    assert partition.hand_over(0.2) == 1
    partition.sinks.clear()
    partition.start()
    partition.rest()
    assert arrivals(partition, A) == [event, event]
    assert partition.witness.fate(event, "r").final == "delivered"


def test_a_medium_that_fails_during_the_drain_is_told(partition):
    """The owner ends all the same; its outcomes do not count, and that is no secret."""
    partition.put_route("r", A)
    partition.sinks[A] = answers(after_s=0.3)
    partition.start()
    partition.publish("t")
    partition.advance(0.1)
    partition.files.failing = True
    partition.hand_over(5.0)
    assert [type(error) for error in partition.failures] == [StoreError]
    partition.files.failing = False
    partition.start()
    partition.rest()


# -- damage -------------------------------------------------------------------------------------


def test_a_record_that_cannot_be_decoded_is_passed_and_told(partition):
    """Its checksums hold, but nobody we know wrote it."""
    partition.put_route("r", A)
    partition.log.append([(Kind.EVENTS, b"\x02future")])
    (event,) = partition.publish("t")
    partition.start()
    partition.advance(1.0)
    assert arrivals(partition, A) == [event]
    assert ("undecodable-record", 1) in [(n, f["offset"]) for n, f in partition.reports[:1]]


def test_a_hole_in_the_log_is_passed_and_does_not_take_the_cursor_back(partition, tmp_path):
    """A cursor that stands behind damage is believed at the next start."""
    partition.put_route("slow", A, types=["s"], policy=DeliveryPolicy(timeout_s=60.0))
    partition.put_route("fast", B, types=["f"])
    partition.sinks[A] = hangs
    for name in ("f", "f", "f", "s", "f"):
        partition.publish(name)
    partition.log.damage(4)
    partition.witness.lost(4, 5)
    partition.start()
    partition.advance(1.0)
    assert partition.cursor == 5
    assert read_journal(tmp_path / "journal")[0].mark.checksum == 0
    partition.crash()
    partition.start()
    assert partition.cursor == 5
    partition.rest()
