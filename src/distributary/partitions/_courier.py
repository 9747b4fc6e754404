"""Asks for recalled records, and takes them, where the job that recalls is on another machine.

What an owner asks for goes to the leader as a note in the store; what the job brings comes as
pieces by a topic (``core.log.pieces``) into files of the owner's own folder. Both by one thread,
which begins with the first request: deliveries wait for neither store nor topic.
"""

import contextlib
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from distributary.core.errors import DistributaryError
from distributary.core.log.pieces import Gatherer
from distributary.core.log.recalled import HIDDEN
from distributary.partitions.recall_requests import encode_requests

POLL_S: Final = 0.1
"""Longest wait for a piece before the requests are looked at."""
AGAIN_S: Final = 1.0
"""Pause after a failure of store, topic or disk."""
RETOLD_S: Final = 30.0
"""A crash of the store may lose what it was told a moment before: it is told again so often while
something is awaited, and once more when nothing is. Else a request could wait for ever, or the job
recall for nobody. Counted while nothing comes: it may be somewhat later."""
TOLD_AFTER_S: Final = 10.0
"""What has failed for so long is told: a leader that makes the topic, or a broker that comes back,
takes less. In seconds of pauses: each attempt may take some more."""
TOLD_EVERY_S: Final = 60.0
"""Pauses between two tellings, likewise."""
IDLE_S: Final = 60.0
"""How long the connection to the topic stays when nothing is asked for."""
CLOSE_S_MAX: Final = 2.0
"""Longest wait for the thread at the end of a session: a question to the cluster may take longer,
and the next owner waits. It writes nothing any more then."""


class Pieces(Protocol):
    """What comes by the topic, from when it was opened."""

    def take(self, wait_s: float) -> list[bytes | None]:
        """Returns what has come; waits for the first piece, *wait_s* seconds at most.

        Raises:
            LogUnavailableError: Some are gone, or none can be read.
        """

    def close(self) -> None:
        """End the connection."""


class Courier:
    """``Requests`` of an owner on another machine than the job. Close it.

    Args:
        tell: Writes what is asked for into the store, in place of what was; may raise
            ``StoreError``.
        connect: Opens the topic where it ends now; may raise ``LogUnavailableError``.
        folder: Takes the files; it exists.
        failing: Called with the reason, once a minute at most, while what is asked for cannot be
            asked for, or not be taken.
        pause: Waits some seconds, or until the event is set.
    """

    def __init__(
        self,
        tell: Callable[[bytes], None],
        connect: Callable[[], Pieces],
        folder: Path,
        failing: Callable[[str], None],
        pause: Callable[[threading.Event, float | None], bool] = threading.Event.wait,
    ) -> None:
        self._tell = tell
        self._connect = connect
        self._folder = folder
        self._failing = failing
        self._pause = pause
        self._wanted: list[tuple[int, int]] = []
        self._told: list[tuple[int, int]] | None = None
        self._told_twice = False
        self._since_told_s = 0.0
        self._woken = threading.Event()
        self._closing = False
        self._pieces: Pieces | None = None
        self._gatherer = Gatherer(folder)
        self._idle_s = 0.0
        self._failing_s = 0.0
        self._thread: threading.Thread | None = None

    def put(self, stretches: Sequence[tuple[int, int]]) -> None:
        """See ``Requests.put``."""
        self._wanted = list(stretches)
        self._woken.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="recalls", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """See ``Requests.close``; deletes the folder: these are events of others."""
        self._closing = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S_MAX)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        try:
            for path in self._folder.glob(f"*{HIDDEN}"):  # of an owner that was killed
                path.unlink(missing_ok=True)
            while not self._closing:
                self._turn()
        finally:
            self._disconnect()

    def _turn(self) -> None:
        self._woken.clear()
        try:
            self._ask(self._wanted)
            if self._pieces is not None:
                self._take(self._pieces)
        except (DistributaryError, OSError) as error:
            # What was on its way is not whole any more. It is sent again while it is asked for.
            self._disconnect()
            self._note(str(error))
            self._wait(AGAIN_S)
            return
        if self._pieces is None:
            done = self._told_twice and not self._wanted
            if not self._wait(None if done else RETOLD_S):
                self._since_told_s += RETOLD_S

    def _note(self, reason: str) -> None:
        self._failing_s += AGAIN_S
        self._since_told_s += AGAIN_S
        if self._failing_s >= TOLD_AFTER_S:
            self._failing_s -= TOLD_EVERY_S
            self._failing(reason)

    def _works(self) -> None:
        """A while from now on whatever fails is told of; not earlier than it would be anyway."""
        self._failing_s = min(self._failing_s, 0.0)

    def _wait(self, seconds: float | None) -> bool:
        return self._closing or self._pause(self._woken, seconds)

    def _ask(self, wanted: list[tuple[int, int]]) -> None:
        failed: DistributaryError | None = None
        if wanted and self._pieces is None:
            # Before it is asked for, so that no piece comes too early.
            try:
                self._pieces, self._idle_s = self._connect(), 0.0
            except DistributaryError as error:
                failed = error  # Asked for all the same: people see that it is awaited, and why.
        # Who has let go of the partition writes nothing over the requests of the next owner.
        new, due = wanted != self._told, self._since_told_s >= RETOLD_S
        if (new or (due and (wanted or not self._told_twice))) and not self._closing:
            self._tell(encode_requests(wanted))
            self._told, self._told_twice, self._since_told_s = wanted, not new, 0.0
        if failed is not None:
            raise failed

    def _take(self, pieces: Pieces) -> None:
        values = pieces.take(POLL_S)
        firsts = {first for first, _ in self._wanted}
        for value in values:
            if self._closing:
                return
            self._gatherer.take(value, firsts)
        if values or not firsts:  # who may not read fails a moment after it has connected
            self._works()
        if not values:
            self._since_told_s += POLL_S
        self._idle_s = 0.0 if values or firsts else self._idle_s + POLL_S
        if self._idle_s >= IDLE_S:
            self._disconnect()

    def _disconnect(self) -> None:
        self._gatherer.clear()
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            with contextlib.suppress(DistributaryError):
                pieces.close()
