"""Brings history files from the outbox to where the operator wants them.

A file is put and then deleted, so a crash between the two puts it again, which changes nothing (or,
once it was merged over there, brings a superseded file, which the keeper deletes).
"""

from typing import Any, Final

from distributary.core.meter import Meter
from distributary.history.folder import HistoryFolder, StoredFile
from distributary.history.local_folder import LocalFolder
from distributary.history.names import HistoryFile

OUTBOX_BYTES_MAX: Final = 256 << 20
"""History that waits for a folder that cannot be reached: days of outcomes at a few events a
second, and never the disk that the log needs."""
RETRY_S: Final = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Backoff while the folder cannot be reached; the last one repeats."""

STUCK_LOOKS: Final = 60
"""So many looks apart, files are tried that failed while others moved."""


class Outbox:
    """The folder in which files wait, which does not grow without end.

    ``bound`` runs in a thread of its own, since a call to a remote folder may take minutes.

    Args:
        folder: The local folder that owners write into.
        meter: Counts lost rows, and has a gauge of what waits.
        log: Takes lines for people.
        bytes_max: Largest size.
    """

    def __init__(
        self, folder: LocalFolder, *, meter: Meter, log: Any, bytes_max: int = OUTBOX_BYTES_MAX
    ) -> None:
        self._folder = folder
        self._meter = meter
        self._log = log
        self._bytes_max = bytes_max
        self._under_way: HistoryFile | None = None
        meter.add("history_lost_rows_total", 0)

    def waiting(self) -> list[StoredFile]:
        """Returns the files that wait, the oldest first."""
        return sorted(self._folder.files(), key=lambda stored: (stored.modified_s, stored.file))

    def move(self, file: HistoryFile, folder: HistoryFolder) -> None:
        """Put *file* into *folder*, then delete it here. Raises ``OSError``."""
        self._under_way = file
        try:
            folder.put(self._folder.path(file), file)
            self._folder.delete(file)
        finally:
            self._under_way = None

    def delete_empty_days(self, before: str) -> None:
        """Delete the folders of days before the date *before* whose files have all been moved."""
        self._folder.delete_empty_days(before)

    def bound(self) -> None:
        """Delete the oldest files beyond the bound, except the one that is being put."""
        waiting = self.waiting()
        size = sum(stored.bytes for stored in waiting)
        rows = 0
        for stored in waiting:
            if size <= self._bytes_max:
                break
            if stored.file != self._under_way:
                self._folder.delete(stored.file)
                rows += stored.file.end - stored.file.first
                size -= stored.bytes
        self._meter.gauges["history_waiting_bytes"] = size
        if rows:
            self._meter.add("history_lost_rows_total", rows)
            self._log.warning("history-lost", rows=rows, waiting_bytes=size)


class Mover:
    """Moves files out of the outbox.

    Args:
        outbox: Where files wait.
        folder: Where they belong.
        look_s: Interval of looks while all is well, seconds.
        log: Takes lines for people.
    """

    def __init__(self, outbox: Outbox, folder: HistoryFolder, look_s: float, *, log: Any) -> None:
        self._outbox = outbox
        self._folder = folder
        self._look_s = look_s
        self._log = log
        self._failures = 0
        self._stuck: set[HistoryFile] = set()
        self._looks = 0

    @property
    def failing(self) -> bool:
        """Whether the folder was out of reach at the latest look."""
        return self._failures > 0

    def look(self) -> float:
        """Move what waits; returns the time until the next look, seconds.

        A file that fails although the next one moves is set aside, and tried once in a while. If
        the next one fails too, or there is none, the folder is out of reach.
        """
        self._looks += 1
        files = [stored.file for stored in self._outbox.waiting()]
        if self._looks % STUCK_LOOKS:
            files = [file for file in files if file not in self._stuck]
        failed: dict[HistoryFile, OSError] = {}
        moved = in_a_row = 0
        for file in files:
            try:
                self._outbox.move(file, self._folder)
            except OSError as error:
                failed[file] = error
                in_a_row += 1
                if in_a_row > 1:
                    break
            else:
                moved += 1
                in_a_row = 0
        if moved:
            self._moved(failed)
        elif failed.keys() - self._stuck:
            return self._out_of_reach(failed)
        return self._look_s

    def _moved(self, failed: dict[HistoryFile, OSError]) -> None:
        if self._failures:
            self._log.info("history-within-reach", after_failures=self._failures)
        self._failures = 0
        for file, error in failed.items():
            if file not in self._stuck:
                self._stuck.add(file)
                self._log.warning("history-file-not-moved", file=file.path, error=str(error))

    def _out_of_reach(self, failed: dict[HistoryFile, OSError]) -> float:
        if not self._failures:
            self._log.warning("history-out-of-reach", error=str(next(iter(failed.values()))))
        wait_s = RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        self._failures += 1
        return wait_s
