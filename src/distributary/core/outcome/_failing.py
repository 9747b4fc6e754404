"""Routes whose deliveries fail now: a small file that the pipeline writes and ``knative`` reads.

It holds no events and no secrets. It is not durable: what fails goes on failing, and is written
again.
"""

from pathlib import Path

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import write_atomically


class FailingRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One route of one partition whose last attempts failed.

    Attributes:
        route: Uid of the route.
        since_ms: Wall clock of the first of these failures, milliseconds.
        last_ms: Of the last one.
        count: Failed attempts since the last delivery, from 1.
        reason: The short reason of the last one (``status-503``, ``timeout``...).
        dest: URI of the destination that failed: the sink, the reply's, or the dead letter sink;
            without its query (``shown_uri``).
    """

    route: str
    since_ms: int
    last_ms: int
    count: int
    reason: str
    dest: str


def write_failing(path: Path, routes: list[FailingRoute]) -> None:
    """Replace the file at *path*.

    Raises:
        StoreError: It could not be written; the old one stands.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(routes))
    except OSError as error:
        raise StoreError(f"cannot write {path.name}: {error.strerror}") from error


def read_failing(path: Path) -> list[FailingRoute]:
    """What ``write_failing`` wrote at *path*; empty where there is no file that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[FailingRoute])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []  # No owner wrote yet, or a power cut left half a file: it is written anew.
