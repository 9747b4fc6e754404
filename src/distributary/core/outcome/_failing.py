"""The file of failing routes: the owner of a partition writes it, the control process reads it.

A tally tells as much of any route but where it failed, which takes more than its slot has.
It holds no events and no secrets. It is not durable: a route that still fails is written again.
"""

from pathlib import Path
from typing import Protocol

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import write_atomically
from distributary.core.outcome.rows import FailingRoute


class FailingReports(Protocol):
    """The failing routes of one partition, as its owner reports them."""

    def read(self) -> list[FailingRoute]:
        """Return what was reported last.

        Raises:
            StoreError: It cannot be read now.
        """

    def write(self, routes: list[FailingRoute]) -> None:
        """Report *routes* in place of those before.

        Raises:
            StoreError: Those before stand.
        """


class FailingRoutesFile:
    """A ``FailingReports`` by a file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[FailingRoute]:
        """See ``FailingReports``."""
        return read_failing(self._path)

    def write(self, routes: list[FailingRoute]) -> None:
        """See ``FailingReports``."""
        write_failing(self._path, routes)


def write_failing(path: Path, routes: list[FailingRoute]) -> None:
    """Replace the file at *path*.

    Raises:
        StoreError: It could not be written; the old file is unchanged.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(routes))
    except OSError as error:
        raise StoreError(f"cannot write {path.name}: {error.strerror}") from error


def read_failing(path: Path) -> list[FailingRoute]:
    """Read what ``write_failing`` wrote at *path*; empty if there is no readable file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[FailingRoute])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []  # Not written yet, or truncated by a power cut: it will be rewritten.
