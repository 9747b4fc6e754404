"""Makes the index of event ids of one partition, beside the log and after it.

Caller: the process of the index, at the lowest priority: nothing of accepting or delivering events
waits for it, or knows of it. Hides: which files there are, and in which order they are made.

The newest segment is followed: its records become a file for every ``PIECE_BYTES`` of it. When it
is complete, its files become one. Segments without a file, or with a damaged one, get it when there
is nothing else to do, the newest first. Files of segments that are gone are deleted.
"""

import contextlib
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from distributary.core.errors import EventError
from distributary.core.event import binary
from distributary.core.flow import Logged, RecordKind, events_of
from distributary.core.log import _ids_file as ids_file
from distributary.core.log._cursor import Cursor
from distributary.core.log._end import DurableEnd
from distributary.core.log._ids_file import Head, Piece, SoundFiles
from distributary.core.log._segment import (
    NO_LIMIT,
    SNAPSHOT_SUFFIX,
    Segment,
    list_offsets,
)
from distributary.core.log.damage import Damage
from distributary.core.log.disk import SYSTEM_DISK, Disk, unavailable
from distributary.core.log.folder import partition_dir
from distributary.core.log.frame import (
    HEADER_BYTES,
    LENGTHS,
    OFFSET_MAX,
    SKIM,
    START,
    Run,
    Stop,
    header_at,
    parse_header,
    walk_headers,
)

PIECE_BYTES: Final = 1024 * 1024
"""Records that a file of the newest segment holds. What is newer is read through by each search,
7 ms for a MiB; each file costs it 25 us."""
TURN_BYTES: Final = 1024 * 1024
"""Read in a turn."""
CHUNK_BYTES: Final = 128 * 1024
"""Read at a time: it fits into a cache of the processor, which the kernel has just filled."""
SWEEP_MS: Final = 10_000
"""Interval of listing all files while the log grows, milliseconds: of 10 GB there are some 200,
which take as long as the records of half a MiB."""


_EVENTS: Final = int(RecordKind.EVENTS)
_BINARY: Final = binary.FORMAT
_ID_LINE: Final = b"\r\nce-id: "
assert (len(_ID_LINE), HEADER_BYTES, ids_file.HASH_BITS) == (9, 36, 32)  # as ``_Gathered`` has them


class _Stored(NamedTuple):
    """A segment, as the folder lists it; *end* is NO_LIMIT where it is the newest."""

    first: int
    end: int


class _Gathered:
    """Entries of consecutive records of one segment, until a file takes them."""

    def __init__(self, segment: int, first: int, start: int) -> None:
        self.segment = segment
        self.first = self.end = first
        self.start = self.stop = start
        self.entries = array("Q")
        self.first_ms = self.last_ms = 0
        self._run: Run | None = None
        self._ids = list[bytes]()
        self._places = list[int]()
        self._others = list[int]()

    def walk(self, block: bytes, expected: int, limit: int) -> Run:
        """As ``frame.walk_headers``; what it has stepped over is for ``take``.

        A header is intact if it has the offset and the stamp that it must have, and another one
        follows where it says: the sender of an event does not know the stamp. The first and the
        last one, and all where this does not hold, are verified by their checksums.
        """
        run = self._run = self._skim(block, 0, expected, limit)
        if run is None or run.why == Stop.HEADER:
            self._run = None
            run = walk_headers(block, expected, limit)
        return run

    def take(self, block: bytes, length: int, start: int) -> None:
        """Add the records that ``walk`` has just stepped over.

        Args:
            block: Begins with them.
            length: Of them, bytes.
            start: Byte of the segment at which *block* begins.
        """
        if self._run is None:
            self.add(block[:length], start)
            return
        self._add_skimmed(block, start)
        self._note(block, self._run.last, start + length)

    def add(self, chunk: bytes, start: int) -> None:
        """Add the records of *chunk*, which begins at byte *start* of the segment."""
        at = last = 0
        while at < len(chunk):
            run = self._skim(chunk, at, header_at(chunk, at).offset, OFFSET_MAX)
            if run is None:
                last, at = at, self._add_each(chunk, at, start)
            else:
                last, at = run.last, run.stop
                self._add_skimmed(chunk, start)
        self._note(chunk, last, start + len(chunk))

    def _skim(self, block: bytes, at: int, expected: int, limit: int) -> Run | None:
        """Step over records from *at*, as ``walk``; None: there is none, or one is damaged."""
        first = parse_header(block, at)
        if first is None:
            return None
        stamp, unpack, find = first.stamp, SKIM.unpack_from, block.find
        ids, places, others = list[bytes](), list[int](), list[int]()
        size, last, why = len(block), -1, Stop.LIMIT
        while expected < limit:
            if at + 36 >= size:
                why = Stop.SHORT
                break
            start, kind, mark, length, offset, form = unpack(block, at)
            stop = at + 36 + length
            if offset != expected or mark != stamp or start != START:
                why = Stop.HEADER
                break
            if stop > size:
                why = Stop.SHORT
                break
            if form == _BINARY and kind == _EVENTS:
                # Nearly all are in binary form: their lines come first, and each has an id.
                id_at = find(_ID_LINE, at + 36, stop) + 9
                ids.append(block[id_at : find(b"\r", id_at, stop)])
                places.append(at)
            else:
                others.append(at)
            last, at = at, stop
            expected += 1
        if last < 0 or parse_header(block, last) is None:
            return None
        self._ids, self._places, self._others = ids, places, others
        return Run(at, expected, why, 0, last, -1)

    def _add_skimmed(self, block: bytes, start: int) -> None:
        """Add the records that ``_skim`` has stepped over."""
        ids, places, others = self._ids, self._places, self._others
        if b"%" in b"".join(ids):
            others = others + [at for id_, at in zip(ids, places, strict=True) if b"%" in id_]
            plain = [(id_, at) for id_, at in zip(ids, places, strict=True) if b"%" not in id_]
            ids, places = [id_ for id_, _ in plain], [at for _, at in plain]
        self.entries.fromlist(
            [crc << 32 | start + at for crc, at in zip(map(crc32, ids), places, strict=True)]
        )
        for at in others:
            self._add_each(block, at, start)

    def _add_each(self, chunk: bytes, at: int, start: int) -> int:
        """Add the events of the record at *at*; returns where it ends."""
        kind, length = LENGTHS.unpack_from(chunk, at)
        body_at = at + HEADER_BYTES
        for hashed in _hashes(Logged(0, 0, 0, kind, chunk[body_at : body_at + length])):
            self.entries.append(hashed << ids_file.HASH_BITS | start + at)
        return int(body_at + length)

    def _note(self, chunk: bytes, last: int, stop: int) -> None:
        """Note the times of the first and the last record of *chunk*, and where it ends."""
        if not self.first_ms:
            self.first_ms = header_at(chunk, 0).time_ms
        newest = header_at(chunk, last)
        self.end, self.last_ms, self.stop = newest.offset + 1, newest.time_ms, stop

    def write(self, folder: Path, end: int) -> Piece:
        """Write the file of the records up to the offset *end*; returns what it covers."""
        entries = array("Q", sorted(self.entries))
        piece = Piece(self.segment, self.first, end)
        head = Head(piece, len(entries), self.start, self.stop, self.first_ms, self.last_ms)
        ids_file.write(folder, head, entries)
        return piece


class NumberedEntries(_Gathered):
    """As ``_Gathered``, but entries have the number of a record in its segment, not its byte.

    For a log that is read by offset (``offset_indexer``).
    """

    def add(self, chunk: bytes, start: int) -> None:
        """Add the records of *chunk*, which begins *start* bytes after the first one."""
        entries, before = self.entries, len(self.entries)
        super().add(chunk, start)
        for index in range(before, len(entries)):
            place = (entries[index] & 0xFFFFFFFF) - start
            number = header_at(chunk, place).offset - self.segment
            entries[index] = entries[index] >> 32 << 32 | number


def _hashes(logged: Logged) -> list[int]:
    """Of the ids of a record's events."""
    try:
        found = events_of(logged)
    except EventError:
        return []  # damaged, or of a newer version: nobody finds it by its id
    if found is None:
        return []
    return [ids_file.hash_of(event.text("id") or "") for event in found.events]


class Indexer:
    """Makes the index of one partition. For one thread of one process; close it.

    Args:
        log_dir: ``{data}/log``.
        partition: Partition number; its appender has opened it.
        folder: Where its files go.
        age_max_s: Segments whose records are all older have no files; None: all have.
        piece_bytes: Records that a file of the newest segment holds, bytes.
        disk: The disk of the log.

    Attributes:
        behind: Whether the last turn took as much as one may: there is more. Else wait a moment
            before the next one, since each lists all files.

    Raises:
        LogUnavailableError: The partition was never opened by an appender, or cannot be read.
    """

    def __init__(
        self,
        log_dir: Path,
        partition: int,
        folder: Path,
        *,
        age_max_s: float | None = None,
        piece_bytes: int = PIECE_BYTES,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        self.folder = folder
        self._log = partition_dir(log_dir, partition)
        self._partition = partition
        self._age_max_s = age_max_s
        self._piece_bytes = piece_bytes
        self._disk = disk
        self._end = DurableEnd(disk, self._log)
        self._tail: Cursor | None = None
        self._gathered: _Gathered | None = None
        self._looked_end = -1
        self._sweep_ms = 0
        self.behind = False
        self._sound = SoundFiles(folder)

    def close(self) -> None:
        """Close the files."""
        self._leave_tail()
        self._end.close()

    def turn(self, now_ms: int) -> bool:
        """Do the next piece of work, of some hundred milliseconds; False: there is none.

        Args:
            now_ms: Wall clock, milliseconds.

        Raises:
            LogUnavailableError: The log cannot be read, or the index cannot be written. Nothing is
                lost; call again later.
        """
        self._looked_end = self._end.read()
        self.behind = False
        try:
            if now_ms < self._sweep_ms and self._read_on():
                return True
            self._sweep_ms = now_ms + SWEEP_MS
            segments = self._segments()
            if not segments:
                return False
            pieces = self._swept(segments, now_ms)
            return self._follow(segments, pieces) or self._fill(segments, pieces, now_ms)
        except FileNotFoundError:
            self._leave_tail()  # retention was faster
            return True
        except OSError as error:
            raise unavailable(error, self.folder, "write the index") from error

    @property
    def has_news(self) -> bool:
        """Whether the log has grown since the last turn; costs no call of the system."""
        return self._end.read() != self._looked_end

    def forget(self) -> None:
        """Verify all files once more, as they are met: call it now and then."""
        self._sound.forget()

    def _segments(self) -> list[_Stored]:
        firsts = list_offsets(self._disk, self._log)
        return [_Stored(*each) for each in pairwise([*firsts, NO_LIMIT])]

    def _swept(self, segments: list[_Stored], now_ms: int) -> dict[int, list[Piece]]:
        """The files by segment, without those that are of no use, which are deleted."""
        there = {segment.first: segment for segment in segments}
        found: dict[int, list[Piece]] = {first: [] for first in there}
        oldest_ms, end = self._oldest_ms(now_ms), self._end.read()
        for piece in ids_file.list_pieces(self.folder):
            segment = there.get(piece.segment)
            # Beyond the durable end lies what the medium has lost.
            fits = segment is not None and piece.end <= min(segment.end, end)
            last_ms = self._sound.last_ms(piece) if fits else None
            if last_ms is None or last_ms < oldest_ms:
                self._sound.delete(piece)
            else:
                found[piece.segment].append(piece)
        return found

    def _oldest_ms(self, now_ms: int) -> int:
        return 0 if self._age_max_s is None else now_ms - int(self._age_max_s * 1000)

    # -- the newest segment --------------------------------------------------------------------

    def _follow(self, segments: list[_Stored], pieces: dict[int, list[Piece]]) -> bool:
        """Read on in the newest segment; False: there is nothing new, or not enough for a file."""
        newest = segments[-1].first
        if self._gathered is None or self._gathered.segment != newest:
            self._begin(newest, pieces[newest])
        return self._read_on()

    def _read_on(self) -> bool:
        """Read on in the segment that is followed; False: there is none, or nothing new."""
        tail, gathered = self._tail, self._gathered
        if tail is None or gathered is None:
            return False
        end, read = self._end.read(), 0
        while read < TURN_BYTES:
            found = tail.pass_by(end, CHUNK_BYTES, gathered.walk)
            if found is None:
                break
            block, length = found
            name, start = tail.origin(length)
            if int(name.partition(".")[0]) != gathered.segment:
                self._leave_tail()  # a newer one has begun
                return True
            if not gathered.entries and not gathered.first_ms:
                gathered.start = start
            gathered.take(block, length, start)
            read += length
        self.behind = read >= TURN_BYTES // 2
        if gathered.stop - gathered.start >= self._piece_bytes:
            self._sound.add(gathered.write(self.folder, gathered.end), gathered.last_ms)
            self._gathered = _Gathered(gathered.segment, gathered.end, gathered.stop)
        return read > 0

    def _begin(self, newest: int, pieces: list[Piece]) -> None:
        """Begin behind the files of the newest segment."""
        self._leave_tail()
        at = newest
        for piece in pieces:
            if piece.first == at:
                at = piece.end
        self._tail = Cursor(self._disk, self._log, self._partition, _unreported)
        self._tail.seek(min(at, self._end.read()), self._end.read())
        self._gathered = _Gathered(newest, at, 0)

    def _leave_tail(self) -> None:
        if self._tail is not None:
            self._tail.close()
        self._tail = self._gathered = None

    # -- complete segments ---------------------------------------------------------------------

    def _fill(self, segments: list[_Stored], pieces: dict[int, list[Piece]], now_ms: int) -> bool:
        """Make the one file of a complete segment that has none, the newest first."""
        start = max([0, *list_offsets(self._disk, self._log, SNAPSHOT_SUFFIX)])
        for segment in reversed(segments[:-1]):
            if segment.end <= start:
                return False  # retention is deleting it, and all before it
            found = pieces[segment.first]
            if found == [Piece(segment.first, segment.first, segment.end)]:
                continue
            if self._is_old(segment, now_ms):
                return False
            self._complete(segment, found)
            self.behind = True
            return True
        return False

    def _is_old(self, segment: _Stored, now_ms: int) -> bool:
        """Whether the records of a complete segment are older than the index reaches."""
        if self._age_max_s is None:
            return False
        following = Segment(self._disk, self._log, segment.end)
        try:
            header = following.first_header()
        finally:
            following.close()
        return header is not None and header.time_ms < self._oldest_ms(now_ms)

    def _complete(self, segment: _Stored, pieces: list[Piece]) -> None:
        """Write the file of a whole segment, from those of its parts as far as they reach."""
        whole = _Gathered(segment.first, segment.first, 0)
        for piece in pieces:
            if piece.first == whole.end:
                head, entries = ids_file.read(self.folder, piece)
                whole.entries.extend(entries)
                whole.end, whole.stop = piece.end, head.stop
                whole.first_ms = whole.first_ms or head.first_ms
                whole.last_ms = head.last_ms
        cursor = Cursor(self._disk, self._log, self._partition, _unreported)
        try:
            cursor.seek(whole.end, segment.end)
            while found := cursor.pass_by(segment.end, CHUNK_BYTES, whole.walk):
                whole.take(*found, cursor.origin(found[1])[1])
        finally:
            cursor.close()
        whole.write(self.folder, segment.end)
        for piece in pieces:
            if piece != Piece(segment.first, segment.first, segment.end):
                with contextlib.suppress(OSError):
                    self._sound.delete(piece)


def _unreported(_damage: Damage) -> None:
    """Damage is reported by whoever delivers the records."""
