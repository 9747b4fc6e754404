"""The outcome journal of one partition: finished matches and the committed offset (cursor).

One append-only file a partition. A frame holds the cursor, below which every match is done, and the
matches done above it. Both are under one checksum, so a crash cannot break the order of DESIGN rule
1, the cursor (outcome first, then cursor): a frame is complete or ignored.

A frame also carries the checksum of the last record below its cursor. If the medium lost a tail of
the log and positions were reused, that checksum no longer fits; ``fit`` then goes back to the
newest frame that does. Outcomes carry the checksum of their own record for the same reason.

Rows of the history ride in the frame of their outcomes, numbered one by one, and stay in the
journal until a frame says that files of the history hold them: no kill loses one.
"""

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import sync_folder
from distributary.core.flow import DoneKey, Mark

_HEADER = struct.Struct("<4sII")
_MAGIC = b"DOJ1"
_MAGIC_HISTORY = b"DOJ2"
"""A frame whose body goes on with the history: rows below which files hold all, number of the first
row in the frame, how many, and their encoding. Without news of the history a frame is a ``DOJ1``,
which earlier versions read too."""
_FRAME_BYTES_MAX = 64 * 1024 * 1024
"""A longer frame is damage: a frame holds what finished in 10 ms, or one compaction."""
_FRAME_MATCHES_MAX = 50_000
"""Matches in one frame of a rewritten journal: 5 MiB, far below ``_FRAME_BYTES_MAX``."""
COMPACT_BYTES = 4 * 1024 * 1024
"""The journal is rewritten when it grows past this: reading 4 MiB at a start takes some 50 ms."""
MARKS_KEPT = 256
"""Cursors that a rewritten journal keeps, to go back to if the log loses its tail."""


NO_ROWS: Final = 0, b""
"""No row of the history."""


class HistoryBlock(NamedTuple):
    """Rows of the history that one frame carries.

    Attributes:
        first: Number of the first row.
        length: How many rows.
        rows: Their encoding (``history.rows``).
    """

    first: int
    length: int
    rows: bytes

    @property
    def end(self) -> int:
        """Number after the last row."""
        return self.first + self.length


@dataclass(slots=True)
class JournalState:
    """The content of a journal.

    Attributes:
        marks: Cursors, oldest first.
        done: Matches that are done, with the checksum of their record: all of those at or above
            the newest cursor, and some below it. Void if the record has another checksum.
        blocks: Rows of the history that files may not hold yet, in order.
        filed: Number of the first row that files may not hold yet.
    """

    marks: list[Mark] = field(default_factory=list)
    done: dict[DoneKey, int] = field(default_factory=dict)
    blocks: list[HistoryBlock] = field(default_factory=list)
    filed: int = 0

    @property
    def mark(self) -> Mark:
        """The newest cursor."""
        return self.marks[-1] if self.marks else Mark(0, 0)

    @property
    def history_end(self) -> int:
        """Number of the next row of the history."""
        return self.blocks[-1].end if self.blocks else self.filed

    def add_history(self, count: int, rows: bytes, filed: int) -> HistoryBlock:
        """Append a block of *count* rows and drop those below *filed*; returns the block."""
        block = HistoryBlock(self.history_end, count, rows)
        if count:
            self.blocks.append(block)
        self.file_history(filed)
        return block

    def file_history(self, filed: int) -> None:
        """Drop the blocks below the row *filed*, which files hold. A block is never divided."""
        if filed > self.filed:
            self.filed = filed
            self.blocks = [block for block in self.blocks if block.end > filed]


class Files(Protocol):
    """The calls the journal makes on the medium: those of ``os``, or of tests that fail one."""

    def write(self, fd: int, payload: memoryview, /) -> int:
        """Write; may be short."""

    def fdatasync(self, fd: int, /) -> None:
        """Sync; on return everything written is on the medium."""


class _Frame(NamedTuple):
    """One frame: the cursor, the matches done, and news of the history, if there are any.

    ``end`` is the position after it, in bytes.
    """

    mark: Mark
    done: list[tuple[int, int, str, int]]
    filed: int = 0
    block: HistoryBlock | None = None
    end: int = 0


def _frame(
    mark: Mark,
    done: Iterable[tuple[DoneKey, int]],
    filed: int = 0,
    block: HistoryBlock | None = None,
) -> bytes:
    body: list[object] = [
        mark.offset,
        mark.checksum,
        [[k.offset, k.index, k.route, crc] for k, crc in done],
    ]
    magic = _MAGIC
    if block is not None:
        magic = _MAGIC_HISTORY
        body += [filed, *block]
    encoded = msgspec.msgpack.encode(body)
    return _HEADER.pack(magic, len(encoded), zlib.crc32(encoded)) + encoded


_Done = list[tuple[int, int, str, int]]
_decoders: Final[dict[bytes, msgspec.msgpack.Decoder[tuple[Any, ...]]]] = {
    _MAGIC: msgspec.msgpack.Decoder(tuple[int, int, _Done]),
    _MAGIC_HISTORY: msgspec.msgpack.Decoder(tuple[int, int, _Done, int, int, int, bytes]),
}


def _frames(content: bytes) -> Iterable[_Frame]:
    """Yield whole frames from the start of *content*.

    Stops at the first bytes that are no frame: a journal is written in order and synced frame by
    frame, so nothing after damage was ever treated as durable.
    """
    at = 0
    while at + _HEADER.size <= len(content):
        magic, length, checksum = _HEADER.unpack_from(content, at)
        start = at + _HEADER.size
        decoder = _decoders.get(magic)
        if decoder is None or length > _FRAME_BYTES_MAX or start + length > len(content):
            return
        body = content[start : start + length]
        if zlib.crc32(body) != checksum:
            return
        try:
            offset, crc, done, *history = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        at = start + length
        if history:
            filed, *block = history
            yield _Frame(Mark(offset, crc), done, filed, HistoryBlock(*block), at)
        else:
            yield _Frame(Mark(offset, crc), done, end=at)


def read_journal(path: Path) -> tuple[JournalState, int]:
    """Read the journal at *path*; return its state, and the length of its whole part in bytes.

    A missing file is an empty journal. Any bytes are accepted: the whole frames count.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return JournalState(), 0
    except OSError as error:
        raise StoreError(f"cannot read the outcome journal {path}: {error}") from error
    state = JournalState()
    length = 0
    filed = 0
    for frame in _frames(content):
        state.marks.append(frame.mark)
        for offset, index, route, crc in frame.done:
            state.done[DoneKey(offset, index, route)] = crc
        if frame.block is not None:
            filed = max(filed, frame.filed)
            if frame.block.length:
                state.blocks.append(frame.block)
            elif not state.blocks:
                filed = max(filed, frame.block.first)
        length = frame.end
    state.file_history(filed)
    return state, length


def fit(state: JournalState, fits: Callable[[Mark], bool]) -> JournalState:
    """Return the part of *state* that fits the log: up to the newest cursor with a fitting record.

    Args:
        state: Of the journal.
        fits: Whether the record below a cursor is (still) the one that the cursor's checksum is of.

    Returns:
        Usually *state* itself. After the log lost a tail: a state that ends at an older cursor;
        matches done since are delivered again rather than lost.
    """
    for count in range(len(state.marks), 0, -1):
        mark = state.marks[count - 1]
        if mark.checksum == 0 or fits(mark):
            return state if count == len(state.marks) else replace(state, marks=state.marks[:count])
    return replace(state, marks=[]) if state.marks else state


def _needed(
    done: dict[DoneKey, int], mark: Mark, backfilling: Mapping[str, int]
) -> dict[DoneKey, int]:
    """Return the matches that a restart at *mark* may still look up."""
    return {
        key: crc
        for key, crc in done.items()
        if key.offset >= min(mark.offset, backfilling.get(key.route, mark.offset))
    }


def _remembered_min() -> int:
    """Matches that are remembered before those that nobody may ask for are looked for."""
    return COMPACT_BYTES // 32


def unfenced() -> None:
    """A fence that passes everybody, for tests and tools without a lease."""


class Journal:
    """The journal of one partition, open for its only writer (the holder of the partition's lease).

    ``record`` blocks, and is made for a thread beside the event loop. After any error the journal
    is dead: a failed fsync is never retried on the same file (promise 1, durability of
    acknowledged events); open it anew, which reads what the medium kept.

    Args:
        path: The file; made if it is missing.
        files: The calls on the medium.
        fence: Called before each write; raises if another process has the partition.
        rows_from: Number of the first row of the history, if the journal has had none.
    """

    def __init__(
        self,
        path: Path,
        files: Files = os,
        fence: Callable[[], None] = unfenced,
        rows_from: int = 0,
    ) -> None:
        self._path = path
        self._fence = fence
        self._files = files
        self.state, self._bytes = read_journal(path)
        if not self.state.history_end:
            self.state.filed = rows_from
        self._compact_at = COMPACT_BYTES
        self._remembered_max = _remembered_min()
        self._dead: str | None = None
        self._fd = self._open(self._bytes)

    def _open(self, length: int) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.ftruncate(fd, length)
            _reserve(fd, length)
            os.lseek(fd, length, os.SEEK_SET)
            sync_folder(self._path.parent)
        except OSError as error:
            raise StoreError(f"cannot open the outcome journal {self._path}: {error}") from error
        return fd

    def restart_at(self, state: JournalState) -> None:
        """Replace the journal's content by *state*: after ``fit`` went back, and to keep it small.

        Written beside and renamed, so a crash leaves the old journal or the new one.
        """
        self._fence()
        self.state = state
        marks = state.marks[-MARKS_KEPT:] or [Mark(0, 0)]
        content = b"".join(_frame(mark, ()) for mark in marks[:-1])
        entries = list(state.done.items())
        for start in range(0, max(len(entries), 1), _FRAME_MATCHES_MAX):
            content += _frame(marks[-1], entries[start : start + _FRAME_MATCHES_MAX])
        if state.history_end:
            # Without rows too: numbers of rows are never used again.
            blocks = state.blocks or [HistoryBlock(state.history_end, 0, b"")]
            content += b"".join(_frame(marks[-1], (), state.filed, block) for block in blocks)
        beside = self._path.with_suffix(".new")
        try:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._write(fd, content)
            _reserve(fd, len(content))
            self._files.fdatasync(fd)
            beside.rename(self._path)
            sync_folder(self._path.parent)
        except OSError as error:
            raise self._die(error) from error
        os.close(self._fd)
        self._fd = fd
        self._bytes = len(content)
        state.marks = list(marks)

    def record(
        self,
        mark: Mark,
        done: Iterable[tuple[DoneKey, int]],
        backfilling: Mapping[str, int] = MappingProxyType({}),
        *,
        history: tuple[int, bytes] = NO_ROWS,
        filed: int = 0,
    ) -> None:
        """Make a cursor and the matches done above it durable; blocks until they are.

        Idempotent but for the history: recording the same again changes nothing else.

        Args:
            mark: The new cursor.
            done: Matches that finished since the last call, above the cursor.
            backfilling: The lowest unfinished offset of each backfilled route. A match below the
                cursor is remembered only for its own route: one route that is backfilled for hours
                must not keep the outcomes of all others.
            history: How many rows of the history come with it, and their encoding.
            filed: Number of the first row that files may not hold yet.

        Raises:
            StoreError: The medium failed. Nothing of this call counts; the journal is dead.
        """
        if self._dead is not None:
            raise StoreError(f"the outcome journal {self._path} failed before: {self._dead}")
        self._fence()
        state = self.state
        state.done.update(done)
        if not state.marks or mark != state.marks[-1]:
            state.marks.append(mark)
            if len(state.marks) > 8 * MARKS_KEPT:
                del state.marks[:-MARKS_KEPT]
        block = None
        if history[0] or filed > state.filed:
            block = state.add_history(*history, filed)
        frame = _frame(mark, done, state.filed, block)
        try:
            self._write(self._fd, frame)
            self._files.fdatasync(self._fd)
        except OSError as error:
            raise self._die(error) from error
        self._bytes += len(frame)
        if self._bytes > self._compact_at or len(state.done) > self._remembered_max:
            state.done = _needed(state.done, mark, backfilling)
            self._remembered_max = max(_remembered_min(), 2 * len(state.done))
        if self._bytes > self._compact_at:
            needed = sum(64 + len(key.route) for key in state.done)
            if needed + sum(len(block.rows) for block in state.blocks) < self._compact_at // 2:
                self.restart_at(state)
                self._compact_at = max(COMPACT_BYTES, 2 * self._bytes)
            else:
                # Nearly all of it is needed: to compact at each frame would cost more and more; at
                # double the size the cost is a constant share.
                self._compact_at = 2 * self._bytes

    def _write(self, fd: int, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[self._files.write(fd, view) :]

    def _die(self, error: OSError) -> StoreError:
        self._dead = str(error)
        return StoreError(f"the outcome journal {self._path} cannot be written: {error}")

    def close(self) -> None:
        """Close the file; recorded frames stay."""
        os.close(self._fd)
        self._dead = "closed"


def _reserve(fd: int, length: int) -> None:
    """Preallocate the journal's growth.

    A sync of data inside a file's length is cheaper than one that changes the length. Zeros are
    no frame, so a reader stops there.
    """
    with contextlib.suppress(OSError):  # A full disk fails the next write instead.
        os.posix_fallocate(fd, length, COMPACT_BYTES)
