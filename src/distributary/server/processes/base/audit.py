"""The audit log: who did what to which object, from where, with what result. One JSON line each.

Each request for a change has one line, also where the control process refuses it, or a receiver for
who asks. Of those that change nothing, each identity has so many an hour (``ChangeLog``).
Lines hold names, never a body, a header field or a query: no secret. Reads and events have none:
a read changes nothing, and what became of events is in the history.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import structlog

from distributary.access import Change
from distributary.core.files import PRIVATE_MODE

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The file is put aside when it is larger: about 250,000 lines."""

FILES_MAX: Final = 8
"""Files kept: the current one, and those put aside; the oldest is deleted."""

TEXT_CHARS_MAX: Final = 512
"""Longest text in a line; a longer one is cut, so that a line is written at once."""

REFUSALS_PER_HOUR: Final = 2_000
"""Refusals of a receiver among the changes. At most 1.2 MiB an hour: whoever is refused all day
long pushes no change out of the files for two weeks."""

REFUSAL_FILES_MAX: Final = 2
"""Files kept of further refusals: a flood, of which the newest part is enough."""

UNCHANGED_PER_HOUR: Final = 200
"""Lines an hour and identity of requests that changed nothing: refused, or dry runs. Some 60 KB, or
0.4 MiB of the longest: they push no change out of the files for weeks."""

IDENTITIES_MAX: Final = 25
"""Identities with a number of their own in an hour; all further ones have one together. With
``UNCHANGED_PER_HOUR`` that is 1.5 MB an hour: no change is pushed out for two weeks."""

OTHERS: Final = "others"
"""Stands for the identities beyond ``IDENTITIES_MAX``."""

LEFT_OUT: Final = "left out"
"""What a line tells that stands for lines which were not written."""

HOUR_MS: Final = 3_600_000

_log = structlog.get_logger(__name__)


class AuditLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line.

    Attributes:
        time_ms: Wall-clock time of the result, milliseconds.
        who: Name of the identity.
        how: What showed it.
        what: Method or operation.
        object: Path of what was changed; of a new object its own path.
        origin: Address of the client; empty: unknown.
        status: HTTP status of the result.
        surface: ``http``, or that of ``Change``.
        node: Name of the node that says it, where several share log and store; else empty.
        dry_run: Nothing was changed, as the request asked.
        partly: It was refused, and something was changed before.
        left_out: How many lines this one stands for: *what* is ``LEFT_OUT`` then.
    """

    time_ms: int
    who: str
    how: str
    what: str
    object: str
    origin: str = ""
    status: int
    surface: str
    node: str = ""
    dry_run: bool = False
    partly: bool = False
    left_out: int = 0


class AuditLog:
    """Appends lines to a file. For one thread; several processes append to one file.

    A line that cannot be written is lost, with an error in the log of the server: a full disk must
    not stop an operator from mending it.

    Args:
        path: Path of the file; its folder exists.
        wall_ms: The wall clock, in milliseconds.
        file_bytes_max: Size above which it is put aside, by whichever process finds it so.
        files_max: Files kept, with the current one.
        node: Name of this node, where several share log and store; empty: it is none.
    """

    def __init__(
        self,
        path: Path,
        wall_ms: Callable[[], int],
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        files_max: int = FILES_MAX,
        node: str = "",
    ) -> None:
        self._node = node
        self._files_max = files_max
        self._path = path
        self._wall_ms = wall_ms
        self._file_bytes_max = file_bytes_max
        self._fd: int | None = None

    def write(self, line: AuditLine) -> None:
        """Append *line*; its time is set here."""
        line.time_ms, line.node = self._wall_ms(), self._node
        for name in ("who", "object", "origin", "what"):
            setattr(line, name, getattr(line, name)[:TEXT_CHARS_MAX])
        data = msgspec.json.encode(line) + b"\n"
        try:
            os.write(self._opened(len(data)), data)
        except OSError as error:
            _log.error("audit-failed", reason=error.strerror or str(error))
            self._close()

    def change(self, change: Change) -> None:
        """Append the line of *change*."""
        self.write(
            AuditLine(
                time_ms=0,
                who=change.sender.name,
                how=change.sender.how,
                what=change.operation,
                object=change.object,
                origin=change.origin,
                status=change.status,
                surface=change.surface,
            )
        )

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self, more_bytes: int) -> int:
        """The descriptor of the file, which has room for *more_bytes* or is put aside."""
        fd = self._fd
        if fd is not None:
            here = os.fstat(fd)
            if here.st_size + more_bytes > self._file_bytes_max:
                self._put_aside_once(fd, here)
            elif not self._is_at_path(here):  # another process has put it aside
                self._close()
        if self._fd is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, PRIVATE_MODE)
        return self._fd

    def _is_at_path(self, here: os.stat_result) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def _put_aside_once(self, fd: int, here: os.stat_result) -> None:
        """Put the file aside, unless another process does or has; while it does, write on."""
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed
            if self._is_at_path(here):
                self._put_aside()
            self._close()

    def _put_aside(self) -> None:
        """Rename ``audit.jsonl`` to ``audit.1.jsonl``, that to ``audit.2.jsonl``, and so on."""
        for number in range(self._files_max - 1, 0, -1):
            older = self._path.with_suffix(f".{number}.jsonl")
            newer = self._path.with_suffix(f".{number - 1}.jsonl") if number > 1 else self._path
            if newer.exists():
                newer.replace(older)


class ChangeLog(AuditLog):
    """An audit log in which requests that changed nothing push out none that did.

    Each identity has so many lines an hour for requests that were refused, or were dry runs. One
    line then says how many more there were, when the first line of another hour is written, or at
    the end. A change that took place, or may have, always has its line.
    """

    def __init__(self, path: Path, wall_ms: Callable[[], int], *, node: str = "") -> None:
        super().__init__(path, wall_ms, node=node)
        self._hour = 0
        self._unchanged: dict[str, int] = {}
        self._left_out: dict[str, AuditLine] = {}

    def write(self, line: AuditLine) -> None:
        """Append *line*, unless it is one too many of this hour."""
        hour = self._wall_ms() // HOUR_MS
        if hour != self._hour:
            self._tell_left_out()
            self._hour = hour
        refused = 400 <= line.status < 500 and not line.partly
        if not (line.dry_run or refused) or self._counts(line):
            super().write(line)

    def close(self) -> None:
        """Write what is to be said of this hour, and close the file."""
        self._tell_left_out()
        super().close()

    def _counts(self, line: AuditLine) -> bool:
        """Count *line*, which changed nothing; whether it may be written."""
        who = line.who
        if who not in self._unchanged and len(self._unchanged) >= IDENTITIES_MAX:
            who = OTHERS
        count = self._unchanged[who] = self._unchanged.get(who, 0) + 1
        if count <= UNCHANGED_PER_HOUR:
            return True
        line.who, line.what = who, LEFT_OUT
        line.left_out = count - UNCHANGED_PER_HOUR
        self._left_out[who] = line
        return False

    def _tell_left_out(self) -> None:
        left_out = list(self._left_out.values())
        self._left_out.clear()
        self._unchanged.clear()
        for line in left_out:
            super().write(line)


class RefusalLog:
    """Records what receivers refuse: among the changes, and a flood of it in a file of its own.

    Else any client could push all changes out of the files, without a key.

    Args:
        changes: The log of changes.
        flood: Of refusals beyond ``REFUSALS_PER_HOUR``.
        wall_ms: The wall clock, in milliseconds.
    """

    def __init__(self, changes: AuditLog, flood: AuditLog, wall_ms: Callable[[], int]) -> None:
        self._changes, self._flood, self._wall_ms = changes, flood, wall_ms
        self._hour = self._count = 0

    def write(self, refused: Change) -> None:
        """Append the line of *refused*."""
        hour = self._wall_ms() // HOUR_MS
        if hour != self._hour:
            self._hour, self._count = hour, 0
        self._count += 1
        log = self._changes if self._count <= REFUSALS_PER_HOUR else self._flood
        log.change(refused)
