"""Moving and keeping of history, for the driver: its threads, its counters, its JVM."""

import threading
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from distributary.datadir import DataDir
from distributary.history.folder import HistoryFolder
from distributary.history.place import HistorySettings
from distributary.spark.hadoop_folder import HadoopFolder

if TYPE_CHECKING:
    from distributary.history.service import HistoryService


class History:
    """What the driver knows of history: ``start`` and ``stop``.

    Args:
        place: Where history lies, an absolute path or a URL; empty: none is kept.
        age_max_s: Age above which its files are deleted, seconds.
        bytes_max: Size above which its oldest files are deleted; 0: unlimited.
        paths: Paths of the data directory, absolute.
        outbox: Whether owners write into the outbox, from which files are moved.
    """

    def __init__(
        self, place: str, age_max_s: float, bytes_max: int, paths: DataDir, *, outbox: bool
    ) -> None:
        self._settings = HistorySettings(
            place=place,
            elsewhere=outbox,
            age_max_s=age_max_s,
            bytes_max=bytes_max,
        )
        self._paths = paths
        self._service: HistoryService | None = None
        self._starting: threading.Thread | None = None

    def start(self) -> None:
        """Start to move and keep, unless that has begun or no history is kept.

        Called once Spark has its session. Returns at once: deliveries do not wait for imports.
        """
        if not self._settings.place:
            self._paths.meter("history").unlink(missing_ok=True)  # of a history that was kept
        elif self._starting is None:
            self._starting = threading.Thread(target=self._begin, name="history-start", daemon=True)
            self._starting.start()

    def stop(self) -> None:
        """Move what waits, if the folder is within reach, and stop; takes 2 s at most."""
        if self._starting is not None:
            self._starting.join()
        if self._service is not None:
            self._service.stop()

    def _begin(self) -> None:
        from distributary.history.service import (  # noqa: PLC0415 - see ``start``
            HistoryService,
            LocalPlaces,
        )

        paths = self._paths
        places = LocalPlaces(paths.history_outbox, paths.history_scratch, paths.meter("history"))
        self._service = HistoryService(self._settings, places, folder_at)
        self._service.start()


def folder_at(url: str) -> HistoryFolder:
    """Returns the folder at *url*, through the JVM of this process.

    Raises:
        OSError: It cannot be opened.
    """
    return HadoopFolder(SparkSession.active(), url)
