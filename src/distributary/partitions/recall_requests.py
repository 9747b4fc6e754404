"""What owners ask for of the archive: how it comes to the job that recalls.

An owner on the machine of the job writes a file. One on another machine has ``_courier``, which
writes a note into the store; the leader makes the same file of it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from distributary.core.files import write_atomically


class Asked(msgspec.Struct, frozen=True):
    """What a partition asks for: the content of the file of its requests.

    Attributes:
        stretches: First record of each stretch that is wanted, and the one after its last; the most
            urgent first.
    """

    stretches: Sequence[tuple[int, int]]


def encode_requests(stretches: Sequence[tuple[int, int]]) -> bytes:
    """Returns the content of the file."""
    return msgspec.json.encode(Asked(stretches))


def read_requests(path: Path) -> list[tuple[int, int]]:
    """Returns the stretches that are asked for in the file at *path*, by urgency; see ``Asked``."""
    try:
        return list(msgspec.json.decode(path.read_bytes(), type=Asked).stretches)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []


def is_awaited(path: Path, offset: int) -> bool:
    """Whether the record *offset* is in a stretch that is asked for in the file at *path*."""
    return any(first <= offset < last for first, last in read_requests(path))


class Requests(Protocol):
    """Takes what one partition asks for. For any thread; waits for no other machine."""

    def put(self, stretches: Sequence[tuple[int, int]]) -> None:
        """Ask for *stretches*, and for nothing that was asked for before; see ``Asked``.

        Raises:
            OSError: Nothing has changed: call again later.
        """

    def close(self) -> None:
        """End what brings them."""


class RequestsFile:
    """``Requests`` in a file.

    Args:
        path: Of the file; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, stretches: Sequence[tuple[int, int]]) -> None:
        """See ``Requests.put``."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._path, encode_requests(stretches), mode=0o600)

    def close(self) -> None:
        """See ``Requests.close``."""
