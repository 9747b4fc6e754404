"""The checker of the routes finds every way in which an event can meet the wrong ones."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from distributary.cli.ledger import Arrival
from distributary.core.event import Event, record
from distributary.core.filter import naive_matches
from distributary.core.flow import (
    AddressedEvents,
    Logged,
    RecordKind,
    RouteRecord,
    encode_addressed,
    encode_route,
)
from kit.route_checker import (
    ActiveRoutes,
    BackfillDrop,
    Drop,
    Evidence,
    FindingKind,
    Report,
    Verdicts,
    check,
    mark,
)


def _put(
    seq: int, uid: str, type_: str, revision: int = 1, *, path: str = "", address: str = ""
) -> RouteRecord:
    expressions = ({"exact": {"type": type_}}, mark(path or f"/{uid}"))
    return RouteRecord(
        seq=seq, op="put", uid=uid, revision=revision, filters=expressions, address=address
    )


def _delete(seq: int, uid: str) -> RouteRecord:
    return RouteRecord(seq=seq, op="delete", uid=uid, revision=1)


def _event(id_: int, type_: str, sent_ns: int = 0) -> Event:
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": str(id_),
        "source": "/s",
        "type": type_,
    }
    return Event(attributes | ({"sentns": str(sent_ns)} if sent_ns else {}), None)


def _log(*entries: RouteRecord | Event | list[Event] | AddressedEvents) -> list[Logged]:
    """A partition; a list is a batch."""
    log = []
    for offset, entry in enumerate(entries):
        if isinstance(entry, RouteRecord):
            kind, body = RecordKind.ROUTE, encode_route(entry)
        elif isinstance(entry, AddressedEvents):
            kind = RecordKind.ADDRESSED
            body = encode_addressed(entry.address, entry.ttls, record.encode(entry.events))
        else:
            batch = [entry] if isinstance(entry, Event) else entry
            kind, body = RecordKind.EVENTS, record.encode(batch)
        log.append(Logged(offset, 1_000 + offset, 7, kind, body))
    return log


def _got(id_: int, path: str, status: int = 204) -> Arrival:
    return Arrival(id=str(id_), source="/s", t=1, status=status, route=path)


LOGS = [
    _log(
        _put(1, "u1", "a"),
        _event(1, "a"),
        _put(2, "u2", "b"),
        _put(3, "u1", "b", revision=2),
        [_event(2, "a"), _event(3, "b")],
        _delete(4, "u1"),
        _event(4, "b"),
    ),
    _log(
        _event(5, "a"),
        _put(1, "u1", "a"),
        _put(2, "u2", "b"),
        _put(3, "u1", "b", revision=2),
        _delete(4, "u1"),
        _event(6, "b"),
    ),
]
"""Event 1 meets u1 as it was; 2 nobody; 3 both, u1 as it became; 4 and 6 only u2; 5 nobody."""

ARRIVALS = (
    _got(1, "/u1"),
    _got(3, "/u1"),
    _got(3, "/u2"),
    _got(4, "/u2", status=503),
    _got(4, "/u2"),
    _got(6, "/u2"),
)
EVIDENCE = Evidence(arrivals=ARRIVALS)


def _without(*gone: Arrival) -> tuple[Arrival, ...]:
    return tuple(arrival for arrival in ARRIVALS if arrival not in gone)


def test_a_good_run_is_found_good() -> None:
    """Every match is delivered, and nothing else; verdicts count the routes before each event."""
    assert check(LOGS, EVIDENCE) == Report(
        events=6, changes=4, verdicts=1 + 2 + 2 + 1 + 0 + 1, matches=5, delivered=5
    )


@pytest.mark.parametrize(
    ("arrivals", "kind"),
    [
        (_without(_got(3, "/u1")), FindingKind.MISSING),
        ((*_without(_got(3, "/u1")), _got(3, "/u1", status=500)), FindingKind.MISSING),
        ((*ARRIVALS, _got(2, "/u1")), FindingKind.EXTRA),
        ((*ARRIVALS, _got(5, "/u1")), FindingKind.EXTRA),
        ((*ARRIVALS, _got(4, "/u1")), FindingKind.EXTRA),
        ((*ARRIVALS, _got(1, "/elsewhere")), FindingKind.EXTRA),
        ((*ARRIVALS, _got(9, "/u1")), FindingKind.STRANGER),
        ((*ARRIVALS, _got(1, "/u1")), FindingKind.COPIES),
    ],
    ids=[
        "a delivery is lost",
        "only an attempt that failed",
        "the old filters after they were replaced",
        "before the route stood",
        "after the route was deleted",
        "a path of no route",
        "an event that is not in the log",
        "a second copy",
    ],
)
def test_one_wrong_delivery_is_found(arrivals: tuple[Arrival, ...], kind: FindingKind) -> None:
    """Exactly one finding, of the right kind."""
    report = check(LOGS, Evidence(arrivals=arrivals))
    assert report.counts == {kind: 1}
    assert [finding.kind for finding in report.examples] == [kind]
    assert not report.passed


def test_two_routes_that_were_swapped_are_found() -> None:
    """Each is missing what the other got."""
    swapped = {"/u1": "/u2", "/u2": "/u1"}
    arrivals = [
        Arrival(id=a.id, source=a.source, t=a.t, status=a.status, route=swapped[a.route])
        for a in ARRIVALS
    ]
    assert check(LOGS, Evidence(arrivals=arrivals)).counts == {
        FindingKind.MISSING: 3,
        FindingKind.EXTRA: 3,
    }


def test_a_match_may_be_dropped_with_its_route() -> None:
    """A drop that the server tells of stands for the delivery."""
    evidence = Evidence(arrivals=_without(_got(3, "/u1")), drops=[Drop(0, 4, 1, "u1")])
    report = check(LOGS, evidence)
    assert report.passed
    assert (report.delivered, report.dropped) == (4, 1)


def test_a_backfill_that_was_dropped_stands_for_what_lies_in_it() -> None:
    """Up to its end, and of its own route alone."""
    gone = Evidence(arrivals=_without(_got(3, "/u1")), drops=[BackfillDrop(0, "u1", 4, 5)])
    assert check(LOGS, gone).passed
    short = dataclasses.replace(gone, drops=[BackfillDrop(0, "u1", 2, 4)])
    assert check(LOGS, short).counts == {FindingKind.MISSING: 1}
    other = dataclasses.replace(gone, drops=[BackfillDrop(1, "u1", 4, 5)])
    assert check(LOGS, other).counts == {FindingKind.MISSING: 1}


@pytest.mark.parametrize(
    ("drop", "kinds"),
    [
        (Drop(0, 4, 0, "u1"), {FindingKind.EXTRA: 1}),
        (Drop(0, 4, 1, "u2"), {FindingKind.DROPPED: 1}),
        (BackfillDrop(0, "u2", 0, 9), {FindingKind.DROPPED: 1}),
    ],
    ids=["of what is no match", "of a route that stands", "of a lag of a route that stands"],
)
def test_a_drop_that_should_not_be_is_found(
    drop: Drop | BackfillDrop, kinds: dict[FindingKind, int]
) -> None:
    """Drops are evidence of evaluation, too."""
    assert check(LOGS, Evidence(arrivals=ARRIVALS, drops=[drop])).counts == kinds


def test_copies_are_allowed_up_to_the_bound() -> None:
    """As many as attempts were under way when something was killed."""
    arrivals = (*ARRIVALS, _got(1, "/u1"), _got(6, "/u2"))
    assert check(LOGS, Evidence(arrivals=arrivals, copies_max=2)).passed
    assert check(LOGS, Evidence(arrivals=arrivals, copies_max=1)).counts == {FindingKind.COPIES: 1}


def test_an_event_that_stands_twice_is_owed_twice() -> None:
    """A publisher that got no answer sends again: both copies are events."""
    log = [_log(_put(1, "u", "a"), _event(1, "a"), _event(1, "a"))]
    assert check(log, Evidence(arrivals=[_got(1, "/u")] * 2)).passed
    assert check(log, Evidence(arrivals=[_got(1, "/u")])).counts == {FindingKind.MISSING: 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda log: [*log[:1], *log[2:]],
        lambda log: [*log[:2], log[3], log[2], *log[4:]],
        lambda log: log[:-1],
    ],
    ids=["a change is missing", "two are swapped", "the last one is missing"],
)
def test_partitions_with_other_changes_are_found(
    change: Callable[[list[Logged]], list[Logged]],
) -> None:
    """Each partition must hold the same changes in the same order."""
    log = _log(_put(1, "u1", "a"), _put(2, "u2", "a"), _put(3, "u3", "a"), _put(4, "u4", "a"))
    assert check([log, log], Evidence(arrivals=())).passed
    report = check([log, change(log)], Evidence(arrivals=()))
    assert FindingKind.SKEW in report.counts


def test_an_event_sent_after_an_answer_must_stand_behind_the_change() -> None:
    """A create that was answered is live for whatever is sent from then on; a delete likewise."""
    log = [_log(_put(1, "u", "a"), _event(1, "b", sent_ns=150), _delete(2, "u"))]
    for answers, late in (((100, 200), False), ((100, 140), True), ((100,), False)):
        report = check(log, Evidence(arrivals=(), answered={"/u": answers}))
        assert (FindingKind.LATE in report.counts) is late
    before = [_log(_event(1, "b", sent_ns=150), _put(1, "u", "a"))]
    assert not check(before, Evidence(arrivals=(), answered={"/u": (100,)})).passed


def test_a_change_that_was_rolled_forward_twice_counts_once() -> None:
    """Its number is not above the last one."""
    log = [_log(_put(1, "u", "a"), _put(2, "u", "b", 2), _put(1, "u", "a"), _event(1, "a"))]
    assert check(log, Evidence(arrivals=())).changes == 2


def test_a_route_that_begins_in_the_past_is_refused() -> None:
    """What it replays has no place in the log, so silence would prove nothing."""
    route = RouteRecord(seq=1, op="put", uid="u", revision=1, begin_ms=0)
    with pytest.raises(ValueError, match="begins in the past"):
        check([_log(route)], Evidence(arrivals=()))


@pytest.mark.parametrize(
    "expression",
    [
        {"exact": {"id": "1"}},
        {"exact": {"flag": "1"}},
        {"any": [{"suffix": {"subject": "x"}}, {"not": {"prefix": {"subject": "y"}}}]},
        {"sql": "EXISTS subject\nAND (id = '1' OR subject LIKE '%x')"},
    ],
    ids=str,
)
def test_each_kind_of_event_has_the_verdict_of_the_plain_walk(expression: dict[str, Any]) -> None:
    """Events that differ in what a filter names share nothing."""
    events = [_event(n % 3, "a") for n in range(6)]
    for number, event in enumerate(events):
        if number % 2:
            event.attributes["subject"] = "yx" if number % 3 else "y"
            event.attributes["flag"] = True if number % 3 else 1
    changes = (
        RouteRecord(seq=1, op="put", uid="u", revision=1, filters=({"prefix": {"type": "a"}},)),
        RouteRecord(seq=2, op="put", uid="u", revision=2, filters=(expression,)),
        RouteRecord(seq=3, op="put", uid="u", revision=3, filters=({"not": expression},)),
        _delete(4, "u"),
    )
    routes = ActiveRoutes(Verdicts(changes, events))
    seen = set()
    for change in changes:
        routes.apply(change)
        for event in events:
            wanted = change.op == "put" and naive_matches(change.filters, event.attributes)
            seen.add(wanted)
            assert routes.match(event) == (["u"] if wanted else [])
    assert seen == {True, False}


ADDRESSED_LOG = _log(
    _put(1, "u1", "a", address="x"),
    _put(2, "u2", "a"),
    AddressedEvents("x", (255, 3), [_event(1, "a"), _event(2, "b")]),
    _event(3, "a"),
    _put(3, "u1", "a", revision=2, address="y"),
    AddressedEvents("x", (255,), [_event(4, "a")]),
    AddressedEvents("y", (255,), [_event(5, "a")]),
)
"""u1 sees events 1 and 5, u2 event 3; nobody sees 2 and 4."""


def test_an_event_meets_the_routes_of_its_own_address() -> None:
    """A route that moved sees what comes to the new address, and nothing of the old one."""
    good = (_got(1, "/u1"), _got(3, "/u2"), _got(5, "/u1"))
    report = check([ADDRESSED_LOG], Evidence(arrivals=good))
    assert (report.passed, report.events, report.matches, report.delivered) == (True, 5, 3, 3)


@pytest.mark.parametrize("stray", [_got(1, "/u2"), _got(3, "/u1"), _got(4, "/u1"), _got(5, "/u2")])
def test_an_event_of_another_address_is_found(stray: Arrival) -> None:
    """At whichever route it arrives."""
    arrivals = (_got(1, "/u1"), _got(3, "/u2"), _got(5, "/u1"), stray)
    report = check([ADDRESSED_LOG], Evidence(arrivals=arrivals))
    assert report.counts == {FindingKind.EXTRA: 1}


def test_an_attribute_that_must_be_there_counts() -> None:
    """As the route record says it, with any value."""
    change = RouteRecord(
        seq=1, op="put", uid="u1", revision=1, filters=(mark("/u1"),), present=("sentns",)
    )
    log = _log(change, _event(1, "a"), _event(2, "a", sent_ns=5))
    assert check([log], Evidence(arrivals=[_got(2, "/u1")])).passed
    assert check([log], Evidence(arrivals=[_got(1, "/u1")])).counts == {
        FindingKind.EXTRA: 1,
        FindingKind.MISSING: 1,
    }
