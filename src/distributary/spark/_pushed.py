"""Conditions that Spark leaves to the reader of events.

Which records cannot match is seen from their bytes, without parsing; time, partition and offset say
where to read at all. Called by the batch reader of ``events``. Hides: Spark's filter classes.
Conditions that are not taken stay with Spark; those that are taken hold exactly, so that Spark does
not look again.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from pyspark.sql import datasource as pushable

from distributary.core.event import binary
from distributary.core.event.value import Event
from distributary.core.flow import Logged
from distributary.spark._ranges import OffsetRange

END_MS: Final = 1 << 62
"""Later than any record."""

TEXTS: Final = frozenset(
    ("id", "source", "type", "subject", "specversion", "datacontenttype", "dataschema")
)
"""Columns whose texts are compared here: attributes that are strings in every record."""

VALUES_MAX: Final = 64
"""Longest ``IN`` list that is taken: each value is looked for in each record."""

_PLAIN: Final = re.compile(r"[!#$&-~]+")
"""Texts whose bytes stand unchanged in every form of record: no escape, nothing but ASCII."""

_BINARY: Final = bytes([binary.FORMAT])
"""Begins a record in binary form, and the body of no other record."""

_LINES_END: Final = b"\r\n\r\n"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


class TextTest(NamedTuple):
    """A condition on one attribute.

    Attributes:
        name: Of the attribute.
        kind: ``equal`` to one of *values*, begins with one (``prefix``), or is there (``present``).
        values: What it is compared with.
    """

    name: str
    kind: Literal["equal", "prefix", "present"]
    values: tuple[str, ...] = ()

    def holds(self, text: str | None) -> bool:
        """Whether the attribute *text* passes; None: there is none."""
        if text is None:
            return False
        if self.kind == "prefix":
            return text.startswith(self.values)
        return self.kind == "present" or text in self.values

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes of which the body of every matching record has one; empty: not known."""
        if not self.values or not all(map(_PLAIN.fullmatch, self.values)):
            return ()
        return tuple(value.encode("ascii") for value in self.values)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a record must fulfil, and its events; all by AND.

    Attributes:
        tests: Of each event.
        partitions: Numbers of partitions; None: all.
        from_offset: Of the first record.
        to_offset: After the last one.
        from_ms: Time of the first record, milliseconds since 1970.
        to_ms: Time before which the last one was appended.
    """

    tests: tuple[TextTest, ...] = ()
    partitions: frozenset[int] | None = None
    from_offset: int = 0
    to_offset: int = END_MS
    from_ms: int = 0
    to_ms: int = END_MS

    def within(
        self, span: OffsetRange, offset_at: Callable[[int], int], goes_back_ms: int = 0
    ) -> OffsetRange:
        """Returns the part of *span* that can match; ``from_offset >= to_offset``: none.

        Args:
            span: Of one partition.
            offset_at: Returns the first offset of the partition appended at a time or later.
            goes_back_ms: By how much records may be earlier than one before them.
        """
        if self.partitions is not None and span.partition not in self.partitions:
            return span._replace(to_offset=span.from_offset)
        first = max(span.from_offset, self.from_offset)
        last = min(span.to_offset, self.to_offset)
        if self.from_ms > 0:
            first = max(first, offset_at(self.from_ms))
        if self.to_ms < END_MS:
            last = min(last, offset_at(self.to_ms + goes_back_ms))
        return OffsetRange(span.partition, first, max(first, last))

    def may_match(self) -> Callable[[Logged], bool]:
        """Returns a test that passes every record with a matching event, and few others."""
        needles = [test.needles for test in self.tests if test.needles]
        from_ms, to_ms = self.from_ms, self.to_ms

        def of_one(entry: Logged) -> bool:
            body = entry.body
            found = body.find(needle, 0, _attributes_end(body)) >= 0
            return found and from_ms <= entry.time_ms < to_ms

        def of_all(entry: Logged) -> bool:
            body = entry.body
            stop = _attributes_end(body)
            return from_ms <= entry.time_ms < to_ms and all(
                any(body.find(each, 0, stop) >= 0 for each in some) for some in needles
            )

        if len(needles) == 1 and len(needles[0]) == 1:
            needle = needles[0][0]
            return of_one
        return of_all

    def matching(self, events: Sequence[Event]) -> Sequence[int]:
        """Returns the indexes of those of *events* that match, ascending."""
        tests = self.tests
        if not tests:
            return range(len(events))
        return [
            index
            for index, event in enumerate(events)
            if all(test.holds(event.text(test.name)) for test in tests)
        ]


def _attributes_end(body: bytes) -> int:
    """Where the attributes end: in binary form before the data, which is most of a record."""
    return body.find(_LINES_END) if body.startswith(_BINARY) else len(body)


EVERYTHING: Final = Pushed()

Filters: TypeAlias = Iterable[pushable.Filter]


def take(filters: Filters) -> tuple[Pushed, list[pushable.Filter]]:
    """Returns what can be decided on records of *filters*, and those that Spark must decide."""
    pushed, left = EVERYTHING, []
    for each in filters:
        taken = _taken(pushed, each)
        if taken is None:
            left.append(each)
        else:
            pushed = taken
    return pushed, left


def _taken(pushed: Pushed, condition: pushable.Filter) -> Pushed | None:
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(path) != 1:
        return None
    (name,) = path
    if name in TEXTS:
        test = _text_test(name, condition)
        return None if test is None else replace(pushed, tests=(*pushed.tests, test))
    if name == "logged_at":
        return _times(pushed, condition)
    if name == "offset":
        return _offsets(pushed, condition)
    if name == "partition":
        return _partitions(pushed, condition)
    return None


def _text_test(name: str, condition: pushable.Filter) -> TextTest | None:
    match condition:
        case pushable.EqualTo(value=str(value)):
            return TextTest(name, "equal", (value,))
        case pushable.In(value=values) if _few(values, str):
            return TextTest(name, "equal", tuple(values))
        case pushable.StringStartsWith(value=str(value)):
            return TextTest(name, "prefix", (value,))
        case pushable.IsNotNull():
            return TextTest(name, "present")
    return None


def _few(values: Sequence[object], kind: type) -> bool:
    return 0 < len(values) <= VALUES_MAX and all(type(value) is kind for value in values)


def _partitions(pushed: Pushed, condition: pushable.Filter) -> Pushed | None:
    match condition:
        case pushable.EqualTo(value=int(value)):
            found = frozenset((value,))
        case pushable.In(value=values) if _few(values, int):
            found = frozenset(values)
        case pushable.IsNotNull():
            return pushed
        case _:
            return None
    return replace(
        pushed, partitions=found if pushed.partitions is None else pushed.partitions & found
    )


def _bounds(condition: pushable.Filter, low: int, high: int) -> tuple[int, int] | None:
    """Bounds, first and after the last, of whole numbers for which *condition* holds.

    Its value lies at *low* exactly, or between *low* and *high*, the next one.
    """
    found: dict[type, tuple[int, int]] = {
        pushable.EqualTo: (low, low + 1) if low == high else (0, 0),
        pushable.GreaterThanOrEqual: (high, END_MS),
        pushable.GreaterThan: (low + 1, END_MS),
        pushable.LessThan: (0, high),
        pushable.LessThanOrEqual: (0, low + 1),
        pushable.IsNotNull: (0, END_MS),
    }
    return found.get(type(condition))


def _offsets(pushed: Pushed, condition: pushable.Filter) -> Pushed | None:
    value = getattr(condition, "value", 0)
    bounds = _bounds(condition, value, value) if type(value) is int else None
    if bounds is None:
        return None
    return replace(
        pushed,
        from_offset=max(pushed.from_offset, bounds[0]),
        to_offset=min(pushed.to_offset, bounds[1]),
    )


def _times(pushed: Pushed, condition: pushable.Filter) -> Pushed | None:
    value = getattr(condition, "value", _EPOCH)
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    low, rest = divmod(value - _EPOCH, _MS)
    bounds = _bounds(condition, low, low + 1 if rest else low)
    if bounds is None:
        return None
    return replace(
        pushed, from_ms=max(pushed.from_ms, bounds[0]), to_ms=min(pushed.to_ms, bounds[1])
    )
