"""Reads the log for the table ``events``: plans ranges on the driver, makes rows on executors.

Called by ``format``. Hides: archives beside the log, and how loss and damage are reported.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from distributary.core.errors import LogDamagedError, RecordsMissingError
from distributary.core.flow import RecordKind
from distributary.core.log import Damage
from distributary.spark import _columns, _pushed, _ranges
from distributary.spark._bounded import PushFilters, settle
from distributary.spark._logs import table_log
from distributary.spark._options import EARLIEST, LATEST, FormatOptions
from distributary.spark._pushed import EVERYTHING, Pushed
from distributary.spark._ranges import Extent, OffsetRange, Offsets
from distributary.spark._schema import Column
from distributary.spark.archive.manifest import Contents, not_of_this_log
from distributary.spark.archive.reading import ArchivedSpan, ArchiveReader, divide, extents

_NAMED_MAX: Final = 10
"""Most missing files that an error names: a segment has one for each day."""
_SEARCHED_TOGETHER: Final = 4
"""Segments of an archive that a task searches: it decodes few rows of each, in less time than Spark
takes to start a task."""


class Slice(InputPartition):
    """One task: ranges of the log or of its archive, pickled to an executor."""

    def __init__(self, *parts: OffsetRange | ArchivedSpan) -> None:
        super().__init__(parts)
        self.parts = parts


class Log:
    """The log of a server or cluster, for planning (driver) and reading (executor).

    Args:
        options: Of the read.
        columns: Those wanted.
    """

    def __init__(self, options: FormatOptions, columns: Sequence[Column]) -> None:
        self._log = table_log(options.places)
        self._fail_on_data_loss = options.fail_on_data_loss
        self._columns = tuple(columns)
        self._archive = ArchiveReader(options.archive) if options.archive else None

    @contextlib.contextmanager
    def partitions(self) -> Iterator[Mapping[int, Extent]]:
        """Yields number -> what there is of every partition, inside the ``with``.

        Raises:
            LogError: There is no log, it cannot be reached, or it has another format version.
            SettingsError: There is no archive where one is named.
        """
        with self._log.extents() as log:
            if self._archive is None:
                yield log
            else:
                yield extents(log, self._archive.contents(), self._archive)

    def ends(self) -> Offsets:
        """Returns the durable end of every partition."""
        with self._log.extents() as log:
            return {number: extent.durable_end() for number, extent in log.items()}

    def plan(
        self, start: Offsets, end: Offsets, pushed: Pushed = EVERYTHING
    ) -> list[OffsetRange | ArchivedSpan]:
        """Returns the non-empty ranges between two offsets, after the check for deleted records.

        Raises:
            RecordsMissingError: Records of a range are deleted, or the log ends before one, with
                ``failOnDataLoss``.
            SettingsError: The archive is ahead of the log.
        """
        planned: list[OffsetRange | ArchivedSpan] = []
        with self._log.extents() as log:
            contents = Contents() if self._archive is None else self._archive.contents()
            there = log if self._archive is None else extents(log, contents, self._archive)
            ends = {number: each.durable_end() for number, each in log.items()}
            self._check_archive(contents, ends)
            ends = self.reached(self._furthest(start, end), ends)
            for number, to_offset in sorted(end.items()):
                if number not in ends:
                    continue
                # A partition that is not in the start was added since: read it whole.
                first = start.get(number, 0)
                span = OffsetRange(number, first, min(to_offset, ends[number]))
                span = pushed.within(span, there[number].offset_at, self._log.goes_back_ms)
                for part in divide(span, contents.ranges.get(number, ())):
                    if isinstance(part, ArchivedSpan):
                        wanted = part.of_days(pushed)
                        planned += [wanted] if wanted.files else []
                    else:
                        planned += self._kept(part, log[number])
        return planned

    def reached(self, positions: Offsets, ends: Offsets) -> Offsets:
        """Returns *ends*, where the log reaches *positions*, which it has reached before.

        A log that does not was restored from a backup, or replaced. Its offsets are used again, so
        to wait until it reaches them would pass over events.

        Args:
            positions: Offsets up to which records were there.
            ends: Where each partition ends, as it was last asked.

        Raises:
            RecordsMissingError: A partition ends before its position, with ``failOnDataLoss``;
                else it warns, and that end is returned.
            LogError: It is not known yet where the log ends.
        """
        behind = {number: at for number, at in positions.items() if ends.get(number, 0) < at}
        if not behind:
            return ends
        found, certain = dict(ends), self._log.certain_ends(behind)
        for number, at in behind.items():
            end = certain.get(number, 0)
            if end < at:
                self._end_before(number, end, at)
            if number in certain:
                found[number] = min(end, at)
        return found

    def _furthest(self, start: Offsets, end: Offsets) -> Offsets:
        """What the log has to reach; a start that it does not reach was warned of before."""
        if not self._fail_on_data_loss:
            return end
        return {number: max(start.get(number, 0), at) for number, at in end.items()}

    def _check_archive(self, contents: Contents, ends: Offsets) -> None:
        """Refuse an archive that is ahead of the log: offsets of the log would be used again.

        Raises:
            SettingsError: It is.
        """
        ahead = {
            number: at for number, at in contents.positions().items() if ends.get(number, 0) < at
        }
        certain = self._log.certain_ends(ahead) if ahead else {}
        for number, at in ahead.items():
            end = certain.get(number, 0)
            if end < at:
                raise not_of_this_log(
                    f"partition {number} is archived to {at} and the log ends at {end}"
                )

    def _kept(self, part: OffsetRange, log: Extent) -> list[OffsetRange]:
        """What the log has of *part*, after the check for deleted records."""
        lost = _ranges.deleted(part, log)
        if lost.from_offset < lost.to_offset:
            self._lose(lost)
        return (
            [part._replace(from_offset=lost.to_offset)] if lost.to_offset < part.to_offset else []
        )

    def read_all(self, task: Slice, pushed: Pushed = EVERYTHING) -> Iterator[pa.RecordBatch]:
        """Yields the events of *task*; see ``read``."""
        for part in task.parts:
            yield from self.read(part, pushed)

    def read(
        self, part: OffsetRange | ArchivedSpan, pushed: Pushed = EVERYTHING
    ) -> Iterator[pa.RecordBatch]:
        """Yields the events of *part* as Arrow batches. Runs on an executor.

        Raises:
            LogDamagedError: Records are damaged, with ``failOnDataLoss``.
            RecordsMissingError: Retention has deleted records meanwhile, or files of the archive
                are gone, with ``failOnDataLoss``.
            LogUnavailableError: The archive cannot be read.
        """
        settle()
        if isinstance(part, ArchivedSpan):
            assert self._archive is not None
            there = self._archive.there(part)
            if len(there.files) < len(part.files):
                self._lack(part, there)
            yield from self._archive.read(there, self._columns, pushed)
            return
        with contextlib.closing(self._log.open(part.partition)) as reader:
            records = reader.read(part.from_offset, part.to_offset)
            kept = _ranges.without_loss(records, part, reader, self._lose)
            yield from _columns.batches(part.partition, kept, self._columns, pushed)
            for damage in reader.damages():
                self._damaged(damage)

    def _lose(self, lost: OffsetRange) -> None:
        message = (
            f"partition {lost.partition}: records {lost.from_offset} to {lost.to_offset - 1} are "
            "deleted (retention)"
        )
        if self._fail_on_data_loss:
            raise RecordsMissingError(f"{message}; begin later, or set failOnDataLoss to false")
        warnings.warn(f"{message}; they are left out", stacklevel=2)

    def _end_before(self, number: int, end: int, at: int) -> None:
        message = (
            f"partition {number}: the log ends at {end}, before the position {at} of this query:"
            " it was restored from a backup, or replaced"
        )
        if self._fail_on_data_loss:
            raise RecordsMissingError(
                f"{message}; begin with a new checkpoint, or set failOnDataLoss to false to go on"
                " from the end of the log"
            )
        warnings.warn(f"{message}; the query goes on from that end", stacklevel=2)

    def _lack(self, part: ArchivedSpan, there: ArchivedSpan) -> None:
        gone = [each for each in part.files if each not in there.files]
        span = part.span
        message = (
            f"partition {span.partition}: events of records {span.from_offset} to"
            f" {span.to_offset - 1} are missing in the archive, whose manifests name"
            f" {', '.join(gone[:_NAMED_MAX])}"
        )
        if self._fail_on_data_loss:
            raise RecordsMissingError(
                f"{message}; put the files back, or set failOnDataLoss to false"
            )
        warnings.warn(f"{message}; they are left out", stacklevel=2)

    def _damaged(self, damage: Damage) -> None:
        if damage.kind not in {None, RecordKind.EVENTS, RecordKind.ADDRESSED, RecordKind.CARRIED}:
            return
        message = (
            f"partition {damage.partition}: records from {damage.from_offset} are damaged "
            f"({damage.segment}, byte {damage.byte_from})"
        )
        if self._fail_on_data_loss:
            raise LogDamagedError(f"{message}; to read the others, set failOnDataLoss to false")
        warnings.warn(f"{message}; they are left out", stacklevel=2)


class EventReader(DataSourceReader):
    """A bounded read of events; one for each action.

    Args:
        options: Of the read.
        columns: Those wanted.
    """

    def __init__(self, options: FormatOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._log = Log(options, columns)
        self.pushed = EVERYTHING
        self.pushFilters = PushFilters(self.take)  # type: ignore[method-assign]  # see the class

    def take(self, filters: list[Filter]) -> list[Filter]:
        """Take what is decided here of *filters*; returns the others."""
        self.pushed, left = _pushed.take(filters)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        """Pin the range of every partition, and split it into tasks. Runs once, when planning."""
        with self._log.partitions() as extents:
            end = _ranges.resolve(self._options.end, extents, absent=LATEST)
            start = _ranges.resolve(self._options.start, extents, absent=EARLIEST)
        slices: list[Slice] = []
        archived: list[ArchivedSpan] = []
        for part in self._log.plan(start, end, self.pushed):
            if isinstance(part, ArchivedSpan):
                archived.append(part)
            else:
                pieces = _ranges.split(part, self._options.records_per_task_max)
                slices += map(Slice, pieces)
        # A segment is as large as a task should be, if all of it is wanted.
        count = _SEARCHED_TOGETHER if self.pushed.tests else 1
        groups = (archived[at : at + count] for at in range(0, len(archived), count))
        return [*(Slice(*each) for each in groups), *slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task. Runs on an executor, again if the task is retried."""
        # If nothing was planned, Spark makes one task with an ``InputPartition`` that is not ours.
        if not isinstance(partition, Slice):
            return iter(())
        return self._log.read_all(partition, self.pushed)
