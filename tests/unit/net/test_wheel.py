"""The timer wheel: deadlines are met, and a wheel without near ones sleeps."""

from collections.abc import Callable

import pytest

from distributary.net import TICK_S, Wheel
from distributary.testing.virtual import VirtualClock, VirtualTimers


class Loop:
    """As much of an event loop as the wheel uses, in virtual time; counts the wheel's turns."""

    def __init__(self, timers: VirtualTimers) -> None:
        self._timers = timers
        self.turns = 0

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> object:
        def turn() -> None:
            self.turns += 1
            fn()

        return self._timers.call_later(delay_s, turn)

    def call_soon(self, fn: Callable[..., None], *arguments: object) -> None:
        self._timers.call_later(0.0, lambda: fn(*arguments))


class Entry:
    """Notes when it expired; stays for *again* more rounds of a second."""

    def __init__(self, clock: VirtualClock, due_s: float, again: int = 0) -> None:
        self._clock = clock
        self.due_s = due_s
        self.slot = 0
        self.expired: list[float] = []
        self._again = again

    def expire(self, _now_s: float) -> bool:
        self.expired.append(self._clock.monotonic_s())
        self.due_s = self._clock.monotonic_s() + 1.0
        return len(self.expired) <= self._again


@pytest.fixture
def clock() -> VirtualClock:
    """Starts at its own zero."""
    return VirtualClock()


@pytest.fixture
def timers(clock: VirtualClock) -> VirtualTimers:
    """Fire as the clock is advanced."""
    return VirtualTimers(clock)


@pytest.fixture
def loop(timers: VirtualTimers) -> Loop:
    """Counts turns."""
    return Loop(timers)


@pytest.fixture
def wheel(loop: Loop, clock: VirtualClock) -> Wheel:
    """Empty."""
    return Wheel(loop, clock.monotonic_s)  # type: ignore[arg-type]


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.05, 0.333, 4.99, 5.0, 5.01, 17.3])
def test_an_entry_expires_within_two_steps_of_its_deadline(
    wheel: Wheel, clock: VirtualClock, timers: VirtualTimers, after_s: float
) -> None:
    """Never before it, whether it is far or near."""
    timers.advance(3.21)
    entry = Entry(clock, clock.monotonic_s() + after_s)
    due_s = entry.due_s
    wheel.watch(entry)

    timers.advance(after_s + 1.0)

    (at_s,) = entry.expired
    assert due_s <= at_s <= due_s + 2 * TICK_S


def test_far_deadlines_wake_nobody(
    wheel: Wheel, clock: VirtualClock, timers: VirtualTimers, loop: Loop
) -> None:
    """An idle connection costs a turn every five seconds, for those whose deadlines move."""
    for number in range(100):
        wheel.watch(Entry(clock, clock.monotonic_s() + 600.0 + number))
    timers.advance(60.0)
    assert loop.turns <= 13


def test_a_nearer_deadline_wakes_a_sleeping_wheel(
    wheel: Wheel, clock: VirtualClock, timers: VirtualTimers
) -> None:
    """And the far one behind it is still met."""
    far = Entry(clock, clock.monotonic_s() + 30.0)
    wheel.watch(far)
    timers.advance(2.0)
    near = Entry(clock, clock.monotonic_s() + 0.2)
    wheel.watch(near)
    timers.advance(0.3)
    assert len(near.expired) == 1
    timers.advance(30.0)
    assert len(far.expired) == 1


def test_an_entry_that_stays_hides_no_other(
    wheel: Wheel, clock: VirtualClock, timers: VirtualTimers
) -> None:
    """It is watched again for later, while another one is due before."""
    now_s = clock.monotonic_s()
    stays = Entry(clock, now_s + 0.1, again=1)
    other = Entry(clock, now_s + 0.5)
    due_s = other.due_s
    wheel.watch(stays)
    wheel.watch(other)
    timers.advance(0.7)
    assert other.expired
    assert other.expired[0] <= due_s + 2 * TICK_S
    timers.advance(1.0)
    assert len(stays.expired) == 2


def test_a_deadline_that_moved_earlier_is_met_after_it_is_watched_again(
    wheel: Wheel, clock: VirtualClock, timers: VirtualTimers
) -> None:
    """Its entry for the later step is outdated, and does nothing."""
    entry = Entry(clock, clock.monotonic_s() + 4.0)
    wheel.watch(entry)
    entry.due_s = clock.monotonic_s() + 1.0
    wheel.watch(entry)
    timers.advance(10.0)
    assert len(entry.expired) == 1
    assert entry.expired[0] < 2.0 + clock.monotonic_s() - 10.0


def test_after_a_blocked_loop_nothing_counts_as_late_at_once(
    wheel: Wheel, clock: VirtualClock, timers: VirtualTimers
) -> None:
    """What arrived meanwhile is read first: one step later the entry expires."""
    entry = Entry(clock, clock.monotonic_s() + 0.2)
    wheel.watch(entry)
    clock.move_to(clock.monotonic_s() + 3.0)  # no timer fires meanwhile
    timers.advance(0.0)
    assert not entry.expired
    timers.advance(2 * TICK_S)
    assert len(entry.expired) == 1


def test_a_forgotten_entry_never_expires(
    wheel: Wheel, clock: VirtualClock, timers: VirtualTimers
) -> None:
    """Its step may still turn the wheel, which then rests."""
    entry = Entry(clock, clock.monotonic_s() + 0.2)
    wheel.watch(entry)
    wheel.forget(entry)
    timers.run_until_idle()
    assert not entry.expired
