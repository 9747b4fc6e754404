"""Reads in a thread that can be ended: a pipe, or a person at a terminal, may be silent for hours.

A thread that reads cannot be cancelled, and the command would end only after it.
"""

import io
import os
import select
import stat
from types import TracebackType
from typing import Any, BinaryIO, Self, cast


class StoppableReads:
    """Ends reads that wait in other threads. A context manager: leave it when they have ended."""

    def __init__(self) -> None:
        self._stopped, stop = os.pipe()
        self._stop: int | None = stop

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()
        os.close(self._stopped)

    def of(self, file: BinaryIO) -> BinaryIO:
        """Return a reader of *file* that comes to an end at ``stop``; *file* stays its owner's.

        A file on a disk answers by itself, and is returned as it is.
        """
        try:
            fd = file.fileno()
        except io.UnsupportedOperation:  # it is in memory
            return file
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return file
        return cast("BinaryIO", io.BufferedReader(_Waiting(fd, self._stopped)))

    def stop(self) -> None:
        """End the reads that wait, and all later ones."""
        if self._stop is not None:
            os.close(self._stop)
            self._stop = None


class _Waiting(io.RawIOBase):
    """Reads *fd* until the other end of the pipe *stopped* is closed."""

    def __init__(self, fd: int, stopped: int) -> None:
        self._fd = fd
        self._stopped = stopped

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is, at least a byte; 0: the end, or stopped."""
        ready, _, _ = select.select((self._fd, self._stopped), (), ())
        if self._stopped in ready:
            return 0
        return os.readv(self._fd, [buffer])
