"""Columns of the history: blocks of rows become one table, without a Python object for each row.

Called by ``writer``. A text that repeats is a number and a dictionary, here as in the file; ids of
events are plain text where each has one row.
"""

from array import array
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from distributary.core.flow import Ending, Stage
from distributary.core.journal_frames import HistoryBlock
from distributary.history.plain import OFFSETS, PLACES, Plain, numbers
from distributary.history.rows import DECISIONS, OUTCOMES, STAGES, Block, decode

_TEXT: Final = pa.string()
SCHEMA: Final = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        ("event_id", _TEXT),
        ("event_source", _TEXT),
        ("event_type", _TEXT),
        ("namespace", _TEXT),
        ("subscription", _TEXT),
        pa.field("uid", _TEXT, nullable=False),
        ("revision", pa.int64()),
        ("stage", _TEXT),
        ("attempt", pa.int32()),
        ("duration", pa.float64()),
        ("status", pa.int32()),
        ("decision", _TEXT),
        ("reason", _TEXT),
        ("outcome", _TEXT),
        ("answer", _TEXT),
    ]
)
"""Columns of a row, as ``docs/reference/history.md`` tells them."""

_DICTIONARY: Final = pa.dictionary(pa.int32(), _TEXT)
_TABLE: Final = pa.schema(
    [field.with_type(_DICTIONARY) if field.type == _TEXT else field for field in SCHEMA]
)
_FIRST_STAGE: Final = STAGES[Stage.PRIMARY]
_DELIVERED: Final = OUTCOMES[Ending.DELIVERED]


def table(partition: int, blocks: Sequence[HistoryBlock]) -> pa.Table:
    """Returns the rows of *blocks*, which follow one another, with the columns of ``SCHEMA``.

    Raises:
        StoreError: A newer version wrote them.
    """
    found = [(block.first, decode(block.rows)) for block in blocks]
    plain = [(first, block) for first, block in found if block.plain.length]
    others = [(first + block.plain.length, block) for first, block in found if block.rows]
    tables = []
    if plain:
        tables.append(_of_plain(partition, plain))
    if others:
        tables.append(_of_rows(partition, others))
    if len(tables) == 1:
        return tables[0]
    at = SCHEMA.get_field_index("event_id")
    tables = [each.set_column(at, "event_id", _encoded(each.column(at))) for each in tables]
    both = pa.concat_tables(tables).unify_dictionaries()
    return both.take(pc.sort_indices(both.column("number")))


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.dictionary_encode() if column.type == _TEXT else column


class _Routes:
    """The routes of several blocks, each once."""

    def __init__(self) -> None:
        self._places: dict[tuple[Any, ...], int] = {}

    def places(self, block: Block, in_block: Sequence[int]) -> Sequence[int]:
        """Places here of routes at the places *in_block*."""
        known = self._places
        here = [known.setdefault(route, len(known)) for route in block.routes]
        if here == list(range(len(here))):
            return in_block
        return [here[place] for place in in_block]

    def columns(self, places: Sequence[int]) -> dict[str, pa.Array]:
        """The columns that tell of the route at each of *places*."""
        uids, namespaces, subscriptions, revisions = zip(*self._places, strict=True)
        taken = pa.array(places, pa.int32())
        return {
            "namespace": _named(namespaces, taken),
            "subscription": _named(subscriptions, taken),
            "uid": _named(uids, taken),
            "revision": pa.array(revisions, pa.int64()).take(taken),
        }


def _of_rows(partition: int, found: Sequence[tuple[int, Block]]) -> pa.Table:
    """The rows of *found* that are not plain; with the number of the first one of each block."""
    events: list[tuple[Any, ...]] = []
    routes = _Routes()
    numbered: list[int] = []
    columns: list[list[Any]] = [[] for _ in range(11)]
    for first, block in found:
        numbered += range(first, first + len(block.rows))
        event_in, route_in, *others = zip(*block.rows, strict=True)
        columns[0] += [place + len(events) for place in event_in]
        columns[1] += routes.places(block, route_in)
        events += block.events
        for column, part in zip(columns[2:], others, strict=True):
            column.extend(part)
    event, route, time_ms, stage, attempt, duration_us, status, decision, *texts = columns
    reason, outcome, answer = texts
    offsets, indexes, ids, sources, types = zip(*events, strict=True)
    of = pa.array(event, pa.int32())
    return _table(
        len(event),
        routes.columns(route),
        number=pa.array(numbered, pa.int64()),
        time=_times(pa.array(time_ms, pa.int64())),
        partition=partition,
        offset=pa.array(offsets, pa.int64()).take(of),
        index=pa.array(indexes, pa.int32()).take(of),
        event_id=_named(ids, of),
        event_source=_named(sources, of),
        event_type=_named(types, of),
        stage=_named(STAGES, pa.array(stage, pa.int32())),
        attempt=pa.array(attempt, pa.int32()),
        duration=pa.array([None if us is None else us / 1e6 for us in duration_us], pa.float64()),
        status=pa.array(status, pa.int32()),
        decision=_named(DECISIONS, pa.array(decision, pa.int32())),
        reason=pa.array(reason, _TEXT).dictionary_encode(),
        outcome=_named(OUTCOMES, pa.array(outcome, pa.int32())),
        answer=pa.array(answer, _TEXT).dictionary_encode(),
    )


def _of_plain(partition: int, found: Sequence[tuple[int, Block]]) -> pa.Table:
    """The plain rows of *found*, with the number of the first one of each block."""
    plains = [block.plain for _, block in found]
    routes, names = _Routes(), _Names()
    numbered, route = array("q"), array(PLACES)
    for first, block in found:
        plain = block.plain
        numbered.extend(range(first, first + plain.length))
        route.extend(routes.places(block, numbers(PLACES, plain.routes)))
        names.add(plain)
    count = len(numbered)

    def joined(kind: pa.DataType, contents: list[bytes]) -> pa.Array:
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(b"".join(contents))])

    seconds = joined(pa.float64(), [plain.durations_s for plain in plains])
    micros = pc.multiply(seconds, 1e6).cast(pa.int64(), safe=False)
    return _table(
        count,
        routes.columns(route),
        number=pa.array(numbered, pa.int64()),
        time=_times(joined(pa.int64(), [plain.times_ms for plain in plains])),
        partition=partition,
        offset=joined(pa.int64(), [plain.offsets for plain in plains]),
        index=0,
        stage=_FIRST_STAGE,
        attempt=1,
        duration=pc.divide(micros.cast(pa.float64()), 1e6),
        status=joined(pa.uint16(), [plain.statuses for plain in plains]).cast(pa.int32()),
        decision=_DELIVERED,
        outcome=_DELIVERED,
        **names.columns(),
    )


class _Names:
    """Ids, sources and types of the events of plain rows."""

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._origins = array(PLACES)
        self._pairs: dict[tuple[str, str], int] = {}
        self._events: array[int] | None = None
        """Of each row; None: they are those of ``_ids``, in order."""

    def add(self, plain: Plain) -> None:
        """Go on with the rows of a block."""
        base = len(self._ids)
        ids = plain.ids_of_events()
        self._ids += ids
        known = self._pairs
        here = [known.setdefault(pair, len(known)) for pair in plain.names]
        origins = numbers(PLACES, plain.origins)
        if here == list(range(len(here))):
            self._origins.extend(origins)
        else:
            self._origins.extend([here[place] for place in origins])
        here_at = range(base, base + len(ids))
        if plain.events:
            if self._events is None:
                self._events = array(PLACES, range(base))
            places = dict(zip(numbers(OFFSETS, plain.events), here_at, strict=True))
            offsets = numbers(OFFSETS, plain.offsets)
            self._events.extend([places[offset] for offset in offsets])
        elif self._events is not None:
            self._events.extend(here_at)

    def columns(self) -> dict[str, pa.Array]:
        """The columns that tell of the event of each row."""
        sources, types = zip(*self._pairs, strict=True)
        ids, origins = pa.array(self._ids, _TEXT), pa.array(self._origins, pa.int32())
        if self._events is not None:
            events = pa.array(self._events, pa.int32())
            ids, origins = ids.dictionary_encode().take(events), origins.take(events)
        return {
            "event_id": ids,
            "event_source": _named(sources, origins),
            "event_type": _named(types, origins),
        }


def _table(
    count: int, of_routes: dict[str, pa.Array], /, **columns: pa.Array | int | str
) -> pa.Table:
    """A table of *count* rows: a column may be one value, or be missing, which is null."""
    arrays, fields = [], []
    for field in _TABLE:
        column = of_routes.get(field.name)
        if column is None:
            column = columns.get(field.name)
        if column is None:
            column = pa.nulls(count, field.type)
        elif isinstance(column, str):
            column = _named((column,), pa.repeat(pa.scalar(0, pa.int32()), count))
        elif isinstance(column, int):
            column = pa.repeat(pa.scalar(column, field.type), count)
        arrays.append(column)
        fields.append(field.with_type(column.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _named(values: Sequence[str | None], places: pa.Array) -> pa.Array:
    """The text at each of *places*; null where it is None, or there is no place."""
    unique: dict[str, int] = {}
    here = [None if text is None else unique.setdefault(text, len(unique)) for text in values]
    indices = pa.array(here, pa.int32()).take(places)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(unique), _TEXT))


def _times(ms: pa.Array) -> pa.Array:
    return ms.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
