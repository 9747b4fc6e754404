"""Looks through one partition backwards, the newest records first, for events.

Caller: the search for events. Hides: which part of the log has an index, and how records are read
backwards. By an id, files of the index tell where to look; what has none yet is read through, as
everything is where no id is known.

The index only saves time: a file that is missing or damaged changes no answer.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from distributary.core.errors import LogDamagedError
from distributary.core.flow import Logged
from distributary.core.log import _ids_file as ids_file
from distributary.core.log._ids_file import Head
from distributary.core.log.disk import SYSTEM_DISK, Disk, unavailable
from distributary.core.log.folder import partition_dir
from distributary.core.log.frame import iter_frames, parse_header
from distributary.core.log.indexed import Index, Indexed, IndexedFiles, LookedThrough
from distributary.core.log.reader import Reader

BLOCK_BYTES: Final = 1024 * 1024
"""Aimed size of a block that is read through."""
BLOCK_BYTES_MAX: Final = 8 * 1024 * 1024
"""A block that turns out larger is given up for a shorter one: bounds memory."""
BLOCK_RECORDS: Final = 64, 8192
"""Records of the first block, and most of any."""
TRIED_MAX: Final = 64
"""Records that one step reads by the index: an id may be that of every event."""
NEEDLE_CHARS_MIN: Final = 4
"""Shorter texts are in too many records to tell any of them apart."""
_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


@dataclass(slots=True)
class Budget:
    """What a search may still look at; each step takes from it.

    Attributes:
        records: Records, read by the index or through.
        bytes: Their bytes.
    """

    records: int
    bytes: int

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.records <= 0 or self.bytes <= 0


class Question(NamedTuple):
    """Which records a search is for.

    Attributes:
        id: Id of an event; None: any.
        needles: Bytes that such a record holds, from ``needle``; the others are not decoded.
        wanted: Whether it is one.
    """

    id: str | None
    needles: tuple[bytes, ...]
    wanted: Callable[[Logged], bool]


def needle(text: str) -> bytes:
    """The longest part of *text* that is the same bytes in every form of a record; may be empty.

    Other characters are escaped in some forms.
    """
    best = run = bytearray()
    for byte in text.encode("utf-8", "surrogatepass"):
        if byte in _SAFE:
            run.append(byte)
            if len(run) > len(best):
                best = run
        else:
            run = bytearray()
    return bytes(best) if len(best) >= NEEDLE_CHARS_MIN else b""


class SearchedLog(Protocol):
    """A log that can be searched. Safe from any thread."""

    @property
    def partitions(self) -> int:
        """How many it has."""

    def open(self, partition: int) -> LookedThrough:
        """Returns a reader; close it.

        Raises:
            LogUnavailableError: Nothing was ever appended to it, or it cannot be read.
        """

    def indexed(self, partition: int) -> Indexed | None:
        """Returns *partition* with its index; None: it has none, and is read through."""


class FileLog:
    """The embedded log, with an index of each partition.

    Args:
        log_dir: ``{data}/log``.
        indexes: Of each partition, in their order.
        disk: The disk of the log.
    """

    def __init__(
        self, log_dir: Path, indexes: Sequence[Index], *, disk: Disk = SYSTEM_DISK
    ) -> None:
        self._log_dir = log_dir
        self._indexes = indexes
        self._disk = disk

    @property
    def partitions(self) -> int:
        """See ``SearchedLog``."""
        return len(self._indexes)

    def open(self, partition: int) -> Reader:
        """See ``SearchedLog``."""
        return Reader(self._log_dir, partition, disk=self._disk)

    def indexed(self, partition: int) -> IndexedFiles:
        """See ``SearchedLog``."""
        folder = partition_dir(self._log_dir, partition)
        return IndexedFiles(self._disk, folder, self._indexes[partition])


@dataclass(slots=True)
class _Stretch:
    """Consecutive offsets, looked at in one way: by a file of the index, or read through."""

    first: int
    end: int
    head: Head | None
    places: list[int] | None = field(default=None)
    """Candidates that are left, bytes of the segment, ascending."""


class Finder:
    """Looks through the records of one partition from *before* downwards. Close it.

    Args:
        log: The log.
        partition: Partition number.
        question: What is looked for.
        before: Look below this offset; None: from the durable end.
        since: Look at no record below this offset.

    Attributes:
        before: Everything at this offset or above has been looked at.
        newest_ms: No record below ``before`` is younger than this; None: not known yet.

    Raises:
        LogUnavailableError: The partition cannot be read.
    """

    def __init__(
        self,
        log: SearchedLog,
        partition: int,
        question: Question,
        *,
        before: int | None = None,
        since: int = 0,
    ) -> None:
        self.partition = partition
        self._indexed = log.indexed(partition) if question.id is not None else None
        self._question = question
        self._reader = log.open(partition)
        end = self._reader.durable_end()
        self.before = end if before is None else min(before, end)
        self.newest_ms: int | None = None
        self._since = max(since, self._reader.start())
        self._records = BLOCK_RECORDS[0]
        heads = self._indexed.by_id.pieces() if self._indexed is not None else []
        self._stretches = _stretches(heads, self._since, self.before)
        self.before = max(self._since, self.before)

    def close(self) -> None:
        """Close the files."""
        self._reader.close()

    @property
    def done(self) -> bool:
        """Whether there is nothing left to look at."""
        return not self._stretches

    def step(self, budget: Budget) -> list[Logged]:
        """Look at the next records; returns those that are wanted, the newest first.

        Raises:
            LogUnavailableError: The files cannot be read.
        """
        stretch = self._stretches[-1]
        if stretch.head is None:
            found = self._read_through(stretch, budget)
        else:
            found = self._by_index(stretch, stretch.head, budget)
        if self.before <= stretch.first:
            self.before = stretch.first
            self._stretches.pop()
        return found

    # -- reading through -----------------------------------------------------------------------

    def _read_through(self, stretch: _Stretch, budget: Budget) -> list[Logged]:
        count = self._records
        while True:
            low = max(stretch.first, self.before - count)
            block = self._block(low, count)
            if block is not None:
                break
            count = max(count // 8, 1)
        found, size, oldest_ms = block
        looked = self.before - low
        budget.records -= looked
        budget.bytes -= size
        if size:
            wanted = BLOCK_BYTES * looked // size
            self._records = max(1, min(wanted, BLOCK_RECORDS[1]))
        self.before = low
        if oldest_ms is not None:
            self.newest_ms = oldest_ms
        found.reverse()
        return found

    def _block(self, low: int, count: int) -> tuple[list[Logged], int, int | None] | None:
        """The wanted records from *low* to ``before``, ascending; None: they are too many bytes."""
        size, oldest_ms, at = 0, None, low
        found = []
        needles, wanted = self._question.needles, self._question.wanted
        while at < self.before:
            chunk, at = self._reader.read_chunk(at, BLOCK_BYTES)
            size += len(chunk)
            if size > BLOCK_BYTES_MAX and count > 1:
                return None
            header = parse_header(chunk)
            if header is None:
                continue  # a hole in the log
            if oldest_ms is None:
                oldest_ms = header.time_ms
            if not all(each in chunk for each in needles):
                continue
            for logged in iter_frames(chunk, verify=False):
                if logged.offset >= self.before:
                    break
                if all(each in logged.body for each in needles) and wanted(logged):
                    found.append(logged)
        return found, size, oldest_ms

    # -- by the index --------------------------------------------------------------------------

    def _by_index(self, stretch: _Stretch, head: Head, budget: Budget) -> list[Logged]:
        budget.records -= 1
        asked = self._question.id
        assert asked is not None
        assert self._indexed is not None
        folder = self._indexed.by_id.folder
        assert folder is not None
        try:
            if stretch.places is None:
                stretch.places = ids_file.look_up(folder, head, ids_file.hash_of(asked))
            if stretch.places:
                return self._candidates(stretch, stretch.places, head, budget)
        except FileNotFoundError:
            # Merged into another one, or deleted with its segment: this once without it.
            stretch.head = None
            return []
        except (OSError, LogDamagedError) as error:
            why = error if isinstance(error, OSError) else OSError(str(error))
            raise unavailable(why, folder, "read the index") from error
        self.before = stretch.first
        self.newest_ms = head.first_ms
        return []

    def _candidates(
        self, stretch: _Stretch, places: list[int], head: Head, budget: Budget
    ) -> list[Logged]:
        """Read the newest of *places* that are below ``before``."""
        assert self._indexed is not None
        pointed = self._indexed.pointed(head, self._reader)
        found: list[Logged] = []
        try:
            if self.before < stretch.end or stretch.end < head.piece.end:
                del places[bisect_left(places, self.before, key=pointed.offset) :]
            tried = 0
            while places and tried < TRIED_MAX and not budget.spent:
                logged = pointed.record(places.pop())
                tried += 1
                budget.records -= 1
                if logged is None:
                    continue
                budget.bytes -= len(logged.body)
                if stretch.first <= logged.offset < self.before:
                    self.before, self.newest_ms = logged.offset, logged.time_ms
                    if self._question.wanted(logged):
                        found.append(logged)
        finally:
            pointed.close()
        if not places:
            self.before, self.newest_ms = stretch.first, head.first_ms
        return found


def read_one(reader: LookedThrough, offset: int) -> Logged | None:
    """The record at *offset*; None: it was deleted, is damaged, or is not there yet.

    Raises:
        LogUnavailableError: The files cannot be read.
    """
    if not reader.start() <= offset < reader.durable_end():
        return None
    for logged in reader.read(offset, offset + 1):
        if logged.offset == offset:
            return logged
    return None


def _stretches(heads: Sequence[Head], since: int, before: int) -> list[_Stretch]:
    """What lies between *since* and *before*, ascending: files of the index, and the gaps."""
    found: list[_Stretch] = []
    at = since
    for head in heads:
        first, end = max(head.piece.first, at), min(head.piece.end, before)
        if first >= end:
            continue
        if first > at:
            found.append(_Stretch(at, first, None))
        found.append(_Stretch(first, end, head))
        at = end
    if at < before:
        found.append(_Stretch(at, before, None))
    return found
