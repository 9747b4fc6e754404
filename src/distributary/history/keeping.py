"""Keeps the folder of the history: deletes what is too old or superseded, and merges small files.

A crash at any step loses no row and shows none twice to a reader that skips superseded names: a
merged file is complete before its inputs are deleted, and supersedes those that are left.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from distributary.core.clock import AgeClock, Clock
from distributary.core.meter import Meter
from distributary.history.folder import HistoryFolder, StoredFile
from distributary.history.merging import MergeJob
from distributary.history.names import HistoryFile, superseded
from distributary.history.place import HistorySettings
from distributary.history.plan import (
    MERGED_BYTES_MAX,
    Merge,
    beyond,
    expired,
    merges,
    settled_before,
)

LOOK_S: Final = 60.0
"""Interval of looks."""
RETRY_S_MAX: Final = 3600.0
"""Longest wait after failed merges: each tries all of its work again."""
PASS_BYTES_MAX: Final = 256 << 20
"""What one look merges: local copies of a remote folder's files need as much disk, twice."""
PARTS: Final = 16
"""A merged file takes at most this part of the history's size, so that deleting whole files keeps
nearly as much as the limit allows."""


class Merging(Protocol):
    """What ``merging.MergeChild`` does."""

    def run(self, jobs: Sequence[MergeJob]) -> list[list[Path]]:
        """Do *jobs*; returns the unreadable inputs of each. Raises ``OSError``."""
        ...


class Keeper:
    """Looks after one folder; called by one thread.

    Args:
        folder: The folder.
        settings: How much is kept.
        merging: Merges local files.
        scratch: A folder for local copies; its content is deleted.
        clock: The time; nothing is too old for an hour after it has leapt.
        meter: Counts what is deleted and merged.
        log: Takes lines for people.
    """

    def __init__(
        self,
        folder: HistoryFolder,
        settings: HistorySettings,
        merging: Merging,
        scratch: Path,
        *,
        clock: Clock,
        meter: Meter,
        log: Any,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._merging = merging
        self._scratch = scratch
        self._clock = clock
        self._ages = AgeClock(clock, from_start=True)
        self._meter = meter
        self._log = log
        self._merged_bytes_max = MERGED_BYTES_MAX
        if settings.bytes_max:
            self._merged_bytes_max = min(MERGED_BYTES_MAX, settings.bytes_max // PARTS)
        self._unreadable: set[HistoryFile] = set()
        self._failing = False
        self._merge_failures = 0
        self._merge_not_before_s = 0.0

    def look(self) -> float:
        """Delete and merge what is due; returns the time until the next look, seconds."""
        try:
            more = self._look()
        except OSError as error:
            if not self._failing:
                self._log.warning("history-not-kept", error=str(error))
            self._failing = True
            return LOOK_S
        self._failing = False
        return 0.0 if more else LOOK_S

    def _look(self) -> bool:
        now_s = self._clock.wall_ms() / 1000
        stored = self._without_superseded(self._folder.files())
        oldest_s = self._ages.now_ms() / 1000 - self._settings.age_max_s
        stored = self._delete(expired(stored, oldest_s), stored, "age")
        stored = self._delete(beyond(stored, self._settings.bytes_max), stored, "bytes")
        self._meter.gauges["history_bytes"] = sum(each.bytes for each in stored)
        self._meter.gauges["history_files"] = len(stored)
        more = self._merge_some(stored, now_s)
        self._folder.delete_empty_days(settled_before(now_s))
        return more

    def _without_superseded(self, stored: list[StoredFile]) -> list[StoredFile]:
        gone = set(superseded(each.file for each in stored))
        for file in gone:
            self._folder.delete(file)
        return [each for each in stored if each.file not in gone]

    def _delete(
        self, gone: list[StoredFile], stored: list[StoredFile], limit: str
    ) -> list[StoredFile]:
        for each in gone:
            self._folder.delete(each.file)
            rows = each.file.end - each.file.first
            self._meter.add(f'history_deleted_rows_total{{limit="{limit}"}}', rows)
        if gone:
            self._log.info(
                "history-deleted",
                limit=limit,
                files=len(gone),
                bytes=sum(each.bytes for each in gone),
                rows=sum(each.file.end - each.file.first for each in gone),
            )
        chosen = set(gone)
        return [each for each in stored if each not in chosen]

    # -- merging ------------------------------------------------------------------------------

    def _merge_some(self, stored: list[StoredFile], now_s: float) -> bool:
        """Merge what is due, as far as one pass goes; returns whether more is due."""
        if self._clock.monotonic_s() < self._merge_not_before_s:
            return False
        planned = merges(
            stored, now_s, bytes_max=self._merged_bytes_max, unreadable=self._unreadable
        )
        sizes = {each.file: each.bytes for each in stored}
        chosen: list[Merge] = []
        size = 0
        for merge in planned:
            size += sum(sizes[file] for file in merge.inputs)
            if chosen and size > PASS_BYTES_MAX:
                break
            chosen.append(merge)
        if not chosen:
            return False
        try:
            self._merge(chosen)
        except OSError as error:
            self._put_merging_off(error)
            return False
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._merge_failures = 0
        return len(chosen) < len(planned)

    def _put_merging_off(self, error: OSError) -> None:
        wait_s = min(LOOK_S * 2**self._merge_failures, RETRY_S_MAX)
        self._merge_failures += 1
        self._merge_not_before_s = self._clock.monotonic_s() + wait_s
        self._log.warning("history-not-merged", error=str(error), retry_in_s=wait_s)

    def _merge(self, chosen: list[Merge]) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        jobs = [self._job(number, merge) for number, merge in enumerate(chosen)]
        for merge, job, damaged in zip(chosen, jobs, self._merging.run(jobs), strict=True):
            if damaged:
                self._set_aside(merge, job, damaged)
                continue
            self._folder.put(job.output, merge.output)
            for file in merge.inputs:
                self._folder.delete(file)
            self._meter.add("history_merged_files_total", len(merge.inputs))

    def _job(self, number: int, merge: Merge) -> MergeJob:
        inputs = [
            self._folder.fetch(file, self._scratch / f"{number}-{place}.parquet")
            for place, file in enumerate(merge.inputs)
        ]
        return MergeJob(tuple(inputs), self._scratch / f"{number}.parquet")

    def _set_aside(self, merge: Merge, job: MergeJob, damaged: list[Path]) -> None:
        """Leave unreadable files alone from now on: nothing is deleted that was not read."""
        for path in damaged:
            file = merge.inputs[job.inputs.index(path)]
            self._unreadable.add(file)
            self._log.warning("history-file-unreadable", file=file.path)
