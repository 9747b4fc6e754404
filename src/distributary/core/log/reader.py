"""Reads one partition, from any process, while another appends to it.

Callers: ``partitions``, the Spark sources, the route store, retention's callers. Hides: segments,
searching, and damage, which is skipped and reported. Takes no locks; never passes the durable end,
so it never returns unsynced bytes.

Files are read with ``pread``, never mapped: an unreadable sector is then an error to report, where
a mapping would kill the process (SIGBUS).
"""

from collections.abc import Iterator
from pathlib import Path

from distributary.core.errors import LogDamagedError
from distributary.core.flow import Logged, RecordKind
from distributary.core.log._cursor import Cursor
from distributary.core.log._end import DurableEnd
from distributary.core.log._segment import (
    SEGMENT_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    list_offsets,
    offset_name,
)
from distributary.core.log.damage import Damage
from distributary.core.log.disk import SYSTEM_DISK, Disk, unavailable
from distributary.core.log.folder import partition_dir
from distributary.core.log.frame import (
    HEADER_BYTES,
    Header,
    body_fits,
    iter_frames,
    iter_kind,
    parse_header,
)

READ_BYTES = 1024 * 1024
"""Block of ``read`` and ``kinds``: large enough that the cost of system calls is negligible."""

SCAN_RECORDS_BYTES = 256 * 1024
"""Block of the scan that ends the search of ``offset_at``."""

DAMAGES_MAX = 1_000
"""How many stretches of damage are remembered; a medium with more needs no list."""


class Reader:
    """Reads one partition. One object serves one thread; close it.

    A reader keeps its position: ``read_chunk`` from where the last one ended needs no search.
    """

    def __init__(self, log_dir: Path, partition: int, *, disk: Disk = SYSTEM_DISK) -> None:
        """Open *partition* of the log in *log_dir* (``{data}/log``).

        Raises:
            LogUnavailableError: The partition was never opened by an appender, or cannot be read.
        """
        self.partition = partition
        self._disk = disk
        self._folder = partition_dir(log_dir, partition)
        self._end = DurableEnd(disk, self._folder)
        self._damages: dict[tuple[str, int], Damage] = {}
        self._place = self._cursor()

    def close(self) -> None:
        """Close the files. The reader must not be used afterwards."""
        self._place.close()
        self._end.close()

    def durable_end(self) -> int:
        """Return the next offset: all records below it are on the medium. Costs under 1 us.

        It never goes back while an appender lives. It is 0 before the first one has recovered.
        """
        return self._end.read()

    def start(self) -> int:
        """Return the offset of the oldest retained record; the durable end if there is none.

        Segments that retention has released and not deleted yet do not count.

        Raises:
            LogUnavailableError: The folder cannot be read.
        """
        cuts = self._list(SNAPSHOT_SUFFIX)
        firsts = self._list()
        if not firsts:
            return self.durable_end()
        return max(firsts[0], cuts[-1]) if cuts else firsts[0]

    def segments(self) -> list[int]:
        """Return the offsets at which the segments begin, ascending.

        Raises:
            LogUnavailableError: The folder cannot be read.
        """
        return self._list()

    def stamp(self) -> int:
        """Return the random number that every record of the partition carries; 0: there is none.

        Raises:
            LogUnavailableError: The files cannot be read.
        """
        firsts = self._list()
        if not firsts:
            return 0
        try:
            segment = Segment(self._disk, self._folder, firsts[-1])
            try:
                return segment.stamp()
            finally:
                segment.close()
        except OSError as error:
            raise unavailable(error, self._folder, "read") from error

    def offset_within(self, bytes_max: int) -> int:
        """Return the first offset of the newest segments with at most *bytes_max* bytes together.

        The newest one always counts. Retention deletes whole segments: records below this offset
        may go once no reader needs them.

        Raises:
            LogUnavailableError: The folder cannot be read.
        """
        firsts = self._list()
        size = 0
        try:
            for index, first in reversed(list(enumerate(firsts))):
                segment = Segment(self._disk, self._folder, first)
                try:
                    size += segment.size()
                finally:
                    segment.close()
                if size > bytes_max:
                    return firsts[min(index + 1, len(firsts) - 1)]
        except OSError as error:
            raise unavailable(error, self._folder, "read") from error
        return self.start()

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Return raw records from *from_offset*, for ``iter_frames``, and the offset after them.

        The records are verified. A chunk has no gaps inside; it begins later than *from_offset* if
        retention or damage removed records, and may then be empty with a larger next offset: read
        on from that.

        Args:
            from_offset: The first wanted record.
            bytes_max: About how long the chunk may be, bytes. At least one record is returned if
                there is one, of any length (at most ``BODY_BYTES_MAX``).

        Returns:
            The chunk, and where to read on. ``(b"", from_offset)`` at the durable end.

        Raises:
            LogUnavailableError: The files cannot be read.
        """
        end = self._end.read()
        if from_offset >= end:
            return b"", from_offset
        place = self._place
        try:
            if place.offset != from_offset:
                place.seek(min(max(from_offset, self.start()), end), end)
            chunk = place.take(end, bytes_max)
        except OSError as error:
            raise unavailable(error, self._folder, "read") from error
        return chunk, place.offset

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yield the records with ``from_offset <= offset < to_offset``, at most to the durable end.

        The end is read once, with the first record. Damage is skipped.

        Raises:
            LogUnavailableError: The files cannot be read.
        """
        for chunk, _, _ in self._chunks(from_offset, to_offset, bodies=True):
            yield from iter_frames(chunk, verify=False)

    def kinds(self, from_offset: int, to_offset: int, kind: int) -> Iterator[Logged]:
        """As ``read``, but yield only records of *kind*, at the cost of reading headers.

        Bodies of other kinds are not verified, so this does not find damage in them.
        """
        for chunk, segment, origin in self._chunks(from_offset, to_offset, bodies=False):
            for position, header in iter_kind(chunk, kind):
                start = position + HEADER_BYTES
                body = chunk[start : start + header.length]
                if body_fits(header, body):
                    yield Logged(header.offset, header.time_ms, header.checksum, kind, body)
                else:
                    self._note(self._damaged_body(header, segment, origin + position))

    def offset_at(self, time_ms: int) -> int:
        """Return the offset of the first record that was appended at *time_ms* or later.

        The durable end if all are older, the oldest retained record if all are younger.

        Args:
            time_ms: Milliseconds since 1970. Record times never go back within a partition.

        Raises:
            LogUnavailableError: The files cannot be read.
        """
        end = self.durable_end()
        cursor = self._cursor()
        try:
            cursor.seek(min(max(self._older_than(time_ms, end), self.start()), end), end)
            while chunk := cursor.take(end, SCAN_RECORDS_BYTES, bodies=False):
                for logged in iter_frames(chunk, verify=False):
                    if logged.time_ms >= time_ms:
                        return logged.offset
        except OSError as error:
            raise unavailable(error, self._folder, "read") from error
        finally:
            cursor.close()
        return end

    def route_snapshot(self) -> tuple[int, bytes] | None:
        """Return the routes in force below the oldest retained record: (offset, body) or None.

        Retention writes it before it deletes: apply it, then the route records from *offset* on.
        None: nothing was ever deleted, so the route records are complete.

        Raises:
            LogDamagedError: The snapshot cannot be read: restore the routes from the store.
            LogUnavailableError: The folder cannot be read.
        """
        cuts = self._list(SNAPSHOT_SUFFIX)
        if not cuts:
            return None
        path = self._folder / offset_name(cuts[-1], SNAPSHOT_SUFFIX)
        try:
            handle = self._disk.open(path)
            try:
                return cuts[-1], b"".join(self._pieces(handle, path, cuts[-1]))
            finally:
                self._disk.close(handle)
        except OSError as error:
            raise unavailable(error, path, "read the route snapshot") from error

    def _pieces(self, handle: int, path: Path, cut: int) -> Iterator[bytes]:
        """Yield the pieces of a route snapshot: the stamp of each is the number that follow."""
        position, left = 0, None
        while left != 0:
            header = parse_header(self._disk.pread(handle, HEADER_BYTES, position))
            start = position + HEADER_BYTES
            body = b"" if header is None else self._disk.pread(handle, header.length, start)
            if (
                header is None
                or (header.kind, header.offset) != (RecordKind.ROUTE_SNAPSHOT, cut)
                or left not in (None, header.stamp + 1)
                or not body_fits(header, body)
            ):
                raise LogDamagedError(f"{path} is not a route snapshot")
            yield body
            left = header.stamp
            position = start + header.length
        if self._disk.pread(handle, 1, position):
            raise LogDamagedError(f"{path} is longer than a route snapshot")

    def damages(self) -> tuple[Damage, ...]:
        """Return every stretch of damage that this reader has met, once each (the first 1,000)."""
        return tuple(self._damages.values())

    def _cursor(self) -> Cursor:
        return Cursor(self._disk, self._folder, self.partition, self._note)

    def _note(self, damage: Damage) -> None:
        if len(self._damages) < DAMAGES_MAX:
            self._damages.setdefault((damage.segment, damage.from_offset), damage)

    def _list(self, suffix: str = SEGMENT_SUFFIX) -> list[int]:
        try:
            return list_offsets(self._disk, self._folder, suffix)
        except OSError as error:
            raise unavailable(error, self._folder, "read") from error

    def _chunks(
        self, from_offset: int, to_offset: int, *, bodies: bool
    ) -> Iterator[tuple[bytes, str, int]]:
        """Yield chunks of intact records, each with its segment's name and its position there."""
        end = min(to_offset, self.durable_end())
        from_offset = max(from_offset, self.start())
        if from_offset >= end:
            return
        cursor = self._cursor()
        try:
            cursor.seek(from_offset, end)
            while chunk := cursor.take(end, READ_BYTES, bodies=bodies):
                yield chunk, *cursor.origin(len(chunk))
        except OSError as error:
            raise unavailable(error, self._folder, "read") from error
        finally:
            cursor.close()

    def _damaged_body(self, header: Header, segment: str, position: int) -> Damage:
        stop = position + HEADER_BYTES + header.length
        first, kind = header.offset, header.kind
        return Damage(self.partition, first, first + 1, segment, position, stop, kind)

    def _older_than(self, time_ms: int, end: int) -> int:
        """Return the offset of a record older than *time_ms*, close to the last such one, or 0."""
        for first in reversed(self._list()):
            if first >= end:
                continue
            try:
                segment = Segment(self._disk, self._folder, first)
            except FileNotFoundError:  # deleted by retention: nothing older is left
                break
            try:
                header = segment.first_header()
                if header is not None and header.time_ms < time_ms:
                    return segment.seek(lambda h: h.offset < end and h.time_ms < time_ms)[1]
            finally:
                segment.close()
        return 0
