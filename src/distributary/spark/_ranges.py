"""Resolves requested bounds to ranges of offsets in the log. Pure.

Called by ``format``. Hides: defaults, admission and the check for deleted records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Logged
from distributary.spark._options import EARLIEST, LATEST, Bound

Offsets: TypeAlias = dict[int, int]
"""Partition -> offset of the next record to read."""


class Extent(Protocol):
    """Bounds of one partition of the log, as planning needs them."""

    def start(self) -> int:
        """Returns the offset of the oldest record that is kept."""

    def durable_end(self) -> int:
        """Returns one past the last durable record; readers never pass it."""

    def offset_at(self, time_ms: int) -> int:
        """Returns the offset of the first record appended at or after *time_ms*, else the end."""


class OffsetRange(NamedTuple):
    """Records of one partition: ``from_offset <= offset < to_offset``."""

    partition: int
    from_offset: int
    to_offset: int


def resolve(bound: Bound, log: Mapping[int, Extent], *, absent: int) -> Offsets:
    """Resolve *bound* to an offset for each partition of *log*.

    Args:
        bound: As requested.
        log: The partitions.
        absent: For a partition that a JSON bound does not name: ``EARLIEST`` or ``LATEST``.

    Returns:
        ``0 <= offset <= durable end``; below the oldest record only if JSON names such an offset.

    Raises:
        LogUnavailableError: JSON names a partition that the log does not have.
    """
    unknown = sorted(set(bound.offsets) - set(log))
    if unknown:
        raise LogUnavailableError(f"the log has no partition {unknown[0]}; it has {sorted(log)}")
    return {number: _resolve_one(bound, number, log[number], absent) for number in sorted(log)}


def _resolve_one(bound: Bound, number: int, extent: Extent, absent: int) -> int:
    end = extent.durable_end()
    if bound.kind == "time":
        return min(extent.offset_at(bound.time_ms), end)
    named = {"earliest": EARLIEST, "latest": LATEST}
    offset = named.get(bound.kind, bound.offsets.get(number, absent))
    if offset == EARLIEST:
        return min(extent.start(), end)
    return end if offset == LATEST else min(offset, end)


def admit(start: Offsets, end: Offsets, records_max: int | None) -> Offsets:
    """Returns how far to read from *start* towards *end* with at most *records_max* log records.

    A partition's share is proportional to its backlog, so that a long backlog does not starve a
    short one; what rounding leaves goes to the first partitions with records to read.

    Returns:
        For each partition ``start <= offset <= end``; in total at most *records_max* further,
        and at least one further if there is anything to read.
    """
    backlog = {number: max(0, end[number] - start[number]) for number in end}
    total = sum(backlog.values())
    if records_max is None or total <= records_max:
        return {number: start[number] + backlog[number] for number in end}
    shares = {number: backlog[number] * records_max // total for number in end}
    left = records_max - sum(shares.values())
    for number in end:
        more = min(left, backlog[number] - shares[number])
        shares[number] += more
        left -= more
    return {number: start[number] + shares[number] for number in end}


def deleted(span: OffsetRange, extent: Extent) -> OffsetRange:
    """Returns the part of *span* that retention has deleted; empty if none."""
    return span._replace(to_offset=max(span.from_offset, min(span.to_offset, extent.start())))


def without_loss(
    records: Iterable[Logged],
    span: OffsetRange,
    extent: Extent,
    on_loss: Callable[[OffsetRange], None],
) -> Iterator[Logged]:
    """Yields *records* of *span*, and reports parts that retention deletes meanwhile.

    A reader skips deleted records silently, and offsets may have other gaps, so a gap is a loss
    only if the log now starts after it.

    Args:
        records: From a reader of *span*.
        span: The range to read.
        extent: The partition, read again at each gap.
        on_loss: Called with each deleted part; it may raise.
    """
    expected = span.from_offset
    for logged in records:
        if logged.offset != expected:
            _report(OffsetRange(span.partition, expected, logged.offset), extent, on_loss)
        expected = logged.offset + 1
        yield logged
    if expected < span.to_offset:
        _report(span._replace(from_offset=expected), extent, on_loss)


def _report(gap: OffsetRange, extent: Extent, on_loss: Callable[[OffsetRange], None]) -> None:
    lost = deleted(gap, extent)
    if lost.from_offset < lost.to_offset:
        on_loss(lost)


def split(whole: OffsetRange, records_max: int) -> Iterator[OffsetRange]:
    """Yields *whole* in pieces of at most *records_max* records, in order; none if it is empty."""
    for begin in range(whole.from_offset, whole.to_offset, records_max):
        yield OffsetRange(whole.partition, begin, min(begin + records_max, whole.to_offset))
