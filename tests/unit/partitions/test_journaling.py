"""Who runs small flushes: the loop while the disk is quick, else the thread."""

import pytest

from distributary.core.errors import StoreError
from distributary.partitions._journaling import (
    AGAIN_COUNT,
    HOPELESS_S,
    SLOW_MAX,
    SLOW_S,
    LoopWhileQuick,
)

QUICK_S = 0.0002


class Stage:
    """Flushes that take as long as the test says, and a thread that works when it is let."""

    def __init__(self, clock, timers):
        self._clock = clock
        self._timers = timers
        self.in_thread = []
        self.ended = []
        self.runs = LoopWhileQuick(timers, self, clock)

    def run(self, work, done):
        """As of a ``Blocking``: the thread."""
        work()
        self.in_thread.append(work)
        self._timers.call_later(0.0, lambda: done(None))

    def flush(self, took_s=QUICK_S, error=None):
        """Run a flush to its end; returns whether the thread had it."""

        def work():
            self._clock.move_to(self._clock.monotonic_s() + took_s)
            if error is not None:
                raise error

        before, ended = len(self.in_thread), len(self.ended)
        self.runs.run(work, self.ended.append)
        assert len(self.ended) == ended  # never at once
        self._timers.run_until_idle()
        assert len(self.ended) == ended + 1
        return len(self.in_thread) > before


@pytest.fixture
def stage(clock, timers):
    """On a quick disk."""
    return Stage(clock, timers)


def test_on_a_quick_disk_the_loop_flushes(stage):
    """No thread is woken."""
    assert not any(stage.flush() for _ in range(10))
    assert stage.ended == [None] * 10


def test_a_hiccup_is_no_trend(stage):
    """Slow ones count only in a row."""
    for _ in range(3):
        for _ in range(SLOW_MAX - 1):
            assert not stage.flush(2 * SLOW_S)
        assert not stage.flush()


def test_a_slow_disk_is_waited_for_by_the_thread_until_it_is_quick_again(stage):
    """For a while: one quick flush is no trend either."""
    for _ in range(SLOW_MAX):
        assert not stage.flush(2 * SLOW_S)
    assert all(stage.flush() for _ in range(AGAIN_COUNT - 1))
    assert stage.flush(2 * SLOW_S)
    assert all(stage.flush() for _ in range(AGAIN_COUNT))
    assert not stage.flush()


def test_after_one_hopeless_flush_the_thread_takes_over(stage):
    """The next one would stop all deliveries again."""
    assert not stage.flush(2 * HOPELESS_S)
    assert stage.flush()


@pytest.mark.parametrize("error", [StoreError("full"), ZeroDivisionError("a bug")])
def test_an_error_is_told_like_that_of_the_thread(stage, error):
    """As a ``StoreError``, whatever it was."""
    stage.flush(error=error)
    (told,) = stage.ended
    assert isinstance(told, StoreError)
    assert str(error) in str(told)
