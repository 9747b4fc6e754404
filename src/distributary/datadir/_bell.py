"""Wakes the consumer of a partition when its log has grown: a named pipe that both ends keep open.

The consumer writes ``AWAITS_RECORDS`` to the status page before it looks at the log for the last
time; the appending process rings after it has published the durable end, and only while that word
is set. So a busy log costs no system call, and an idle one no polling. A ring may be lost where
the two stores meet in two processors' buffers: the consumer looks again by its heartbeat.
"""

import contextlib
import os
from pathlib import Path

from distributary.datadir._status_page import StatusField, StatusPage

_RINGS_MAX = 4_096
"""Bytes taken from the pipe at once; one ring is one byte."""


class Bell:
    """One end of the pipe of a partition; both are alike.

    Args:
        path: The pipe; made when it is missing.
        status_page: Of the partition.

    Raises:
        OSError: The pipe cannot be made or opened.
    """

    def __init__(self, path: Path, status_page: StatusPage) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_fifo():
            path.unlink()  # of a data directory that was copied as plain files
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # For both directions: so it opens at once, outlives the other end, and never breaks.
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._status_page = status_page

    def ring(self) -> None:
        """Wake the consumer if it waits; never raises.

        A full pipe holds rings enough, and whoever is not woken looks again by its heartbeat: no
        error here may fail the commit that rings.
        """
        if self._status_page[StatusField.AWAITS_RECORDS]:
            with contextlib.suppress(OSError):
                os.write(self.fd, b"\0")

    def heard(self) -> None:
        """Take the rings out of the pipe."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, _RINGS_MAX)

    def close(self) -> None:
        """Close this end; the pipe stays."""
        os.close(self.fd)
