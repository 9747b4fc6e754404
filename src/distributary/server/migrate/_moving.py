"""What the state of a partition is once its records have other numbers. Pure.

A topic begins at offset 0, and a log whose oldest records were deleted does not: every record's
number is lowered by that of the oldest one. The checksum by which a state knows a record covers its
number, so it changes too: ``Moving`` has those of the records that the state speaks of.

What speaks of a record that had been deleted has a negative number from then on, which no record
ever has. What speaks of another record than the log holds stays void: it gets a checksum that no
record has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.core.flow import DoneKey, Mark
from distributary.core.outcome import BackfillRow, DeadLetter, RetryRow, RunRow

VOID: Final = -1
"""A checksum that no record has."""
GONE: Final = 0
"""A number that no kept dead letter has: they are numbered from 1."""

Numbers = Mapping[int, int]
"""New numbers of a partition's kept dead letters, by those before."""


class Checksums(NamedTuple):
    """The checksums of one record.

    Attributes:
        before: In the data directory.
        after: In the topic.
    """

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Moving:
    """How one partition is numbered anew.

    Attributes:
        start: Number of the oldest record in the data directory: 0 in the topic.
        known: Checksums by the number before, of each record that the state speaks of.
    """

    start: int
    known: Mapping[int, Checksums]

    def offset(self, before: int) -> int:
        """The new number of a record; negative for one that had been deleted."""
        return before - self.start

    def checksum(self, offset: int, before: int) -> int:
        """The new checksum by which a state knows the record *offset*; ``VOID``: it is not that."""
        if offset < self.start:
            return before
        known = self.known.get(offset)
        return known.after if known is not None and known.before == before else VOID

    def key(self, key: DoneKey) -> DoneKey:
        """A match."""
        return key._replace(offset=self.offset(key.offset))

    def mark(self, mark: Mark) -> Mark:
        """A committed offset, which fits the log before."""
        if mark.offset <= self.start:
            return Mark(0, 0)
        known = self.known.get(mark.offset - 1)
        return Mark(self.offset(mark.offset), 0 if known is None else known.after)

    def done(self, done: Mapping[DoneKey, int]) -> list[tuple[DoneKey, int]]:
        """Matches that are done, without those of other records: nobody looks them up."""
        moved = (
            (self.key(key), self.checksum(key.offset, checksum)) for key, checksum in done.items()
        )
        return [(key, checksum) for key, checksum in moved if checksum != VOID]

    def row(self, row: RetryRow) -> RetryRow:
        """A retry row."""
        checksum = self.checksum(row.key.offset, row.checksum)
        return row._replace(key=self.key(row.key), checksum=checksum)

    def backfill(self, row: BackfillRow) -> BackfillRow:
        """A backfill; it begins with the log at the earliest."""
        return row._replace(
            start=self.offset(row.start),
            from_offset=max(self.offset(row.from_offset), 0),
            to_offset=None if row.to_offset is None else self.offset(row.to_offset),
        )

    def dead_letter(self, letter: DeadLetter) -> DeadLetter:
        """A kept dead letter: it has its event, so its record may be gone."""
        checksum = self.checksum(letter.key.offset, letter.checksum)
        return letter._replace(key=self.key(letter.key), checksum=checksum)

    def replay(self, run: RunRow) -> RunRow:
        """The progress of a replay, which counts records."""

        def moved(record: int | None) -> int | None:
            return None if record is None else max(self.offset(record), 0)

        return run._replace(
            at=max(self.offset(run.at), 0),
            through=max(self.offset(run.through), 0),
            missing_from=moved(run.missing_from),
            missing_to=moved(run.missing_to),
        )


def redrive(run: RunRow, letters: Numbers) -> RunRow:
    """The progress of a run over kept dead letters, which have new numbers.

    Args:
        run: Its progress.
        letters: Numbers of the partition's dead letters.
    """

    def newest(through: int) -> int:
        return max((new for old, new in letters.items() if old <= through), default=0)

    return run._replace(at=newest(run.at), through=newest(run.through))


def chosen(ids: Iterable[str], letters: Mapping[int, Numbers]) -> tuple[str, ...]:
    """The dead letters that a run was asked for, as ``DemandDetails.ids`` names them.

    One that is not kept any more becomes ``GONE``: without any, the run would be one of all.

    Args:
        ids: As they were.
        letters: By partition, the numbers of its dead letters.
    """

    def moved(one: str) -> str:
        partition, _, number = one.partition("-")
        return f"{partition}-{letters.get(int(partition), {}).get(int(number), GONE)}"

    return tuple(dict.fromkeys(map(moved, ids)))
