"""The processes that a session depends on: the server, and the JVM whose task it serves.

A session whose JVM has ended goes on delivering until its successor asks for the partition, so that
a restart of the pipeline pauses nothing (DESIGN rule 7). It ends with the server, at once, where
that is on its machine.
"""

import functools
import os
import select
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from distributary.datadir import PARENT

OUTLIVE_S: Final = 30.0
"""Longest time without a JVM: a start of the pipeline takes a third of it. Without a successor by
then, something is wrong, and what delivers must be something that Spark can stop."""
END_S: Final = 30.0
"""Time for a session that has outlived its JVM to end in good order; then its process exits."""
EXECUTOR_OUTLIVE_S: Final = 120.0
"""As ``OUTLIVE_S`` where the JVM was an executor of a cluster: another node may have to lead and to
start Spark before somebody asks. That takes 20 s of two idle cores, and 75 s of busy ones."""


class Process:
    """Another process of this machine, told from one that has its number later (Linux).

    Args:
        pid: Its process id.

    Raises:
        OSError: There is none, or this system cannot watch one.
    """

    def __init__(self, pid: int) -> None:
        if not hasattr(os, "pidfd_open"):
            raise OSError("processes cannot be watched here")
        self._fd = os.pidfd_open(pid)

    @property
    def ended(self) -> bool:
        """Whether it has ended, in whatever way. Any thread may ask."""
        poll = select.poll()  # one for each question: two threads cannot share it
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Watch it no more."""
        os.close(self._fd)


class Guardians:
    """Server and JVM of one session.

    A worker of a cluster has no server on its machine: its session depends on its executor alone.

    Where the processes are unknown (not Linux), the session depends on its parent process, and does
    not outlive it.

    Args:
        server: The server; None: it is on another machine, or unknown as the JVM is.
        jvm: The JVM; None: unknown.
        parent: Process id of the parent.
        now_s: The monotonic clock.
        outlive_s: Longest time without a JVM.
    """

    def __init__(
        self,
        server: Process | None,
        jvm: Process | None,
        parent: Callable[[], int] = os.getppid,
        now_s: Callable[[], float] = time.monotonic,
        *,
        outlive_s: float = OUTLIVE_S,
    ) -> None:
        self._outlive_s = outlive_s
        self._server = server
        self._jvm = jvm
        self._parent_now = parent
        self._parent = parent()
        self._now_s = now_s
        self._orphaned_s: float | None = None

    @classmethod
    def of_worker(cls, environ: Mapping[str, str] = os.environ) -> "Guardians":
        """Those of a Python worker of Spark: its parent is the daemon, whose parent is the JVM."""
        try:
            jvm_pid, server = jvm_of_worker(), Process(int(environ[PARENT]))
        except (OSError, ValueError, KeyError):
            return cls(None, None)
        try:
            return cls(server, Process(jvm_pid))
        except OSError:
            server.close()
            return cls(None, None)

    @classmethod
    def of_executor(cls) -> "Guardians":
        """Those of a Python worker on a cluster: the JVM of its executor alone."""
        try:
            return cls(None, Process(jvm_of_worker()), outlive_s=EXECUTOR_OUTLIVE_S)
        except (OSError, ValueError):
            return cls(None, None)

    @property
    def orphaned(self) -> bool:
        """Whether the JVM has ended, and the session may go on without it."""
        return self._jvm is not None and self._jvm.ended

    @property
    def patient(self) -> bool:
        """Whether an orphaned session may go on now."""
        return not self._server_ended and self._orphaned_for_s() < self._outlive_s

    def alive(self) -> bool:
        """Whether the session's process may live: asked by its heartbeat."""
        if self._jvm is None:
            return self._parent_now() == self._parent
        return not self._server_ended and self._orphaned_for_s() < self._outlive_s + END_S

    @property
    def _server_ended(self) -> bool:
        return self._server is not None and self._server.ended

    def _orphaned_for_s(self) -> float:
        if not self.orphaned:
            return 0.0
        if self._orphaned_s is None:
            self._orphaned_s = self._now_s()
        return self._now_s() - self._orphaned_s

    def close(self) -> None:
        """Watch nobody any more."""
        for process in (self._server, self._jvm):
            if process is not None:
                process.close()


@functools.cache
def jvm_of_worker() -> int:
    """Process id of the JVM of this Python worker of Spark.

    Looked up once: the daemon may end before a later task begins.
    """
    return _parent_of(os.getppid())


def _parent_of(pid: int) -> int:
    """The parent of *pid*. The name before it, in parentheses, may hold anything."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[1])
