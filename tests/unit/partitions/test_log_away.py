"""Readers that wait for a log that is away."""

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.partitions._log_away import AGAIN_S, LogAway
from distributary.testing.virtual import VirtualClock, VirtualTimers

WHY = LogUnavailableError("the leader is gone")
UNREADABLE = ("log-unreadable", {"error": "the leader is gone"})
READABLE = ("log-readable", {})


class Bench:
    """The waiting readers of a partition, the lines about them, and who was called again."""

    def __init__(self):
        self.timers = VirtualTimers(VirtualClock())
        self.lines = []
        self.again = []
        self.away = LogAway(self.timers, self.tell, self.tell)

    def tell(self, line, fields):
        self.lines.append((line, fields))

    def wait(self, read):
        self.away.wait(read, WHY, lambda: self.again.append(read))


@pytest.fixture
def bench():
    """No reader waits."""
    return Bench()


def test_a_read_is_repeated_after_a_pause(bench):
    """Not before, and once."""
    bench.wait("backfill")
    bench.timers.advance(AGAIN_S - 0.1)
    assert bench.again == []
    bench.timers.advance(AGAIN_S)
    assert bench.again == ["backfill"]


def test_one_line_tells_of_all_readers(bench):
    """Whoever waits after the first adds none, nor does a repeated read."""
    for read in ("backfill", "look-up", "backfill"):
        bench.wait(read)
    assert bench.lines == [UNREADABLE]


def test_the_log_is_readable_once_nobody_waits(bench):
    """A reader that is answered says nothing while another one waits."""
    bench.wait("backfill")
    bench.wait("look-up")
    bench.away.answered("look-up")
    bench.away.answered("never waited")
    assert bench.lines == [UNREADABLE]
    bench.away.answered("backfill")
    assert bench.lines == [UNREADABLE, READABLE]
