"""What holds for every set of routes, every event and every history of changes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary import filter as filters
from distributary.errors import LogDamagedError, LogFormatError, ResourceError
from distributary.event import Event
from distributary.flow import RouteRecord
from distributary.route import RouteTable, WalkMatcher

TYPES = ("a", "ab", "b", "5", "true")
SOURCES = ("/a", "/ab", "/b")
TEXTS = (*TYPES, *SOURCES, "false", "-5")
NAMES = ("type", "source", "subject", "count")
UIDS = ("u1", "u2", "u3", "u4", "u5")

comparisons = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), min_size=1)
leaves = st.one_of(
    *(st.fixed_dictionaries({d: comparisons}) for d in ("exact", "prefix", "suffix"))
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=5,
)
puts = st.builds(
    RouteRecord,
    seq=st.just(0),
    op=st.just("put"),
    uid=st.sampled_from(UIDS),
    revision=st.integers(1, 9),
    source=st.one_of(st.none(), st.sampled_from(SOURCES)),
    types=st.lists(st.sampled_from(TYPES), max_size=3).map(tuple),
    filters=st.lists(expressions, max_size=2).map(tuple),
)
deletes = st.builds(
    RouteRecord,
    seq=st.just(0),
    op=st.just("delete"),
    uid=st.sampled_from(UIDS),
    revision=st.just(1),
)
values = st.one_of(st.sampled_from(TEXTS), st.sampled_from([5, -5]), st.booleans())
events = st.builds(
    lambda required, optional: Event({"specversion": "1.0", "id": "1"} | required | optional, None),
    st.fixed_dictionaries({"type": st.sampled_from(TYPES), "source": st.sampled_from(SOURCES)}),
    st.dictionaries(st.sampled_from(("subject", "count")), values),
)
event_lists = st.lists(events, min_size=1, max_size=5)


def numbered(changes, first=1):
    """The changes as the leader numbers them."""
    return [
        RouteRecord(
            seq=seq,
            op=change.op,
            uid=change.uid,
            revision=change.revision,
            source=change.source,
            types=change.types,
            filters=change.filters,
        )
        for seq, change in enumerate(changes, first)
    ]


histories = st.lists(st.one_of(puts, puts, deletes), max_size=12).map(numbered)


def naive_routes(history):
    """The routes that stand after *history*: a dict in the order of creation, nothing else."""
    standing = {}
    for record in history:
        if record.op == "put":
            standing[record.uid] = record
        else:
            standing.pop(record.uid, None)
    return standing


def naive_match(standing, event):
    """Every route in turn, every part of it by its definition."""
    attributes = event.attributes
    return tuple(
        uid
        for uid, record in standing.items()
        if record.source in (None, attributes["source"])
        and (not record.types or attributes["type"] in record.types)
        and filters.naive_matches(record.filters, attributes)
    )


@pytest.mark.slow
@settings(max_examples=300)
@given(histories, event_lists)
def test_the_matcher_says_what_a_naive_walk_says(history, several):
    """For any routes of every dialect, put, replaced and removed in any order."""
    matcher = WalkMatcher()
    for record in history:
        if record.op == "put":
            matcher.put(record)
        else:
            matcher.remove(record.uid)
    standing = naive_routes(history)
    assert list(matcher.records()) == list(standing.values())
    assert len(matcher) == len(standing)
    for event in several:
        assert matcher.match(event) == naive_match(standing, event)


@pytest.mark.slow
@given(histories, event_lists)
def test_a_table_is_a_function_of_the_log_at_every_point(history, several):
    """One table that goes on equals a new one from the beginning, and one from a snapshot."""
    table = RouteTable()
    for end, record in enumerate(history, 1):
        assert table.apply(record)
        from_scratch = RouteTable()
        for earlier in history[:end]:
            from_scratch.apply(earlier)
        restored = RouteTable.restore(table.snapshot())
        assert table.snapshot() == from_scratch.snapshot() == restored.snapshot()
        for event in several:
            expected = naive_match(naive_routes(history[:end]), event)
            assert table.match(event) == from_scratch.match(event) == expected
            assert restored.match(event) == expected


@pytest.mark.slow
@given(histories, st.data())
def test_records_that_come_again_change_nothing(history, data):
    """After any prefix, any earlier records may be repeated in any order."""
    plain, stuttering = RouteTable(), RouteTable()
    for end, record in enumerate(history, 1):
        plain.apply(record)
        stuttering.apply(record)
        for again in data.draw(st.lists(st.sampled_from(history[:end]), max_size=3)):
            assert stuttering.apply(again) is False
    assert stuttering.snapshot() == plain.snapshot()


@pytest.mark.slow
@given(histories, st.integers(0, 12), event_lists)
def test_a_table_restored_at_a_cut_goes_on_like_the_first(history, cut, several):
    """A new partition, or one whose segments were deleted, starts at a snapshot."""
    whole, before = RouteTable(), RouteTable()
    for record in history:
        whole.apply(record)
    for record in history[:cut]:
        before.apply(record)
    after = RouteTable.restore(before.snapshot())
    for record in history:  # from any point before the cut on
        after.apply(record)
    assert after.snapshot() == whole.snapshot()
    for event in several:
        assert after.match(event) == whole.match(event)


@pytest.mark.slow
@given(histories, st.data())
def test_any_bytes_are_a_table_or_a_stated_error(history, data):
    """A snapshot with a byte changed gives a table or one of the errors of ``restore``."""
    table = RouteTable()
    for record in history:
        table.apply(record)
    body = bytearray(table.snapshot())
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        RouteTable.restore(bytes(body))
    except (LogDamagedError, LogFormatError, ResourceError):
        return
