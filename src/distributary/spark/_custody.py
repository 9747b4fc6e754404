"""Keeps the session of a worker process between two of its tasks: a rollover pauses nothing.

Spark gives the process its next task in the main thread; meanwhile the session delivers, and a
thread here looks after it. ``_delivery_task`` puts a session in and takes it out. The main thread
runs ``serve_tasks`` in place of PySpark's own loop, which collects garbage between tasks and
restores signals (``worker_daemon``).
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Final

from distributary.spark._owner import Owner

JVM_END_S: Final = 1.0
"""Longest wait for the end of a JVM whose socket is closed: a process closes its files first."""


class Custody:
    """The session of this process that has no task now, if there is one.

    Attributes:
        possible: Whether the process gets another task when one ends.
    """

    def __init__(self) -> None:
        self.possible = False
        self._owner: Owner | None = None
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()
        self._stays = False
        self._failure: Exception | None = None

    @property
    def keeps(self) -> bool:
        """Whether a session was put in and not taken out; it may have ended since."""
        return self._thread is not None

    def put(self, owner: Owner) -> None:
        """Keep *owner* until the next task takes it, or its time is over."""
        assert self._thread is None
        self._wanted.clear()
        self._stays, self._failure = True, None
        self._owner = owner
        self._thread = threading.Thread(target=self._look_after, args=(owner,), name="custody")
        self._thread.daemon = True
        self._thread.start()

    def take(self) -> Owner | None:
        """Take the session out.

        Returns:
            None: There is none, or it has ended.

        Raises:
            Exception: It has failed: end this process.
        """
        if self._thread is None:
            return None
        self._wanted.set()
        if self._owner is not None:
            self._owner.nudge()
        self._thread.join()
        owner, self._owner, self._thread = self._owner, None, None
        if self._failure is not None:
            raise self._failure
        return owner if self._stays else None

    def give_up(self) -> None:
        """The process gets no more tasks: wait for the end of its session.

        If the JVM has ended, the session outlives it; else Spark ends this process.
        """
        if self._owner is None or self._thread is None:
            return
        self._thread.join(JVM_END_S)
        if self._thread.is_alive() and self._owner.guardians.orphaned:
            self._thread.join()
        owner = self.take()
        if owner is not None:
            owner.close(orderly=False)

    def _look_after(self, owner: Owner) -> None:
        try:
            self._stays = owner.alone(self._wanted.is_set)
        except Exception as error:  # noqa: BLE001 - raised where the session is taken
            self._stays, self._failure = False, error


CUSTODY = Custody()
"""That of this process."""


def serve_tasks(run_task: Callable[[Any, Any], None], infile: Any, outfile: Any) -> None:
    """Run a task that Spark sends, and more while a session waits for the next one.

    Args:
        run_task: PySpark's function that reads a task, runs it and answers.
        infile: From the JVM.
        outfile: To the JVM.
    """
    CUSTODY.possible = bool(os.environ.get("SPARK_REUSE_WORKER"))
    try:
        run_task(infile, outfile)
        while CUSTODY.keeps:
            outfile.flush()
            run_task(infile, outfile)
    except BaseException:
        CUSTODY.give_up()
        raise
