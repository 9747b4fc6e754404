"""The port of the folder that history files lie in: a local one, or one of Spark's file systems.

Every file is ours by its name (``names``): other files are neither listed, counted nor deleted.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from distributary.history.names import HistoryFile

HIDDEN_SUFFIX: Final = ".put"
"""Ends the hidden name of a file that is being put; Spark ignores names that begin with a dot."""
HIDDEN: Final = re.compile(r"\.p\d{4,10}-\d{20}-\d{20}\.parquet\.put", re.ASCII)


class StoredFile(NamedTuple):
    """A file as the folder lists it.

    Attributes:
        file: Its name.
        bytes: Its size.
        modified_s: Time of its last change, seconds since 1970.
    """

    file: HistoryFile
    bytes: int
    modified_s: float


class HistoryFolder(Protocol):
    """A folder of history files. Every method raises ``OSError`` where the folder fails."""

    def files(self) -> list[StoredFile]:
        """Returns the history files, in no order."""
        ...

    def put(self, source: Path, file: HistoryFile) -> None:
        """Store the content of *source* as *file*; without effect where *file* exists.

        Readers see all of it or nothing. On return it is as durable as the folder makes things.
        *source* may be deleted then; its content may never change, since it may be shared.
        """
        ...

    def fetch(self, file: HistoryFile, into: Path) -> Path:
        """Returns a local file with the content of *file*, to be read and not changed.

        Args:
            file: An existing file.
            into: Where a copy goes, if one is needed.
        """
        ...

    def delete(self, file: HistoryFile) -> None:
        """Delete *file*; without effect where there is none."""
        ...

    def delete_empty_days(self, before: str) -> None:
        """Delete folders of days before the date *before* that hold nothing."""
        ...

    def sweep(self) -> None:
        """Delete what interrupted calls of ``put`` left. No call may be under way."""
        ...


def hidden_name(file: HistoryFile) -> str:
    """Returns the hidden name of *file* in the folder of its day."""
    return f".{name_in_day(file)}{HIDDEN_SUFFIX}"


def name_in_day(file: HistoryFile) -> str:
    """Returns the name of *file* in the folder of its day."""
    return file.path.partition("/")[2]


def day_folder(file: HistoryFile) -> str:
    """Returns the name of the folder of the day of *file*."""
    return day_name(file.date)


def day_name(date: str) -> str:
    """Returns the name of the folder of *date*."""
    return f"date={date}"
