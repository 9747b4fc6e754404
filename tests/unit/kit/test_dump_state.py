"""The state dump: what a stopped server still holds, from files made by hand."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from distributary.core.database import sqlite_url
from distributary.core.event import Event, record
from distributary.core.flow import (
    DoneKey,
    Mark,
    RecordKind,
    RouteRecord,
    Stage,
    TimerEvent,
    encode_addressed,
    encode_route,
    encode_timer_event,
)
from distributary.core.journal import Journal
from distributary.core.log import Appender, open_folder
from distributary.core.outcome import (
    BackfillRow,
    Changes,
    DeadLetter,
    DeliveryStore,
    Failure,
    RetryRow,
)
from distributary.datadir import DataDir
from distributary.testing.check_ledgers import RouteSpec, State, matches_of
from kit.dump_state import dump_state

MATCHES = {"all": matches_of(RouteSpec()), "even": matches_of(RouteSpec(types=("even",)))}
UIDS = {"u-all": "all", "u-even": "even"}


class Clock:
    """A wall clock that stands."""

    def monotonic_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 1_700_000_000_000


def _event(number: int) -> Event:
    kind = "odd" if number % 2 else "even"
    return Event(
        {"specversion": "1.0", "id": str(number), "source": "/s", "type": kind}, b"%d" % number
    )


class Stopped:
    """A data directory with six events in one partition, and nothing delivered."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.paths = DataDir(data_dir)
        open_folder(self.paths.log, 1)
        appender = Appender.open(self.paths.log, 0, clock=Clock())
        for number in range(6):
            appender.append([(RecordKind.EVENTS, record.encode([_event(number)]))])
        appender.close()
        self.paths.outcome(0).mkdir(parents=True)
        self.journal = Journal(self.paths.journal(0))
        self.store = DeliveryStore(sqlite_url(self.paths.delivery_db(0)), 0)

    def dump(self) -> State:
        """The state dump as the checker reads it."""
        return msgspec.json.decode(dump_state(self.data_dir, UIDS, MATCHES), type=State)

    def pending(self) -> set[tuple[str, str]]:
        """(route, event id) of what is pending."""
        return {(kept.route, kept.id) for kept in self.dump().pending}


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Stopped]:
    """See ``Stopped``."""
    made = Stopped(tmp_path / "data")
    yield made
    made.journal.close()
    made.store.close()


def _key(offset: int, route: str) -> DoneKey:
    return DoneKey(offset, 0, route)


def test_what_no_cursor_has_passed_is_pending(stopped: Stopped) -> None:
    """Events at or above the cursor wait, for the routes that they match."""
    stopped.journal.record(Mark(3, 1), [])
    assert stopped.pending() == {("all", "3"), ("all", "4"), ("all", "5"), ("even", "4")}


def test_an_outcome_above_the_cursor_ends_the_wait(stopped: Stopped) -> None:
    """A match with an outcome is not pending, though the cursor has not passed it."""
    stopped.journal.record(Mark(4, 1), [(_key(4, "u-all"), 7)])
    assert stopped.pending() == {("all", "5"), ("even", "4")}


def test_a_waiting_row_is_pending_below_the_cursor_and_a_done_one_nowhere(
    stopped: Stopped,
) -> None:
    """Rows decide about their matches, wherever the cursor stands."""
    stopped.journal.record(Mark(5, 1), [])
    rows = (
        RetryRow(_key(1, "u-all"), 7, Stage.PRIMARY, 2, 0, None, done=False),
        RetryRow(_key(2, "u-even"), 7, Stage.PRIMARY, 2, 0, None, done=True),
        RetryRow(_key(5, "u-all"), 7, Stage.PRIMARY, 2, 0, None, done=True),
    )
    stopped.store.apply(Changes(rows={row.key: row for row in rows}))
    assert stopped.pending() == {("all", "1")}


def test_a_backfill_is_pending_from_its_row_to_where_it_joins(stopped: Stopped) -> None:
    """What a backfill has yet to read is pending, done matches excepted, up to where it joined."""
    stopped.journal.record(Mark(6, 1), [(_key(2, "u-all"), 7)])
    route = encode_route(RouteRecord(seq=1, op="put", uid="u-all", revision=1))
    backfill = BackfillRow("u-all", 0, 1, 0, 4, route)
    stopped.store.apply(Changes(backfills={backfill.name: backfill}))
    assert stopped.pending() == {("all", "1"), ("all", "3")}


def test_kept_dead_letters_are_listed(stopped: Stopped) -> None:
    """What the delivery store keeps is named by route, source and id."""
    stopped.journal.record(Mark(6, 1), [])
    failure = Failure("refused", "http://127.0.0.1:1/", 400)
    dead_letter = DeadLetter(_key(2, "u-even"), 7, failure, record.encode([_event(2)]), 0)
    stopped.store.apply(Changes(dead_letters=[dead_letter]))
    state = stopped.dump()
    assert [(kept.route, kept.source, kept.id) for kept in state.dead_letters] == [
        ("even", "/s", "2")
    ]
    assert state.pending == ()


def test_a_timer_event_is_pending_for_its_own_route_alone(stopped: Stopped) -> None:
    """An event that a timer made belongs to one subscription, whatever the others match."""
    appender = Appender.open(stopped.paths.log, 0, clock=Clock())
    appender.append(
        [(RecordKind.TIMER_EVENT, encode_timer_event(TimerEvent("u-all", 1, 1, _event(8))))]
    )
    appender.close()
    assert ("all", "8") in stopped.pending()
    assert ("even", "8") not in stopped.pending()


def test_an_addressed_event_is_pending_for_the_routes_there_alone(stopped: Stopped) -> None:
    """Routes listen at the default broker unless it is said otherwise."""
    body = encode_addressed("x", (255,), record.encode([_event(8)]))
    appender = Appender.open(stopped.paths.log, 0, clock=Clock())
    appender.append([(RecordKind.ADDRESSED, body)])
    appender.close()
    assert not {("all", "8"), ("even", "8")} & stopped.pending()
    dumped = dump_state(stopped.data_dir, UIDS, MATCHES, {"u-even": "x"})
    pending = msgspec.json.decode(dumped, type=State).pending
    assert [(kept.route, kept.id) for kept in pending if kept.id == "8"] == [("even", "8")]
    assert {kept.route for kept in pending} == {"all", "even"}
    assert ("even", "4") not in {(kept.route, kept.id) for kept in pending}
