"""The audit log: who did what to which object, from where, with what result. One JSON line each.

Each request for a change has one line, also where the control process or a receiver refuses it.
Lines hold names, never a body, a header field or a query: no secret. Reads and events have none:
a read changes nothing, and what became of events is in the history.
"""

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


class AuditLog:
    """Appends lines to a file. For one thread; several processes append to one file.

    A line that cannot be written is lost, with an error in the log of the server: a full disk must
    not stop an operator from mending it.

    Args:
        path: Path of the file; its folder exists.
        wall_ms: The wall clock, in milliseconds.
        puts_aside: Whether to put the file aside when it is full: one process does.
        file_bytes_max: Size above which it is put aside.
        node: Name of this node, where several share log and store; empty: it is none.
    """

    def __init__(
        self,
        path: Path,
        wall_ms: Callable[[], int],
        *,
        puts_aside: bool = True,
        file_bytes_max: int = FILE_BYTES_MAX,
        node: str = "",
    ) -> None:
        self._node = node
        self._puts_aside = puts_aside
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
            self.close()

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
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self, more_bytes: int) -> int:
        """The descriptor of the file, which has room for *more_bytes* or is put aside."""
        fd = self._fd
        if fd is not None:
            here = os.fstat(fd)
            if self._puts_aside and here.st_size + more_bytes > self._file_bytes_max:
                self.close()
                self._put_aside()
            elif not self._is_at_path(here):  # another process has put it aside
                self.close()
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

    def _put_aside(self) -> None:
        """Rename ``audit.jsonl`` to ``audit.1.jsonl``, that to ``audit.2.jsonl``, and so on."""
        for number in range(FILES_MAX - 1, 0, -1):
            older = self._path.with_suffix(f".{number}.jsonl")
            newer = self._path.with_suffix(f".{number - 1}.jsonl") if number > 1 else self._path
            if newer.exists():
                newer.replace(older)
