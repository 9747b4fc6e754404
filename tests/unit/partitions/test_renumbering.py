"""Rows of the history follow their records to new numbers."""

import pytest

from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Ending
from distributary.history import rows
from distributary.partitions.renumbering import renumbered


def _block(*offsets: int) -> bytes:
    recorder = rows.Recorder(0, lambda _uid: rows.RouteNames("team", "sub", 3))
    for offset in offsets:
        recorder.ended(DoneKey(offset, 1, "uid"), Ending.DROPPED, "gone", 17, None)
    _, encoded = recorder.take()
    return encoded


def test_each_event_is_lowered_and_all_else_stays() -> None:
    """A record that had been deleted gets a negative number."""
    before, after = _block(70, 100, 4_000_000_000), renumbered(_block(70, 100, 4_000_000_000), 90)
    was, found = rows.decode(before), rows.decode(after)
    assert [event.offset for event in found.events] == [-20, 10, 3_999_999_910]
    assert [event[1:] for event in found.events] == [event[1:] for event in was.events]
    assert (found.routes, found.rows) == (was.routes, was.rows)
    assert found.routes == [("uid", "team", "sub", 3)]
    assert rows.decode(renumbered(after, -90)) == was


def test_rows_that_keep_their_numbers_are_not_touched() -> None:
    """Even those that this version cannot read."""
    assert renumbered(b"of a newer version", 0) == b"of a newer version"
    with pytest.raises(StoreError, match="cannot be read"):
        renumbered(b"of a newer version", 1)
