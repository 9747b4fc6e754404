"""Reads history files of a local folder, each row once, while they are written, merged and deleted.

Called by the command ``distributary history``. Filters are pushed down: row groups that cannot
match are not read.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import merge as merge_sorted
from pathlib import Path
from typing import Any, Final, NamedTuple

from distributary.core.errors import StoreError
from distributary.history.local_folder import LocalFolder
from distributary.history.names import HistoryFile, superseded

FAILED: Final = ("dead-lettered", "dropped")
"""Outcomes of matches that were not delivered."""
_BATCH_ROWS: Final = 1 << 12


class Question(NamedTuple):
    """Which rows are asked for; None and False: not restricted by this.

    Attributes:
        subscription: Id, name or uid of a subscription.
        event: Id of an event.
        since: No earlier rows.
        failures: Failed attempts, and matches that were not delivered.
        namespace: Of the subscription or Trigger.
    """

    subscription: str | None = None
    event: str | None = None
    since: datetime | None = None
    failures: bool = False
    namespace: str | None = None


class HistoryReader:
    """Reads rows of a folder, each once.

    Args:
        folder: The folder of the history.
        question: Which rows.
    """

    def __init__(self, folder: Path, question: Question) -> None:
        self._folder = LocalFolder(folder)
        self._question = question
        self._next: dict[int, int] = {}
        """By partition, the number of the first row that was not looked at."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields the rows that no earlier call has looked at, by time.

        Raises:
            OSError: The folder cannot be read.
            StoreError: A file is damaged; the next call goes on behind it.
        """
        partitions = sorted({file.partition for file in self._files()})
        return merge_sorted(*map(self._rows_of, partitions), key=lambda row: row["time"])

    def _files(self) -> list[HistoryFile]:
        files = [stored.file for stored in self._folder.files()]
        gone = set(superseded(files))
        since = self._question.since
        day = "" if since is None else str(since.astimezone(UTC).date())
        return sorted(
            (file for file in files if file not in gone and file.date >= day),
            key=lambda file: file.first,
        )

    def _rows_of(self, partition: int) -> Iterator[dict[str, Any]]:
        changed = True
        while changed:
            changed = False
            for file in self._files():
                if file.partition != partition or file.end <= self._next.get(partition, 0):
                    continue
                try:
                    for row in self._rows_in(file):
                        self._next[partition] = row["number"] + 1
                        yield row
                except FileNotFoundError:
                    changed = True  # merged or deleted just now
                    break
                self._next[partition] = file.end

    def _rows_in(self, file: HistoryFile) -> Iterator[dict[str, Any]]:
        import pyarrow as pa  # noqa: PLC0415 - half a second, for this command alone
        import pyarrow.dataset as ds  # noqa: PLC0415

        try:
            found = ds.dataset(str(self._folder.path(file)), format="parquet", partitioning=None)
            scanner = found.scanner(
                filter=self._filter(self._next.get(file.partition, 0)),
                batch_size=_BATCH_ROWS,
                use_threads=False,
            )
            for batch in scanner.to_batches():
                yield from batch.to_pylist()
        except pa.ArrowException as error:
            self._next[file.partition] = file.end
            raise StoreError(f"the history file {file.path} is damaged: {error}") from error

    def _filter(self, start: int) -> Any:
        import pyarrow.compute as pc  # noqa: PLC0415

        asked = self._question
        rows = pc.field("number") >= start
        if asked.subscription is not None:
            named = pc.field("subscription") == asked.subscription
            rows &= named | (pc.field("uid") == asked.subscription)
        if asked.namespace is not None:
            rows &= pc.field("namespace") == asked.namespace
        if asked.event is not None:
            rows &= pc.field("event_id") == asked.event
        if asked.since is not None:
            rows &= pc.field("time") >= pc.scalar(asked.since.astimezone(UTC))
        if asked.failures:
            failed = pc.field("decision") != "delivered"
            rows &= failed | pc.field("outcome").isin(FAILED)
        return rows
