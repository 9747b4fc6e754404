"""Deliveries that succeed at the first attempt, as columns: recorded and read by batch.

Nearly all rows of the history are such. Called by ``rows``, which keeps them in its blocks, and by
``columns``, which makes files of them.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from distributary.core.errors import StoreError
from distributary.core.event.binary import names_of

OFFSETS: Final = "q"
TIMES: Final = "q"
DURATIONS: Final = "d"
STATUSES: Final = "H"
PLACES: Final = "I"
VALUE_BYTES_MAX: Final = 1024
"""Values longer than this, and those with escapes, are recorded one by one, and truncated."""
BREAK: Final = "\r"
"""Ends each id: no line of an event holds it."""

WIDTH: Final = 6
"""Values of a row that waits for ``packed``: the offset of its record, the place of its route in
the block, the wall clock in milliseconds, the duration in seconds, the status, and the head of its
event (``BinaryEvent.head``)."""


class Plain(NamedTuple):
    """Rows of deliveries, and their events, as arrays of little-endian numbers.

    Attributes:
        offsets: Of each row, the offset of its event's record (int64), which holds nothing else.
        times_ms: Wall clock, milliseconds (int64).
        durations_s: Of the attempts, seconds (float64).
        statuses: Of the answers (uint16).
        routes: Places of the routes in the block (uint32).
        events: Offsets of the events, each once (int64); empty: those of the rows.
        ids: Of the events, each ending with a carriage return.
        origins: Of the events, the places of their source and type in ``names`` (uint32).
        names: Sources and types.
    """

    offsets: bytes
    times_ms: bytes
    durations_s: bytes
    statuses: bytes
    routes: bytes
    events: bytes
    ids: bytes
    origins: bytes
    names: list[tuple[str, str]]

    @property
    def length(self) -> int:
        """How many rows."""
        return len(self.offsets) // 8

    def ids_of_events(self) -> list[bytes]:
        """Returns the ids of the events, in the order of ``events``."""
        return self.ids.split(BREAK.encode())[:-1]

    def check(self) -> None:
        """Check that the columns fit together.

        Raises:
            StoreError: They do not.
        """
        rows, events = self.length, len(self.events or self.offsets) // 8
        fits = (
            len(self.offsets) == len(self.times_ms) == len(self.durations_s) == 8 * rows
            and len(self.events) in (0, 8 * events)
            and len(self.statuses) == 2 * rows
            and len(self.routes) == 4 * rows
            and len(self.origins) == 4 * events
            and self.ids.count(BREAK.encode()) == events
        )
        if not fits:
            raise StoreError("the journal's deliveries of the history do not fit together")


NO_ROWS: Final = Plain(b"", b"", b"", b"", b"", b"", b"", b"", [])


def packed(waiting: list[Any]) -> tuple[Plain, list[Any]]:
    """Returns the rows of *waiting*, and those of them that are to be recorded one by one.

    Args:
        waiting: ``WIDTH`` values of each row, one row after the other; of one at least.
    """
    offsets, routes, times_ms, durations_s, statuses, heads = (
        waiting[column::WIDTH] for column in range(WIDTH)
    )
    count = len(offsets)
    same = len(set(offsets)) == count
    unique = {} if same else dict(zip(offsets, heads, strict=True))
    ids, longest, places, pairs = names_of(heads if same else list(unique.values()))
    lines = [line for pair in pairs for line in pair]
    if not (_are_simple(ids, longest) and _are_simple(b"".join(lines), max(map(len, lines)))):
        return _without_odd(waiting)
    return (
        Plain(
            column(OFFSETS, offsets),
            column(TIMES, times_ms),
            column(DURATIONS, durations_s),
            _of_few(STATUSES, statuses),
            _of_few(PLACES, routes),
            b"" if same else column(OFFSETS, unique),
            ids,
            _of_few(PLACES, places),
            [(source.decode(), type_.decode()) for source, type_ in pairs],
        ),
        [],
    )


def _are_simple(joined: bytes, longest: int) -> bool:
    """Whether values, *joined* and at most *longest*, are what the attributes are, and short."""
    return longest <= VALUE_BYTES_MAX and b"%" not in joined and joined.isascii()


def _without_odd(waiting: list[Any]) -> tuple[Plain, list[Any]]:
    """As ``packed``, where some ids, sources or types are not simple."""
    simple, odd = list[Any](), list[Any]()
    for at in range(0, len(waiting), WIDTH):
        row = waiting[at : at + WIDTH]
        ids, longest, _, pairs = names_of(row[-1:])
        lines = pairs[0]
        fits = _are_simple(b"".join([ids, *lines]), max(longest, *map(len, lines)))
        (simple if fits else odd).extend(row)
    return (packed(simple)[0] if simple else NO_ROWS), odd


def numbers(code: str, content: bytes) -> "array[int]":
    """Returns the numbers of a column."""
    found = array(code, content)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def column(code: str, values: Iterable[float]) -> bytes:
    """Returns the column of *values*."""
    found = array(code, values)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


def _of_few(code: str, values: list[int]) -> bytes:
    """As ``column``, of values that are often all the same: one status, one route."""
    count = len(values)
    if values.count(values[0]) == count:
        return column(code, values[:1]) * count
    return column(code, values)


class Delivered(NamedTuple):
    """One row of ``Plain``, and what it is about."""

    offset: int
    id: str
    source: str
    type: str
    route: int
    time_ms: int
    duration_us: int
    status: int


def each_of(plain: Plain) -> Iterator[Delivered]:
    """Yield the rows of *plain*, one by one: for few of them."""
    offsets = numbers(OFFSETS, plain.offsets)
    events = numbers(OFFSETS, plain.events) if plain.events else offsets
    names = [plain.names[place] for place in numbers(PLACES, plain.origins)]
    texts = [id_.decode() for id_ in plain.ids_of_events()]
    known = dict(zip(events, zip(texts, names, strict=True), strict=True))
    columns = zip(
        offsets,
        numbers(PLACES, plain.routes),
        numbers(TIMES, plain.times_ms),
        numbers(DURATIONS, plain.durations_s),
        numbers(STATUSES, plain.statuses),
        strict=True,
    )
    for offset, route, time_ms, duration_s, status in columns:
        id_, (source, type_) = known[offset]
        us = int(duration_s * 1e6)
        yield Delivered(offset, id_, source, type_, route, time_ms, us, status)
