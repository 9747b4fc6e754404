"""A thread for files of the history, which nobody waits for: a share may not answer for hours.

Called by the session. A thread of a pool is waited for when the process ends, and by all jobs that
come after; this one hangs alone.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from distributary.core.errors import StoreError
from distributary.history.writer import HistoryWriter
from distributary.partitions._journaling import error_of

T = TypeVar("T")

FINISH_S: Final = 10.0
"""Longest wait for the last files of an owner: a million rows take one second on a quick disk."""
END_S: Final = 1.0
"""Longest wait for a file that is being shown: the next owner would meet it on its way."""

_Job = tuple[Callable[[], None], Callable[[StoreError | None], None]]


class Filing:
    """Files of the history and a ``Blocking`` for them: one thread, begun with its first job.

    Args:
        files: Written by its jobs alone; ended with it.
        name: Of the thread.
        post: Runs a job on the loop of the jobs' owner; raises ``RuntimeError`` once that is gone.
    """

    def __init__(
        self, files: HistoryWriter, name: str, post: Callable[[Callable[[], None]], object]
    ) -> None:
        self.files = files
        self._name = name
        self._post = post
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._until_s: float | None = None
        self._ended = False

    def run(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        """Run *work* in the thread; then call *done* on the loop, with its error."""

        def finished(error: StoreError | None) -> None:
            self._post(lambda: done(error))

        self._put(work, finished)

    def wait(self, work: Callable[[], T]) -> T:
        """Run *work* in the thread, after what it does now; return what that returns.

        All calls together wait for ``FINISH_S``.

        Raises:
            StoreError: As *work*; or it has not ended in that time. It may still be done.
        """
        now_s = time.monotonic()
        if self._until_s is None:
            self._until_s = now_s + FINISH_S
        found: list[T] = []
        ended: queue.SimpleQueue[StoreError | None] = queue.SimpleQueue()
        self._put(lambda: found.append(work()), ended.put)
        try:
            error = ended.get(timeout=max(0.0, self._until_s - now_s))
        except queue.Empty:
            raise StoreError("the folder of the history does not answer") from None
        if error is not None:
            raise error
        return found[0]

    def end(self) -> None:
        """Begin no further job, and wait ``END_S`` for the present one.

        The thread ends by itself, if what it does ever ends. It writes nothing for readers then.
        """
        self._ended = True
        self.files.end()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(END_S)

    def _put(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        self._jobs.put((work, done))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None and not self._ended:
            work, done = job
            error = error_of(work)
            try:
                done(error)
            except RuntimeError:
                return  # The loop is closed: the owner has ended meanwhile.
