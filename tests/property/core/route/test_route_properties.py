"""What holds for every set of routes, every event and every history of changes."""

import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core import filter as filters
from distributary.core.errors import LogDamagedError, LogFormatError, ResourceError
from distributary.core.event import Event
from distributary.core.flow import RouteRecord
from distributary.core.route import (
    IndexMatcher,
    RouteTable,
    WalkMatcher,
    _affixes,
    _batches,
    _buckets,
    _index,
)
from distributary.core.route._route import Route
from distributary.core.route._trie import Trie
from distributary.testing.binary_form import in_binary_form
from kit import drawn_filters as drawn

TYPES = ("a", "ab", "b", "5", "true")
SOURCES = ("/a", "/ab", "/b")
TEXTS = (*TYPES, *SOURCES, "1", "false", "-5", "ä😀", "ab" * 100, "ab" * 100 + "/")
NAMES = ("type", "source", "subject", "count")
PRESENT = ("subject", "count", "id", "other")
UIDS = tuple(f"u{number}" for number in range(8))

expressions = drawn.expressions(NAMES, TEXTS, leaves_max=5).map(drawn.as_json)
puts = st.builds(
    RouteRecord,
    seq=st.just(0),
    op=st.just("put"),
    uid=st.sampled_from(UIDS),
    revision=st.integers(1, 9),
    source=st.one_of(st.none(), st.sampled_from(SOURCES)),
    types=st.one_of(st.just(()), st.lists(st.sampled_from(TYPES), max_size=3).map(tuple)),
    filters=st.one_of(st.just(()), st.lists(expressions, max_size=2).map(tuple)),
    address=st.sampled_from(("", "", "x", "y")),
    present=st.one_of(st.just(()), st.lists(st.sampled_from(PRESENT), max_size=2).map(tuple)),
)
deletes = st.builds(
    RouteRecord,
    seq=st.just(0),
    op=st.just("delete"),
    uid=st.sampled_from(UIDS),
    revision=st.just(1),
)
values = st.one_of(st.sampled_from(("", *TEXTS)), st.sampled_from([5, -5, 0, 1]), st.booleans())
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
            address=change.address,
            present=change.present,
        )
        for seq, change in enumerate(changes, first)
    ]


histories = st.lists(st.one_of(puts, puts, deletes), max_size=12).map(numbered)


def naive_routes(history):
    """The routes that stand after *history*: a dict in the order of arrival, nothing else."""
    standing = {}
    for record in history:
        if record.op == "put":
            if record.uid in standing and standing[record.uid].address != record.address:
                del standing[record.uid]
            standing[record.uid] = record
        else:
            standing.pop(record.uid, None)
    return standing


def at(standing, address):
    """Those of the routes that listen at *address*."""
    return {uid: record for uid, record in standing.items() if record.address == address}


def naive_match(standing, event):
    """Every route in turn, every part of it by its definition."""
    attributes = event.attributes
    return tuple(
        uid
        for uid, record in standing.items()
        if record.source in (None, attributes["source"])
        and (not record.types or attributes["type"] in record.types)
        and all(name in attributes for name in record.present)
        and filters.naive_matches(record.filters, attributes)
    )


@contextlib.contextmanager
def small_limits():
    """All limits of the index so low that every one of them is met."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_buckets, "SIMPLE_ROUTES_MAX", 1)
        patch.setattr(_buckets, "SIMPLE_COMPARISONS_MAX", 2)
        patch.setattr(_batches, "BATCH_ROUTES_MAX", 2)
        patch.setattr(_batches, "MEMO_ENTRIES_MAX", 3)
        patch.setattr(_batches, "MEMO_CHARS_MAX", 4)
        patch.setattr(_batches, "TRIAL_MISSES_MAX", 2)
        patch.setattr(_batches, "TRIAL_AFTER_EVENTS", 3)
        patch.setattr(_index, "KNOWN_MAX", 2)
        patch.setattr(_index, "KNOWN_BYTES_MAX", 4)
        patch.setattr(_index, "KNOWN_ROUTES_MAX", 2)
        patch.setattr(_affixes, "LENGTHS_MAX", 2)
        patch.setattr(_affixes, "HASHED_CHARS_MAX", 3)
        yield


@pytest.mark.slow
@settings(max_examples=400)
@given(
    st.sampled_from([WalkMatcher, IndexMatcher]),
    st.sampled_from([contextlib.nullcontext, small_limits]),
    st.lists(st.one_of(puts, puts, deletes), max_size=24).map(numbered),
    st.lists(events, min_size=1, max_size=6),
)
def test_a_matcher_says_what_a_naive_walk_says(make, limits, history, several):
    """For any routes of every dialect, put, replaced and removed in any order, between events."""
    # A matcher holds the routes of one address.
    history = [msgspec.structs.replace(record, address="") for record in history]
    with limits():
        matcher = make()
        for end, record in enumerate(history, 1):
            if record.op == "put":
                matcher.put(record)
            else:
                matcher.remove(record.uid)
            standing = naive_routes(history[:end])
            assert len(matcher) == len(standing)
            for event in several:
                assert matcher.match(event) == naive_match(standing, event)
                # Attributes are read one by one, or all at once: each match reads anew.
                stored = in_binary_form(event)
                assert matcher.match(stored) == naive_match(standing, stored)
                again = in_binary_form(event)  # its routes may be remembered
                assert matcher.match(again) == naive_match(standing, again)


@pytest.mark.slow
@given(st.lists(puts, max_size=24).map(numbered), st.lists(events, max_size=6))
def test_routes_that_left_leave_nothing_behind(history, several):
    """Whatever came, matched and was replaced: in the end the index is as empty as a new one."""
    with small_limits():
        matcher = IndexMatcher()
        for record in history:
            matcher.put(record)
            for event in several:
                matcher.match(event)
        for record in history:
            matcher.remove(record.uid)
    assert not matcher._routes
    assert not matcher._indexes
    assert not matcher._coverless._batches
    assert not len(matcher._coverless)


@pytest.mark.slow
@given(st.data(), st.booleans(), st.sampled_from([contextlib.nullcontext, small_limits]))
def test_prefixes_and_suffixes_are_found_whatever_their_lengths(data, suffixes, limits):
    """Put and removed in any order, by hash or in the trie: those that begin or end a value."""
    texts = st.text("ab", min_size=1, max_size=6)
    standing = {}
    with limits():
        affixes = _affixes.Affixes(suffixes=suffixes)
        for text in data.draw(st.lists(texts, max_size=20)):
            if text in standing:
                affixes.remove(text)
                del standing[text]
            else:
                standing[text] = Route(0, text, (), None)
                affixes.put(text, standing[text])
            assert all(affixes.get(one) is standing.get(one) for one in (text, text + "a"))
            value = data.draw(st.text("ab", max_size=8))
            met = []
            affixes.find(value, met)
            fits = value.endswith if suffixes else value.startswith
            assert {route.uid for route in met} == {text for text in standing if fits(text)}
            assert len(met) == len(set(met))
            assert bool(affixes) is bool(standing)
            lengths = list(affixes._by_length)
            assert lengths == sorted(lengths)
            assert all(affixes._by_length.values())


@pytest.mark.slow
@given(st.lists(st.text("ab", min_size=1, max_size=8), max_size=30))
def test_a_trie_has_no_nodes_that_only_lead_on(texts):
    """At most two for each text, and none when all have gone."""
    trie = Trie()
    for text in texts:
        trie.put(text, Route(0, text, (), None))
        assert len(trie) <= 2 * len(texts)
    for text in dict.fromkeys(texts):
        assert trie.get(text).uid == text
        trie.remove(text)
        assert trie.get(text) is None
    assert len(trie) == 0
    assert not trie


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
            for address in ("", "x", "y", "nobody"):
                expected = naive_match(at(naive_routes(history[:end]), address), event)
                assert table.match(event, address) == expected
                assert from_scratch.match(event, address) == expected
                assert restored.match(event, address) == expected


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
