"""No route ever sees an event of another address, whoever reads the log: live or late."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.engine import EngineLimits
from distributary.core.engine._catching_up import CatchingUp
from distributary.core.engine._matching import Matching
from distributary.core.engine.backfills import Backfills
from distributary.core.event import Event, record
from distributary.core.flow import (
    TTL_DEFAULT,
    Logged,
    RecordKind,
    RouteRecord,
    decode_route,
    encode_addressed,
    encode_route,
)
from distributary.core.meter import Meter
from distributary.core.outcome import BackfillRow
from distributary.core.route import RouteTable

ADDRESSES = ("", "x", "y")
ROUTES = ("r1", "r2", "r3")
UNKNOWN_KIND = 200

changes = st.tuples(
    st.just("put"), st.sampled_from(ROUTES), st.sampled_from(ADDRESSES), st.sampled_from(["", "a"])
)
deletes = st.tuples(st.just("delete"), st.sampled_from(ROUTES))
published = st.tuples(
    st.just("publish"),
    st.sampled_from(ADDRESSES),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 255)), min_size=1, max_size=3),
)
unknown = st.tuples(st.just("unknown"))
logs = st.lists(st.one_of(changes, published, published, deletes, unknown), max_size=20)


def write(steps):
    """The log, and by naive means: (route, offset, index) -> passes left, of every match."""
    log, standing, expected = [], {}, {}
    for offset, (what, *rest) in enumerate(steps):
        if what == "publish":
            kind, body = _publish(offset, *rest, standing, expected)
        elif what == "unknown":
            kind, body = UNKNOWN_KIND, b"from the future"
        else:
            kind, body = RecordKind.ROUTE, _change(offset, what, *rest, standing=standing)
        log.append(Logged(offset, 1_000, 7, kind, body))
    return log, expected


def _publish(offset, address, events, standing, expected):
    ttls = tuple(ttl for _, ttl in events)
    body = record.encode(
        [
            Event({"specversion": "1.0", "id": f"{index}", "source": "/s", "type": name}, None)
            for index, (name, _) in enumerate(events)
        ]
    )
    plain = not address and set(ttls) == {TTL_DEFAULT}
    for index, (name, ttl) in enumerate(events):
        for route, (where, type_) in standing.items():
            if where == address and type_ in ("", name):
                expected[route, offset, index] = ttl
    return (
        (RecordKind.EVENTS, body)
        if plain
        else (RecordKind.ADDRESSED, encode_addressed(address, ttls, body))
    )


def _change(offset, what, route, address="", type_="", *, standing):
    if what == "put":
        standing[route] = (address, type_)
    else:
        standing.pop(route, None)
    return encode_route(
        RouteRecord(
            seq=offset + 1,
            op=what,
            uid=route,
            revision=1,
            address=address,
            types=(type_,) if type_ else (),
        )
    )


class NoBackfills:
    """No route is backfilled."""

    by_route = ()

    def covers(self, *_place):
        """Nothing does."""
        return False


class Sending:
    """Takes every task of a backfill."""

    def __init__(self):
        self.tasks = []

    def offer_backfill(self, task):
        """Taken."""
        self.tasks.append(task)

    def refuses(self, _route, _offset, **_full):
        """Nothing is."""

    def is_done(self, _task):
        """Nothing is."""
        return False

    def may_join(self, _route):
        """It may not."""
        return False


def found(tasks):
    """As ``write`` says what is expected."""
    return {(task.route, task.position.offset, task.position.index): task.ttl for task in tasks}


@pytest.mark.slow
@given(logs)
def test_the_live_reader_matches_each_event_at_its_own_address(steps):
    """With the passes that it has left."""
    log, expected = write(steps)
    table, meter = RouteTable(), Meter()
    meter.add("events_read_total", 0)
    meter.add("matches_total", 0)
    state = SimpleNamespace(
        partition=0,
        follower=SimpleNamespace(table=table),
        backfills=NoBackfills(),
        meter=meter,
        effects=SimpleNamespace(report=pytest.fail, warn=pytest.fail),
        limits=EngineLimits(),
    )
    matching = Matching(state, SimpleNamespace(void=pytest.fail))
    tasks = []
    for logged in log:
        if logged.kind == RecordKind.ROUTE:
            table.apply(decode_route(logged.body))
        else:
            tasks += matching.tasks(logged)
    assert found(tasks) == expected
    assert len(tasks) == len(expected)
    events = [step[2] for step in steps if step[0] == "publish"]
    assert meter.counters["events_read_total"] == sum(map(len, events))


@pytest.mark.slow
@given(logs, st.sampled_from(ROUTES))
def test_a_backfill_from_the_first_record_finds_the_same(steps, route):
    """One that follows the changes of its route over the log, until its first delete."""
    log, expected = write(steps)
    own = [(at, step) for at, step in enumerate(steps) if step[0] == "put" and step[1] == route]
    if not own:
        return
    first = own[0][0]
    deletes = [at for at, step in enumerate(steps) if step == ("delete", route) and at > first]
    end = min(deletes, default=len(log))
    sending = Sending()
    effects = SimpleNamespace(
        read_log=lambda name, at: parts.log_read(name, at, iter(log[at:]), len(log))
    )
    backfills = Backfills(0, EngineLimits(), effects)
    state = SimpleNamespace(
        live=end,
        durable=0,
        limits=EngineLimits(),
        effects=effects,
        backfills=backfills,
        rows=SimpleNamespace(archived_to=0),
    )
    parts = CatchingUp(state, sending, sending)
    backfills.add(BackfillRow(route, first, 0, first, None, log[first].body))
    while parts.advance(joining=True):
        pass
    assert found(sending.tasks) == {
        key: ttl for key, ttl in expected.items() if key[0] == route and first < key[1] < end
    }
