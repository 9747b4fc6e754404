"""What is indexed of one partition: the files of its index, and the records they point to.

Called by ``finder``. Hides: whether a place is a byte of a segment, or the number of a record.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from distributary.core.errors import LogDamagedError
from distributary.core.flow import Logged
from distributary.core.log import _ids_file as ids_file
from distributary.core.log._ids_file import Head, Piece
from distributary.core.log._segment import Segment
from distributary.core.log.disk import Disk, unavailable
from distributary.core.log.frame import HEADER_BYTES, body_fits, parse_header


class Index:
    """The files of one partition's index, each verified when it is first used.

    For one thread at a time.

    Args:
        folder: Where they are; None: there is no index.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._heads: dict[Piece, Head | None] = {}
        """None: it was found to be damaged."""

    def pieces(self) -> list[Head]:
        """The sound files, ascending, none of which overlaps another.

        Raises:
            LogUnavailableError: The folder cannot be read.
        """
        if self.folder is None:
            return []
        try:
            listed = ids_file.list_pieces(self.folder)
        except OSError as error:
            raise unavailable(error, self.folder, "read the index") from error
        self._heads = {piece: self._heads[piece] for piece in listed if piece in self._heads}
        found: list[Head] = []
        # The larger of two that begin together first: a file of a whole segment replaces others.
        for piece in sorted(listed, key=lambda each: (each.first, -each.end)):
            if found and piece.first < found[-1].piece.end:
                continue
            head = self._head(piece)
            if head is not None:
                found.append(head)
        return found

    def _head(self, piece: Piece) -> Head | None:
        if piece not in self._heads:
            assert self.folder is not None
            try:
                self._heads[piece] = ids_file.read(self.folder, piece)[0]
            except (LogDamagedError, OSError):
                self._heads[piece] = None  # the process of the index makes it again
        return self._heads[piece]


class LookedThrough(Protocol):
    """A reader of one partition, as a search uses it; see ``Reader``. For one thread at a time."""

    def start(self) -> int:
        """Returns the offset of the oldest record kept."""

    def durable_end(self) -> int:
        """Returns the offset after the last durable record."""

    def offset_at(self, time_ms: int) -> int:
        """Returns the first offset appended at *time_ms* or later; the end where none was."""

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Returns whole frames from *from_offset* on, and the offset after them."""

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yields the records of a range."""

    def close(self) -> None:
        """Give the reader back."""


class Pointed(Protocol):
    """The records that the entries of one file of an index point to; close it."""

    def offset(self, place: int) -> int:
        """Returns the offset of the record at *place*; -1: it is damaged."""

    def record(self, place: int) -> Logged | None:
        """Returns the record at *place*; None: it is damaged, or gone."""

    def close(self) -> None:
        """Close what is open."""


class Indexed(Protocol):
    """A partition with an index."""

    @property
    def by_id(self) -> Index:
        """The index."""

    def pointed(self, head: Head, reader: LookedThrough) -> Pointed:
        """Returns the records of the file *head*; *reader* is of the partition.

        Raises:
            OSError: They are gone.
        """


class IndexedFiles(NamedTuple):
    """``Indexed`` beside segments.

    Attributes:
        disk: Where both are.
        folder: Of the segments.
        by_id: The index.
    """

    disk: Disk
    folder: Path
    by_id: Index

    def pointed(self, head: Head, reader: LookedThrough) -> "PointedBytes":
        """See ``Indexed``: places are bytes of a segment."""
        del reader
        return PointedBytes(Segment(self.disk, self.folder, head.piece.segment))


class PointedBytes:
    """``Pointed`` in a segment.

    Args:
        segment: It; ``close`` closes it.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def offset(self, place: int) -> int:
        """See ``Pointed``."""
        header = parse_header(self._segment.read(place, HEADER_BYTES))
        return -1 if header is None else header.offset

    def record(self, place: int) -> Logged | None:
        """See ``Pointed``."""
        header = parse_header(self._segment.read(place, HEADER_BYTES))
        if header is None:
            return None
        body = self._segment.read(place + HEADER_BYTES, header.length)
        if len(body) != header.length or not body_fits(header, body):
            return None
        return Logged(header.offset, header.time_ms, header.checksum, header.kind, body)

    def close(self) -> None:
        """See ``Pointed``."""
        self._segment.close()


class IndexedOffsets(NamedTuple):
    """``Indexed`` where the log is read by offset: see ``offset_indexer``.

    Attributes:
        by_id: The index.
    """

    by_id: Index

    def pointed(self, head: Head, reader: LookedThrough) -> "PointedOffsets":
        """See ``Indexed``: places are numbers of records in a stretch of offsets."""
        return PointedOffsets(head.piece.segment, reader)


class PointedOffsets:
    """``Pointed`` by numbers.

    Args:
        first: First offset of the stretch.
        reader: Of the partition; its user closes it.
    """

    def __init__(self, first: int, reader: LookedThrough) -> None:
        self._first = first
        self._reader = reader

    def offset(self, place: int) -> int:
        """See ``Pointed``."""
        return self._first + place

    def record(self, place: int) -> Logged | None:
        """See ``Pointed``."""
        wanted = self._first + place
        found = self._reader.read(wanted, wanted + 1)
        return next((logged for logged in found if logged.offset == wanted), None)

    def close(self) -> None:
        """Nothing is open."""
