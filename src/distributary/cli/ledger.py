"""Ledgers: what a client sent and what a sink received, one JSON line an event.

A ledger is evidence: the checker (``testing.check_ledgers``) compares senders' lines with sinks'
lines. A line is written only once its fact is known: ``Sent`` when the server has responded or the
sender has given up, ``Arrival`` when the sink has responded.

Callers: ``send`` and ``listen``, tests, benchmarks, the checker. Hides: the line format.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, Self, TypeVar

import msgspec

from distributary.core.errors import DistributaryError

__all__ = [
    "Arrival",
    "LedgerError",
    "LedgerWriter",
    "Sent",
    "State",
    "attributes_sha256",
    "data_sha256",
    "read_arrivals",
    "read_sent",
]

State = Literal["acked", "refused", "unknown"]
"""``acked``: 2xx. ``refused``: another response, or never sent. ``unknown``: no response."""

ADDED_ON_THE_WAY = ("knativeerror", "knativebrokerttl")
"""Prefixes of attribute names that the router may add; digests leave them out."""


_Line = TypeVar("_Line")


class LedgerError(DistributaryError):
    """A ledger cannot be read, so nothing may be concluded from it."""


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of sending one event.

    Attributes:
        id: Of the event.
        source: Of the event.
        state: What the sender knows.
        t: Wall clock when it knew, milliseconds since 1970.
        attributes: All context attributes in canonical string form.
        data_sha256: Digest of the payload; empty where there is none.
        status: Status of the last response; None: no response.
        ambiguous: Earlier attempts without a response that may have arrived.
    """

    id: str
    source: str
    state: State
    t: int
    attributes: dict[str, str] = {}
    data_sha256: str = ""
    status: int | None = None
    ambiguous: int = 0


class Arrival(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of one request that a sink received.

    Attributes:
        id: Of the event.
        source: Of the event.
        t: Wall clock at the response, milliseconds since 1970.
        status: Of the sink's response; 0: it did not respond, so nothing was delivered.
        route: Path of the request: one sink may serve several subscriptions.
        data_sha256: Digest of the payload; empty where there is none.
        attributes_sha256: Digest of the context attributes (``attributes_sha256``).
        error_dest: ``knativeerrordest`` of a dead letter; empty on others.
        error_code: ``knativeerrorcode`` of a dead letter; empty where absent.
    """

    id: str
    source: str
    t: int
    status: int
    route: str = "/"
    data_sha256: str = ""
    attributes_sha256: str = ""
    error_dest: str = ""
    error_code: str = ""


def data_sha256(data: bytes | None) -> str:
    """Hexadecimal digest of a payload; empty for no payload, and for one of no bytes.

    Binary mode cannot tell these two apart.
    """
    return hashlib.sha256(data).hexdigest() if data else ""


def attributes_sha256(attributes: Mapping[str, str]) -> str:
    """Hexadecimal digest of context attributes in canonical string form, in any order.

    Leaves out attributes that a router adds to dead letters and hops: a dead letter has the
    digest of its original event. Names hold no ``=`` and values no line feed, so different sets
    give different texts.
    """
    lines = (
        f"{name}={text}"
        for name, text in sorted(attributes.items())
        if not name.startswith(ADDED_ON_THE_WAY)
    )
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


class LedgerWriter:
    """Appends lines to a ledger file; a context manager. Keeps lines of earlier runs."""

    def __init__(self, path: Path) -> None:
        """Open *path* for appending; raises OSError where it cannot."""
        self._encode = msgspec.json.Encoder().encode
        self._file = path.open("ab", buffering=1 << 16)

    def write(self, *lines: Sent | Arrival) -> None:
        """Append *lines*; they reach the file at the next ``flush`` or sooner."""
        encode = self._encode
        self._file.writelines(encode(line) + b"\n" for line in lines)

    def flush(self) -> None:
        """Pass what was written to the operating system: it outlives this process."""
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()


def read_sent(path: Path) -> Iterator[Sent]:
    """Return the lines of a sender's ledger, oldest first.

    Raises:
        LedgerError: A line is damaged. An unfinished last line is skipped, since a killed writer
            leaves one.
    """
    yield from _read(path, msgspec.json.Decoder(Sent))


def read_arrivals(path: Path) -> Iterator[Arrival]:
    """Return the lines of a sink's ledger, oldest first; raises as ``read_sent``."""
    yield from _read(path, msgspec.json.Decoder(Arrival))


def _read(path: Path, decoder: "msgspec.json.Decoder[_Line]") -> Iterator[_Line]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line)
            except msgspec.MsgspecError as error:
                raise LedgerError(f"{path}, line {number}: {error}") from error
