"""Which routes are told of an event: what the history knows, then what their filters say."""

import pytest

from distributary.core.flow import Position, RouteRecord, decode_route
from distributary.history.attempts import EventRow
from distributary.subscriptions.events import FoundEvent
from distributary.subscriptions.events import _way as way
from distributary.subscriptions.store.demands import RouteName
from distributary.subscriptions.store.event_rows import RouteTimes
from distributary.subscriptions.store.stored import Put
from kit.event_log import ListedRoutes, numbered

ACCEPTED_MS = 1_000_000


class Names:
    """What the store knows of routes."""

    def __init__(self, times=None):
        self.times = times or {}

    def route_times(self, uids):
        """Of those that a test named."""
        return {uid: self.times[uid] for uid in uids if uid in self.times}

    def route_names(self, uids):
        """Of all but one that is gone."""
        return {uid: RouteName("subscription", f"name-of-{uid}") for uid in uids if uid != "gone"}


def found(route=""):
    """An event, of a timer where *route* says so."""
    return FoundEvent(Position(0, 7, 0), ACCEPTED_MS, "", "/events", route, numbered(1))


def record(uid, **members):
    """A route."""
    return RouteRecord(seq=1, op="put", uid=uid, revision=1, **members)


def row(uid, outcome=None, number=1):
    """A row of the history."""
    empty = dict.fromkeys(("stage", "attempt", "duration_s", "status", "decision", "reason"))
    return EventRow(
        number=number,
        time_ms=ACCEPTED_MS + 5,
        uid=uid,
        namespace="default",
        subscription="once",
        revision=4,
        outcome=outcome,
        answer=None,
        **empty,
    )


def told(rows=(), records=(), times=None, route="", only=None, **more):
    """What is told of the event."""
    return way.matches_of(found(route), rows, ListedRoutes(*records), Names(times), only, **more)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, ["old"]),
        ({"begin_ms": 0}, ["old", "new"]),
        ({"begin_ms": ACCEPTED_MS}, ["old", "new"]),
        ({"begin_ms": ACCEPTED_MS + 1}, ["old"]),
    ],
    ids=["latest", "earliest", "from it", "from the next"],
)
def test_a_route_that_came_later_never_saw_the_event(members, expected):
    """Unless it begins in the past, and the event is not older than that."""
    late_ms = ACCEPTED_MS + 9
    times = {"old": RouteTimes(5, 5), "new": RouteTimes(late_ms, late_ms)}
    matches, more = told(records=[record("old"), record("new", **members)], times=times)
    assert ([match.uid for match in matches], more) == (expected, False)


@pytest.mark.parametrize("first", ["latest", "earliest"])
def test_a_start_that_came_with_a_replace_shows_no_match_from_before(store, spec, first):
    """It counts for new subscriptions; the first one is not known any more, but by the history."""
    store.apply([Put("a", spec(config={"start": first}), "u")], ACCEPTED_MS + 1)
    (replaced,) = store.apply([Put("a", spec(config={"start": "earliest"}), "v")], ACCEPTED_MS + 2)
    newest = decode_route(replaced.record)
    event = FoundEvent(Position(0, 7, 0), ACCEPTED_MS, "", newest.address, "", numbered(1))
    assert way.matches_of(event, [], ListedRoutes(newest), store) == ([], False)
    (match,), _ = way.matches_of(event, [], ListedRoutes(newest), store, "u")
    assert (match.matched, match.why) == (False, [way.MADE_LATER])
    (match,), _ = way.matches_of(event, [row("u")], ListedRoutes(newest), store)
    assert (match.uid, match.matched) == ("u", True)


def test_a_route_that_has_changed_since_says_so():
    """Its filters may have been others."""
    times = {"u": RouteTimes(5, ACCEPTED_MS + 1), "v": RouteTimes(5, 9)}
    matches, _ = told(records=[record("u"), record("v")], times=times)
    assert [(match.uid, match.changed) for match in matches] == [("u", True), ("v", False)]


def test_the_history_counts_more_than_filters_of_today():
    """A route with rows matched, whatever its newest filters say, and even if it is deleted."""
    rows = [row("u"), row("gone", "dropped"), row("u", "delivered", 2)]
    matches, _ = told(rows, [record("u", types=("other",))])
    assert [(match.uid, match.matched, match.revision) for match in matches] == [
        ("u", True, 4),
        ("gone", True, 4),
    ]
    assert [match.outcome.outcome for match in matches] == ["delivered", "dropped"]
    assert [match.name.text for match in matches] == ["name-of-u", "once"]
    assert [match.deleted for match in matches] == [False, True]


def test_an_event_of_a_timer_has_one_route():
    """Others of the address do not see it."""
    matches, _ = told(records=[record("u"), record("timer")], route="timer")
    assert [match.uid for match in matches] == ["timer"]


def test_a_broker_with_many_routes_is_cut_with_a_word(monkeypatch):
    """Those that match come first."""
    monkeypatch.setattr(way, "MATCHES_MAX", 3)
    records = [record(f"u{number}", types=("other",)) for number in range(4)]
    matches, more = told([row("h", "delivered")], [*records, record("last")])
    assert ([match.uid for match in matches], more) == (["h", "last", "u0"], True)


def test_no_more_filters_are_evaluated_than_a_bound(monkeypatch):
    """A Broker may have 100,000 routes."""
    monkeypatch.setattr(way, "LOOKED_ROUTES_MAX", 2)
    matches, more = told(records=[record(f"u{number}") for number in range(4)])
    assert (len(matches), more) == (2, True)


def test_no_more_is_parsed_for_one_event_than_a_bound(monkeypatch):
    """An expression within others counts like any other, and CESQL by its length."""
    monkeypatch.setattr(way, "LOOKED_EFFORT_MAX", 40)
    sql = {"not": {"any": [{"sql": "type = 'other'"}]}}
    matches, more = told(records=[record(f"u{number}", filters=(sql,)) for number in range(4)])
    assert (len(matches), more) == (2, True)  # three expressions and 14 characters each


@pytest.mark.parametrize(
    ("members", "born_ms", "reasons"),
    [
        ({}, 5, []),
        ({"types": ("other",)}, 5, ["$.types"]),
        ({"address": "elsewhere"}, 5, ["$.config.broker"]),
        ({}, ACCEPTED_MS + 1, ["$"]),
        ({"begin_ms": 0}, ACCEPTED_MS + 1, []),
        ({"begin_ms": ACCEPTED_MS + 1}, ACCEPTED_MS + 2, ["$"]),
    ],
)
def test_one_route_alone_is_told_of_wherever_it_listens(monkeypatch, members, born_ms, reasons):
    """Among however many others; and why it did not get the event, whatever the reason is."""
    monkeypatch.setattr(way, "LOOKED_ROUTES_MAX", 1)
    records = [*(record(f"u{number}") for number in range(9)), record("asked", **members)]
    times = {"asked": RouteTimes(born_ms, born_ms)}
    (match,), more = told([row("u1")], records, times, only="asked")
    assert (match.uid, match.matched, more) == ("asked", not reasons, False)
    assert [each.path for each in match.why] == reasons


def test_one_route_alone_has_its_rows_or_nothing():
    """Rows of others are theirs; an event of a timer is for one route."""
    (match,), _ = told([row("u"), row("v", "delivered")], [record("u"), record("v")], only="v")
    assert (match.uid, match.outcome.outcome) == ("v", "delivered")
    (match,), _ = told([], [record("u"), record("timer")], route="timer", only="u")
    assert [each.path for each in match.why] == ["$.config.interval"]
    assert told([row("u")], [record("u")], only="deleted") == ([], False)


@pytest.mark.parametrize(
    ("waits", "expected"),
    [(None, set()), (frozenset("a"), {"tried"}), (frozenset(), {"tried", "a"})],
    ids=["not known", "one waits", "none waits"],
)
def test_a_match_that_waits_for_nothing_has_ended(waits, expected):
    """Its rows are deleted, or were never written; what has an outcome says how it ended."""
    rows = [row("done", "delivered"), row("tried")]
    records = [record("a"), record("other", types=("t.other",))]
    matches, _ = told(rows, records, waits=waits)
    assert {match.uid for match in matches} == {"done", "tried", "a", "other"}
    assert {match.uid for match in matches if match.ended} == expected
