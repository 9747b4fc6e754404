"""What a job of the archive of a data directory is to do, and what it tells the data directory.

Callers: tests of the archive, with Spark. Hides: how retention and owners learn of it.
"""

from distributary.datadir import DataDir
from distributary.spark.archive.job import Wanted
from distributary.spark.archive.logs import FolderLog
from distributary.spark.archive.manifest import Contents

__all__ = ["wanted"]


def wanted(
    paths: DataDir, to: str, *, newest: bool = True, skip_damaged: bool = False, step: int = 2
) -> Wanted:
    """Returns it, for the log at *paths* and the archive at *to*; see ``Wanted``."""
    log = FolderLog(paths)

    def note(contents: Contents) -> None:
        log.note(to, contents)

    return Wanted(log, to, newest, skip_damaged, step, note=note, noted=lambda: log.noted(to))
