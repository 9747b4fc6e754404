"""Who published each event, beside the log: receivers write it, the search for events reads it.

Hides: the files. Each receiver notes runs of records of one publisher in memory, and appends them
to a file of the partition some times a second; nothing waits for that. So a crash may lose the
notes of the last moments, and those events have no known publisher; none has a wrong one.
Where authentication is off there is nothing to note.

::

    {data}/publishers/p0000/{offset}.who     notes of records from that offset on

A note is the offset of a run, its length, the number of a name, and a checksum: what a crash has
cut, whatever follows it, is no note. A name is written before its first note.
"""

import contextlib
import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

FILE_BYTES: Final = 1024 * 1024
"""A file that is longer is followed by another one: retention deletes whole files."""
HELD_BYTES_MAX: Final = 1024 * 1024
"""Notes that wait in memory for a disk that takes none; beyond, they are given up."""
NAMES_MAX: Final = 65_000
"""Names of a file; the next flush begins another file. Whoever comes before is not noted."""
NAME_BYTES_MAX: Final = 1024
"""Longer names are cut: those of tokens hold a subject that its issuer chose."""
NOTED_RECORDS_MAX: Final = 65_536
"""Records whose notes are read at once for who asks of most: 10 MB, where two publishers take
turns. A partition may have some ten million."""
PARSED_MAX: Final = 16
"""Files that a reader keeps parsed: some megabytes each at most."""

_MAGIC: Final = b"DSTRWHO1"
_NOTE: Final = struct.Struct("<QIH")
_SUM: Final = struct.Struct("<I")
_NAME_MARK: Final = (1 << 64) - 1
_SUFFIX: Final = ".who"


class _Notes:
    """Notes of one partition, in the making."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, int] = {}
        self._by = ""
        self._first = self._next = 0
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._path: Path | None = None
        self._size = 0

    def note(self, offset: int, by: str, count: int = 1) -> None:
        """Note that *by* published *count* records from *offset* on."""
        if offset == self._next and by == self._by:
            self._next = offset + count
            return
        self._end_run()
        self._by, self._first, self._next = by, offset, offset + count

    def _end_run(self) -> None:
        count = self._next - self._first
        if not count or not self._by:
            return
        number = self._names.get(self._by)
        if number is None:
            if len(self._names) >= NAMES_MAX:  # until ``flush`` begins another file
                self._by = ""
                return
            number = self._names[self._by] = len(self._names)
            self._hold(_named(self._by, number))
        self._hold(_NOTE.pack(self._first, count, number))
        self._by = ""

    def _hold(self, note: bytes) -> None:
        self._held.append(_summed(note))
        self._held_bytes += len(self._held[-1])

    def flush(self) -> None:
        """Append what is noted to the file.

        Raises:
            OSError: The disk takes nothing now; the notes wait, as far as they are few.
        """
        first = self._first
        self._end_run()
        if not self._held:
            return
        block = b"".join(self._held)
        try:
            self._write(block, first)
        except OSError:
            if self._path is not None:  # it may be cut short: another file follows, with its names
                self._path, self._size = None, 0
                names = [_summed(_named(by, number)) for by, number in self._names.items()]
                self._held[:0] = names
                self._held_bytes += sum(map(len, names))
            if self._held_bytes > HELD_BYTES_MAX:
                self._forget()
            raise
        self._held, self._held_bytes = [], 0
        self._size += len(block)
        if self._size >= FILE_BYTES or len(self._names) >= NAMES_MAX:
            self._forget()

    def _forget(self) -> None:
        """Begin another file, with its own names."""
        self._held, self._held_bytes = [], 0
        self._path, self._names, self._size = None, {}, 0

    def _write(self, block: bytes, newest: int) -> None:
        path, flags = self._path, os.O_APPEND
        if path is None:
            first = next((each[0] for each in _parse(_MAGIC + block)), newest)
            self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            path, flags = self._folder / f"{first:020d}{_SUFFIX}", os.O_CREAT | os.O_TRUNC
            block = _MAGIC + block
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o640)
        with os.fdopen(fd, "wb", buffering=0) as file:
            if file.write(block) != len(block):
                raise OSError("the disk took a part of the notes")
        self._path = path


def _named(by: str, number: int) -> bytes:
    name = by.encode("utf-8", "replace")[:NAME_BYTES_MAX]
    return _NOTE.pack(_NAME_MARK, len(name), number) + name


def _summed(note: bytes) -> bytes:
    return note + _SUM.pack(zlib.crc32(note))


class PublisherBook:
    """Notes who published the records of some partitions. For the event loop's thread alone.

    Args:
        folders: The folder of each partition.
        failed: Called with the reason when notes cannot be written, once until they can be again.
    """

    def __init__(
        self,
        folders: dict[int, Path],
        failed: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        self._notes = {partition: _Notes(folder) for partition, folder in folders.items()}
        self._failed = failed
        self._failing = False

    def note(self, partition: int, first: int, by: Sequence[str]) -> None:
        """Note who published the records of a commit.

        Most commits have one publisher, and cost no more than one record.

        Args:
            partition: Of the records.
            first: Offset of the first.
            by: Who published it, and each that follows it; empty: nobody was asked.
        """
        notes = self._notes[partition]
        if by.count(by[0]) == len(by):
            notes.note(first, by[0], len(by))
            return
        for offset, each in enumerate(by, first):
            notes.note(offset, each)

    def flush(self) -> None:
        """Write what is noted, without a sync; never raises."""
        reason = None
        for notes in self._notes.values():
            try:
                notes.flush()
            except OSError as error:
                reason = str(error)
        if reason is not None and not self._failing:
            self._failed(reason)
        self._failing = reason is not None


class _Run(NamedTuple):
    first: int
    count: int  # type: ignore[assignment]  # a tuple's method, which nobody calls
    name: str


class Publishers:
    """Reads who published what. Safe from any thread.

    Args:
        folder: Of a partition.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._parsed: dict[Path, tuple[int, list[_Run]]] = {}

    def of(self, offset: int) -> str | None:
        """Who published the record at *offset*; None: not known."""
        with self._lock, contextlib.suppress(OSError):
            firsts = list_firsts(self._folder)
            place = bisect_right(firsts, offset)
            # A file whose begin was lost may follow one that reaches beyond it.
            for first in reversed(firsts[max(place - 2, 0) : place]):
                runs = self._runs(self._folder / f"{first:020d}{_SUFFIX}")
                at = bisect_right(runs, offset, key=lambda run: run.first) - 1
                if at >= 0 and offset < runs[at].first + runs[at].count:
                    return runs[at].name
        return None

    def noted(self) -> Callable[[int], str | None]:
        """Returns what answers as ``of`` does, for whoever asks of most records, in their order.

        Reads the notes of ``NOTED_RECORDS_MAX`` at a time.
        """
        runs: list[_Run] = []
        begin = end = 0

        def of(offset: int) -> str | None:
            nonlocal runs, begin, end
            if not begin <= offset < end:
                begin, end = offset, offset + NOTED_RECORDS_MAX
                runs = self._between(begin, end)
            at = bisect_right(runs, offset, key=lambda run: run.first) - 1
            found = at >= 0 and offset < runs[at].first + runs[at].count
            return runs[at].name if found else None

        return of

    def _between(self, begin: int, end: int) -> list[_Run]:
        """The runs with records from *begin* to before *end*, in order."""
        runs: list[_Run] = []
        with contextlib.suppress(OSError):
            firsts = list_firsts(self._folder)
            oldest = max(bisect_right(firsts, begin) - 2, 0)  # as in ``of``
            for first in firsts[oldest : bisect_left(firsts, end)]:
                with contextlib.suppress(FileNotFoundError):  # retention has deleted it just now
                    content = (self._folder / f"{first:020d}{_SUFFIX}").read_bytes()
                    mine = (run for run in _parse(content) if run.first < end)
                    runs += (run for run in mine if run.first + run.count > begin)
        return sorted(runs)

    def _runs(self, path: Path) -> list[_Run]:
        size = path.stat().st_size
        known = self._parsed.pop(path, None)
        if known is None or known[0] != size:
            content = path.read_bytes()
            known = len(content), sorted(_parse(content))
        self._parsed[path] = known  # the newest last
        while len(self._parsed) > PARSED_MAX:
            del self._parsed[next(iter(self._parsed))]
        return known[1]


def _parse(content: bytes) -> Iterable[_Run]:
    """The runs in a file, as far as it is whole."""
    if not content.startswith(_MAGIC):
        return
    names: dict[int, str] = {}
    at = len(_MAGIC)
    while at + _NOTE.size + _SUM.size <= len(content):
        first, count, number = _NOTE.unpack_from(content, at)
        end = at + _NOTE.size + (count if first == _NAME_MARK else 0)
        if end + _SUM.size > len(content):
            return
        if _SUM.unpack_from(content, end) != (zlib.crc32(content[at:end]),):
            return  # zeros, or no note: what a crash has left
        if first == _NAME_MARK:
            names[number] = content[at + _NOTE.size : end].decode("utf-8", "replace")
        elif number in names:
            yield _Run(first, count, names[number])
        at = end + _SUM.size


def list_firsts(folder: Path) -> list[int]:
    """The offsets in the names of the files of *folder*, ascending.

    Raises:
        OSError: It cannot be read; one that does not exist has none.
    """
    with contextlib.suppress(FileNotFoundError):
        stems = (path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))
        return sorted(int(stem) for stem in stems if stem.isdecimal())
    return []


def forget_below(folder: Path, start: int) -> None:
    """Delete the files whose records are all below the offset *start*.

    Raises:
        OSError: One cannot be deleted.
    """
    firsts = list_firsts(folder)
    for first, following in pairwise(firsts):
        if following <= start:
            (folder / f"{first:020d}{_SUFFIX}").unlink(missing_ok=True)
