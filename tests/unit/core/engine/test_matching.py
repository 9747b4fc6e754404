"""Which matches a record makes for the live reader."""

from types import SimpleNamespace

import pytest

from distributary.core.engine import EngineLimits
from distributary.core.engine._backfill import Backfill
from distributary.core.engine._matching import Matching
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import (
    ABOUT_ROUTE,
    DoneKey,
    Logged,
    RecordKind,
    RouteRecord,
    TimerEvent,
    encode_route,
    encode_timer_event,
)
from distributary.core.meter import Meter
from distributary.core.outcome.rows import BackfillRow
from distributary.core.route import RouteTable

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"")
ROUTE = "r"
KEY = DoneKey(4, 0, ROUTE)


class Stage:
    """The matching of a partition with one route; notes what is void, and what it reports."""

    def __init__(self, **route):
        self.void, self.reports = [], []
        self.table = RouteTable()
        self.table.apply(RouteRecord(seq=1, op="put", uid=ROUTE, revision=1, **route))
        self.backfills = SimpleNamespace(by_route={}, covers=lambda *_place: False)
        state = SimpleNamespace(
            partition=0,
            follower=SimpleNamespace(table=self.table),
            backfills=self.backfills,
            meter=Meter(),
            effects=SimpleNamespace(
                report=lambda name, fields: self.reports.append((name, fields)),
                warn=lambda name, fields: self.reports.append((name, fields)),
            ),
            limits=EngineLimits(),
        )
        for name in ("events_read_total", "matches_total"):
            state.meter.add(name, 0)
        self.matching = Matching(state, SimpleNamespace(void=self.void.append))

    def routes(self, kind, body, checksum=7):
        """Routes of the matches of the record at the key's offset."""
        return [
            task.route for task in self.matching.tasks(Logged(KEY.offset, 1, checksum, kind, body))
        ]


def event_or_tick(stage, kind, checksum=7):
    """Routes that see the event, as somebody's or as their own tick."""
    body = event_record.encode([EVENT])
    if kind == RecordKind.TIMER_EVENT:
        body = encode_timer_event(TimerEvent(ROUTE, 1, 1, EVENT))
    return stage.routes(kind, body, checksum)


both = pytest.mark.parametrize("kind", [RecordKind.EVENTS, RecordKind.TIMER_EVENT])


@both
def test_a_match_with_an_outcome_is_done_while_its_record_is_the_same(kind):
    """Or with a row; then nothing is void."""
    stage = Stage()
    stage.matching.load({KEY: 7})
    assert event_or_tick(stage, kind) == []
    assert stage.void == []


@both
def test_an_outcome_of_another_record_at_the_place_is_void(kind):
    """The log lost a record and used its position again: the new one is delivered."""
    stage = Stage()
    stage.matching.load({KEY: 8})
    assert event_or_tick(stage, kind) == [ROUTE]
    assert stage.void == [KEY]


@both
def test_a_match_without_an_outcome_is_made(kind):
    """Outcomes of other matches say nothing of it."""
    stage = Stage()
    stage.matching.load({KEY._replace(route="other"): 7, KEY._replace(offset=9): 7})
    assert event_or_tick(stage, kind) == [ROUTE]
    assert stage.void == []


@both
@pytest.mark.parametrize(
    ("route", "seen"),
    [
        ({"filters": ({"exact": {"type": "t"}},)}, True),
        ({"filters": ({"exact": {"type": "another"}},)}, False),
        ({"types": ("another",)}, False),
        ({"source": "/another"}, False),
        ({"present": ("missing",)}, False),
    ],
)
def test_filters_judge_a_timer_event_as_they_judge_an_event(kind, route, seen):
    """Its own route alone sees it, where the filters that stand here let it pass."""
    assert event_or_tick(Stage(**route), kind) == [ROUTE] * seen


@both
def test_what_a_backfill_covers_is_not_the_live_readers(kind):
    """The reader that catches up brings it."""
    stage = Stage()
    stage.backfills.by_route[ROUTE] = [object()]
    stage.backfills.covers = lambda *place: place == (ROUTE, KEY.offset, 0)
    assert event_or_tick(stage, kind) == []


def test_a_timer_event_of_a_route_that_is_gone_is_dropped_and_told():
    """Nobody else sees it."""
    stage = Stage()
    stage.table.apply(RouteRecord(seq=2, op="delete", uid=ROUTE, revision=1))
    stage.table.apply(RouteRecord(seq=3, op="put", uid="other", revision=1))
    assert event_or_tick(stage, RecordKind.TIMER_EVENT) == []
    told = {"route": ROUTE, "offset": KEY.offset, "reason": "route-deleted"}
    assert stage.reports == [("tick-dropped", told)]


def test_an_event_about_the_route_passes_its_filters():
    """They say which events of others it wants."""
    stage = Stage(filters=({"exact": {"type": "another"}},), address="elsewhere")
    body = encode_timer_event(TimerEvent(ROUTE, 1, ABOUT_ROUTE, EVENT))
    assert stage.routes(RecordKind.TIMER_EVENT, body) == [ROUTE]
    stage.table.apply(RouteRecord(seq=2, op="delete", uid=ROUTE, revision=1))
    assert stage.routes(RecordKind.TIMER_EVENT, body) == []


@pytest.mark.parametrize("number", [ABOUT_ROUTE, 1])
def test_a_backfill_lets_it_pass_likewise(number):
    """Whoever brings it, the filters hold back timer events alone."""
    record = RouteRecord(
        seq=1, op="put", uid=ROUTE, revision=1, filters=({"exact": {"type": "another"}},)
    )
    backfill = Backfill(0, BackfillRow(ROUTE, 0, 0, 0, None, encode_route(record)))
    body = encode_timer_event(TimerEvent(ROUTE, 1, number, EVENT))
    tasks = backfill.match(Logged(KEY.offset, 1, 7, RecordKind.TIMER_EVENT, body), 0)
    assert [task.route for task in tasks] == [ROUTE] * (number == ABOUT_ROUTE)


@pytest.mark.parametrize(
    ("archived_to", "time_ms", "taken"),
    [
        pytest.param(0, 9, True, id="in the log, after the clock was set back"),
        pytest.param(KEY.offset + 1, 9, False, id="in a stretch of an archive that begins earlier"),
        pytest.param(KEY.offset + 1, 10, True, id="in an archive, from the time on"),
    ],
)
def test_offsets_decide_in_the_log_and_times_in_an_archive(archived_to, time_ms, taken):
    """A record of the log behind the first one that is wanted is wanted, whatever its time."""
    record = RouteRecord(seq=1, op="put", uid=ROUTE, revision=1, begin_ms=10)
    backfill = Backfill(0, BackfillRow(ROUTE, 0, 0, 0, None, encode_route(record)))
    body = event_record.encode([EVENT])
    logged = Logged(KEY.offset, time_ms, 7, RecordKind.EVENTS, body)
    assert bool(backfill.match(logged, archived_to)) == taken
