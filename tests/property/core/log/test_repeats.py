"""Which records are repeats: readers find what the list of records says, wherever they begin."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distributary.core.errors import LogUnavailableError
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import Logged, RecordKind, encode_addressed, events_of
from distributary.core.log.recalled import ABSENT
from distributary.core.log.repeats import RepeatWindow, Stretch, look_back
from distributary.core.log.taken import OnceLimits
from distributary.core.meter import Meter
from distributary.partitions import _once
from distributary.partitions._once import Once
from distributary.testing.virtual import VirtualClock

FIRST = 7
"""Offset of the first record."""


class Given(NamedTuple):
    """A record that is drawn: numbers of its events, what it is, and when it came."""

    events: tuple[int, ...]
    what: str
    later_ms: int


record = st.builds(
    Given,
    st.one_of(
        st.tuples(st.integers(0, 3)), st.lists(st.integers(0, 3), min_size=2, max_size=3).map(tuple)
    ),
    st.sampled_from(["events", "events", "events", "addressed", "route", "unreadable", "damaged"]),
    st.one_of(st.integers(0, 30), st.integers(-400, 400)),
)
limits = st.builds(
    OnceLimits, st.sampled_from([0.02, 0.1, 0.3, 5.0]), st.sampled_from([1, 2, 5, 9, 20, 1000])
)


def logged_of(given_records: list[Given]) -> list[Logged]:
    """The records of a partition; damaged ones are missing."""
    found, time_ms = [], 1_000_000
    for offset, each in enumerate(given_records, FIRST):
        time_ms += each.later_ms
        events = [
            Event({"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}, None)
            for number in each.events
        ]
        kind, body = RecordKind.EVENTS, event_record.encode(events)
        if each.what == "addressed":
            kind, body = RecordKind.ADDRESSED, encode_addressed("b", (3,) * len(events), body)
        elif each.what == "route":
            kind, body = RecordKind.ROUTE, b"{}"
        elif each.what == "unreadable":
            body = b"\x7f of a later version"
        if each.what != "damaged":
            found.append(Logged(offset, time_ms, 0, kind, body))
    return found


def repeats_of(records: list[Logged], limits: OnceLimits) -> list[int]:
    """The offsets of repeats by the rule, word by word."""
    found = []
    for index, one in enumerate(records):
        mine = names(one)
        earlier = [at for at in range(index) if len(mine) == 1 and mine[0] in names(records[at])]
        if not earlier:
            continue
        newest = records[earlier[-1]]
        between = one.offset - newest.offset - 1
        youngest_ms = max(each.time_ms for each in records[earlier[-1] : index + 1])
        if between < limits.count_max and youngest_ms - newest.time_ms <= limits.age_max_s * 1000:
            found.append(one.offset)
    return found


def names(logged: Logged) -> list[tuple[str, str | None]]:
    """Address and id of each event of a record."""
    if logged.kind not in {RecordKind.EVENTS, RecordKind.ADDRESSED} or logged.body[:1] == b"\x7f":
        return []
    held = events_of(logged)
    assert held is not None
    return [(held.address, event.text("id")) for event in held.events]


class Records:
    """A reader of *records*."""

    def __init__(self, records: list[Logged], end: int) -> None:
        self._records = records
        self._end = end

    def start(self) -> int:
        return FIRST

    def durable_end(self) -> int:
        return self._end

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        return (each for each in self._records if from_offset <= each.offset < to_offset)

    def offset_at(self, time_ms: int) -> int:
        return next((each.offset for each in self._records if each.time_ms >= time_ms), self._end)

    def close(self) -> None:
        """Nothing is held."""


def once_of(
    limits: OnceLimits,
    open_records: Callable[[], Records],
    *,
    clock: VirtualClock | None = None,
    meter: Meter | None = None,
) -> Once:
    """The repeats of what *open_records* reads."""
    return Once(
        limits,
        open_records,  # type: ignore[arg-type]  # what it needs of one
        clock=clock or VirtualClock(),
        meter=meter or Meter(),
        report=lambda _event, _fields: None,
    )


@given(st.lists(record, max_size=40), limits)
@example(  # the third is too young for the first to be repeated, though the fourth is not
    [
        Given((number,), "events", later_ms)
        for number, later_ms in ((1, 0), (2, 30), (3, 290), (1, -270))
    ],
    OnceLimits(0.3, 100),
)
def test_any_reader_finds_the_repeats_of_the_list(given_records, limits):
    """Whatever the clocks do, and whatever stands between: from each offset on."""
    logged = logged_of(given_records)
    wanted = repeats_of(logged, limits)
    end = FIRST + len(given_records)
    for at in range(FIRST, end + 1):
        stretch = Stretch(look_back(Records(logged, end), at, limits))
        above = [each for each in logged if each.offset >= at]
        assert [each.offset for each in above if stretch.take(each)] == [
            each for each in wanted if each >= at
        ]
        assert [each.offset for each in above if stretch.repeats(each.offset)] == [
            each for each in wanted if each >= at
        ]


@given(
    st.lists(record, min_size=1, max_size=40),
    limits,
    st.lists(st.tuples(st.integers(0, 39), st.integers(1, 12)), max_size=12),
    st.integers(0, 40),
)
def test_readers_of_the_past_find_the_same(given_records, limits, reads, cursor):
    """Backfills and replays anywhere, in turns, beside a live path that began at any cursor."""
    logged = logged_of(given_records)
    wanted, end = repeats_of(logged, limits), FIRST + len(given_records)
    records = Records(logged, end)
    meter = Meter()
    once = once_of(limits, lambda: records, meter=meter)
    cursor = min(FIRST + cursor, end)
    once.begin(cursor)
    live = [once.judged(each) for each in logged if each.offset >= cursor]
    assert [each.offset for each in live if each.kind == ABSENT] == [
        each for each in wanted if each >= cursor
    ]
    assert meter.counters.get("repeated_events_total", 0) == len(
        [each for each in wanted if each >= cursor]
    )
    for below, count in reads:
        first, last = FIRST + below, min(FIRST + below + count, end)
        found = list(once.judge(records.read(first, last), first))
        assert [each._replace(kind=0, body=b"") for each in found] == [
            each._replace(kind=0, body=b"") for each in records.read(first, last)
        ]
        assert [each.offset for each in found if each.kind == ABSENT] == [
            each for each in wanted if first <= each < last
        ]
    kept = once.end()
    for next_cursor in (cursor, end):
        once.begin(next_cursor, kept)
        again = [once.judged(each) for each in logged if each.offset >= next_cursor]
        assert [each.offset for each in again if each.kind == ABSENT] == [
            each for each in wanted if each >= next_cursor
        ]


@given(st.lists(record, max_size=60))
def test_a_window_forgets_what_it_needs_no_more(given_records):
    """By count: at most an eighth more than what may be repeated."""
    window = RepeatWindow(OnceLimits(3600.0, 16), FIRST)
    for each in logged_of(given_records):
        window.take(each)
        assert len(window) <= (16 + 3 + 3) * 3


def test_readers_that_take_turns_know_much_ahead(monkeypatch):
    """Three readers at distant places look back a few times, not for each chunk."""
    monkeypatch.setattr(_once, "AHEAD_RECORDS", 40)
    logged = logged_of([Given((number % 7,), "events", 1) for number in range(300)])
    limits, end = OnceLimits(60.0, 10), FIRST + 300
    opened = []

    def open_records() -> Records:
        opened.append(1)
        return Records(logged, end)

    once = once_of(limits, open_records)
    once.begin(end)
    wanted = repeats_of(logged, limits)
    places = [FIRST + 10, FIRST + 100, FIRST + 200]
    for step in range(40):
        for place in places:
            at = place + 2 * step
            found = list(once.judge(Records(logged, end).read(at, at + 2), at))
            assert [each.offset for each in found if each.kind == ABSENT] == [
                each for each in wanted if at <= each < at + 2
            ]
    assert len(opened) <= 1 + 3 * 3


def test_windows_that_nobody_reads_with_are_freed_in_parts():
    """A minute later, a part a tick; what is known stays, and a reader looks back again."""
    logged = logged_of([Given((number % 7,), "events", 1) for number in range(100)])
    limits, end, clock = OnceLimits(60.0, 20), FIRST + 100, VirtualClock()
    opened: list[int] = []

    def open_records() -> Records:
        opened.append(1)
        return Records(logged, end)

    once = once_of(limits, open_records, clock=clock)
    once.begin(end)
    wanted = repeats_of(logged, limits)

    def judge(first: int, last: int) -> int:
        before = len(opened)
        found = list(once.judge(Records(logged, end).read(first, last), first))
        assert [each.offset for each in found if each.kind == ABSENT] == [
            each for each in wanted if first <= each < last
        ]
        return len(opened) - before

    assert judge(40, 50) == 1
    once.tick()
    assert judge(50, 60) == 0
    clock.move_to(clock.monotonic_s() + _once.UNUSED_S)
    for _ in range(30):
        once.tick()
    assert judge(40, 60) == 0
    assert judge(60, 70) == 1


def test_a_look_back_ends_where_the_partition_is_let_go_of():
    """In the middle: the next owner waits for it."""
    logged = logged_of([Given((number,), "events", 1) for number in range(100)])
    end, read = FIRST + 100, []

    class Watched(Records):
        def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
            for each in super().read(from_offset, to_offset):
                read.append(each.offset)
                if read[-1] == FIRST + 30:
                    once.stop()
                yield each

    once = once_of(OnceLimits(60.0, 50), lambda: Watched(logged, end))
    once.begin(end)
    read.clear()
    with pytest.raises(LogUnavailableError):
        list(once.judge(Records(logged, end).read(FIRST + 45, end), FIRST + 45))
    assert read[-1] == FIRST + 30
    once.end()
