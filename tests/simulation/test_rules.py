"""Rules 1 and 2 (cursor, one owner) and damage, each broken on purpose."""

import pytest

from distributary.core.deliver import Limits
from distributary.core.engine import EngineLimits
from distributary.core.errors import LogLockedError, StoreError
from distributary.core.flow import RecordKind
from distributary.core.journal import read_journal
from distributary.core.lease import FileLease
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.datadir import StatusField
from distributary.testing.virtual import VirtualClock
from kit.simulation.partition import answers, hangs

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
    assert {key.offset for key in partition._life.ownership.state.done} == {3, 4, 5, 6, 7}


def test_a_retry_row_lets_the_cursor_pass(partition):
    """Once it is durable, the event needs the cursor no more; retention still keeps it."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    partition.publish("t")
    partition.advance(1.0)
    assert partition.cursor == 2
    assert partition.status_page[StatusField.KEEP_FROM] == 1
    partition.rest()
    partition.advance(1.0)
    assert partition.status_page[StatusField.KEEP_FROM] == 2


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


@pytest.mark.parametrize("fault", ["between-store-and-journal", "torn-frame", "torn-history"])
def test_a_crash_inside_a_flush_loses_nothing(partition, fault):
    """First the history, then the store; a frame of the journal is there or it is not."""
    partition.put_route("r", A, policy=STEADY)
    partition.put_route("q", B)
    partition.sinks[A] = answers(503)
    partition.start()
    partition.advance(1.0)
    if fault == "between-store-and-journal":
        partition.store.crash_after = 0
    else:
        partition.files.torn_bytes = 9
        partition.files.whole_writes = int(fault == "torn-frame")
    partition.publish("t")
    partition.advance(1.0)
    assert not partition.lives
    assert bool(partition.store.kept_rows) == (fault != "torn-history")
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
    partition.checker.lost(3, 4)
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
    partition.checker.lost(4, 6)
    partition.checker.died()
    for fate in partition.checker.fates():
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
    partition.checker.lost(1, 2)
    partition.sinks[A] = answers()
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(10.0)
    assert arrivals(partition, A)[1:] == [event]
    assert "void-row" in [name for name, _ in partition.warnings]
    partition.rest()


def test_beyond_the_window_the_oldest_matches_move_to_rows(partition):
    """One event that hangs must not hold the cursor for ever."""
    partition.engine_limits = EngineLimits(window_events=30, demote_records=5)
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
    first = FileLease(path, 1.0, clock, pytest.fail)

    def sleep(seconds):
        clock.move_to(clock.monotonic_s() + seconds)

    with pytest.raises(LogLockedError, match=r"owns the partition .* within 1 s"):
        FileLease(path, 1.0, clock, sleep)
    assert clock.monotonic_s() == pytest.approx(1.0, abs=0.05)

    def sleep_until_released(seconds):
        sleep(seconds)
        if clock.monotonic_s() > 1.5:
            first.release()

    second = FileLease(path, 5.0, clock, sleep_until_released)
    assert clock.monotonic_s() < 2.0
    second.release()


def test_an_owner_whose_medium_failed_starts_nothing_more(make_partition):
    """What cannot be written down must not be sent: queued tasks, retries and backfills stay."""
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


# -- damage -------------------------------------------------------------------------------------


def test_a_record_that_cannot_be_decoded_is_passed_and_told(partition):
    """Its checksums hold, but nobody we know wrote it."""
    partition.put_route("r", A)
    partition.log.append([(RecordKind.EVENTS, b"\x02future")])
    (event,) = partition.publish("t")
    partition.start()
    partition.advance(1.0)
    assert arrivals(partition, A) == [event]
    assert ("undecodable-record", 1) in [(n, f["offset"]) for n, f in partition.warnings[:1]]


def test_a_hole_in_the_log_is_passed_and_does_not_take_the_cursor_back(partition, tmp_path):
    """A cursor that stands behind damage is believed at the next start."""
    partition.put_route("slow", A, types=["s"], policy=DeliveryPolicy(timeout_s=60.0))
    partition.put_route("fast", B, types=["f"])
    partition.sinks[A] = hangs
    for name in ("f", "f", "f", "s", "f"):
        partition.publish(name)
    partition.log.damage(4)
    partition.checker.lost(4, 5)
    partition.start()
    partition.advance(1.0)
    assert partition.cursor == 5
    holes = [fields for name, fields in partition.warnings if name == "records-lost"]
    assert holes == [{"from": 4, "to": 5}]  # said, not passed in silence
    assert read_journal(tmp_path / "journal")[0].mark.checksum == 0
    partition.crash()
    partition.start()
    assert partition.cursor == 5
    partition.rest()
