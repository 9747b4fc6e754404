"""Deliveries at the first attempt, recorded as columns: the same rows as one by one."""

import contextlib
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.errors import StoreError
from distributary.core.event import Event, binary
from distributary.core.flow import (
    Attempt,
    DoneKey,
    Ending,
    Origin,
    Position,
    Stage,
    Task,
)
from distributary.core.journal_frames import HistoryBlock
from distributary.core.policy import DELIVERED, Decision, Reply, Verdict
from distributary.history.attempts import EventRows
from distributary.history.columns import table
from distributary.history.rows import VALUE_CHARS_MAX, Recorder, RouteNames, decode
from distributary.partitions.renumbering import renumbered

NOON_MS = 1_795_348_800_000
"""2026-11-22, 12:00 UTC."""
RETRY = Verdict(Decision.RETRY, "status-503", 0.25)
NAMES = {"a": RouteNames("shop", "orders", 3), "b": RouteNames("shop", "bills", None)}
TEXTS = st.sampled_from(["1", "a b", "\N{GREEK SMALL LETTER ALPHA}", "100 %", "x" * 2000, "y"])
EVENTS = st.tuples(TEXTS, st.sampled_from(["/s", "/t", "/u v"]), st.sampled_from(["t", "u"]))
STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),  # the event
        st.sampled_from(["a", "b", "gone"]),  # the route
        st.sampled_from(["delivered", "second", "retry", "dropped", "flush"]),
        st.sampled_from([200, 204]),
    ),
    max_size=30,
)


def stored(id_="1", source="/s", type_="t", data=b"", first=()):
    """An event as the log has it."""
    named = {"id": id_, "source": source, "type": type_}
    lines = [b"ce-specversion: 1.0\r\n", *first]
    lines += [f"ce-{name}: {quote(value)}\r\n".encode() for name, value in named.items()]
    event = binary.decode(binary.encode(lines, data))
    assert event is not None
    return event


def delivered(
    recorder, offset, event, route="a", *, now_ms=NOON_MS, status=204, attempt=1, twice=False
):
    """Record one delivery; *twice*: by two calls."""
    task = Task(Position(0, offset, 0), 1, route, event, Stage.PRIMARY, attempt, 0, Origin.LIVE)
    answer = Attempt(task, Reply(status, None, None, b""), 0.0123456789)
    key = DoneKey(offset, 0, route)
    if twice:
        recorder.attempted(answer, DELIVERED, now_ms)
        recorder.ended(key, Ending.DELIVERED, None, now_ms, task)
    else:
        recorder.succeeded(answer, key, now_ms)


def taken(recorder, blocks):
    """Take a block; returns how many rows it has."""
    count, rows = recorder.take()
    if count:
        blocks.append(HistoryBlock(blocks[-1].end if blocks else 7, count, rows))
    return count


def run(steps, events, *, failures_only=False, twice=False):
    """The blocks that *steps* leave."""
    recorder, blocks = Recorder(0, NAMES.get, failures_only=failures_only), []
    for number, (place, route, step, status) in enumerate(steps):
        event, now_ms = events[place], NOON_MS + number
        if step == "delivered":
            delivered(recorder, place, event, route, now_ms=now_ms, status=status, twice=twice)
        elif step == "second":
            more = {"status": status, "attempt": 2, "twice": twice}
            delivered(recorder, place, event, route, now_ms=now_ms, **more)
        elif step == "retry":
            task = Task(Position(0, place, 0), 1, route, event, Stage.PRIMARY, 1, 0, Origin.LIVE)
            recorder.attempted(Attempt(task, Reply(503, None, None, b"no"), 0.25), RETRY, now_ms)
        elif step == "dropped":
            key = DoneKey(place, 0, route)
            recorder.ended(key, Ending.DROPPED, "route-deleted", now_ms, None)
        else:
            taken(recorder, blocks)
    taken(recorder, blocks)
    return blocks


def rows_of(blocks):
    """Rows without their numbers, sorted; the numbers are checked."""
    rows = table(0, blocks).to_pylist()
    assert [row.pop("number") for row in rows] == list(range(7, 7 + len(rows)))
    return sorted(rows, key=lambda row: (row["time"], str(row)))


@settings(max_examples=150)
@given(st.lists(EVENTS, min_size=4, max_size=4), STEPS)
def test_columns_have_the_rows_that_would_have_been_recorded_one_by_one(names, steps):
    """Whatever happens between, and whatever events are called."""
    events = [stored(*each) for each in names]
    plain = run(steps, events)
    single = run(steps, [Event(event.attributes, event.data) for event in events])
    assert [block.length for block in plain] == [block.length for block in single]
    if plain:
        assert rows_of(plain) == rows_of(single)
    for before, after in zip(single, plain, strict=True):
        assert len(decode(after.rows).in_full().rows) == after.length
        assert _told(before) == _told(after)
        assert _told(after, by=5) == _told(after._replace(rows=renumbered(after.rows, 5)))


@settings(max_examples=150)
@given(st.lists(EVENTS, min_size=4, max_size=4), STEPS, st.booleans(), st.booleans())
def test_a_delivery_is_the_same_by_one_call_and_by_two(names, steps, failures_only, in_columns):
    """Byte for byte, whatever lies between."""
    events = [stored(*each) for each in names]
    if not in_columns:
        events = [Event(event.attributes, event.data) for event in events]
    once = run(steps, events, failures_only=failures_only)
    assert once == run(steps, events, failures_only=failures_only, twice=True)


def _told(block, by=0):
    """What a block says, row by row."""
    full = decode(block.rows).in_full()
    events = [(event.offset - by, *event[1:]) for event in full.events]
    rows = [(events[row.event], full.routes[row.route], *row[2:]) for row in full.rows]
    return sorted(rows, key=str)


def test_a_row_takes_some_forty_bytes_in_the_journal():
    """Its event's source and type are there once."""
    recorder = Recorder(0, NAMES.get)
    for number in range(1000):
        delivered(recorder, number, stored(str(number), "/s" * 200, "t" * 200))
    count, rows = recorder.take()
    assert count == 1000
    assert len(rows) < 45 * count


def test_a_payload_that_looks_like_lines_lends_no_name():
    """Not even where the lines of the event before stood, in a block of the two and of many."""
    recorder, blocks = Recorder(0, NAMES.get), []
    before = stored("1", source="/sensors/long", type_="type.of.one")
    line = b"\r\nce-source: /sensors/long\r\nce-type: type.of.one\r\nce-id: 1\r\n"
    short = binary.encode([b"ce-id: 2\r\n", b"ce-source: /b\r\n", b"ce-type: u\r\n"], line * 9)
    for place in range(len(line)):
        event = binary.decode(short + b"x" * place + line)
        delivered(recorder, 2 * place, before)
        delivered(recorder, 2 * place + 1, event)
        if place < len(line) // 2:
            taken(recorder, blocks)
    taken(recorder, blocks)
    told = {
        (row["offset"] % 2, row["event_id"], row["event_source"], row["event_type"])
        for row in table(0, blocks).to_pylist()
    }
    assert told == {(0, "1", "/sensors/long", "type.of.one"), (1, "2", "/b", "u")}


def test_what_a_publisher_calls_its_events_alike_is_told_apart():
    """Whatever length their ids have, and whatever stands between."""
    for ids in (["10", "11", "12"], ["8", "9", "10"], ["ab", "c", "a"], ["1", "1", "1"], ["a b"]):
        recorder, blocks = Recorder(0, NAMES.get), []
        for offset, id_ in enumerate(ids):
            delivered(recorder, offset, stored(id_, first=[b"ce-x: y\r\n"], data=b"\r\n" * 3))
        taken(recorder, blocks)
        assert [row["event_id"] for row in table(0, blocks).to_pylist()] == ids


def test_an_event_that_lacks_a_name_has_none():
    """No receiver writes it; nothing fails, and no other event is called so."""
    recorder, blocks = Recorder(0, NAMES.get), []
    for offset, lines in enumerate(([b"ce-id: 1\r\n"], [b"ce-type: t\r\n"], [b"ce-x: y\r\n"])):
        delivered(recorder, offset, binary.decode(binary.encode(lines, b"")))
    taken(recorder, blocks)
    told = [
        (row["event_id"], row["event_source"], row["event_type"])
        for row in table(0, blocks).to_pylist()
    ]
    assert told == [("1", None, None), (None, None, "t"), (None, None, None)]


def test_long_values_are_cut():
    """As those of other rows."""
    recorder, blocks = Recorder(0, NAMES.get), []
    delivered(recorder, 1, stored("x" * 5000, "/s", "t" * 5000))
    taken(recorder, blocks)
    (row,) = table(0, blocks).to_pylist()
    assert len(row["event_id"]) == len(row["event_type"]) == VALUE_CHARS_MAX


def test_deliveries_at_once_can_be_left_out():
    """Nothing of them is kept."""
    recorder = Recorder(0, NAMES.get, failures_only=True)
    delivered(recorder, 1, stored())
    assert recorder.take() == (0, b"")


def test_the_journal_answers_for_such_rows():
    """By the offset of the event, before a file has them."""
    recorder, blocks = Recorder(0, NAMES.get), []
    for offset in (3, 5, 3):
        delivered(recorder, offset, stored(str(offset)))
    taken(recorder, blocks)
    found = EventRows([], lambda _partition: blocks).rows(Position(0, 3, 0), NOON_MS)
    assert [(row.number, row.outcome, row.status, row.subscription) for row in found] == [
        (7, "delivered", 204, "orders"),
        (9, "delivered", 204, "orders"),
    ]
    assert found[0].duration_s == pytest.approx(0.012345)


@given(st.data())
def test_columns_that_do_not_fit_together_are_one_error(data):
    """A newer version may have written them."""
    recorder = Recorder(0, NAMES.get)
    for offset in (1, 2, 2):
        delivered(recorder, offset, stored(str(offset)))
    _, rows = recorder.take()
    content = msgspec.msgpack.decode(rows)
    column = data.draw(st.integers(0, 7))
    content[3][column] += b"\r"
    with contextlib.suppress(StoreError):
        decode(msgspec.msgpack.encode(content))
        pytest.fail(f"column {column} is longer than the others")
