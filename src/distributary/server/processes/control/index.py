"""The index process for ``serve``, and the folders of the index."""

import shutil
from collections.abc import Callable
from typing import Final

from distributary.core.cluster import SharedPlaces, encode_places
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.datadir import DataDir
from distributary.server.processes.index_process import IndexStart
from distributary.server.processes.supervision.children import Child, program
from distributary.server.settings import Settings
from distributary.sources import secret_variables

STOP_S: Final = 2.0
"""Longest wait for the process at a stop: what it had under way is made again."""


def index_child(
    settings: Settings,
    paths: DataDir,
    partitions: int,
    line: Callable[[str], None],
    places: SharedPlaces | None = None,
) -> Child | None:
    """Returns the index process, not started; None: there is no index, and its files are deleted.

    Args:
        settings: The settings.
        paths: Paths of the data directory.
        partitions: Number of partitions of the log.
        line: Called with each line of its standard error.
        places: Where the log lies that nodes share; None: in the data directory.
    """
    if settings.event_index == "off":
        shutil.rmtree(paths.index_folder, ignore_errors=True)
        return None
    start = IndexStart(
        data_dir=str(paths.root),
        partitions=partitions,
        age_max_s=settings.event_index_age_max_s,
        log_level=settings.log_level,
    )
    return Child(
        "index",
        program("distributary.server.processes.index_process", start),
        line=line,
        environ=encode_places(places),
        withheld=(CREDENTIAL_KEY_VARIABLE, *secret_variables(settings.sources)),
    )


def index_children(
    settings: Settings, paths: DataDir, line: Callable[[str], None], places: SharedPlaces
) -> list[Child]:
    """Returns the index process of a node, not started, or nothing: see ``index_child``."""
    child = index_child(settings, paths, 0, line, places)  # the log tells how many there are
    return [] if child is None else [child]
