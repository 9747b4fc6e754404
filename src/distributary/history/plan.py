"""Decides which history files are deleted, and which become one. Pure functions of a list."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple

from distributary.history.folder import StoredFile
from distributary.history.names import HistoryFile

MERGED_BYTES_MAX: Final = 128 << 20
"""Largest file that merging makes: one block of HDFS, and a few seconds to read."""
SMALL_COUNT: Final = 64
"""So many small files of a partition and a day are merged before their hour is over: listing and
opening files costs a reader more than their rows."""
HOUR_S: Final = 3600.0
_GROWTH: Final = 8
"""A file is merged with newer ones in the same hour only if they have an eighth of its size."""


class Merge(NamedTuple):
    """Files that become one.

    Attributes:
        inputs: Files whose ranges follow one another, at least two.
        output: The file with all their rows.
    """

    inputs: tuple[HistoryFile, ...]
    output: HistoryFile


def newest_s(stored: StoredFile) -> float:
    """Returns a time, seconds since 1970, that no row of *stored* is later than.

    A file is written after its rows; merging writes it again, but never moves a row to another day.
    """
    return min(stored.modified_s, _end_of_s(stored.file.date))


def settled_before(now_s: float) -> str:
    """Returns the date before which nobody writes any more: a folder of an earlier day can go.

    Rows of a day are written until some seconds after it; a whole day is left for stopped clocks
    and busy disks.
    """
    return str((datetime.fromtimestamp(now_s, UTC) - timedelta(days=1)).date())


def expired(stored: Iterable[StoredFile], before_s: float) -> list[StoredFile]:
    """Returns the files all of whose rows are older than *before_s*, seconds since 1970."""
    return [each for each in stored if newest_s(each) < before_s]


def beyond(stored: Iterable[StoredFile], bytes_max: int) -> list[StoredFile]:
    """Returns the oldest files that keep the sum of sizes above *bytes_max*; 0: no limit."""
    ordered = sorted(stored, key=lambda each: (each.file.date, newest_s(each), each.file))
    left = sum(each.bytes for each in ordered)
    gone = []
    for each in ordered if bytes_max else ():
        if left <= bytes_max:
            break
        gone.append(each)
        left -= each.bytes
    return gone


def merges(
    stored: Iterable[StoredFile],
    now_s: float,
    *,
    bytes_max: int = MERGED_BYTES_MAX,
    unreadable: Collection[HistoryFile] = (),
) -> list[Merge]:
    """Returns which files are to become one now; none of them in two merges.

    Once an hour is over, its files are merged; once a day is over, all of it. Sooner, where
    ``SMALL_COUNT`` files lie side by side. In the same day a large file waits until the newer ones
    have grown: a row is written again a few times, not once an hour.

    Args:
        stored: The files, without superseded ones.
        now_s: Seconds since 1970.
        bytes_max: Largest file made; larger ones, and those of half the size, stay as they are.
        unreadable: Files that are left alone.
    """
    ordered = sorted(stored, key=lambda each: (each.file.partition, each.file.date, each.file))
    planned = []
    for (_, date), same_day in groupby(ordered, lambda each: (each.file.partition, each.file.date)):
        over = now_s >= _end_of_s(date) + HOUR_S
        usable = (each for each in same_day if each.file not in unreadable)
        for group in _groups(usable, bytes_max):
            chosen = _due(group, now_s, over=over)
            if len(chosen) > 1:
                planned.append(_merge(chosen))
    return planned


def _merge(chosen: Sequence[StoredFile]) -> Merge:
    inputs = tuple(each.file for each in chosen)
    return Merge(inputs, inputs[0]._replace(end=inputs[-1].end))


def _groups(stored: Iterable[StoredFile], bytes_max: int) -> Iterator[list[StoredFile]]:
    """Split *stored*, ordered, where numbers are missing, and before a group becomes too large."""
    group: list[StoredFile] = []
    taken = 0
    for each in stored:
        full = each.bytes > bytes_max // 2
        apart = bool(group) and group[-1].file.end != each.file.first
        if full or apart or taken + each.bytes > bytes_max:
            yield group
            group, taken = [], 0
        if not full:
            group.append(each)
            taken += each.bytes
    yield group


def _due(group: list[StoredFile], now_s: float, *, over: bool) -> list[StoredFile]:
    """The part of *group* that is merged now; less than two files: none."""
    hour_s = now_s // HOUR_S * HOUR_S
    closed = [each for each in group if each.modified_s < hour_s]
    if over and len(closed) == len(group):
        return group
    fresh = _without_large(group, _GROWTH)
    if len(fresh) >= SMALL_COUNT:
        return fresh
    return _without_large(_adjacent(closed), 1)


def _adjacent(stored: list[StoredFile]) -> list[StoredFile]:
    """The first of *stored* whose ranges follow one another."""
    for position in range(1, len(stored)):
        if stored[position - 1].file.end != stored[position].file.first:
            return stored[:position]
    return stored


def _without_large(group: list[StoredFile], growth: int) -> list[StoredFile]:
    """*group* without its first files that are more than *growth* times what follows them."""
    rest = sum(each.bytes for each in group)
    for position, each in enumerate(group):
        rest -= each.bytes
        if each.bytes <= growth * rest:
            return group[position:]
    return []


def _end_of_s(date: str) -> float:
    return (datetime.fromisoformat(date).replace(tzinfo=UTC) + timedelta(days=1)).timestamp()
