from collections.abc import Iterable
from typing import Any

import pytest

from distributary.cli.ledger import Arrival, Sent, attributes_sha256, data_sha256
from distributary.testing.ledger_checker import (
    EXAMPLES_MAX,
    FindingKind,
    Key,
    Report,
    RouteEvidence,
    check,
    expects_keys,
)


def sent(number: int, **changes: Any) -> Sent:
    """One acknowledged event."""
    attributes = {"id": str(number), "source": "/s", "type": "t", "specversion": "1.0"}
    facts: dict[str, Any] = {
        "id": str(number),
        "source": "/s",
        "state": "acked",
        "t": 1,
        "attributes": attributes,
        "data_sha256": data_sha256(b"%d" % number),
        "status": 202,
    }
    return Sent(**(facts | changes))


def arrived(number: int, **changes: Any) -> Arrival:
    """The delivery of that event, unchanged."""
    event = sent(number)
    facts: dict[str, Any] = {
        "id": event.id,
        "source": event.source,
        "t": 2,
        "status": 200,
        "data_sha256": event.data_sha256,
        "attributes_sha256": attributes_sha256(event.attributes),
    }
    return Arrival(**(facts | changes))


def one_route(sendings: Iterable[Sent], bound: int = 0, **evidence: Any) -> Report:
    """Check a single route that gets everything unless told otherwise."""
    facts: dict[str, Any] = {"matches": lambda _: True} | evidence
    return check(sendings, {"r": RouteEvidence(**facts)}, duplicates_max=bound)


def kinds(report: Report) -> dict[FindingKind, int]:
    """Findings by kind."""
    return report.counts


def test_a_run_without_faults_passes() -> None:
    """Every event delivered once: nothing to find, and the counts say so."""
    report = one_route([sent(1), sent(2)], arrivals=[arrived(1), arrived(2)])
    assert report.passed
    assert report.sent == {"acked": 2, "refused": 0, "unknown": 0}
    assert report.routes["r"]["expected"] == 2
    assert report.routes["r"]["delivered"] == 2


def test_an_acknowledged_event_that_came_nowhere_is_lost() -> None:
    """Planted: one of two events is missing."""
    report = one_route([sent(1), sent(2)], arrivals=[arrived(1)])
    assert kinds(report) == {FindingKind.LOST: 1}
    assert report.examples[0][:4] == (FindingKind.LOST, "r", "/s", "2")


@pytest.mark.parametrize("status", [0, 503, 400, 199, 300])
def test_an_attempt_that_the_sink_did_not_take_is_no_delivery(status: int) -> None:
    """Planted: the only arrival was answered with something other than 2xx."""
    report = one_route([sent(1)], arrivals=[arrived(1, status=status)])
    assert kinds(report) == {FindingKind.LOST: 1}
    assert report.routes["r"]["attempts"] == 1


@pytest.mark.parametrize("status", [200, 299])
def test_every_2xx_is_a_delivery(status: int) -> None:
    """The bounds of the class."""
    assert one_route([sent(1)], arrivals=[arrived(1, status=status)]).passed


@pytest.mark.parametrize(
    "evidence",
    [
        {"dead": [arrived(1, error_dest="http://x/", error_code="400")]},
        {"pending": [Key("/s", "1")]},
        {"settled": [Key("/s", "1")]},
    ],
    ids=["dead-lettered", "pending", "settled"],
)
def test_an_event_is_accounted_for_by_every_kind_of_end(evidence: dict[str, Any]) -> None:
    """A dead letter, a waiting retry or a recorded reason: not lost."""
    assert one_route([sent(1)], **evidence).passed


def test_a_dead_letter_that_its_sink_refused_is_lost() -> None:
    """Planted: the dead letter sink answered 500."""
    report = one_route([sent(1)], dead=[arrived(1, status=500)])
    assert kinds(report) == {FindingKind.LOST: 1}


def test_the_end_of_another_event_does_not_count() -> None:
    """Planted: the pending row has the right id and another source."""
    report = one_route([sent(1)], pending=[Key("/other", "1")])
    assert kinds(report) == {FindingKind.LOST: 1}


def test_an_event_that_does_not_match_is_not_missed() -> None:
    """A route owes only what it matches."""
    report = one_route([sent(1), sent(2)], matches=lambda s: s.id == "1", arrivals=[arrived(1)])
    assert report.passed
    assert report.routes["r"]["expected"] == 1


def test_an_event_that_nobody_sent_is_a_phantom() -> None:
    """Planted: an arrival of an unknown id."""
    report = one_route([sent(1)], arrivals=[arrived(1), arrived(9)])
    assert kinds(report) == {FindingKind.PHANTOM: 1}


def test_a_phantom_is_found_even_where_the_sink_refused_it() -> None:
    """An attempt proves that the event exists."""
    report = one_route([], arrivals=[arrived(9, status=503)])
    assert kinds(report) == {FindingKind.PHANTOM: 1}


@pytest.mark.parametrize("status", [400, 413, None])
def test_an_event_refused_for_good_must_not_arrive(status: int | None) -> None:
    """Planted: the server said 4xx (or was never reached), and delivered all the same."""
    refused = sent(1, state="refused", status=status)
    assert kinds(one_route([refused], arrivals=[arrived(1)])) == {FindingKind.PHANTOM: 1}
    assert one_route([refused]).passed


def test_a_503_promises_nothing_and_rules_nothing_out() -> None:
    """After a failed fsync the event may be in the log: it may arrive, and need not."""
    refused = sent(1, state="refused", status=503)
    assert one_route([refused], arrivals=[arrived(1)]).passed
    assert one_route([refused]).passed


def test_an_event_of_unknown_outcome_may_appear_or_not() -> None:
    """Zero times and once are both right."""
    unknown = sent(1, state="unknown", status=None)
    assert one_route([unknown]).passed
    assert one_route([unknown], arrivals=[arrived(1)]).passed


def test_every_unclear_attempt_may_have_stored_a_copy() -> None:
    """Unknown after two unclear attempts: up to three copies, and not four."""
    unknown = sent(1, state="unknown", ambiguous=2)
    assert one_route([unknown], arrivals=[arrived(1)] * 3).passed
    report = one_route([unknown], arrivals=[arrived(1)] * 4)
    assert kinds(report) == {FindingKind.DUPLICATE: 1}


def test_an_acknowledged_event_after_an_unclear_attempt_may_come_twice() -> None:
    """The first attempt may have been stored; it must come at least once."""
    event = sent(1, ambiguous=1)
    assert one_route([event], arrivals=[arrived(1)] * 2).passed
    assert kinds(one_route([event])) == {FindingKind.LOST: 1}


def test_a_changed_payload_is_found() -> None:
    """Planted: another digest of the data."""
    report = one_route([sent(1)], arrivals=[arrived(1, data_sha256=data_sha256(b"other"))])
    assert kinds(report) == {FindingKind.CHANGED: 1}
    assert "payload" in report.examples[0].detail


def test_a_changed_attribute_is_found() -> None:
    """Planted: another digest of the attributes."""
    digest = attributes_sha256({"id": "1", "source": "/s", "type": "T", "specversion": "1.0"})
    report = one_route([sent(1)], arrivals=[arrived(1, attributes_sha256=digest)])
    assert kinds(report) == {FindingKind.CHANGED: 1}
    assert "attributes" in report.examples[0].detail


def test_the_data_of_one_sending_with_the_attributes_of_another_is_changed() -> None:
    """Two sendings share a key; a mixture of both was never sent."""
    first = sent(1)
    second = sent(1, data_sha256=data_sha256(b"2"), attributes=first.attributes | {"subject": "x"})
    good = [arrived(1), arrived(1, data_sha256=data_sha256(b"2"))]
    report = one_route([first, second], arrivals=good)
    assert kinds(report) == {FindingKind.CHANGED: 1}


def test_a_dead_letter_is_compared_without_what_the_router_added() -> None:
    """knativeerror* and the hop count are no change."""
    event = sent(1)
    added = {"knativeerrordest": "http://x/", "knativeerrorcode": "400", "knativebrokerttl": "254"}
    digest = attributes_sha256(event.attributes | added)
    assert one_route([event], dead=[arrived(1, attributes_sha256=digest)]).passed


def test_an_event_at_a_route_that_it_does_not_match_is_misrouted() -> None:
    """Planted: an arrival that the filter would have kept out."""
    report = one_route([sent(1)], matches=lambda _: False, arrivals=[arrived(1)])
    assert kinds(report) == {FindingKind.MISROUTED: 1}


def test_each_route_is_judged_by_itself() -> None:
    """Delivered to one route is no excuse for another."""
    routes = {
        "a": RouteEvidence(lambda _: True, [arrived(1)]),
        "b": RouteEvidence(expects_keys([Key("/s", "1")]), []),
    }
    report = check([sent(1)], routes)
    assert [finding.route for finding in report.examples] == ["b"]


def test_copies_beyond_the_bound_are_duplicates() -> None:
    """Planted: two extra copies where one is allowed."""
    copies = [arrived(1)] * 2 + [arrived(2)] * 2
    assert one_route([sent(1), sent(2)], 2, arrivals=copies).passed
    report = one_route([sent(1), sent(2)], 1, arrivals=copies)
    assert kinds(report) == {FindingKind.DUPLICATE: 1}
    assert report.routes["r"]["extra"] == 2


def test_delivered_and_dead_lettered_are_two_copies() -> None:
    """A match ends in exactly one way."""
    report = one_route([sent(1)], arrivals=[arrived(1)], dead=[arrived(1)])
    assert kinds(report) == {FindingKind.DUPLICATE: 1}


def test_an_event_sent_twice_may_come_twice() -> None:
    """There is no deduplication at ingest: two sendings are two events."""
    assert one_route([sent(1), sent(1)], arrivals=[arrived(1)] * 2).passed


def test_attempts_that_were_refused_are_no_copies() -> None:
    """Retries before a success are not duplicates."""
    arrivals = [arrived(1, status=503)] * 5 + [arrived(1)]
    assert one_route([sent(1)], arrivals=arrivals).passed


def test_findings_are_all_counted_but_not_all_kept() -> None:
    """A million losses do not fill the memory."""
    report = one_route([sent(n) for n in range(EXAMPLES_MAX + 50)])
    assert kinds(report) == {FindingKind.LOST: EXAMPLES_MAX + 50}
    assert len(report.examples) == EXAMPLES_MAX
