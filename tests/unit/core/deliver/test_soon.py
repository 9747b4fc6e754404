"""Calls that many ask for and that are made once."""

import pytest

from distributary.core.deliver import Soon
from distributary.testing.virtual import VirtualClock, VirtualTimers


@pytest.fixture
def clock() -> VirtualClock:
    """Time that the test moves."""
    return VirtualClock()


@pytest.fixture
def timers(clock: VirtualClock) -> VirtualTimers:
    """Timers on it."""
    return VirtualTimers(clock)


def test_whoever_asks_before_the_call_goes_along(timers: VirtualTimers) -> None:
    """Three ask, one call is made, and never from inside the asking."""
    calls: list[str] = []
    soon = Soon(timers, lambda: calls.append("made"))
    for _ in range(3):
        soon.ask()
        assert soon.due
        assert calls == []
    timers.advance(0.0)
    assert (calls, soon.due) == (["made"], False)


def test_the_first_who_asks_says_when(timers: VirtualTimers) -> None:
    """A later wish neither hastens a call that is due nor puts it off."""
    calls: list[str] = []
    soon = Soon(timers, lambda: calls.append("made"))
    soon.ask(1.0)
    soon.ask(0.0)
    soon.ask(9.0)
    timers.advance(0.9)
    assert calls == []
    timers.advance(0.2)
    assert calls == ["made"]


def test_the_call_may_ask_again(timers: VirtualTimers) -> None:
    """What asks from inside its own call is called once more."""
    calls: list[int] = []

    def call() -> None:
        calls.append(len(calls))
        if len(calls) < 3:
            soon.ask(1.0)

    soon = Soon(timers, call)
    soon.ask()
    timers.advance(5.0)
    assert calls == [0, 1, 2]
