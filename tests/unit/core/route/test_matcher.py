"""Which routes an event matches."""

import pytest

from distributary.core.errors import ResourceError
from distributary.core.event import Event
from distributary.core.flow import RouteRecord
from distributary.core.route import BlindMatcher, IndexMatcher, Matcher, RouteTable, WalkMatcher


def event(**attributes):
    """A valid event of type ``push`` from ``/repo``, changed by *attributes*."""
    plain = {"specversion": "1.0", "id": "1", "source": "/repo", "type": "push"}
    return Event(plain | attributes, None)


def put(uid, **what):
    """A route record that creates or replaces *uid*."""
    return RouteRecord(seq=1, op="put", uid=uid, revision=1, **what)


def exact(**texts):
    """An exact filter expression."""
    return {"exact": texts}


@pytest.fixture(params=[WalkMatcher, IndexMatcher])
def matcher(request) -> Matcher:
    """An empty matcher of every kind there is."""
    return request.param()


@pytest.mark.parametrize(
    ("route", "passes"),
    [
        ({}, True),
        ({"source": "/repo"}, True),
        ({"source": "/rep"}, False),
        ({"source": "/Repo"}, False),
        ({"types": ("push",)}, True),
        ({"types": ("pull", "push")}, True),
        ({"types": ("push", "push")}, True),
        ({"types": ("pull",)}, False),
        ({"source": "/repo", "types": ("push",)}, True),
        ({"source": "/other", "types": ("push",)}, False),
        ({"source": "/repo", "types": ("pull",)}, False),
        ({"filters": (exact(type="push"),)}, True),
        ({"filters": (exact(type="pull"),)}, False),
        ({"filters": (exact(source="/repo"),)}, True),
        ({"filters": (exact(source="/repo"), exact(source="/x"))}, False),
        ({"source": "/x", "filters": (exact(source="/repo"),)}, False),
        ({"source": "/repo", "filters": (exact(source="/repo", id="2"),)}, False),
        ({"types": ("pull",), "filters": (exact(type="push"),)}, False),
        ({"types": ("push",), "filters": (exact(type="pull"),)}, False),
        ({"types": ("push",), "filters": (exact(id="2"),)}, False),
        ({"types": ("push",), "filters": (exact(id="1"),)}, True),
        ({"filters": ({"not": exact(type="push")},)}, False),
        ({"filters": ({"any": [exact(type="pull"), exact(type="push")]},)}, True),
        ({"filters": (exact(type="push"), {"prefix": {"subject": "x"}})}, False),
        ({"source": "/repo", "types": ("push",), "filters": ({"prefix": {"id": "1"}},)}, True),
    ],
    ids=str,
)
def test_source_types_and_filters_all_must_hold(matcher, route, passes):
    """Decision 9: source exact, types any-of, filters, combined by AND."""
    matcher.put(put("r", **route))
    assert matcher.match(event()) == (("r",) if passes else ())


def test_matches_come_in_the_order_of_creation(matcher):
    """However the routes are indexed, the order is that of the log."""
    matcher.put(put("by-type", types=("push",)))
    matcher.put(put("rest"))
    matcher.put(put("by-source", source="/repo"))
    matcher.put(put("by-filter", filters=(exact(type="push"),)))
    matcher.put(put("another"))
    assert matcher.match(event()) == ("by-type", "rest", "by-source", "by-filter", "another")


def test_a_replaced_route_keeps_its_place_and_loses_its_old_filters(matcher):
    """An update changes what matches, not the order, whichever index it moves to."""
    for uid in ("a", "b", "c"):
        matcher.put(put(uid))
    for route in ({"types": ("push",)}, {"source": "/repo"}, {"filters": (exact(id="1"),)}, {}):
        matcher.put(put("b", **route))
        assert matcher.match(event()) == ("a", "b", "c")
    matcher.put(put("b", types=("pull",)))
    assert matcher.match(event()) == ("a", "c")
    assert matcher.match(event(type="pull")) == ("a", "b", "c")
    assert len(matcher) == 3


def test_a_removed_route_matches_nothing(matcher):
    """Under every index it stood in."""
    matcher.put(put("a", types=("push", "pull")))
    matcher.put(put("b", source="/repo"))
    matcher.put(put("c"))
    for uid in ("a", "b", "c", "never"):
        matcher.remove(uid)
    assert matcher.match(event()) == ()
    assert matcher.match(event(type="pull")) == ()
    assert len(matcher) == 0


def test_a_route_that_comes_again_is_the_newest(matcher):
    """Removed and put again, it goes to the end."""
    for uid in ("a", "b"):
        matcher.put(put(uid))
    matcher.remove("a")
    matcher.put(put("a"))
    assert matcher.match(event()) == ("b", "a")


def test_a_filter_that_cannot_be_compiled_changes_nothing(matcher):
    """The old route stays as it was; nothing passes everything by mistake."""
    matcher.put(put("a", types=("push",)))
    with pytest.raises(ResourceError):
        matcher.put(put("a", filters=({"sparkle": {}},)))
    with pytest.raises(ResourceError):
        matcher.put(put("b", filters=({"sparkle": {}},)))
    assert matcher.match(event()) == ("a",)
    assert len(matcher) == 1
    assert matcher.match(event(type="pull")) == ()


def test_an_event_without_type_or_source_is_no_crash(matcher):
    """Such an event cannot come in, but a matcher must not stop a partition for it."""
    matcher.put(put("a", types=("push",)))
    matcher.put(put("b", source="/repo"))
    matcher.put(put("c"))
    assert matcher.match(Event({}, None)) == ("c",)


def test_a_blind_matcher_gives_the_same_snapshot_and_matches_nothing():
    """Retention wants the records alone: no filter is compiled for them."""
    blind, seeing = RouteTable(BlindMatcher), RouteTable()
    changes = [
        RouteRecord(seq=1, op="put", uid="a", revision=1, filters=({"exact": {"type": "x"}},)),
        RouteRecord(seq=2, op="put", uid="b", revision=1),
        RouteRecord(seq=3, op="delete", uid="a", revision=1),
    ]
    for change in changes:
        assert blind.apply(change)
        seeing.apply(change)
    assert blind.snapshot() == seeing.snapshot()
    assert len(blind) == 1
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, None)
    assert blind.match(event) == ()
    assert seeing.match(event) == ("b",)
