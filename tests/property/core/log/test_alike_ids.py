"""Ids that are cut out in one go are those that looking at each record finds."""

from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.event import Event, binary
from distributary.core.event import record as event_record
from distributary.core.flow import Logged, RecordKind, events_of
from distributary.core.log import _entries as entries
from distributary.core.log import _ids_file as ids_file
from distributary.core.log._entries import Gathered, NumberedEntries
from distributary.core.log.frame import encode_frame, header_at, iter_kind

STAMP = 77
EVENTS = int(RecordKind.EVENTS)
START = 4096
FIRST = 9

_LINES = (b"ce-specversion: 1.0\r\n", b"ce-source: /s\r\n", b"ce-type: t\r\n")
_PLANTED = b"x\r\nce-id: planted\r\n\r\n"
_ORDERS = ((), (0,), (0,), (0,), (0, 1), (0, 1, 2), (1,))
"""The lines before that of the id."""

_ids = st.sampled_from([b"aaa", b"bbb", b"bbb", b"order-17", b"a%20b", b"100%", b"a", b"\x02bb"])
_data = st.sampled_from([b"", b"x" * 7, _PLANTED, b"\r\n" * 9, b"\x02" * 5, b"\xd7\x01" * 9])


@st.composite
def _binary(draw: st.DrawFn) -> tuple[int, bytes]:
    before = draw(st.sampled_from(_ORDERS))
    after = [_LINES[number] for number in range(3) if number not in before]
    lines = [_LINES[number] for number in before] + [b"ce-id: %b\r\n" % draw(_ids), *after]
    return EVENTS, binary.encode(lines, draw(_data))


@st.composite
def _odd(draw: st.DrawFn) -> tuple[int, bytes]:
    """A record that begins as one in binary form, and ends or goes on somehow."""
    start = draw(st.sampled_from([b"\x02\r\nce-specversion: 1.0\r\nce-id: aaa\r\n", _PLANTED]))
    return EVENTS, b"\x02" + start[1 : draw(st.integers(1, len(start)))] + draw(_data)


_several = st.lists(st.sampled_from(["aaa", "bbb", "ä"]), min_size=1, max_size=3).map(
    lambda ids: (EVENTS, event_record.encode([_event(id_) for id_ in ids]))
)
_others = st.sampled_from([(int(RecordKind.ROUTE), b"\x02\r\nce-id: aaa\r\n"), (7, b"\0" * 40)])
_same = st.builds(
    lambda records, times: records * times, st.lists(_binary(), max_size=2), st.integers(1, 9)
)
_mixed = st.lists(st.one_of(_binary(), _binary(), _odd(), _several, _others), max_size=9)
_records = st.lists(st.one_of(_same, _mixed), min_size=1, max_size=4).map(
    lambda found: list(chain.from_iterable(found))
)


def _event(id_: str) -> Event:
    return Event({"specversion": "1.0", "id": id_, "source": "/s", "type": "t"}, None)


def _log(records: Sequence[tuple[int, bytes]]) -> bytes:
    return b"".join(
        encode_frame(kind, body, FIRST + number, 1, stamp=STAMP)
        for number, (kind, body) in enumerate(records)
    )


def _found(kind: type[Gathered], log: bytes, cut: int) -> tuple[list[int], list[int]]:
    """The entries of *log*, stepped over in two blocks; and added as a whole."""
    stepped, added = kind(FIRST, FIRST, START), kind(FIRST, FIRST, START)
    at, expected = 0, FIRST
    for size in (cut, len(log)):
        block = log[at:size]
        run = stepped.walk(block, expected, 1 << 40)
        if run.last >= 0:
            stepped.take(block, run.stop, START + at)
        at, expected = at + run.stop, run.offset
    if log:
        added.add(log, START)
    return sorted(stepped.entries), sorted(added.entries)


@pytest.mark.parametrize("kind", [Gathered, NumberedEntries])
@settings(max_examples=300, deadline=None)
@given(records=_records, cut=st.integers(0, 3_000))
def test_the_entries_are_the_same(
    kind: type[Gathered], records: list[tuple[int, bytes]], cut: int
) -> None:
    """With ids of any length at any place, and whatever else the records hold."""
    log = _log(records)
    found = _found(kind, log, cut)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(entries, "_alike", lambda *_: None)
        assert _found(kind, log, cut) == found
        patched.setattr(entries, "_PAIRS", False)
        assert _found(kind, log, cut) == found


@settings(max_examples=300, deadline=None)
@given(records=st.lists(_binary(), min_size=1, max_size=3), times=st.integers(1, 5))
def test_each_event_has_its_entry(records: list[tuple[int, bytes]], times: int) -> None:
    """The hash of its id, and where its record begins."""
    log = _log(records * times)
    expected = []
    for at, _ in iter_kind(log, EVENTS):
        body = log[at + 36 : at + 36 + header_at(log, at).length]
        found = events_of(Logged(0, 0, 0, EVENTS, body))
        assert found is not None
        (event,) = found.events
        expected.append(ids_file.hash_of(event.text("id") or "") << 32 | START + at)
    assert _found(Gathered, log, 0) == (sorted(expected), sorted(expected))


def test_alike_records_are_cut_in_one_go() -> None:
    """Unless one of them ends before."""
    alike = _log(
        [(EVENTS, binary.encode([*_LINES, b"ce-id: %03d\r\n" % n], b"")) for n in range(9)]
    )
    places = [at for at, _ in iter_kind(alike, EVENTS)]
    assert entries._alike(alike, places, len(alike)) == [b"%03d" % number for number in range(9)]
    assert entries._alike(alike, places, len(alike) - 60) is None  # the last one ends before
