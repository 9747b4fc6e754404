"""A data directory as a server leaves that was killed with everything under way, and what is open.

It is written by the stores themselves, so that a test chooses what is there: records deleted by
retention, a committed offset in the middle, outcomes above it, retries, backfills with and without
an end, kept dead letters of records that are gone, runs, counts and tallies.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from distributary.core.clock import SystemClock
from distributary.core.database import sqlite_url
from distributary.core.demand import DemandDetails
from distributary.core.engine.replays import name_of
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import (
    DoneKey,
    Mark,
    RecordKind,
    RouteRecord,
    Stage,
    decode_route,
    encode_route,
)
from distributary.core.journal import Journal, JournalState
from distributary.core.log import Appender, Reader, partition_dir, retain
from distributary.core.outcome import (
    BackfillRow,
    Budgets,
    Changes,
    DeadLetter,
    Deliveries,
    DeliveryStore,
    Failure,
    FileReservations,
    ParkedRow,
    Reservation,
    ReservationBatch,
    ReservationRequest,
    RetryRow,
    RunRow,
    Tally,
    TallyFile,
)
from distributary.core.route import RouteTable
from distributary.datadir import DataDir
from distributary.datadir.publishers import PublisherBook
from distributary.partitions.ports import Records
from distributary.subscriptions.store.store import Store
from kit.filled_data import fill

SEGMENT_BYTES: Final = 128 * 1024
ROUTES: Final = 4
LETTERS: Final = 40
ROWS: Final = 60
CHOSEN: Final = ("0-7", "0-3", "0-12", "1-21", "1-40", "1-3")
"""Dead letters of a run that nobody has begun. The third and the twenty-first of each partition are
not kept any more."""


class Open(NamedTuple):
    """What is open, and what is over, in one partition: by ids of events, without positions.

    Attributes:
        pending: (route, event) of each match that a start would deliver.
        rows: Retry rows, as (route, event, all but the position).
        letters: Kept dead letters, oldest first: (route, event, reason, time).
        runs: Progress of runs, in events and dead letters.
        events: Ids of the events of the log, in order, with their times.
    """

    pending: set[tuple[str, str]]
    rows: list[tuple[Any, ...]]
    letters: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    events: list[tuple[str, int]]


def _event(partition: int, number: int) -> Event:
    attributes = {"id": f"{partition}-{number}", "source": "/moving", "type": "com.example.moved"}
    return Event({"specversion": "1.0", **attributes}, b"x" * (number % 300))


def make(folder: Path, events: int, *, partitions: int = 2, seed: int = 1) -> list[str]:
    """Write the directory *folder* with *events* events; returns the uids of its routes."""
    paths = DataDir(folder)
    draw = random.Random(seed)  # noqa: S311 - drawn anew from its seed
    fill(
        paths,
        ROUTES,
        partitions,
        lambda n: {"sink": f"http://127.0.0.1:9/{n}", "protocol": "HTTP"},
        segment_bytes=SEGMENT_BYTES,
    )
    store = Store(sqlite_url(paths.state_db))
    routes = [each.uid for each in store.page("", ROUTES)]
    demands = {
        kind: store.demand(kind, routes[0], kind, 1, details=DemandDetails(by="ann")).seq
        for kind in ("redrive", "replay", "retry")
    }
    store.demand("purge", routes[0], "chosen", 1, details=DemandDetails(by="ann", ids=CHOSEN))
    store.close()
    reservations = FileReservations(paths.quota_db)
    for partition in range(partitions):
        _append(paths, partition, events // partitions)
        _Filler(paths, partition, routes, draw).fill(demands, reservations)
    reservations.close()
    return routes


def _append(paths: DataDir, partition: int, count: int) -> None:
    """Append events after the routes, and delete the oldest records with the routes."""
    book = PublisherBook({partition: paths.publishers(partition)})
    appender = Appender.open(paths.log, partition, clock=SystemClock(), segment_bytes=SEGMENT_BYTES)
    for first in range(0, count, 100):
        numbers = range(first, min(first + 100, count))
        bodies = [event_record.encode([_event(partition, number)]) for number in numbers]
        offset = appender.append([(RecordKind.EVENTS, body) for body in bodies])
        for place in range(len(bodies)):
            book.note(partition, offset + place, ["ann" if (offset + place) % 3 else "ben"])
    appender.close()
    book.flush()
    reader = Reader(paths.log, partition)
    table = RouteTable()
    for logged in reader.kinds(0, reader.durable_end(), RecordKind.ROUTE):
        table.apply(decode_route(logged.body))
    reader.close()
    retain(
        partition_dir(paths.log, partition),
        max(600, count // 16),
        bytes_max=0,
        age_max_s=10**9,
        now_ms=SystemClock().wall_ms(),
        snapshot_at_cut=lambda _cut: table.snapshot(),
    )


class _Filler:
    """Writes what an owner keeps of one partition."""

    def __init__(
        self, paths: DataDir, partition: int, routes: list[str], draw: random.Random
    ) -> None:
        self._paths, self._partition, self._routes, self._draw = paths, partition, routes, draw
        reader = Reader(paths.log, partition)
        self._start, self._end = reader.start(), reader.durable_end()
        records = reader.read(self._start, self._end)
        self._checksums = {logged.offset: logged.checksum for logged in records}
        self._bodies = {
            logged.offset: logged.body for logged in reader.read(self._start, self._end)
        }
        reader.close()
        self._middle = (self._start + self._end) // 2
        paths.outcome(partition).mkdir(parents=True, exist_ok=True)

    def fill(self, demands: dict[str, int], reservations: FileReservations) -> None:
        """Write all of it."""
        rows = self._rows()
        backfills = self._backfills()
        letters = self._letters()
        url = sqlite_url(self._paths.delivery_db(self._partition))
        store = DeliveryStore(url, self._partition, Budgets())
        parked = ParkedRow(self._routes[3], 1, 0, 5, "status-410", "http://127.0.0.1:9/3")
        store.apply(
            Changes(
                rows={row.key: row for row in rows},
                backfills={row.name: row for row in backfills},
                parked={parked.route: parked},
            )
        )
        for letter in letters:
            store.apply(Changes(dead_letters=[letter]))
        kept = [each.id for each in store.kept_dead_letters(LETTERS)]
        runs = {
            "redrive": RunRow(
                demands["redrive"], kept[9], kept[-1], 10, 0, done=False, total=LETTERS
            ),
            "replay": RunRow(demands["replay"], self._middle - 50, self._middle, 3, 1, done=False),
            "retry": RunRow(demands["retry"], 0, 0, 7, 0, done=True),
        }
        store.apply(Changes(runs={row.seq: row for row in runs.values()}))
        store.apply(Changes(taken=[letters[2].key, letters[20].key]))
        store.close()
        self._journal(rows, name_of(demands["replay"]))
        self._counts(rows, reservations)

    def _checksum(self, offset: int) -> int:
        return self._checksums.get(offset, 12345)

    def _rows(self) -> list[RetryRow]:
        rows: dict[DoneKey, RetryRow] = {}
        for number in range(ROWS):
            offset = self._draw.randrange(self._start, self._end)
            key = DoneKey(offset, 0, self._draw.choice(self._routes[:2]))
            failure = (
                Failure("status-503", "http://127.0.0.1:9/x", 503, "no") if number % 2 else None
            )
            void = number % 20 == 19
            event = event_record.encode([_event(9, number)]) if number % 10 == 0 else None
            rows[key] = RetryRow(
                key,
                self._checksum(offset) ^ void,
                Stage.DEAD_LETTER if number % 11 == 10 else Stage.PRIMARY,
                1 + number % 5,
                1_000 + number,
                failure,
                number % 7 == 6,
                event,
            )
        return list(rows.values())

    def _backfills(self) -> list[BackfillRow]:
        record = encode_route(RouteRecord(seq=1, uid=self._routes[2], revision=1, op="put"))
        ended, begun = self._middle - 400, self._middle - 100
        return [
            BackfillRow(self._routes[2], 3, 0, self._start + 20, ended, record),
            BackfillRow(self._routes[2], begun, 0, begun + 10, None, record),
        ]

    def _letters(self) -> list[DeadLetter]:
        """Of records that are gone, and of those that are there."""
        letters = []
        for number in range(LETTERS):
            offset = number if number % 4 == 0 else self._start + 7 * number
            letters.append(
                DeadLetter(
                    DoneKey(offset, 0, self._routes[number % 2]),
                    self._checksum(offset),
                    Failure("status-400", "http://127.0.0.1:9/y", 400, None),
                    event_record.encode([_event(7, number)]),
                    10_000 + number // 3,
                    "default",
                )
            )
        return letters

    def _journal(self, rows: list[RetryRow], replay: str) -> None:
        journal = Journal(self._paths.journal(self._partition), rows_from=1)
        below = self._middle - 1
        floor = self._start + 20
        closed = {(row.key.offset, row.key.route) for row in rows}
        done = [
            (DoneKey(offset, 0, route), self._checksum(offset))
            for route in self._routes
            for offset in range(self._middle, self._end)
            if self._draw.random() < 0.3 and (offset, route) not in closed
        ]
        done += [
            (DoneKey(offset, 0, self._routes[2]), self._checksum(offset))
            for offset in range(floor, self._middle, 3)
        ]
        done += [
            (DoneKey(offset, 0, replay), self._checksum(offset))
            for offset in range(self._middle - 80, self._middle, 2)
        ]
        journal.record(Mark(floor, self._checksum(floor - 1)), done[:100], {self._routes[2]: floor})
        journal.record(
            Mark(self._middle, self._checksum(below)), done[100:], {self._routes[2]: floor}
        )
        journal.close()

    def _counts(self, rows: list[RetryRow], reservations: FileReservations) -> None:
        tallies = TallyFile(self._paths.tallies(self._partition))
        tallies.put({uid: Tally(delivered=10 + n, failed=n) for n, uid in enumerate(self._routes)})
        tallies.close()
        asked = [
            ReservationRequest(Reservation(row.key, row.checksum), 1_000)
            for row in rows
            if row.key.route == self._routes[0]
        ]
        reservations.exchange(self._partition, ReservationBatch([], [], [], [], asked))


def opened(
    records: Records, state: JournalState, store: Deliveries, routes: list[str], seqs: list[int]
) -> Open:
    """What is open in a partition, wherever it is kept. A tiny owner, which only looks."""
    start, end = records.start(), records.durable_end()
    events = {
        logged.offset: (event_record.decode(logged.body)[0], logged)
        for logged in records.read(start, end)
        if logged.kind == RecordKind.EVENTS
    }
    rows = {row.key: row for row in store.rows()}
    pending = set(_pending(events, rows, state, store, routes))
    for run in store.runs(seqs).values():
        if not run.done and run.total != LETTERS:
            pending.update(_to_replay(run, events, state))
    letters = store.kept_dead_letters(10_000)
    places = {kept.id: place for place, kept in enumerate(letters)}
    names = {offset: str(event.text("id")) for offset, (event, _) in events.items()}

    def place(run: RunRow, number: int) -> Any:
        # A dead letter by how many come before it, a record by its event.
        if run.total == LETTERS:
            return sum(1 for each in places if each <= number)
        return number if run.done else names[number]

    return Open(
        pending,
        sorted(
            (key.route, names.get(key.offset, "gone"), *_rest(row, events, store))
            for key, row in rows.items()
        ),
        [
            (
                kept.dead_letter.key.route,
                str(event_record.decode(kept.event)[0].text("id")),
                kept.dead_letter.failure.reason,
                kept.dead_letter.kept_ms,
            )
            for kept in letters
        ],
        [
            (seq, place(run, run.at), place(run, run.through), *run[3:])
            for seq, run in sorted(store.runs(seqs).items())
        ],
        [(names[offset], logged.time_ms) for offset, (_, logged) in events.items()],
    )


def _rest(row: RetryRow, events: dict[int, Any], store: Deliveries) -> tuple[Any, ...]:
    """All of a row but its position: the checksum as whether it fits."""
    there = events.get(row.key.offset)
    fits = there is not None and there[1].checksum == row.checksum
    event = store.row_event(row.key) or b""
    reason = "" if row.failure is None else row.failure.reason
    return fits, row.stage, row.attempt, row.not_before_ms, reason, row.done, event


def _pending(
    events: dict[int, Any],
    rows: dict[DoneKey, RetryRow],
    state: JournalState,
    store: Deliveries,
    routes: list[str],
) -> Iterator[tuple[str, str]]:
    backfills = store.backfills()
    for offset, (event, logged) in events.items():
        for route in routes:
            key = DoneKey(offset, 0, route)
            if key in rows:
                if not rows[key].done and rows[key].checksum == logged.checksum:
                    yield route, str(event.text("id"))
                continue
            if state.done.get(key) == logged.checksum:
                continue
            held = any(row.route == route and row.holds(offset, 0) for row in backfills)
            if held or offset >= state.mark.offset:
                yield route, str(event.text("id"))


def _to_replay(
    run: RunRow, events: dict[int, Any], state: JournalState
) -> Iterator[tuple[str, str]]:
    """What a replay has yet to send."""
    name = name_of(run.seq)
    for offset, (event, logged) in events.items():
        done = state.done.get(DoneKey(offset, 0, name)) == logged.checksum
        if run.at <= offset < run.through and not done:
            yield name, str(event.text("id"))


def repeated(some: list[tuple[str, int]]) -> list[str]:
    """Ids that are there more than once."""
    return [name for name, count in Counter(name for name, _ in some).items() if count > 1]
