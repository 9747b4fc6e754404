"""Makes the index of event ids of one partition, beside the log and after it.

Caller: the process of the index, at the lowest priority: nothing of accepting or delivering events
waits for it, or knows of it. Hides: which files there are, and in which order they are made.

The newest segment is followed: its records become a file for every ``PIECE_BYTES`` of it. When it
is complete, its files become one. Segments without a file, or with a damaged one, get it when there
is nothing else to do, the newest first. Files of segments that are gone are deleted.
"""

import contextlib
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from distributary.core.log import _ids_file as ids_file
from distributary.core.log._cursor import Cursor
from distributary.core.log._end import DurableEnd
from distributary.core.log._entries import Gathered
from distributary.core.log._ids_file import Piece, SoundFiles
from distributary.core.log._segment import (
    NO_LIMIT,
    SNAPSHOT_SUFFIX,
    Segment,
    list_offsets,
)
from distributary.core.log.damage import Damage
from distributary.core.log.disk import SYSTEM_DISK, unavailable
from distributary.core.log.folder import partition_dir

PIECE_BYTES: Final = 1024 * 1024
"""Records that a file of the newest segment holds. What is newer is read through by each search,
7 ms for a MiB; each file costs it 25 us."""
BEHIND_TIMES: Final = 4
"""How many times as many it holds while the index trails: each file takes time in which it would
catch up, and becomes one with the others soon. A search reads so much more through meanwhile."""
TURN_BYTES: Final = 1024 * 1024
"""Read in a turn."""
CHUNK_BYTES: Final = 128 * 1024
"""Read at a time: it fits into a cache of the processor, which the kernel has just filled."""
SWEEP_MS: Final = 10_000
"""Interval of listing all files while the log grows, milliseconds: of 10 GB there are some 200,
which take as long as the records of half a MiB."""


class _Stored(NamedTuple):
    """A segment, as the folder lists it; *end* is NO_LIMIT where it is the newest."""

    first: int
    end: int


class Indexer:
    """Makes the index of one partition. For one thread of one process; close it.

    Args:
        log_dir: ``{data}/log``.
        partition: Partition number; its appender has opened it.
        folder: Where its files go.
        age_max_s: Segments whose records are all older have no files; None: all have.
        piece_bytes: Records that a file of the newest segment holds, bytes.

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
    ) -> None:
        self.folder = folder
        self._log = partition_dir(log_dir, partition)
        self._partition = partition
        self._age_max_s = age_max_s
        self._piece_bytes = piece_bytes
        self._end = DurableEnd(SYSTEM_DISK, self._log)
        self._tail: Cursor | None = None
        self._gathered: Gathered | None = None
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
        firsts = list_offsets(SYSTEM_DISK, self._log)
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
        enough = self._piece_bytes * (BEHIND_TIMES if self.behind else 1)
        if gathered.stop - gathered.start >= enough:
            self._sound.add(gathered.write(self.folder, gathered.end), gathered.last_ms)
            self._gathered = Gathered(gathered.segment, gathered.end, gathered.stop)
        return read > 0

    def _begin(self, newest: int, pieces: list[Piece]) -> None:
        """Begin behind the files of the newest segment."""
        self._leave_tail()
        at = newest
        for piece in pieces:
            if piece.first == at:
                at = piece.end
        self._tail = Cursor(SYSTEM_DISK, self._log, self._partition, _unreported)
        self._tail.seek(min(at, self._end.read()), self._end.read())
        self._gathered = Gathered(newest, at, 0)

    def _leave_tail(self) -> None:
        if self._tail is not None:
            self._tail.close()
        self._tail = self._gathered = None

    # -- complete segments ---------------------------------------------------------------------

    def _fill(self, segments: list[_Stored], pieces: dict[int, list[Piece]], now_ms: int) -> bool:
        """Make the one file of a complete segment that has none, the newest first."""
        start = max([0, *list_offsets(SYSTEM_DISK, self._log, SNAPSHOT_SUFFIX)])
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
        following = Segment(SYSTEM_DISK, self._log, segment.end)
        try:
            header = following.first_header()
        finally:
            following.close()
        return header is not None and header.time_ms < self._oldest_ms(now_ms)

    def _complete(self, segment: _Stored, pieces: list[Piece]) -> None:
        """Write the file of a whole segment, from those of its parts as far as they reach."""
        whole = Gathered(segment.first, segment.first, 0)
        for piece in pieces:
            if piece.first == whole.end:
                head, entries = ids_file.read(self.folder, piece)
                whole.entries.extend(entries)
                whole.end, whole.stop = piece.end, head.stop
                whole.first_ms = whole.first_ms or head.first_ms
                whole.last_ms = head.last_ms
        cursor = Cursor(SYSTEM_DISK, self._log, self._partition, _unreported)
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
