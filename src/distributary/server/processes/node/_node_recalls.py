"""What owners on all machines ask for of the archive, at the node that leads.

Their requests are notes in the store; the process that recalls, and what people see, read files.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from distributary.core.cluster import SharedPlaces
from distributary.core.database import database_url
from distributary.core.errors import DistributaryError
from distributary.core.log.kafka.recalled_topic import prepare_recalled_topic
from distributary.datadir import DataDir
from distributary.partitions.notes import RECALL, Mirror, Notes

LOOK_S: Final = 0.5
"""Interval of looks at the requests: one statement."""


class NodeRecalls:
    """Looks at the requests; for one thread at a time.

    Args:
        places: Where log and store lie.
        partitions: How many the log has.
        paths: The data directory of this node.
    """

    def __init__(self, places: SharedPlaces, partitions: int, paths: DataDir) -> None:
        self._log = places.log
        self._partitions = partitions
        self._paths = paths
        self._prepared = False
        self._mirror = Mirror(Notes(database_url(places.store)), self._path_of, RECALL)

    def _path_of(self, name: str) -> Path | None:
        number = name.removeprefix(RECALL)
        known = number.isdecimal() and int(number) < self._partitions
        return self._paths.recall_requests(int(number)) if known else None

    async def follow(self, archive: Callable[[], str]) -> None:
        """Have files of the newest requests while there is an *archive*; never returns."""
        while True:
            if archive():
                await asyncio.to_thread(self.look)
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Write the files of requests that have changed. Blocks.

        The first call makes the topic, so that owners find where it ends before they ask. Where
        that fails, the process that recalls tries again, and says why not.
        """
        if not self._prepared:
            self._prepared = True
            with contextlib.suppress(DistributaryError):
                prepare_recalled_topic(self._log, self._partitions)
        # Without the store, or a disk, what is known counts until the next look.
        with contextlib.suppress(DistributaryError, OSError):
            self._mirror.look()
