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
import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from distributary.core.errors import StoreError
from distributary.core.files import sync_folder
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal_blocks import blocks_of, content_of
from distributary.core.journal_damage import Salvage, salvage
from distributary.core.journal_frames import Frame, HistoryBlock, decode_frames, encode_frame

FRAME_MATCHES_MAX = 50_000
"""Matches in one frame of a journal that is rewritten, or learns of many: 5 MiB, far below
``FRAME_BYTES_MAX``."""
COMPACT_BYTES = 4 * 1024 * 1024
"""The journal is rewritten when it grows past this: reading 4 MiB at a start takes some 50 ms."""
MARKS_KEPT = 256
"""Cursors that a rewritten journal keeps, to go back to if the log loses its tail."""

DAMAGED_SUFFIX: Final = ".damaged"
"""Ends the name under which the newest damaged journal is kept, for people."""
NO_ROWS: Final = 0, b""
"""No row of the history."""


@dataclass(slots=True)
class JournalState:
    """The content of a journal.

    Attributes:
        marks: Cursors, oldest first.
        done: Matches that are done, with the checksum of their record: all of those at or above
            the newest cursor, and some below it. Void if the record has another checksum.
        blocks: Rows of the history that files may not hold yet, in order.
        filed: Number of the first row that files may not hold yet.
        rows_from: No new row of the history has a lower number.
    """

    marks: list[Mark] = field(default_factory=list)
    done: dict[DoneKey, int] = field(default_factory=dict)
    blocks: list[HistoryBlock] = field(default_factory=list)
    filed: int = 0
    rows_from: int = 0

    @property
    def mark(self) -> Mark:
        """The newest cursor."""
        return self.marks[-1] if self.marks else Mark(0, 0)

    @property
    def history_end(self) -> int:
        """Number of the next row of the history."""
        return max(self.blocks[-1].end if self.blocks else self.filed, self.rows_from)

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


def read_journal(path: Path) -> tuple[JournalState, int]:
    """Read the journal at *path*; return its state, and the length of its whole part in bytes.

    A missing file is an empty journal. Any bytes are accepted: the whole frames count, also those
    behind damage.
    """
    frames, _ = _read(path)
    return _state_of(frames), _end_of(frames)


def read_intact_journal(path: Path) -> tuple[JournalState, int]:
    """Read the journal at *path* as ``read_journal``, for a copy that must say all that it said.

    Raises:
        StoreError: It is damaged.
    """
    frames, damage = _read(path)
    if damage is not None:
        raise StoreError(
            f"the outcomes of deliveries in {path.name} are damaged from byte {damage.start:,}"
            f" to {damage.end:,}"
        )
    return _state_of(frames), _end_of(frames)


def _read(path: Path) -> Salvage:
    return salvage(content_of(path))


def _end_of(frames: Sequence[Frame]) -> int:
    return frames[-1].end if frames else 0


def state_of_frames(contents: Iterable[bytes]) -> tuple[JournalState, int]:
    """Return what frames say that a database keeps one by one, and their length in bytes.

    Raises:
        StoreError: One of them is no whole frame: unlike the end of a file, each was durable.
    """
    frames: list[Frame] = []
    length = 0
    for content in contents:
        found = list(decode_frames(content))
        if not found or found[-1].end != len(content):
            raise StoreError(f"frame {len(frames) + 1} of the outcomes is damaged")
        frames += found
        length += len(content)
    return _state_of(frames), length


def _state_of(frames: Sequence[Frame]) -> JournalState:
    state = JournalState()
    for frame in frames:
        state.marks.append(frame.mark)
        for offset, index, route, crc in frame.done:
            state.done[DoneKey(offset, index, route)] = crc
    state.blocks, state.filed = blocks_of(
        (frame.filed, frame.block) for frame in frames if frame.block is not None
    )
    return state


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


class Recorder:
    """The next frame, and the frames that replace all before it; knows no medium.

    Args:
        state: What the frames so far say; each ``frame`` changes it.
        length: Of those frames, bytes.
        rows_from: No new row of the history has a lower number. By the clock, in microseconds, it
            is above all that an owner before has used, also where the medium has lost the newest
            frames: a row takes longer than that.

    Attributes:
        state: With every frame that was made.
        length: Of the frames that are kept, bytes.
    """

    def __init__(self, state: JournalState, length: int, rows_from: int = 0) -> None:
        self.state = state
        self.length = length
        if not state.history_end:
            state.filed = rows_from
        state.rows_from = max(state.rows_from, rows_from)
        self._compact_at = COMPACT_BYTES
        self._remembered_max = _remembered_min()

    def frame(
        self,
        mark: Mark,
        done: Iterable[tuple[DoneKey, int]],
        history: tuple[int, bytes] = NO_ROWS,
        filed: int = 0,
    ) -> bytes:
        """Take note of a cursor and what comes with it, and return their frame."""
        state = self.state
        state.done.update(done)
        if not state.marks or mark != state.marks[-1]:
            state.marks.append(mark)
            if len(state.marks) > 8 * MARKS_KEPT:
                del state.marks[:-MARKS_KEPT]
        block = None
        if history[0] or filed > state.filed:
            block = state.add_history(*history, filed)
        return encode_frame(mark, done, state.filed, block)

    def grown(self, length: int, backfilling: Mapping[str, int] | None) -> bool:
        """Note that a frame of *length* bytes is kept; True if all is to be ``rewritten``.

        Args:
            length: Of the frame.
            backfilling: As in ``Journal.record``.
        """
        self.length += length
        if backfilling is None:
            return False
        state = self.state
        if self.length > self._compact_at or len(state.done) > self._remembered_max:
            state.done = _needed(state.done, state.mark, backfilling)
            self._remembered_max = max(_remembered_min(), 2 * len(state.done))
        if self.length <= self._compact_at:
            return False
        needed = sum(64 + len(key.route) for key in state.done)
        if needed + sum(len(block.rows) for block in state.blocks) < self._compact_at // 2:
            return True
        # Nearly all of it is needed: to compact at each frame would cost more and more; at
        # double the size the cost is a constant share.
        self._compact_at = 2 * self.length
        return False

    def rewritten(self, state: JournalState) -> list[bytes]:
        """Go on from *state*; return the frames that say it, instead of all before."""
        self.state = state
        marks = state.marks[-MARKS_KEPT:] or [Mark(0, 0)]
        frames = [encode_frame(mark, ()) for mark in marks[:-1]]
        entries = list(state.done.items())
        frames += [
            encode_frame(marks[-1], entries[start : start + FRAME_MATCHES_MAX])
            for start in range(0, max(len(entries), 1), FRAME_MATCHES_MAX)
        ]
        if state.history_end:
            # Without rows too: numbers of rows are never used again.
            blocks = state.blocks or [HistoryBlock(state.history_end, 0, b"")]
            frames += [encode_frame(marks[-1], (), state.filed, block) for block in blocks]
        self.length = sum(map(len, frames))
        self._compact_at = max(COMPACT_BYTES, 2 * self.length)
        state.marks = list(marks)
        return frames


class Journal:
    """The journal of one partition, open for its only writer (the holder of the partition's lease).

    ``record`` blocks, and is made for a thread beside the event loop. After any error the journal
    is dead: a failed fsync is never retried on the same file (promise 1, durability of
    acknowledged events); open it anew, which reads what the medium kept.

    Args:
        path: The file; made if it is missing.
        files: The calls on the medium.
        fence: Called before each write; raises if another process has the partition.
        rows_from: No new row of the history has a lower number; see ``Recorder``.

    Attributes:
        damage: What the file had when it was opened; None: nothing. Frames behind it count, what
            was lost with it is done again. The file is kept under another name and made anew.
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
        frames, self.damage = _read(path)
        self._recorder = Recorder(_state_of(frames), _end_of(frames), rows_from)
        self._dead: str | None = None
        last = frames[-1] if frames else None
        if self.damage is not None:
            self._make_anew()
            last = None  # All of the new file is on the medium.
        self._fd = self._open(self._recorder.length, last)

    @property
    def state(self) -> JournalState:
        """What is recorded."""
        return self._recorder.state

    def _open(self, length: int, last: Frame | None) -> int:
        if last is not None:
            self._fence()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._not_opened(error) from error
        try:
            os.ftruncate(fd, length)
            _reserve(fd, length, needed=True)
            os.lseek(fd, length, os.SEEK_SET)
            if last is not None:
                self._make_durable(fd, last)
            sync_folder(self._path.parent)
        except OSError as error:
            os.close(fd)
            raise self._not_opened(error) from error
        return fd

    def _make_durable(self, fd: int, last: Frame) -> None:
        """Write the last frame again where it lies, and sync it.

        It may be in the page cache alone: its owner was killed before the sync, or the sync failed.
        Then the kernel has marked its pages clean, and a later sync would report success without
        them: all frames from then on would lie behind a hole.
        """
        content = os.pread(fd, last.end - last.start, last.start)
        os.lseek(fd, last.start, os.SEEK_SET)
        self._write(fd, content)
        self._files.fdatasync(fd)

    def _not_opened(self, error: OSError) -> StoreError:
        return StoreError(f"cannot open the outcome journal {self._path}: {error}")

    def restart_at(self, state: JournalState) -> None:
        """Replace the journal's content by *state*: after ``fit`` went back, and to keep it small.

        Written beside and renamed, so a crash leaves the old journal or the new one.
        """
        fd = self._replace(state)
        os.close(self._fd)
        self._fd = fd

    def _make_anew(self) -> None:
        """Keep the damaged file for people, and replace it by what its whole frames say."""
        self._fence()
        kept = self._path.with_name(self._path.name + DAMAGED_SUFFIX)
        with contextlib.suppress(OSError):  # Where no file can be linked, nothing is kept.
            kept.unlink(missing_ok=True)
            kept.hardlink_to(self._path)
        os.close(self._replace(self.state))

    def _replace(self, state: JournalState) -> int:
        """Replace the file by one that says *state*; return a descriptor at its end."""
        self._fence()
        content = b"".join(self._recorder.rewritten(state))
        beside = self._path.with_suffix(".new")
        with contextlib.ExitStack() as failed:
            try:
                fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                failed.callback(os.close, fd)
                self._write(fd, content)
                _reserve(fd, len(content))
                self._files.fdatasync(fd)
                beside.rename(self._path)
                sync_folder(self._path.parent)
            except OSError as error:
                raise self._die(error) from error
            failed.pop_all()
        return fd

    def record(
        self,
        mark: Mark,
        done: Iterable[tuple[DoneKey, int]],
        backfilling: Mapping[str, int] | None = None,
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
                must not keep the outcomes of all others. The rows of backfills must be durable as
                far as this says, since a restart looks up what they still have to do. None: not
                known, or not durable yet; nothing is forgotten.
            history: How many rows of the history come with it, and their encoding.
            filed: Number of the first row that files may not hold yet.

        Raises:
            StoreError: The medium failed. Nothing of this call counts; the journal is dead.
        """
        if self._dead is not None:
            raise StoreError(f"the outcome journal {self._path} failed before: {self._dead}")
        self._fence()
        frame = self._recorder.frame(mark, done, history, filed)
        try:
            self._write(self._fd, frame)
            self._files.fdatasync(self._fd)
        except OSError as error:
            raise self._die(error) from error
        if self._recorder.grown(len(frame), backfilling):
            self.restart_at(self.state)

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


def _reserve(fd: int, length: int, *, needed: bool = False) -> None:
    """Preallocate the journal's growth.

    A sync of data inside a file's length is cheaper than one that changes the length. Zeros are
    no frame, so a reader stops there.

    Args:
        fd: The file.
        length: Of its content, bytes.
        needed: Whether a full disk is an error: who has no space for outcomes must begin no
            attempts, which the next owner would repeat. Else it fails a later write.

    Raises:
        OSError: There is no space, and it is *needed*.
    """
    try:
        os.posix_fallocate(fd, length, COMPACT_BYTES)
    except OSError as error:
        if needed and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
