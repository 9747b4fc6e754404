"""The threads of the driver's process that move and keep history."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from distributary.core.clock import SystemClock
from distributary.core.meter import Meter
from distributary.history.folder import HistoryFolder
from distributary.history.keeping import Keeper
from distributary.history.local_folder import LocalFolder
from distributary.history.merging import MergeChild
from distributary.history.moving import Mover, Outbox
from distributary.history.place import HistorySettings
from distributary.history.plan import settled_before

MOVE_S: Final = 1.0
"""Interval at which the outbox is looked at: rows are to be visible 5 s after their outcome."""
LEFT_OVER_S: Final = 60.0
"""The same where owners write into the folder itself: the outbox has at most what was left in it
before the settings changed."""
BOUND_S: Final = 5.0
"""Interval at which the outbox is bounded and the counters are saved."""
OPEN_S: Final = 15.0
"""Interval at which a folder that could not be opened is tried again."""
STOP_S: Final = 2.0
"""Longest wait for the threads at the stop: a call to a remote folder may take longer, and a file
half put has no effect."""


class LocalPlaces(NamedTuple):
    """Paths on this machine.

    Attributes:
        outbox: Folder of files that wait for transport.
        scratch: Folder for local copies; its content is deleted.
        meter: File of the counters.
    """

    outbox: Path
    scratch: Path
    meter: Path


class HistoryService:
    """Moves, merges and deletes history files from ``start`` until ``stop``.

    Args:
        settings: Where history lies, and how much is kept.
        places: Local folders.
        open_url: Opens the folder at a URL. Raises ``OSError``.
    """

    def __init__(
        self,
        settings: HistorySettings,
        places: LocalPlaces,
        open_url: Callable[[str], HistoryFolder],
    ) -> None:
        self._settings = settings
        self._open_url = open_url
        self._meter = Meter(places.meter)
        self._log = structlog.get_logger()
        self._outbox = Outbox(LocalFolder(places.outbox), meter=self._meter, log=self._log)
        self._move_s = MOVE_S if settings.elsewhere else LEFT_OVER_S
        self._scratch = places.scratch
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads, unless they run or no history is kept."""
        if self._settings.place and not self._threads:
            self._begin("keep", self._open)
            self._begin("bound", lambda: self._repeat(self._bound))

    def stop(self) -> None:
        """Ask the threads to end, and wait for them a little. Merging ends early."""
        self._stop.set()
        until_s = time.monotonic() + STOP_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        self._meter.save()

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=f"history-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _open(self) -> None:
        """Open the folder, then move and keep; a folder that does not open is tried again."""
        warned = False
        while not self._stop.is_set():
            try:
                folder = self._folder()
                folder.sweep()
            except OSError as error:
                if not warned:
                    self._log.warning("history-out-of-reach", error=str(error))
                warned = True
                self._stop.wait(OPEN_S)
            else:
                if warned:
                    self._log.info("history-within-reach")
                return self._run(folder)
        return None

    def _folder(self) -> HistoryFolder:
        local = self._settings.local
        return self._open_url(self._settings.place) if local is None else LocalFolder(local)

    def _run(self, folder: HistoryFolder) -> None:
        mover = Mover(self._outbox, folder, self._move_s, log=self._log)
        keeper = Keeper(
            folder,
            self._settings,
            MergeChild(self._stop),
            self._scratch,
            clock=SystemClock(),
            meter=self._meter,
            log=self._log,
        )
        self._begin("move", lambda: self._move(mover))
        self._repeat(keeper.look)

    def _move(self, mover: Mover) -> None:
        self._repeat(mover.look)
        if not mover.failing:
            mover.look()  # what owners wrote at their end

    def _bound(self) -> float:
        """Bound the outbox, although its folder may be out of reach; save the counters."""
        self._outbox.bound()
        self._outbox.delete_empty_days(settled_before(time.time()))
        self._meter.save()
        return BOUND_S

    def _repeat(self, look: Callable[[], float]) -> None:
        """Call *look* until the stop. No error may end it: the disk would fill silently."""
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            try:
                wait_s = look()
            except Exception as error:  # noqa: BLE001 - see above
                self._log.error("history-failed", error=repr(error))
                wait_s = OPEN_S
