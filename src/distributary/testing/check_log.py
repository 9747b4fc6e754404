"""Contract suite of logs.

``check_log`` tests everything the rest of the system relies on, given a function that makes a log:
the embedded log, Kafka behind the same port and the memory log pass it. Framework-free: each check
is a plain function that raises ``AssertionError``.

Callers: tests/contract/log, and authors of further logs.
"""

from collections.abc import Callable
from typing import Protocol

from distributary.core.flow import Logged, RecordKind, RouteRecord, decode_route, encode_route
from distributary.core.log import Appends, iter_frames
from distributary.partitions.ports import Records
from distributary.testing.virtual import VirtualClock

CHUNK_BYTES = 4096
"""Size of chunks: some records of the checks fit, not all."""


class Log(Appends, Records, Protocol):
    """One partition of a log, with all that the rest of the system needs."""

    def retain(self, keep_from_offset: int, snapshot_at_cut: Callable[[int], bytes]) -> None:
        """Delete old records, none of them at or above *keep_from_offset*.

        Args:
            keep_from_offset: The smallest of cursor, backfills and waiting retries.
            snapshot_at_cut: Returns the routes in force before an offset: made durable before
                anything is deleted, and returned by ``route_snapshot``.
        """
        ...


class LogUnderTest(Log, Protocol):
    """A log with test hooks."""

    def damage(self, offset: int) -> None:
        """Make the record at *offset* unreadable."""
        ...

    def reopen(self) -> None:
        """Discard all memory and open the log again, as a new process would."""
        ...


MakeLog = Callable[[VirtualClock], LogUnderTest]
"""Makes an empty log that timestamps records by the clock."""

Check = Callable[[LogUnderTest, VirtualClock], None]


def check_log(make: MakeLog) -> None:
    """Run every check, each with a new log of *make*.

    Raises:
        AssertionError: The log breaks the contract; the traceback names the check.
    """
    for check in CHECKS:
        run_check(check, make)


def run_check(check: Check, make: MakeLog) -> None:
    """Run one check with a new log."""
    clock = VirtualClock()
    log = make(clock)
    try:
        check(log, clock)
    finally:
        log.close()


def _fill(log: Log, count: int, *, length: int = 300, kind: int = RecordKind.EVENTS) -> list[bytes]:
    bodies = [f"{number}:".encode().ljust(length, b".") for number in range(count)]
    for body in bodies:
        log.append([(kind, body)])
    return bodies


def _all(log: Log) -> list[Logged]:
    return list(log.read(log.start(), log.durable_end()))


def _in_chunks(log: Log, bytes_max: int) -> list[Logged]:
    offset, found = log.start(), list[Logged]()
    while offset < log.durable_end():
        chunk, following = log.read_chunk(offset, bytes_max)
        assert following > offset, "a chunk before the durable end makes progress"
        found += iter_frames(chunk)
        offset = following
    return found


def check_an_empty_log_has_no_records(log: LogUnderTest, _: VirtualClock) -> None:
    """Start and end are equal, and reading gives nothing."""
    start = log.start()
    assert start == log.durable_end()
    assert list(log.read(start, start + 10)) == []
    assert log.read_chunk(start, CHUNK_BYTES) == (b"", start)
    assert log.offset_at(0) == start


def check_append_returns_contiguous_offsets(log: LogUnderTest, _: VirtualClock) -> None:
    """The first offset is returned, the others follow it; the durable end moves with them."""
    first = log.append([(RecordKind.EVENTS, b"a"), (RecordKind.EVENTS, b"b")])
    assert log.durable_end() == first + 2
    assert log.append([(RecordKind.EVENTS, b"c")]) == first + 2
    assert log.durable_end() == first + 3
    assert [record.offset for record in _all(log)] == [first, first + 1, first + 2]


def check_what_was_appended_is_read(log: LogUnderTest, _: VirtualClock) -> None:
    """Kinds and bodies are read unchanged and in order, empty and large ones too."""
    entries = [
        (int(RecordKind.EVENTS), b""),
        (int(RecordKind.ROUTE), b"{}"),
        (int(RecordKind.TIMER_EVENT), b"\x94\xa1r\x01\x01\xc4\x00"),
        (int(RecordKind.ADDRESSED), b"\x93\xa1b\x91\x01\xc4\x00"),
        (int(RecordKind.CARRIED), b"\x01" + bytes(15)),
        (int(RecordKind.EVENTS), bytes(range(256)) * 40),
        (int(RecordKind.EVENTS), b"\xd7\x01" * 100),
    ]
    log.append(entries[:1])
    log.append(entries[1:])
    assert [(record.kind, record.body) for record in _all(log)] == entries


def check_read_respects_its_bounds(log: LogUnderTest, _: VirtualClock) -> None:
    """From is included, to is not, and nothing lies behind the durable end."""
    first = log.start()
    bodies = _fill(log, 6)
    assert [r.body for r in log.read(first + 2, first + 4)] == bodies[2:4]
    assert [r.body for r in log.read(first + 4, first + 100)] == bodies[4:]
    assert list(log.read(first + 3, first + 3)) == []
    assert list(log.read(first + 6, first + 9)) == []
    # One that stops in the middle goes on there, or anywhere else.
    assert [next(log.read(first + n, first + 6)).body for n in range(6)] == bodies
    assert [r.body for r in log.read(first + 1, first + 5)] == bodies[1:5]


def check_chunks_join_to_the_whole(log: LogUnderTest, _: VirtualClock) -> None:
    """Reading chunk after chunk gives every record once, whatever the chunk's length."""
    _fill(log, 40)
    whole = _all(log)
    for bytes_max in (1, 700, CHUNK_BYTES, 10**6):
        assert _in_chunks(log, bytes_max) == whole
        assert log.read_chunk(log.durable_end(), bytes_max) == (b"", log.durable_end())


def check_chunks_begin_anywhere(log: LogUnderTest, _: VirtualClock) -> None:
    """A chunk begins at the requested record, in any order of requests."""
    first = log.start()
    bodies = _fill(log, 20)
    for number in (19, 0, 7, 8, 3):
        chunk, _next = log.read_chunk(first + number, CHUNK_BYTES)
        record = next(iter_frames(chunk))
        assert (record.offset, record.body) == (first + number, bodies[number])


def check_the_tail_is_seen_as_it_grows(log: LogUnderTest, _: VirtualClock) -> None:
    """A reader at the end gets the next appended records, and only those."""
    offset = log.start()
    for number in range(30):
        body = str(number).encode() * 50
        log.append([(RecordKind.EVENTS, body)])
        chunk, offset = log.read_chunk(offset, CHUNK_BYTES)
        assert [record.body for record in iter_frames(chunk)] == [body]


def check_kinds_selects(log: LogUnderTest, _: VirtualClock) -> None:
    """Records of one kind are found between the others."""
    _fill(log, 5)
    log.append([(RecordKind.ROUTE, b"r1"), (RecordKind.EVENTS, b"e"), (RecordKind.ROUTE, b"r2")])
    routes = list(log.kinds(log.start(), log.durable_end(), RecordKind.ROUTE))
    assert routes == [record for record in _all(log) if record.kind == RecordKind.ROUTE]
    assert [record.body for record in routes] == [b"r1", b"r2"]


def check_records_carry_their_time(log: LogUnderTest, clock: VirtualClock) -> None:
    """Each record has the wall clock of its append, and the time finds the record."""
    first = log.start()
    times: list[int] = []
    for number in range(12):
        clock.move_to(number * 10.0)
        log.append([(RecordKind.EVENTS, b"x" * 400)])
        times.append(clock.wall_ms())
    assert [record.time_ms for record in _all(log)] == times
    for number, time_ms in enumerate(times):
        assert log.offset_at(time_ms) == first + number
        assert log.offset_at(time_ms - 1) == first + number
    assert log.offset_at(times[-1] + 1) == log.durable_end()


def check_time_never_goes_back(log: LogUnderTest, clock: VirtualClock) -> None:
    """A wall clock that is set back does not make a record older than the one before it."""
    log.append([(RecordKind.EVENTS, b"a")])
    clock.jump(-3_600_000)
    log.append([(RecordKind.EVENTS, b"b")])
    log.reopen()
    log.append([(RecordKind.EVENTS, b"c")])
    times = [record.time_ms for record in _all(log)]
    assert times == sorted(times)


def check_reopening_keeps_everything(log: LogUnderTest, _: VirtualClock) -> None:
    """A new process finds the same records, and continues their offsets."""
    _fill(log, 25)
    before = _all(log)
    log.reopen()
    assert _all(log) == before
    following = log.append([(RecordKind.EVENTS, b"later")])
    assert following == before[-1].offset + 1
    log.reopen()
    assert [record.body for record in _all(log)] == [*(r.body for r in before), b"later"]


def check_checksums_tell_records_apart(log: LogUnderTest, clock: VirtualClock) -> None:
    """Another body, time or offset is another checksum; reading again is the same one."""
    log.append(
        [(RecordKind.EVENTS, b"same"), (RecordKind.EVENTS, b"same"), (RecordKind.EVENTS, b"other")]
    )
    clock.move_to(1.0)
    log.append([(RecordKind.EVENTS, b"same")])
    checksums = [record.checksum for record in _all(log)]
    assert len(set(checksums)) == 4
    log.reopen()
    assert [record.checksum for record in _all(log)] == checksums


def check_routes_stand_where_they_were_appended(log: LogUnderTest, _: VirtualClock) -> None:
    """A change of a route is a record among the events: before those that it decides about."""
    changes = [
        RouteRecord(seq=1, op="put", uid="r", revision=1, types=("a",)),
        RouteRecord(seq=2, op="delete", uid="r", revision=1),
    ]
    first, _between, second, end = (
        log.append([(RecordKind.ROUTE, encode_route(changes[0]))]),
        log.append([(RecordKind.EVENTS, b"e"), (RecordKind.EVENTS, b"e")]),
        log.append([(RecordKind.ROUTE, encode_route(changes[1])), (RecordKind.EVENTS, b"e")]),
        log.durable_end(),
    )
    assert [record.offset for record in log.kinds(0, end, RecordKind.ROUTE)] == [first, second]
    assert [decode_route(r.body) for r in log.kinds(0, end, RecordKind.ROUTE)] == changes
    assert [decode_route(r.body) for r in log.kinds(first + 1, end, RecordKind.ROUTE)] == changes[
        1:
    ]
    assert not list(log.kinds(first + 1, second, RecordKind.ROUTE))


def _routes_at(cut: int) -> bytes:
    return f"routes at {cut}".encode()


def check_retention_deletes_nothing_that_is_needed(log: LogUnderTest, _: VirtualClock) -> None:
    """Kept records are unchanged; reads of deleted ones start at the log's beginning."""
    first = log.start()
    bodies = _fill(log, 100)
    end = log.durable_end()
    assert log.route_snapshot() is None
    for keep_from in (first, first + 60, first + 60, first + 90, first + 10):
        before = log.start()
        log.retain(keep_from, _routes_at)
        start = log.start()
        assert before <= start <= max(before, keep_from)
        assert [record.body for record in _all(log)] == bodies[start - first :]
        assert [record.body for record in log.read(first, end)] == bodies[start - first :]
        chunk, _next = log.read_chunk(first, 1)
        assert next(iter_frames(chunk)).offset == start
        assert log.offset_at(0) == start
        assert log.route_snapshot() == (None if start == first else (start, _routes_at(start)))
    before_all = _all(log)
    log.reopen()
    assert (log.start(), log.durable_end(), _all(log)) == (start, end, before_all)
    assert log.route_snapshot() == (None if start == first else (start, _routes_at(start)))
    assert log.append([(RecordKind.EVENTS, b"later")]) == end


def check_a_hole_is_passed_over(log: LogUnderTest, _: VirtualClock) -> None:
    """Unreadable records are skipped by every way of reading, and affect no others."""
    first = log.start()
    _fill(log, 30)
    log.append([(RecordKind.ROUTE, b"r")])
    whole = _all(log)
    for lost in (first + 7, first + 8, first + 20):
        log.damage(lost)
    left = [record for record in whole if record.offset - first not in {7, 8, 20}]
    for _again in range(2):
        assert _all(log) == left
        assert next(log.read(first + 7, first + 30)).offset == first + 9
        assert not list(log.read(first + 7, first + 9))
        assert [record.body for record in log.kinds(first, first + 31, RecordKind.ROUTE)] == [b"r"]
        for bytes_max in (1, CHUNK_BYTES):
            assert _in_chunks(log, bytes_max) == left
        log.reopen()
    assert log.append([(RecordKind.EVENTS, b"later")]) == first + 31


def check_a_budget_of_bytes_is_a_place(log: LogUnderTest, _: VirtualClock) -> None:
    """More bytes give an earlier offset: all the log's start, none still its newest part."""
    _fill(log, 100)
    end = log.durable_end()
    places = [log.offset_within(size) for size in (0, 1, 5_000, 20_000, 30_000, 10**9)]
    assert places == sorted(places, reverse=True)
    assert places[0] < end
    assert places[-1] == log.start()


CHECKS: tuple[Check, ...] = (
    check_an_empty_log_has_no_records,
    check_append_returns_contiguous_offsets,
    check_what_was_appended_is_read,
    check_read_respects_its_bounds,
    check_chunks_join_to_the_whole,
    check_chunks_begin_anywhere,
    check_the_tail_is_seen_as_it_grows,
    check_kinds_selects,
    check_records_carry_their_time,
    check_time_never_goes_back,
    check_reopening_keeps_everything,
    check_checksums_tell_records_apart,
    check_routes_stand_where_they_were_appended,
    check_retention_deletes_nothing_that_is_needed,
    check_a_hole_is_passed_over,
    check_a_budget_of_bytes_is_a_place,
)
"""Every check, for parametrized tests."""
