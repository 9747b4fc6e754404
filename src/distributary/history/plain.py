"""Deliveries that succeed at the first attempt, as columns: recorded and read by batch.

Nearly all rows of the history are such. Called by ``rows``, which keeps them in its blocks, and by
``writer``, which makes files of them.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from distributary.core.errors import StoreError
from distributary.core.event.binary import BinaryEvent, names_of
from distributary.core.flow import Attempt, Stage
from distributary.core.policy import Reply, Verdict

OFFSETS: Final = "q"
TIMES: Final = "q"
DURATIONS: Final = "d"
STATUSES: Final = "H"
PLACES: Final = "I"
VALUE_BYTES_MAX: Final = 1024
"""Values longer than this, and those with escapes, are recorded one by one, and truncated."""
# A constant: a member read from its enumeration costs as much as several calls.
_PRIMARY: Final = Stage.PRIMARY
_BREAK: Final = b"\r"
"""Ends each id: no line of an event holds it."""

Tried: TypeAlias = tuple[Attempt, Verdict, int]
"""An attempt, its verdict, and the wall clock in milliseconds."""


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
        return self.ids.split(_BREAK)[:-1]

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
            and self.ids.count(_BREAK) == events
        )
        if not fits:
            raise StoreError("the journal's deliveries of the history do not fit together")


NO_ROWS: Final = Plain(b"", b"", b"", b"", b"", b"", b"", b"", [])


def is_plain(delivery: Attempt) -> bool:
    """Whether a delivery may be one of ``packed``."""
    task = delivery.task
    return (
        task.attempt == 1
        and task.stage is _PRIMARY
        and type(task.event) is BinaryEvent
        and type(delivery.answer) is Reply
    )


def packed(deliveries: Sequence[Tried], routes: dict[str, int]) -> tuple[Plain, Sequence[Tried]]:
    """Returns the rows of *deliveries*, and those that are to be recorded one by one.

    Args:
        deliveries: Each ``is_plain``.
        routes: The place of each route in the block.
    """
    tasks = [delivery[0].task for delivery in deliveries]
    offsets = [task.position[1] for task in tasks]
    same = len(set(offsets)) == len(offsets)
    unique = {} if same else dict(zip(offsets, tasks, strict=True))
    named = tasks if same else unique.values()
    answers = [delivery[0].answer for delivery in deliveries]
    ids, origins, pairs = names_of([task.event for task in named])  # type: ignore[misc]
    joined = _BREAK.join(ids)
    lines = [line for pair in pairs for line in pair]
    if not _are_simple(ids, joined) or not _are_simple(lines, b"".join(lines)):
        events = offsets if same else list(unique)
        return _without_odd(deliveries, events, ids, [pairs[at] for at in origins], routes)
    return (
        Plain(
            _bytes(OFFSETS, offsets),
            _bytes(TIMES, [delivery[2] for delivery in deliveries]),
            _bytes(DURATIONS, [delivery[0].duration_s for delivery in deliveries]),
            _bytes(STATUSES, [answer.status for answer in answers]),  # type: ignore[union-attr]
            _bytes(PLACES, [routes[task.route] for task in tasks]),
            b"" if same else _bytes(OFFSETS, unique),
            joined + _BREAK,
            _bytes(PLACES, origins),
            [(source.decode(), type_.decode()) for source, type_ in pairs],
        ),
        (),
    )


def _are_simple(values: Sequence[bytes], joined: bytes) -> bool:
    """Whether *values*, together *joined*, are what the attributes are, and short."""
    if b"%" in joined or not joined.isascii():
        return False
    return len(joined) <= VALUE_BYTES_MAX or max(map(len, values)) <= VALUE_BYTES_MAX


def _without_odd(
    deliveries: Sequence[Tried],
    offsets: list[int],
    ids: list[bytes],
    names: list[tuple[bytes, bytes]],
    routes: dict[str, int],
) -> tuple[Plain, Sequence[Tried]]:
    """As ``packed``, where some ids, sources or types are not simple."""
    odd = {
        offset
        for offset, id_, pair in zip(offsets, ids, names, strict=True)
        if not _are_simple([id_, *pair], b"".join([id_, *pair]))
    }
    simple = [each for each in deliveries if each[0].task.position[1] not in odd]
    rest = [each for each in deliveries if each[0].task.position[1] in odd]
    return (packed(simple, routes)[0] if simple else NO_ROWS), rest


def numbers(code: str, content: bytes) -> "array[int]":
    """Returns the numbers of a column."""
    found = array(code, content)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _bytes(code: str, values: Iterable[float]) -> bytes:
    found = array(code, values)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


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
