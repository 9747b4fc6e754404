"""Columns of the history: blocks of rows become one table, without a Python object for each row.

Called by ``writer``. A text that repeats is a number and a dictionary, here as in the file; ids of
events are plain text where each has one row.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from distributary.core.flow import Ending, Stage
from distributary.core.journal_frames import HistoryBlock
from distributary.history.plain import BREAK, OFFSETS, PLACES, Plain, column, numbers
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

    def places(self, block: Block) -> list[int]:
        """Places here of the routes of *block*."""
        known = self._places
        return [known.setdefault(route, len(known)) for route in block.routes]

    def columns(self, places: pa.Array) -> dict[str, pa.Array]:
        """The columns that tell of the route at each of *places*."""
        uids, namespaces, subscriptions, revisions = zip(*self._places, strict=True)
        return {
            "namespace": _named(namespaces, places),
            "subscription": _named(subscriptions, places),
            "uid": _named(uids, places),
            "revision": pa.array(revisions, pa.int64()).take(places),
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
        here = routes.places(block)
        columns[1] += [here[place] for place in route_in]
        events += block.events
        for values, part in zip(columns[2:], others, strict=True):
            values.extend(part)
    event, route, time_ms, stage, attempt, duration_us, status, decision, *texts = columns
    reason, outcome, answer = texts
    offsets, indexes, ids, sources, types = zip(*events, strict=True)
    of = pa.array(event, pa.int32())
    return _table(
        len(event),
        routes.columns(pa.array(route, pa.int32())),
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
    route = list[bytes]()
    for _, block in found:
        route.append(_moved(block.plain.routes, routes.places(block)))
        names.add(block.plain)
    seconds = _joined(pa.float64(), [plain.durations_s for plain in plains])
    micros = pc.multiply(seconds, 1e6).cast(pa.int64(), safe=False)
    return _table(
        len(seconds),
        routes.columns(_joined(pa.int32(), route)),
        number=_numbered((first, first + block.plain.length) for first, block in found),
        time=_times(_joined(pa.int64(), [plain.times_ms for plain in plains])),
        partition=partition,
        offset=_joined(pa.int64(), [plain.offsets for plain in plains]),
        index=0,
        stage=_FIRST_STAGE,
        attempt=1,
        duration=pc.divide(micros.cast(pa.float64()), 1e6),
        status=_joined(pa.uint16(), [plain.statuses for plain in plains]).cast(pa.int32()),
        decision=_DELIVERED,
        outcome=_DELIVERED,
        **names.columns(),
    )


def _joined(kind: pa.DataType, contents: Sequence[bytes]) -> pa.Array:
    """The numbers of *contents*, without an object for any of them."""
    joined = b"".join(contents)
    count = len(joined) * 8 // kind.bit_width
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(joined)])


def _numbered(ranges: Iterable[tuple[int, int]]) -> pa.Array:
    """The numbers of *ranges*, ascending; nearly all go on where the one before ends."""
    runs: list[tuple[int, int]] = []
    for first, end in ranges:
        if runs and runs[-1][1] == first:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((first, end))
    return pa.concat_arrays([pa.arange(*run) for run in runs])


def _moved(places: bytes, here: list[int]) -> bytes:
    """A column of *places* in a block, whose values are *here* in a file."""
    if here == list(range(len(here))):
        return places
    return column(PLACES, [here[place] for place in numbers(PLACES, places)])


class _Names:
    """Ids, sources and types of the events of plain rows."""

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._count = 0
        self._origins: list[bytes] = []
        self._pairs: dict[tuple[str, str], int] = {}
        self._events: list[bytes] | None = None
        """Of each row, the place of its event; None: as many events as rows, in order."""

    def add(self, plain: Plain) -> None:
        """Go on with the rows of a block."""
        base, known = self._count, self._pairs
        self._count += len(plain.origins) // 4
        self._ids.append(plain.ids)
        here = [known.setdefault(pair, len(known)) for pair in plain.names]
        self._origins.append(_moved(plain.origins, here))
        if plain.events:
            if self._events is None:
                self._events = [column(PLACES, range(base))]
            events = numbers(OFFSETS, plain.events)
            places = {offset: base + place for place, offset in enumerate(events)}
            offsets = numbers(OFFSETS, plain.offsets)
            self._events.append(column(PLACES, [places[offset] for offset in offsets]))
        elif self._events is not None:
            self._events.append(column(PLACES, range(base, self._count)))

    def columns(self) -> dict[str, pa.Array]:
        """The columns that tell of the event of each row."""
        sources, types = zip(*self._pairs, strict=True)
        lines = pa.array([b"".join(self._ids)], _TEXT)
        ids = pc.split_pattern(lines, BREAK).flatten()[:-1]  # one ends with the last break
        origins = _joined(pa.int32(), self._origins)
        if self._events is not None:
            events = _joined(pa.int32(), self._events)
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
    same = here == list(range(len(here)))
    indices = places if same else pa.array(here, pa.int32()).take(places)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(unique), _TEXT))


def _times(ms: pa.Array) -> pa.Array:
    return ms.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
