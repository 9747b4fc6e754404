"""From what was asked for and what the log holds to ranges of offsets. Pure.

Callers: ``format``. Hides: defaults, admission and the check for deleted records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Logged
from distributary.spark._options import EARLIEST, LATEST, Bound

Offsets: TypeAlias = dict[int, int]
"""Partition -> offset of the next record to read."""


class Extent(Protocol):
    """What planning asks of one partition of the log."""

    def start(self) -> int:
        """Offset of the oldest record that is kept."""

    def durable_end(self) -> int:
        """One past the last durable record; readers never pass it."""

    def offset_at(self, time_ms: int) -> int:
        """Offset of the first record appended at *time_ms* or later; the end if none was."""


class OffsetRange(NamedTuple):
    """Records of one partition: ``from_offset <= offset < to_offset``."""

    partition: int
    from_offset: int
    to_offset: int


def resolve(bound: Bound, log: Mapping[int, Extent], *, absent: int) -> Offsets:
    """An offset for each partition of *log*.

    Args:
        bound: What was asked for.
        log: The partitions.
        absent: For a partition that a JSON bound does not name: ``EARLIEST`` or ``LATEST``.

    Returns:
        ``0 <= offset <= durable end``; below the oldest record only where JSON said so.

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
    """How far to read from *start* towards *end* with at most *records_max* log records.

    The share of a partition follows its backlog, so that a long backlog does not starve a
    short one; what rounding leaves over goes to the first partitions that can take it.

    Returns:
        For each partition ``start <= offset <= end``; together at most *records_max* further,
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
    """The part of *span* that retention has deleted; empty if it is all there."""
    return span._replace(to_offset=max(span.from_offset, min(span.to_offset, extent.start())))


def without_loss(
    records: Iterable[Logged],
    span: OffsetRange,
    extent: Extent,
    on_loss: Callable[[OffsetRange], None],
) -> Iterator[Logged]:
    """*records* of *span* as they come, watching that retention does not delete ahead of us.

    A reader steps over deleted records in silence, and offsets may have gaps of their own, so a
    gap is a loss only if the log by now begins behind it.

    Args:
        records: What a reader yields for *span*.
        span: What is to be read.
        extent: The partition, asked again at each gap.
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
    """*whole* in pieces of at most *records_max* records, in order; nothing if it is empty."""
    for begin in range(whole.from_offset, whole.to_offset, records_max):
        yield OffsetRange(whole.partition, begin, min(begin + records_max, whole.to_offset))
