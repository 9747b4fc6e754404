"""The file of failing routes, which the pipeline writes and ``knative`` reads.

It holds no events and no secrets. It is not durable: a route that still fails is written again.
"""

from pathlib import Path

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import write_atomically
from distributary.core.outcome.rows import FailingRoute


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
