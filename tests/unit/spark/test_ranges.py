"""Planning a read: what was asked for meets what the log holds."""

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Logged, RecordKind
from distributary.spark._options import EARLIEST, LATEST, Bound
from distributary.spark._ranges import OffsetRange, admit, deleted, resolve, split, without_loss


class Partition:
    """Records with offsets ``first <= n < end``, record n appended at millisecond 10 * n."""

    def __init__(self, first: int, end: int) -> None:
        self._first, self._end = first, end

    def start(self) -> int:
        return self._first

    def durable_end(self) -> int:
        return self._end

    def offset_at(self, time_ms: int) -> int:
        return min(max(self._first, -(-time_ms // 10)), self._end)


LOG = {0: Partition(5, 20), 1: Partition(0, 8)}


@pytest.mark.parametrize(
    ("bound", "absent", "expected"),
    [
        pytest.param(Bound("earliest"), EARLIEST, {0: 5, 1: 0}, id="earliest"),
        pytest.param(Bound("latest"), EARLIEST, {0: 20, 1: 8}, id="latest"),
        pytest.param(Bound("time", time_ms=71), EARLIEST, {0: 8, 1: 8}, id="time"),
        pytest.param(Bound("offsets", {0: 9}), EARLIEST, {0: 9, 1: 0}, id="start-unnamed"),
        pytest.param(Bound("offsets", {0: 9}), LATEST, {0: 9, 1: 8}, id="end-unnamed"),
        pytest.param(Bound("offsets", {0: -1, 1: -2}), LATEST, {0: 20, 1: 0}, id="words"),
        pytest.param(Bound("offsets", {0: 2}), EARLIEST, {0: 2, 1: 0}, id="deleted-stays"),
    ],
)
def test_bounds_become_offsets(bound: Bound, absent: int, expected: dict[int, int]) -> None:
    """Each way of saying where, over a log whose partition 0 has lost its first five records."""
    assert resolve(bound, LOG, absent=absent) == expected


def test_no_bound_passes_the_durable_end() -> None:
    """An offset that does not exist yet is the end that exists."""
    assert resolve(Bound("offsets", {0: 99, 1: 9}), LOG, absent=LATEST) == {0: 20, 1: 8}


def test_a_partition_that_is_not_there_is_refused() -> None:
    """Silence would read less than the user named."""
    with pytest.raises(LogUnavailableError, match="no partition 7"):
        resolve(Bound("offsets", {7: 0}), LOG, absent=LATEST)


def test_without_a_limit_everything_is_admitted() -> None:
    """Up to the end, and never backwards."""
    assert admit({0: 5, 1: 9}, {0: 20, 1: 9}, None) == {0: 20, 1: 9}


def test_the_share_follows_the_backlog() -> None:
    """Of 90 and 10 waiting, a limit of 10 takes 9 and 1."""
    assert admit({0: 0, 1: 0}, {0: 90, 1: 10}, 10) == {0: 9, 1: 1}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
def test_a_limit_is_used_up_and_not_passed(limit: int) -> None:
    """Rounding neither loses nor adds a record, so a limit of one makes progress."""
    start, end = {0: 3, 1: 0, 2: 7}, {0: 40, 1: 30, 2: 7}
    admitted = admit(start, end, limit)
    assert sum(admitted.values()) - sum(start.values()) == limit
    assert all(start[n] <= admitted[n] <= end[n] for n in end)


@pytest.mark.parametrize(
    ("span", "lost"),
    [
        pytest.param(OffsetRange(0, 2, 10), OffsetRange(0, 2, 5), id="the-beginning"),
        pytest.param(OffsetRange(0, 1, 4), OffsetRange(0, 1, 4), id="all"),
        pytest.param(OffsetRange(0, 5, 10), OffsetRange(0, 5, 5), id="nothing"),
        pytest.param(OffsetRange(0, 3, 3), OffsetRange(0, 3, 3), id="empty-range"),
    ],
)
def test_what_retention_has_deleted_is_found(span: OffsetRange, lost: OffsetRange) -> None:
    """Partition 0 begins at record 5."""
    assert deleted(span, LOG[0]) == lost


def _records(*offsets: int) -> list[Logged]:
    return [Logged(offset, 0, 0, RecordKind.EVENTS, b"") for offset in offsets]


@pytest.mark.parametrize(
    ("offsets", "losses"),
    [
        pytest.param((2, 3, 4, 5, 6), [], id="none"),
        pytest.param((2, 6), [OffsetRange(0, 3, 5)], id="in-the-middle"),
        pytest.param((2, 3), [OffsetRange(0, 4, 5)], id="at-the-end"),
        pytest.param((), [OffsetRange(0, 2, 5)], id="everything"),
        pytest.param((2, 3, 4, 6), [], id="a-gap-of-the-log-itself"),
    ],
)
def test_records_that_retention_deletes_during_a_read_are_noticed(
    offsets: tuple[int, ...], losses: list[OffsetRange]
) -> None:
    """A gap is a loss where the log by now begins behind it; the records pass unchanged."""
    seen: list[OffsetRange] = []
    records = _records(*offsets)
    assert list(without_loss(records, OffsetRange(0, 2, 7), LOG[0], seen.append)) == records
    assert seen == losses


def test_a_range_is_cut_into_tasks_without_gap_or_overlap() -> None:
    """The pieces are the whole, in order; an empty range has none."""
    assert list(split(OffsetRange(0, 5, 12), 3)) == [
        OffsetRange(0, 5, 8),
        OffsetRange(0, 8, 11),
        OffsetRange(0, 11, 12),
    ]
    assert list(split(OffsetRange(0, 5, 5), 3)) == []
