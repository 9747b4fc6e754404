"""Makes the index of event ids of one partition of a log that is read by offset.

Caller: the process of the index, on each node whose log is elsewhere. The files are those of
``indexer``: a *segment* is a stretch of ``SEGMENT_RECORDS`` offsets here, and an entry points to a
record by its number in the stretch. Whatever is lost or damaged is made again from the log.

New records become a file for every ``PIECE_BYTES`` of them. When the stretch is complete, or has
``PIECES_MAX`` files, they become one. Stretches without a file get it when there is nothing else to
do, the newest first. Files below the log's beginning are deleted.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from distributary.core.errors import LogDamagedError
from distributary.core.log import _ids_file as ids_file
from distributary.core.log._entries import NumberedEntries
from distributary.core.log._ids_file import Head, Piece, SoundFiles
from distributary.core.log.disk import unavailable
from distributary.core.log.frame import HEADER_BYTES, header_at
from distributary.core.log.indexer import TURN_BYTES

SEGMENT_RECORDS: Final = 1 << 16
"""Records of a file once it is complete: half a MiB, as of a segment of 64 MiB with events of 1 KB.
A search reads 4 KiB of each."""

PIECE_BYTES: Final = 256 * 1024
"""Records that a file of the newest stretch holds. What is newer is fetched by each search."""

FILL_BYTES: Final = 4 * 1024 * 1024
"""Records that a file of an older stretch begins with: a jump to them costs some 26 ms."""

PIECES_MAX: Final = 32
"""Files of one stretch: each costs a search 25 us. Large events would make thousands."""

FLOOR_MS: Final = 60_000
"""Interval of questions for the first record that is young enough."""

NEVER_MS: Final = 1 << 62
"""Later than the time of any record."""


class OffsetRecords(Protocol):
    """A reader of one partition; ``core.log.kafka.KafkaRecords`` is one."""

    def start(self) -> int:
        """Returns the offset of the oldest record kept."""

    def durable_end(self) -> int:
        """Returns the offset after the last durable record."""

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Returns whole frames from *from_offset* on, and the offset after them."""

    def offset_at(self, time_ms: int) -> int:
        """Returns the first offset appended at *time_ms* or later; the end where none was."""

    def close(self) -> None:
        """Close what is open."""


class OffsetIndexer:
    """Makes the index of one partition. For one thread of one process; close it.

    Args:
        records: Reads the partition; ``close`` closes it.
        folder: Where the files go.
        age_max_s: Records that are older have no entries; None: all have.
        piece_bytes: See ``PIECE_BYTES``; a file of an older stretch has as many times more.
        segment_records: Records of a stretch.

    Attributes:
        behind: Whether the last turn took as much as one may: there is more.
    """

    def __init__(
        self,
        records: OffsetRecords,
        folder: Path,
        *,
        age_max_s: float | None = None,
        piece_bytes: int = PIECE_BYTES,
        segment_records: int = SEGMENT_RECORDS,
    ) -> None:
        self.folder = folder
        self.behind = False
        self._records = records
        self._sound = SoundFiles(folder)
        self._age_max_s = age_max_s
        self._piece_bytes = piece_bytes
        self._fill_bytes = piece_bytes * FILL_BYTES // PIECE_BYTES
        self._length = segment_records
        self._gathered: NumberedEntries | None = None
        self._floor = 0
        self._floor_ms = 0
        self._looked_end = -1

    def close(self) -> None:
        """End the connections."""
        self._records.close()

    def forget(self) -> None:
        """Verify all files once more, as they are met: call it now and then."""
        self._sound.forget()

    @property
    def has_news(self) -> bool:
        """Whether the log has grown since the last turn: a question to the log.

        Raises:
            LogUnavailableError: It does not answer.
        """
        return self._records.durable_end() != self._looked_end

    def turn(self, now_ms: int) -> bool:
        """Do the next piece of work; False: there is none.

        Args:
            now_ms: Wall clock, milliseconds.

        Raises:
            LogUnavailableError: The log cannot be read, or the index cannot be written. Nothing is
                lost; call again later.
        """
        self.behind = False
        end = self._looked_end = self._records.durable_end()
        start = min(max(self._records.start(), self._young(now_ms)), end)
        try:
            pieces = self._swept(start, end)
            if self._merge_one(pieces, start):
                return True
            worked = self._follow(pieces, start, end)
            # Events that flow all the time must not keep older ones out of the index.
            return (not self.behind and self._fill(pieces, start, end)) or worked
        except OSError as error:
            raise unavailable(error, self.folder, "write the index") from error

    def _young(self, now_ms: int) -> int:
        """Returns the first offset that is young enough."""
        if self._age_max_s is None:
            return 0
        if now_ms >= self._floor_ms + FLOOR_MS:
            self._floor = self._records.offset_at(now_ms - int(self._age_max_s * 1000))
            self._floor_ms = now_ms
        return self._floor

    def _segment(self, offset: int) -> int:
        return offset - offset % self._length

    def _swept(self, start: int, end: int) -> dict[int, list[Piece]]:
        """The files by stretch, without those that are of no use, which are deleted."""
        found: dict[int, list[Piece]] = {}
        # The larger of two that begin together first: a merged file replaces others.
        for piece in sorted(
            ids_file.list_pieces(self.folder), key=lambda each: (each.first, -each.end)
        ):
            mine = found.setdefault(piece.segment, [])
            fits = (
                self._segment(piece.first) == piece.segment == self._segment(piece.end - 1)
                and start < piece.end <= end  # beyond it lies what the log has lost
                and (not mine or piece.first >= mine[-1].end)
            )
            if fits and self._sound.last_ms(piece) is not None:
                mine.append(piece)
            else:
                self._sound.delete(piece)
        return found

    # -- the newest records --------------------------------------------------------------------

    def _follow(self, pieces: dict[int, list[Piece]], start: int, end: int) -> bool:
        """Read on at the end; False: there is nothing new, or not enough for a file."""
        if end == start:
            return False
        gathered = self._gathered
        if gathered is None or gathered.end < start or gathered.end > end:
            newest = self._segment(end - 1)
            at = _covered(pieces.get(newest, ()), max(newest, start))
            gathered = self._begin(at)
        if gathered.end >= end:
            return False
        self._take(gathered, min(gathered.segment + self._length, end))
        self.behind = gathered.end < end
        complete = gathered.end == gathered.segment + self._length
        if complete or gathered.stop >= self._piece_bytes:
            _write(gathered, self.folder)
            self._begin(gathered.end)
        return True

    def _begin(self, at: int) -> NumberedEntries:
        self._gathered = NumberedEntries(self._segment(at), at, 0)
        return self._gathered

    def _take(self, gathered: NumberedEntries, limit: int) -> None:
        """Read some of what lies from the end of *gathered* to *limit*."""
        chunk, following = self._records.read_chunk(gathered.end, TURN_BYTES)
        if following > limit:
            chunk = _before(chunk, limit)
        if chunk:
            gathered.add(chunk, gathered.stop)
        gathered.end = min(following, limit)  # holes are passed over

    # -- what has no file yet ------------------------------------------------------------------

    def _fill(self, pieces: dict[int, list[Piece]], start: int, end: int) -> bool:
        """Make a file of the newest records that have none; those that are followed will have."""
        followed = self._gathered.first if self._gathered is not None else end
        segment = self._segment(max(followed - 1, 0))
        while segment + self._length > start:
            first, stop = max(segment, start), min(segment + self._length, followed)
            mine = pieces.get(segment, ())
            at = _covered(mine, first)
            if at < stop:
                limit = min([stop, *(each.first for each in mine if each.first > at)])
                gathered = NumberedEntries(segment, at, 0)
                while gathered.end < limit and gathered.stop < self._fill_bytes:
                    before = gathered.end
                    self._take(gathered, limit)
                    if gathered.end == before:
                        return False
                _write(gathered, self.folder)
                self.behind = True
                return True
            segment -= self._length
        return False

    # -- one file in place of several ----------------------------------------------------------

    def _merge_one(self, pieces: dict[int, list[Piece]], start: int) -> bool:
        """Merge the files of one stretch that is complete, or has too many; False: there is none.

        What ends in the middle leaves the merged file beside the others, which ``_swept`` deletes.
        """
        for segment, mine in pieces.items():
            first = max(segment, start)
            whole = _covered(mine, first) == segment + self._length
            if len(mine) < 2 or not (whole or len(mine) > PIECES_MAX):
                continue
            runs = [run for run in _runs(mine) if len(run) > 1]
            for run in runs:
                self._merge(run)
            if runs:
                return True
        return False

    def _merge(self, run: Sequence[Piece]) -> None:
        entries = array("Q")
        heads: list[Head] = []
        for piece in run:
            try:
                head, found = ids_file.read(self.folder, piece)
            except (LogDamagedError, FileNotFoundError):
                self._sound.forget()  # it is found out, and made again
                return
            entries.extend(found)
            heads.append(head)
        merged = Piece(run[0].segment, run[0].first, run[-1].end)
        size = sum(head.stop for head in heads)
        entries = array("Q", sorted(entries))
        head = Head(merged, len(entries), 0, size, heads[0].first_ms, heads[-1].last_ms)
        ids_file.write(self.folder, head, entries)
        for piece in run:
            self._sound.delete(piece)


def _before(chunk: bytes, limit: int) -> bytes:
    """The records of *chunk* below the offset *limit*."""
    at = 0
    while at < len(chunk) and header_at(chunk, at).offset < limit:
        at += HEADER_BYTES + header_at(chunk, at).length
    return chunk[:at]


def _write(gathered: NumberedEntries, folder: Path) -> None:
    if gathered.end > gathered.first:
        gathered.first_ms = gathered.first_ms or NEVER_MS  # nothing but holes: times are not known
        gathered.write(folder, gathered.end)


def _covered(pieces: Sequence[Piece], at: int) -> int:
    """Returns how far *pieces*, ascending, cover the offsets from *at* on."""
    for piece in pieces:
        if piece.first <= at < piece.end:
            at = piece.end
    return at


def _runs(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """*pieces*, ascending, divided where one does not begin at the end of another."""
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and runs[-1][-1].end == piece.first:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs
