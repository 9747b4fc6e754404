"""When timers are due: in phase, never twice, never too early, never in a burst."""

import pytest

from distributary.subscriptions.store.schedule import TimerRow
from distributary.subscriptions.timers._beats import LATE_S_MAX, Beats

WALL_MS = 1_700_000_000_000


def row(uid="u", *, seq=1, interval_s=10.0, age_s=0.0):
    """A timer whose phase began *age_s* ago."""
    return TimerRow(uid, seq, interval_s, WALL_MS - round(age_s * 1000))


def beats_of(*rows, now_s=0.0):
    """Timers that were learnt of at *now_s*."""
    beats = Beats()
    for each in rows:
        beats.set(each, now_s, WALL_MS)
    return beats


def times(beats, *looks, count_max=100):
    """What is due at each of the looks: uids, and how many were missed."""
    found = [beats.due(now_s, count_max) for now_s in looks]
    return [([timer.uid for timer in due.timers], due.missed) for due in found]


def test_the_first_timer_event_comes_one_interval_after_the_beginning():
    """Not at once, and not before."""
    beats = beats_of(row())
    assert beats.next_due_s() == 10.0
    assert times(beats, 9.999, 10.0, 10.0) == [([], 0), (["u"], 0), ([], 0)]


def test_the_phase_does_not_drift():
    """Being late for one timer event delays no other."""
    beats = beats_of(row())
    assert times(beats, 10.4, 20.0, 29.99, 30.3) == [(["u"], 0), (["u"], 0), ([], 0), (["u"], 0)]
    assert beats.next_due_s() == 40.0


@pytest.mark.parametrize(
    ("interval_s", "now_s", "made", "missed", "next_s"),
    [
        pytest.param(10.0, 15.0, True, 0, 20.0, id="late within the tolerance"),
        pytest.param(10.0, 15.1, False, 1, 20.0, id="too late"),
        pytest.param(10.0, 41.0, True, 3, 50.0, id="three slept through, the fourth in time"),
        pytest.param(10.0, 47.0, False, 4, 50.0, id="four slept through"),
        pytest.param(2.0, 3.1, False, 1, 4.0, id="half an interval is too late"),
        pytest.param(3600.0, 3606.0, False, 1, 7200.0, id="so are five seconds"),
    ],
)
def test_what_was_slept_through_is_missed_and_the_phase_stays(
    interval_s, now_s, made, missed, next_s
):
    """At most one timer event comes of one look; never a burst."""
    beats = beats_of(row(interval_s=interval_s))
    assert times(beats, now_s, now_s) == [(["u"] if made else [], missed), ([], 0)]
    assert beats.next_due_s() == next_s


def test_a_new_program_finds_the_phase_by_the_wall_clock():
    """Created 25 s ago, every 10 s: due in 5 s. What came due meanwhile is not made up."""
    beats = beats_of(row(age_s=25.0), now_s=1000.0)
    assert beats.next_due_s() == 1005.0
    assert times(beats, 1000.0, 1005.0) == [([], 0), (["u"], 0)]


def test_a_phase_in_the_future_begins_anew():
    """The wall clock was set back: no timer event comes early, and none waits for years."""
    assert beats_of(row(age_s=-86_400.0)).next_due_s() == 10.0


def test_a_change_that_leaves_the_interval_keeps_the_phase_and_lets_numbers_go():
    """The running phase counts, whatever the wall clock says by now."""
    beats = beats_of(row())
    (timer,) = beats.due(10.0, 1).timers
    timer.number, timer.numbers_end = 3, 65
    beats.set(row(seq=2), 14.0, WALL_MS - 3_600_000)
    assert beats.next_due_s() == 20.0
    assert (timer.seq, timer.number, timer.numbers_end) == (2, 0, 0)


def test_a_change_of_the_interval_begins_a_new_phase():
    """The old time is forgotten."""
    beats = beats_of(row())
    beats.set(TimerRow("u", 2, 4.0, WALL_MS + 7000), 7.0, WALL_MS + 7000)
    assert times(beats, 10.0, 11.0) == [([], 0), (["u"], 0)]


def test_a_stopped_timer_is_never_due():
    """Also where it was to be due next; and a new one of the same uid is."""
    beats = beats_of(row("a"), row("b", interval_s=11.0))
    beats.remove("a")
    beats.remove("a")
    assert (len(beats), beats.next_due_s()) == (1, 11.0)
    assert times(beats, 11.0) == [(["b"], 0)]
    beats.remove("b")
    assert beats.next_due_s() is None


def test_as_many_as_asked_for_are_given_the_others_next():
    """In the order in which they came due; a crowd is no reason to miss any."""
    beats = beats_of(*(row(f"u{n}", interval_s=10.0 + n / 1000) for n in range(5)))
    assert times(beats, 10.5, 10.5, 10.5, count_max=2) == [
        (["u0", "u1"], 0),
        (["u2", "u3"], 0),
        (["u4"], 0),
    ]


def test_a_timer_that_had_to_wait_is_due_again_at_once():
    """The same timer event, once; then the phase goes on."""
    beats = beats_of(row())
    (timer,) = beats.due(10.0, 1).timers
    beats.again(timer)
    assert times(beats, 10.05, 10.05, 20.0, 20.0) == [(["u"], 0), ([], 0), (["u"], 0), ([], 0)]


def test_waiting_too_long_misses_the_timer_event():
    """A change that does not reach the log holds no timer event for ever."""
    beats = beats_of(row(interval_s=100.0))
    (timer,) = beats.due(100.0, 1).timers
    beats.again(timer)
    assert times(beats, 100.0 + LATE_S_MAX + 0.01) == [([], 1)]


def test_memory_follows_the_timers_that_stand():
    """Long timers that come and go, or change, leave nothing behind for long."""
    beats = Beats()
    for n in range(5_000):
        beats.set(row(f"u{n}", interval_s=31_536_000.0), 0.0, WALL_MS)
        beats.set(row("same", seq=n, interval_s=31_536_000.0 - n), 0.0, WALL_MS)
        beats.remove(f"u{n}")
    assert len(beats) == 1
    assert len(beats._heap) < 2_000
