"""Conditions that the reader of events decides: the same rows as after parsing everything."""

from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pyspark.sql import datasource as pushable

from distributary.core.event import Event, binary, record
from distributary.core.event.header_text import percent_encode
from distributary.core.flow import Logged, RecordKind, encode_addressed, encode_carried
from distributary.spark import _columns, _pushed
from distributary.spark._ranges import OffsetRange
from distributary.spark._schema import Column

TEXTS = st.sampled_from(["a", "ab", "a b", 'a"', "%61", "ü", "com.example", "x" * 40, "id", "é%"])
NAIVE = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
NAMES = st.sampled_from(["id", "source", "type", "subject"])


@st.composite
def events(draw):
    """An event whose attributes collide often with what is asked for, and with its data."""
    attributes = {"specversion": "1.0"}
    attributes |= {name: draw(TEXTS) for name in ("id", "source", "type")}
    if draw(st.booleans()):
        attributes["subject"] = draw(TEXTS)
    return Event(attributes, draw(st.none() | TEXTS.map(str.encode)))


def _body(event):
    """The record of an event that came in binary mode."""
    lines = [f"ce-{k}: {percent_encode(v)}\r\n".encode() for k, v in event.attributes.items()]
    return binary.encode(lines, event.data or b"")


@st.composite
def records(draw):
    """A record of any kind that holds events."""
    held = draw(st.lists(events(), min_size=1, max_size=3))
    body = _body(held[0]) if draw(st.booleans()) else record.encode(held)
    held = record.decode(body)
    ttls = (1,) * len(held)
    kind, body = draw(
        st.sampled_from(
            [
                (RecordKind.EVENTS, body),
                (RecordKind.ADDRESSED, encode_addressed("b", ttls, body)),
                (RecordKind.CARRIED, encode_carried("b", ttls, body, b"x: y\r\n")),
            ]
        )
    )
    return Logged(0, 0, 0, kind, body)


@st.composite
def conditions(draw):
    """A condition that Spark may offer, and the same as a function of the text."""
    name, value = draw(NAMES), draw(TEXTS)
    others = tuple(draw(st.lists(TEXTS, min_size=1, max_size=3)))
    return draw(
        st.sampled_from(
            [
                (name, pushable.EqualTo((name,), value), lambda text: text == value),
                (name, pushable.In((name,), others), lambda text: text in others),
                (
                    name,
                    pushable.StringStartsWith((name,), value[:2]),
                    lambda text: text.startswith(value[:2]),
                ),
                (name, pushable.IsNotNull((name,)), lambda _: True),
            ]
        )
    )


def _ids(entries, pushed=_pushed.EVERYTHING):
    wanted = (
        Column("offset", "BIGINT", ""),
        Column("index", "INT", ""),
        *(Column(name, "STRING", "") for name in ("id", "source", "type", "subject")),
    )
    return [
        row for batch in _columns.batches(0, entries, wanted, pushed) for row in batch.to_pylist()
    ]


@given(st.lists(records(), max_size=5), st.lists(conditions(), max_size=3))
def test_what_is_decided_on_bytes_is_what_parsing_decides(entries, asked):
    """Whatever the form of the record, and whatever its payload holds."""
    entries = [entry._replace(offset=offset) for offset, entry in enumerate(entries)]
    pushed, left = _pushed.take([condition for _, condition, _ in asked])
    assert left == []
    expected = [
        row
        for row in _ids(entries)
        if all(row[name] is not None and holds(row[name]) for name, _, holds in asked)
    ]
    assert _ids(entries, pushed) == expected


@given(
    st.sampled_from(
        [
            pushable.EqualTo,
            pushable.LessThan,
            pushable.LessThanOrEqual,
            pushable.GreaterThan,
            pushable.GreaterThanOrEqual,
        ]
    ),
    st.integers(-3, 12_000),
)
def test_times_to_the_microsecond_bound_records_of_milliseconds(kind, value_us):
    """A moment between two milliseconds belongs to the right one of them."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value_us)
    pushed, left = _pushed.take([kind(("logged_at",), moment)])
    assert left == []
    span = pushed.within(OffsetRange(0, 0, 10), lambda time_ms: min(10, max(0, time_ms)))
    compare = {
        pushable.EqualTo: lambda us: us == value_us,
        pushable.LessThan: lambda us: us < value_us,
        pushable.LessThanOrEqual: lambda us: us <= value_us,
        pushable.GreaterThan: lambda us: us > value_us,
        pushable.GreaterThanOrEqual: lambda us: us >= value_us,
    }[kind]
    # the record with offset n was appended at millisecond n
    assert list(range(*span[1:])) == [ms for ms in range(10) if compare(ms * 1000)]


def test_records_of_a_clock_that_is_behind_are_read():
    """The next leader of a partition appended the last two with its own clock."""
    times = [1_000, 1_002, 1_004, 1_001, 1_003]
    moment = datetime(1970, 1, 1, 0, 0, 1, 2_000, tzinfo=UTC)
    pushed, _ = _pushed.take([pushable.LessThan(("logged_at",), moment)])

    def offset_at(time_ms):
        return next((at for at, each in enumerate(times) if each >= time_ms), len(times))

    assert pushed.within(OffsetRange(0, 0, 5), offset_at) == (0, 0, 1)
    assert pushed.within(OffsetRange(0, 0, 5), offset_at, goes_back_ms=3) == (0, 0, 5)


def test_offsets_and_partitions_say_where_to_read():
    """All conditions hold together."""
    pushed, left = _pushed.take(
        [
            pushable.In(("partition",), (0, 2)),
            pushable.GreaterThan(("offset",), 3),
            pushable.LessThanOrEqual(("offset",), 7),
            pushable.IsNotNull(("offset",)),
        ]
    )
    assert left == []
    assert pushed.within(OffsetRange(2, 0, 100), lambda _: 0) == (2, 4, 8)
    assert pushed.within(OffsetRange(1, 5, 100), lambda _: 0) == (1, 5, 5)
    narrow, _ = _pushed.take([pushable.EqualTo(("partition",), 1)])
    assert narrow.within(OffsetRange(0, 5, 9), lambda _: 0) == (0, 5, 5)


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(pushable.EqualTo(("time_text",), "a"), id="column"),
        pytest.param(pushable.EqualTo(("extensions", "type"), "a"), id="nested"),
        pytest.param(pushable.Not(pushable.EqualTo(("type",), "a")), id="not"),
        pytest.param(pushable.In(("type",), ("a", None)), id="in-null"),
        pytest.param(pushable.In(("type",), tuple(map(str, range(65)))), id="in-many"),
        pytest.param(pushable.EqualTo(("logged_at",), NAIVE), id="no-zone"),
        pytest.param(pushable.IsNull(("type",)), id="is-null"),
        pytest.param(pushable.StringContains(("type",), "a"), id="contains"),
        pytest.param(pushable.LessThan(("type",), "a"), id="less"),
    ],
)
def test_other_conditions_stay_with_spark(condition):
    """What is not decided here is given back, itself."""
    pushed, left = _pushed.take([condition])
    assert pushed == _pushed.EVERYTHING
    assert left[0] is condition
