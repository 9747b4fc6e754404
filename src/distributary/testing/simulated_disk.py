"""A disk in memory that can crash at every step, lose unsynced changes, and fail any call.

Callers: tests of code that uses ``log.Disk``. Hides the record of operations from which it builds
crash states.

The fault model, which is stricter than common file systems:

- A write, a truncation and an allocation may be lost, each independently, until the file is synced;
  the last write may be torn at any 512 byte boundary, at either end, or leave only its length.
- A name (created, renamed, removed) may be lost until its folder is synced.
- Shared words are never synced; the medium may hold any of their earlier values.
- After a failed sync of a file its bytes can be read, a later sync succeeds, and they are not on
  the medium. A failed sync of a folder can be repeated: names are in the file system's journal, and
  a file system with a failed journal stops altogether.
"""

import errno
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from distributary.core.lease import Lease
from distributary.core.log import Words
from distributary.testing.memory_lease import MemoryLeases

SECTOR_BYTES = 512
"""Unit that a medium writes atomically."""

_WORD = struct.Struct("=Q")


@dataclass(slots=True, eq=False)
class _Operation:
    """A change. ``durable_at`` is the step from which it is certainly on the medium."""

    what: str
    file: int
    path: Path
    apply: Callable[["SimulatedDisk"], None]
    folder: Path | None = None
    block: bytes = b""
    position: int = 0
    durable_at: float = math.inf
    forgotten: bool = False


class CrashState(NamedTuple):
    """A possible state of the medium after a crash.

    Attributes:
        step: The crash follows this step of the recorded disk (``SimulatedDisk.step``).
        what: A description for a failure message.
        disk: A disk in this state.
    """

    step: int
    what: str
    disk: "SimulatedDisk"


class _Words:
    """Shared words over the bytes of a simulated file."""

    def __init__(self, disk: "SimulatedDisk", file: int, path: Path) -> None:
        self._disk, self._file, self._path = disk, file, path

    def __getitem__(self, index: int, /) -> int:
        word: int = _WORD.unpack_from(self._disk.files[self._file], index * _WORD.size)[0]
        return word

    def __setitem__(self, index: int, word: int, /) -> None:
        self._disk.write(self._file, self._path, _WORD.pack(word), index * _WORD.size)

    def close(self) -> None:
        """Nothing to unmap."""


class Medium(NamedTuple):
    """The initial content of a disk, which copies it.

    Attributes:
        files: Content by file number.
        names: Paths of files, with their numbers.
        folders: Paths of folders.
    """

    files: Mapping[int, bytes | bytearray]
    names: Mapping[Path, int]
    folders: AbstractSet[Path]


EMPTY = Medium({}, {}, frozenset({Path("/")}))
"""A root folder and nothing in it."""


class SimulatedDisk:
    """A ``log.Disk`` in memory.

    Attributes:
        files: Content that processes read, by file number.
        names: Paths of files, with their numbers.
        folders: Paths of folders.
        calls: Number of calls that can fail.
    """

    def __init__(self, medium: Medium = EMPTY) -> None:
        """Start with *medium*, and record all operations."""
        self.files = {number: bytearray(content) for number, content in medium.files.items()}
        self.names = dict(medium.names)
        self.folders = set(medium.folders)
        self.calls = 0
        self._medium = Medium(
            {number: bytes(content) for number, content in medium.files.items()},
            dict(medium.names),
            frozenset(medium.folders),
        )
        self._handles: dict[int, tuple[int, Path]] = {}
        self._leases = MemoryLeases()
        self._operations: list[_Operation] = []
        self._steps = 0
        self._step_of: list[int] = []
        self._next_number = max(self.files, default=0)
        self._fail_at = 0
        self._fail_to = 0
        self._error = 0
        self._filter: Callable[[str], bool] = lambda _: True

    # Faults

    def fail(
        self,
        call: int,
        error: int,
        *,
        times: int = 1,
        only: Callable[[str], bool] | None = None,
    ) -> None:
        """Make calls fail.

        Args:
            call: The first call that fails, counted from now, from 1.
            error: The ``errno``; 0 makes a write short by half instead of failing.
            times: Number of consecutive calls that fail.
            only: Names of calls that count (``pwrite``); default: all.
        """
        self.calls = 0
        self._fail_at, self._fail_to, self._error = call, call + times, error
        self._filter = only or (lambda _: True)

    def heal(self) -> None:
        """Stop failing calls."""
        self._fail_at = self._fail_to = 0

    def kill(self) -> None:
        """Kill the process, not the machine: drops locks and handles, keeps the bytes.

        Injected faults stay.
        """
        self._leases = MemoryLeases()
        self._handles.clear()

    @property
    def step(self) -> int:
        """Number of changes and syncs so far: record it with each promise."""
        return self._steps

    def power_cut(self) -> "SimulatedDisk":
        """Returns a disk with only what is certainly on the medium."""
        return self._replay([op for op in self._operations if op.durable_at <= self._steps])

    def crash_states(self) -> Iterator[CrashState]:
        """Yields every state that the fault model allows after every step, with one fault each."""
        for step in range(1, self._steps + 1):
            before = [
                op for op, at in zip(self._operations, self._step_of, strict=True) if at <= step
            ]
            pending = [op for op in before if op.durable_at > step]
            yield CrashState(step, "all of it", self._replay(before))
            if not pending:
                continue
            durable = [op for op in before if op.durable_at <= step]
            yield CrashState(step, "what was synced", self._replay(durable))
            for lost in pending:
                rest = [op for op in before if op is not lost]
                what = f"all but {lost.what} {lost.path.name}"
                yield CrashState(step, what, self._replay(rest))
                only = [op for op in before if op.durable_at <= step or op is lost]
                what = f"what was synced and {lost.what} {lost.path.name}"
                yield CrashState(step, what, self._replay(only))
            if pending[-1] is before[-1] and pending[-1].what == "write":
                yield from self._torn(step, before)

    def content(self, path: Path) -> bytearray:
        """Returns the bytes of *path*, to inspect or to damage in place."""
        return self.files[self.names[path]]

    def copy(self) -> "SimulatedDisk":
        """Returns a disk with the current bytes, without history."""
        return SimulatedDisk(Medium(self.files, self.names, self.folders))

    # The port

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        """A handle."""
        self._call("open")
        if path not in self.names:
            if not (create and write):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._folder(path.parent)
            number = self._number()
            self._change("create", number, path, _create(path, number), folder=path.parent)
        handle = self._number()
        self._handles[handle] = (self.names[path], path)
        return handle

    def close(self, handle: int) -> None:
        """Forget a handle."""
        del self._handles[handle]

    def size(self, handle: int) -> int:
        """Length, bytes."""
        return len(self.files[self._handles[handle][0]])

    def pread(self, handle: int, length: int, position: int) -> bytes:
        """Bytes as processes see them."""
        self._call("pread")
        return bytes(self.files[self._handles[handle][0]][position : position + length])

    def pwrite(self, handle: int, block: memoryview, position: int) -> int:
        """Write; a write that fails has written the first half."""
        number, path = self._handles[handle]
        half = len(block) // 2
        try:
            short = self._call("pwrite")
        except OSError:
            self.write(number, path, bytes(block[:half]), position)
            raise
        taken = max(half, 1) if short else len(block)
        self.write(number, path, bytes(block[:taken]), position)
        return taken

    def truncate(self, handle: int, length: int) -> None:
        """Cut."""
        self._call("truncate")
        number, path = self._handles[handle]
        self._change("truncate", number, path, _resize(number, length, shrink=True))

    def fallocate(self, handle: int, length: int) -> None:
        """Grow with zeros."""
        self._call("fallocate")
        number, path = self._handles[handle]
        self._change("fallocate", number, path, _resize(number, length, shrink=False))

    def fdatasync(self, handle: int) -> None:
        """The file's changes are durable; when this fails they never will be."""
        number = self._handles[handle][0]
        mine = [op for op in self._operations if op.file == number and op.folder is None]
        self._sync("fdatasync", mine)

    def rename(self, source: Path, target: Path) -> None:
        """Rename within a folder."""
        self._call("rename")
        assert source.parent == target.parent
        number = self.names[source]
        self._change("rename", number, target, _rename(source, target), folder=target.parent)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        self._call("unlink")
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._change("unlink", self.names[path], path, _unlink(path), folder=path.parent)

    def mkdir(self, path: Path) -> None:
        """Make folders, each durable in the one above."""
        for folder in reversed([path, *path.parents]):
            if folder not in self.folders:
                self._call("mkdir")
                self._change("mkdir", 0, folder, _mkdir(folder), folder=folder.parent)
                self.fsync_dir(folder.parent)

    def fsync_dir(self, path: Path) -> None:
        """The folder's names are durable; when this fails it can be tried again."""
        self._sync("fsync_dir", [op for op in self._operations if op.folder == path])

    def listdir(self, path: Path) -> Sequence[str]:
        """Names of files and folders."""
        self._call("listdir")
        self._folder(path)
        return [name.name for name in (*self.names, *self.folders) if name.parent == path]

    def map_words(self, path: Path, *, write: bool = False) -> Words:
        """Words over the file's first bytes."""
        handle = self.open(path, write=write, create=write)
        number, _ = self._handles[handle]
        try:
            if write and len(self.files[number]) < 2 * _WORD.size:
                self.write(number, path, bytes(2 * _WORD.size), 0)
                self.fdatasync(handle)
        finally:
            self.close(handle)
        return _Words(self, number, path)

    def lock(self, path: Path) -> Lease:
        """Own a name."""
        self._call("lock")
        self._folder(path.parent)
        return self._leases.take(str(path))

    def write(self, number: int, path: Path, block: bytes, position: int) -> None:
        """Change bytes of a file (words come here too)."""
        if block:
            self._change("write", number, path, _write(number, block, position))
            self._operations[-1].block = block
            self._operations[-1].position = position

    # Within

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _folder(self, path: Path) -> None:
        if path not in self.folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def _call(self, name: str) -> bool:
        """Count a call; raises where it is to fail. True: a write is to be short."""
        if not self._filter(name):
            return False
        self.calls += 1
        if not self._fail_at <= self.calls < self._fail_to:
            return False
        if self._error:
            raise OSError(self._error, os.strerror(self._error))
        return True

    def _change(
        self,
        what: str,
        number: int,
        path: Path,
        apply: Callable[["SimulatedDisk"], None],
        *,
        folder: Path | None = None,
    ) -> None:
        apply(self)
        self._steps += 1
        self._operations.append(_Operation(what, number, path, apply, folder))
        self._step_of.append(self._steps)

    def _sync(self, name: str, operations: list[_Operation]) -> None:
        pending = [op for op in operations if op.durable_at == math.inf and not op.forgotten]
        try:
            self._call(name)
        except OSError:
            for op in pending:
                op.forgotten = name == "fdatasync"
            raise
        self._steps += 1
        for op in pending:
            op.durable_at = self._steps

    def _torn(self, step: int, before: list[_Operation]) -> Iterator[CrashState]:
        """The last write cut at each sector, from either end, and its length without its bytes."""
        last = before[-1]
        first = SECTOR_BYTES - last.position % SECTOR_BYTES
        for cut in range(first, len(last.block), SECTOR_BYTES):
            head = _write(last.file, last.block[:cut], last.position)
            tail = _write(last.file, last.block[cut:], last.position + cut)
            for what, piece in (("first", head), ("last", tail)):
                state = self._replay(before[:-1])
                piece(state)
                yield CrashState(step, f"a write torn at {cut}: the {what} part", state.copy())
        state = self._replay(before[:-1])
        _write(last.file, bytes(len(last.block)), last.position)(state)
        yield CrashState(step, "a write's length without its bytes", state.copy())

    def _replay(self, operations: list[_Operation]) -> "SimulatedDisk":
        disk = SimulatedDisk(self._medium)
        for op in operations:
            op.apply(disk)
        for number in set(disk.names.values()):
            disk.files.setdefault(number, bytearray())
        reachable = {path for path in disk.folders if set(path.parents) <= disk.folders}
        disk.folders = reachable
        disk.names = {path: n for path, n in disk.names.items() if path.parent in reachable}
        return disk.copy()


def _create(path: Path, number: int) -> Callable[[SimulatedDisk], None]:
    def apply(disk: SimulatedDisk) -> None:
        disk.names[path] = number
        disk.files.setdefault(number, bytearray())

    return apply


def _rename(source: Path, target: Path) -> Callable[[SimulatedDisk], None]:
    def apply(disk: SimulatedDisk) -> None:
        if source in disk.names:
            disk.names[target] = disk.names.pop(source)

    return apply


def _unlink(path: Path) -> Callable[[SimulatedDisk], None]:
    def apply(disk: SimulatedDisk) -> None:
        disk.names.pop(path, None)

    return apply


def _mkdir(path: Path) -> Callable[[SimulatedDisk], None]:
    def apply(disk: SimulatedDisk) -> None:
        disk.folders.add(path)

    return apply


def _write(number: int, block: bytes, position: int) -> Callable[[SimulatedDisk], None]:
    def apply(disk: SimulatedDisk) -> None:
        content = disk.files.setdefault(number, bytearray())
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        content[position : position + len(block)] = block

    return apply


def _resize(number: int, length: int, *, shrink: bool) -> Callable[[SimulatedDisk], None]:
    def apply(disk: SimulatedDisk) -> None:
        content = disk.files.setdefault(number, bytearray())
        if shrink:
            del content[length:]
        if len(content) < length:
            content.extend(bytes(length - len(content)))

    return apply
