"""Names of history files: day, partition, and the numbers of the rows in a file.

Each row of a partition has a number, which rises by one. A file holds the rows of a range, so its
name tells what it holds: writing a range again replaces nothing but itself, and a merged file
supersedes the files whose ranges lie within its own.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_NAME: Final = re.compile(
    r"date=(\d{4}-\d\d-\d\d)/p(\d{4,10})-(\d{20})-(\d{20})\.parquet", re.ASCII
)


class HistoryFile(NamedTuple):
    """The name of one history file.

    Attributes:
        date: Day of its rows (UTC), ``YYYY-MM-DD``.
        partition: Partition number.
        first: Number of its first row.
        end: Number after its last row.
    """

    date: str
    partition: int
    first: int
    end: int

    @property
    def path(self) -> str:
        """Path below the folder of the history, in the form that Spark takes days from."""
        return f"date={self.date}/p{self.partition:04d}-{self.first:020d}-{self.end:020d}.parquet"


def parse(path: str) -> HistoryFile | None:
    """Returns the name at *path*, relative to the folder of the history; None: it is none."""
    found = _NAME.fullmatch(path)
    if found is None or int(found[3]) >= int(found[4]):
        return None
    return HistoryFile(found[1], int(found[2]), int(found[3]), int(found[4]))


def superseded(files: Iterable[HistoryFile]) -> list[HistoryFile]:
    """Returns those of *files* whose rows a larger one of the same partition holds too."""
    gone: list[HistoryFile] = []
    latest: HistoryFile | None = None
    for file in sorted(files, key=lambda file: (file.partition, file.first, -file.end)):
        if latest is not None and latest.partition == file.partition and file.end <= latest.end:
            gone.append(file)
        else:
            latest = file
    return gone
