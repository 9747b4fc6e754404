"""The log that a job archives: the folder of a data directory, or the topic that nodes share.

Called by ``job`` and ``rows``. Pickled to Python workers, so it is plain: what is open stays where
it was opened. Hides: where it stands who published a record, and what is archived at once.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from distributary.core.cluster import KafkaPlace
from distributary.core.log import Reader, read_folder
from distributary.datadir import DataDir
from distributary.datadir.archived import ArchivedStretch, noted_archived, write_archived
from distributary.datadir.publishers import Publishers
from distributary.spark._logs import Records
from distributary.spark.archive.manifest import Contents, Known

RANGE_BYTES: Final = 64 * 1024 * 1024
"""About how much of a topic is one range: as much as a segment of a data directory."""

RANGE_RECORDS_MAX: Final = 1 << 20
"""Most records of a range of a topic: one of tiny events is a batch of Spark as well."""

Who: TypeAlias = Callable[[int], str | None]
"""Returns who published the record at an offset, which was the last one read; None: not known."""


class Opened(NamedTuple):
    """A partition that is read.

    Attributes:
        records: Its records.
        who: Who published them.
    """

    records: Records
    who: Who


def stretches_of(contents: Contents) -> dict[int, list[ArchivedStretch]]:
    """Returns what of each partition can be read in an archive that holds *contents*."""
    return {
        number: [
            ArchivedStretch(each.from_offset, each.to_offset, each.from_ms, each.to_ms)
            for each in contents.readable(number)
        ]
        for number in contents.ranges
    }


class ArchivedLog(Protocol):
    """A log of which an archive is made."""

    def logs(self) -> dict[int, str]:
        """Returns ``Known.log`` of each partition.

        Raises:
            LogError: There is no log, or it cannot be reached.
        """

    def known(self, archived: Mapping[int, int]) -> dict[int, Known]:
        """Returns what there is of each partition.

        Args:
            archived: Partition -> offset of the first record that is not archived.

        Raises:
            LogError: There is no log, or it cannot be reached.
        """

    def opened(self, partition: int) -> AbstractContextManager[Opened]:
        """Returns *partition*, to be read inside the ``with``.

        Raises:
            LogError: It cannot be read.
        """


@dataclass(frozen=True, slots=True)
class FolderLog:
    """The log of a data directory. A range is a segment.

    Attributes:
        paths: Paths of the data directory.
    """

    paths: DataDir

    def logs(self) -> dict[int, str]:
        """See ``ArchivedLog``."""
        return {number: each.log for number, each in self.known({}).items()}

    def known(self, archived: Mapping[int, int]) -> dict[int, Known]:  # noqa: ARG002 - of topics
        """See ``ArchivedLog``."""
        found = {}
        for partition in range(read_folder(self.paths.log)):
            with closing(Reader(self.paths.log, partition)) as reader:
                end = reader.durable_end()
                bounds = [each for each in reader.segments() if each <= end]
                stamp = reader.stamp()
                log = f"{stamp:08x}" if stamp else ""
                found[partition] = Known(reader.start(), end, bounds, log)
        return found

    @contextlib.contextmanager
    def opened(self, partition: int) -> Iterator[Opened]:
        """See ``ArchivedLog``."""
        who = Publishers(self.paths.publishers(partition)).noted()
        with closing(Reader(self.paths.log, partition)) as reader:
            yield Opened(reader, who)

    def note(self, to: str, contents: Contents) -> None:
        """Tell retention and owners what is archived, and can be read there.

        Args:
            to: Where the archive lies, as the setting ``archive`` has it.
            contents: What it holds.
        """
        write_archived(self.paths.archived, to, contents.positions(), stretches_of(contents))

    def noted(self, to: str) -> dict[int, int]:
        """Returns to where each partition is archived in *to*, by what was noted last.

        Raises:
            OSError: It cannot be read.
        """
        return noted_archived(self.paths.archived, to)


@dataclass(frozen=True, slots=True)
class TopicLog:
    """The log on a Kafka cluster. A range is about ``RANGE_BYTES``, from where the last one ends.

    Attributes:
        place: The cluster. A task gets it whole, with its password: no setting shows it.
        old_ms: What was appended before is a range though it is shorter.
    """

    place: KafkaPlace
    old_ms: int

    def logs(self) -> dict[int, str]:
        """See ``ArchivedLog``."""
        from distributary.core.log.kafka import (  # noqa: PLC0415 - loads Kafka's client
            NO_ID,
            KafkaEnds,
        )

        ends = KafkaEnds(self.place)
        identity = ends.identity()
        # A cluster that gives topics no ids may do so later: the log is the same one then.
        return dict.fromkeys(range(ends.count()), "" if identity == NO_ID else identity)

    def known(self, archived: Mapping[int, int]) -> dict[int, Known]:
        """See ``ArchivedLog``."""
        return {
            number: self._known(number, archived.get(number, 0))._replace(log=log)
            for number, log in self.logs().items()
        }

    def _known(self, partition: int, archived: int) -> Known:
        with self.opened(partition) as (records, _who):
            start, end = records.start(), records.durable_end()
            bounds = _bounds(max(start, archived), end, records.offset_within)
            old = min(records.offset_at(self.old_ms), end)
            return Known(start, end, [*bounds, old] if old > bounds[-1] else bounds)

    @contextlib.contextmanager
    def opened(self, partition: int) -> Iterator[Opened]:
        """See ``ArchivedLog``."""
        from distributary.core.log.kafka import (  # noqa: PLC0415 - loads Kafka's client
            KafkaRecords,
            MemorySnapshots,
        )

        publishers: dict[int, str] = {}
        records = KafkaRecords(self.place, partition, MemorySnapshots(), publishers=publishers)
        with closing(records):
            yield Opened(records, lambda offset: publishers.pop(offset, None))


def _bounds(begin: int, end: int, offset_within: Callable[[int], int]) -> list[int]:
    """Returns where ranges of the records from *begin* on begin; the newest is not full.

    Args:
        begin: Offset of the first record.
        end: After the last one.
        offset_within: Returns the start of the newest records of so many bytes: old ones are as
            long, as far as Kafka tells.
    """
    length = min(end - offset_within(RANGE_BYTES), RANGE_RECORDS_MAX) if begin < end else 0
    # A log of less than a range has none that is full.
    return list(range(begin, end, length)) if length else [begin]
