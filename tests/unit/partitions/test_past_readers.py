"""Readers of replays stay open between slices, a bounded number of them, for a bounded time."""

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.partitions._past_readers import IDLE_S, OPEN_MAX, PastReaders
from distributary.testing.virtual import VirtualClock


class Opened:
    """Counts what is open."""

    def __init__(self) -> None:
        self.readers: list[Reader] = []

    def __call__(self) -> "Reader":
        self.readers.append(Reader())
        return self.readers[-1]

    @property
    def open(self) -> list["Reader"]:
        return [each for each in self.readers if not each.closed]


class Reader:
    closed = False

    def close(self) -> None:
        assert not self.closed
        self.closed = True


@pytest.fixture
def opened() -> Opened:
    """What the readers open."""
    return Opened()


@pytest.fixture
def clock() -> VirtualClock:
    """Of the readers."""
    return VirtualClock()


@pytest.fixture
def readers(opened: Opened, clock: VirtualClock) -> PastReaders:
    """The readers of a partition."""
    return PastReaders(opened, clock)  # type: ignore[arg-type]  # it only lends them


def test_each_replay_has_its_reader_again(readers: PastReaders) -> None:
    """Its next slice reads with the one that its last slice has left."""
    with readers.of(1) as first:
        pass
    with readers.of(2) as second:
        assert second is not first
    with readers.of(1) as again:
        assert again is first


def test_those_used_least_lately_are_closed(readers: PastReaders, opened: Opened) -> None:
    """Many replays do not hold many connections."""
    for seq in (*range(OPEN_MAX), 0, OPEN_MAX):
        with readers.of(seq):
            pass
    assert opened.open == [opened.readers[0], *opened.readers[2:]]


def test_one_that_fails_is_closed(readers: PastReaders, opened: Opened) -> None:
    """The next slice opens another one."""
    why = LogUnavailableError("no broker answers")
    with pytest.raises(LogUnavailableError), readers.of(1):
        raise why
    assert not opened.open
    with readers.of(1):
        assert len(opened.open) == 1


def test_an_idle_one_is_closed(readers: PastReaders, opened: Opened, clock: VirtualClock) -> None:
    """A replay that waits holds nothing of what retention deletes."""
    with readers.of(1):
        pass
    clock.move_to(clock.monotonic_s() + IDLE_S)
    with readers.of(2):
        pass
    assert not readers.has_idle()
    clock.move_to(clock.monotonic_s() + 1.0)
    assert readers.has_idle()
    readers.close_idle()
    assert opened.open == opened.readers[1:]
    readers.close()
    assert not opened.open
