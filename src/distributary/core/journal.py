"""The outcome journal: which deliveries of one partition are done, and the cursor.

One append-only file a partition. A frame says: *every match below the watermark is done*
(that is the cursor), *and so are these matches above it*. Both stand in one frame under one
checksum, so the order that DESIGN rule 1 asks for (outcome first, then cursor) cannot be
broken by a crash: a frame is there or it is not.

A frame also carries the checksum of the last record below its watermark. If the medium lost
a tail of the log and positions were used again, that checksum no longer fits; ``recover``
then goes back to the newest frame that does fit. Outcomes carry the checksum of their own
record for the same reason.
"""

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import sync_folder
from distributary.core.flow import DoneKey, Mark

_HEADER = struct.Struct("<4sII")
_MAGIC = b"DOJ1"
_FRAME_BYTES_MAX = 64 * 1024 * 1024
"""A frame longer than this is damage: a frame holds what finished in 10 ms, or one compaction."""
_FRAME_MATCHES_MAX = 50_000
"""Matches in one frame of a rewritten journal: 5 MiB, far from what would pass for damage."""
COMPACT_BYTES = 4 * 1024 * 1024
"""The journal is rewritten when it grows past this: reading 4 MiB at a start takes some 50 ms."""
MARKS_KEPT = 256
"""Watermarks that a rewritten journal keeps, to go back to when the log lost its tail."""


@dataclass(slots=True)
class JournalState:
    """What a journal says.

    Attributes:
        marks: Cursors, oldest first.
        done: Matches that are done, with the checksum of their record: all of those at or above
            the newest cursor, and some below it. Void where the record has another checksum.
    """

    marks: list[Mark] = field(default_factory=list)
    done: dict[DoneKey, int] = field(default_factory=dict)

    @property
    def mark(self) -> Mark:
        """The newest cursor."""
        return self.marks[-1] if self.marks else Mark(0, 0)


class Files(Protocol):
    """The calls the journal makes on the medium: those of ``os``, or of tests that fail one."""

    def write(self, fd: int, payload: memoryview, /) -> int:
        """Write; may be short."""

    def fdatasync(self, fd: int, /) -> None:
        """Return when what was written is on the medium."""


def _frame(mark: Mark, done: Iterable[tuple[DoneKey, int]]) -> bytes:
    body = msgspec.msgpack.encode(
        [mark.offset, mark.checksum, [[k.offset, k.index, k.route, crc] for k, crc in done]]
    )
    return _HEADER.pack(_MAGIC, len(body), zlib.crc32(body)) + body


_body_decoder = msgspec.msgpack.Decoder(tuple[int, int, list[tuple[int, int, str, int]]])


def _frames(content: bytes) -> Iterable[tuple[Mark, list[tuple[int, int, str, int]], int]]:
    """Whole frames from the start of *content*, each with the place where it ends.

    Stops at the first bytes that are no frame: a journal is written in order and synced
    frame by frame, so what comes after damage was never acted upon as durable.
    """
    at = 0
    while at + _HEADER.size <= len(content):
        magic, length, checksum = _HEADER.unpack_from(content, at)
        start = at + _HEADER.size
        if magic != _MAGIC or length > _FRAME_BYTES_MAX or start + length > len(content):
            return
        body = content[start : start + length]
        if zlib.crc32(body) != checksum:
            return
        try:
            offset, crc, done = _body_decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        at = start + length
        yield Mark(offset, crc), done, at


def read_journal(path: Path) -> tuple[JournalState, int]:
    """What the journal at *path* says, and the length of its whole part in bytes.

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
    for mark, done, end in _frames(content):
        state.marks.append(mark)
        for offset, index, route, crc in done:
            state.done[DoneKey(offset, index, route)] = crc
        length = end
    return state, length


def fit(state: JournalState, fits: Callable[[Mark], bool]) -> JournalState:
    """The part of *state* that fits the log: up to the newest cursor that stands in it.

    Args:
        state: What the journal says.
        fits: Whether the record below a cursor is (still) the one that the cursor knew.

    Returns:
        *state* itself in the ordinary case. After the log lost a tail: a state that ends at an
        older cursor; what was done between is delivered again rather than lost.
    """
    for count in range(len(state.marks), 0, -1):
        mark = state.marks[count - 1]
        if mark.checksum == 0 or fits(mark):
            return (
                state
                if count == len(state.marks)
                else JournalState(state.marks[:count], state.done)
            )
    return JournalState([], state.done) if state.marks else state


def _needed(
    done: dict[DoneKey, int], mark: Mark, backfilling: Mapping[str, int]
) -> dict[DoneKey, int]:
    """The matches that a restart at *mark* may still ask about."""
    return {
        key: crc
        for key, crc in done.items()
        if key.offset >= min(mark.offset, backfilling.get(key.route, mark.offset))
    }


def unfenced() -> None:
    """A fence that lets everybody write: of one who holds nothing, as in tests and tools."""


class Journal:
    """The journal of one partition, open for its one owner (who holds the owner's lock).

    ``record`` is blocking and made for a thread beside the event loop. After any error the
    journal is dead: an fsync that failed is never tried again on the same file (DESIGN
    promise 1); open it anew, which reads what the medium kept.

    Args:
        path: The file; made when it is missing.
        files: The calls on the medium.
        fence: Called before each write; raises where another owner has the partition.
    """

    def __init__(self, path: Path, files: Files = os, fence: Callable[[], None] = unfenced) -> None:
        self._path = path
        self._fence = fence
        self._files = files
        self.state, self._bytes = read_journal(path)
        self._compact_at = COMPACT_BYTES
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
        """Make *state* what the journal says: after ``fit`` went back, and to keep it small.

        Written beside and renamed, so a crash leaves the old journal or the new one.
        """
        self._fence()
        self.state = state
        marks = state.marks[-MARKS_KEPT:] or [Mark(0, 0)]
        content = b"".join(_frame(mark, ()) for mark in marks[:-1])
        entries = list(state.done.items())
        for start in range(0, max(len(entries), 1), _FRAME_MATCHES_MAX):
            content += _frame(marks[-1], entries[start : start + _FRAME_MATCHES_MAX])
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
    ) -> None:
        """Make a cursor and the matches done above it durable; returns when they are.

        Idempotent: recording the same again changes nothing.

        Args:
            mark: The new cursor.
            done: What finished since the last call and is not covered by a cursor.
            backfilling: For each backfilled route the lowest offset that it has yet to do. A match
                below the cursor is remembered for its own route alone: one route that is backfilled
                for hours must not keep the outcomes of all others.

        Raises:
            StoreError: The medium refused. Nothing of this call counts; the journal is dead.
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
        frame = _frame(mark, done)
        try:
            self._write(self._fd, frame)
            self._files.fdatasync(self._fd)
        except OSError as error:
            raise self._die(error) from error
        self._bytes += len(frame)
        if self._bytes > self._compact_at:
            state.done = _needed(state.done, mark, backfilling)
            if sum(64 + len(key.route) for key in state.done) < self._compact_at // 2:
                self.restart_at(state)
                self._compact_at = max(COMPACT_BYTES, 2 * self._bytes)
            else:
                # Nearly all of it is needed. To look again at each frame would cost more and
                # more; to look at twice the size costs a constant share.
                self._compact_at = 2 * self._bytes

    def _write(self, fd: int, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[self._files.write(fd, view) :]

    def _die(self, error: OSError) -> StoreError:
        self._dead = str(error)
        return StoreError(f"the outcome journal {self._path} cannot be written: {error}")

    def close(self) -> None:
        """Close the file; what was recorded stays."""
        os.close(self._fd)
        self._dead = "closed"


def _reserve(fd: int, length: int) -> None:
    """Allocate what the journal will grow into.

    A sync of data inside a file's length is cheaper than one that has to record a new length.
    Zeros are no frame, so a reader stops there.
    """
    with contextlib.suppress(OSError):  # A full disk says so when something is written.
        os.posix_fallocate(fd, length, COMPACT_BYTES)
