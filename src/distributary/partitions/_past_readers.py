"""Readers of log and archive that stay open between the slices of replays.

A slice of a slow replay is a few records, some twenty times a second. Where nodes share a log, to
open a reader is to connect to the cluster, and what it has fetched ahead goes with it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from distributary.core.clock import Clock
from distributary.partitions.recalls import Kept

OPEN_MAX: Final = 4
"""Most readers that stay open, of the replays that read last: each may hold some 2 MiB."""
IDLE_S: Final = 10.0
"""How long one stays open that nobody uses: it may hold a file that retention has deleted."""


class PastReaders:
    """The open readers of one partition's replays. For the thread that replays read in.

    Args:
        make: Opens a reader.
        clock: Monotonic.
    """

    def __init__(self, make: Callable[[], Kept], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._open: dict[int, tuple[Kept, float]] = {}  # the last was used last

    @contextmanager
    def of(self, seq: int) -> Iterator[Kept]:
        """Lend the reader of the replay with number *seq*; one that fails is closed.

        Raises:
            LogError: None can be opened.
        """
        reader, _ = self._open.pop(seq, (None, 0.0))
        if reader is None:
            reader = self._make()
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._open[seq] = reader, self._clock.monotonic_s()
        while len(self._open) > OPEN_MAX:
            self._close(next(iter(self._open)))

    def has_idle(self) -> bool:
        """Whether ``close_idle`` has something to do; may be asked in any thread."""
        since_s = self._clock.monotonic_s() - IDLE_S
        return any(used_s < since_s for _, used_s in list(self._open.values()))

    def close_idle(self) -> None:
        """Close those that nobody has used for ``IDLE_S``."""
        since_s = self._clock.monotonic_s() - IDLE_S
        for seq in [seq for seq, (_, used_s) in self._open.items() if used_s < since_s]:
            self._close(seq)

    def close(self) -> None:
        """Close them all."""
        for seq in list(self._open):
            self._close(seq)

    def _close(self, seq: int) -> None:
        reader, _ = self._open.pop(seq)
        reader.close()
