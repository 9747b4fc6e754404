"""What ``serve`` needs to have sources: their check at the start, and their process.

Called by ``_serve``.
"""

import os
from collections.abc import Callable

from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.server.processes._children import Child, program
from distributary.server.processes.source_process import SourcesStart
from distributary.server.settings import Settings
from distributary.sources import read_tables

DRAIN_S = 3.0
"""Of ``STOP_S``: for events under way at the receiver."""
STOP_S = 6.0
"""Longest wait for the process of the sources at a stop. It is stopped before the ingest process,
so that what is under way is taken and acknowledged."""


def check_sources(settings: Settings) -> None:
    """Raise where the sources cannot be used.

    Raises:
        SettingsError: With a line for each fault.
    """
    _, faults = read_tables(settings.sources, os.environ)
    if faults:
        raise SettingsError("\n".join(("These settings cannot be used:", *faults)))


def sources_child(
    settings: Settings,
    paths: DataDir,
    dial: str,
    *,
    loopback_only: bool,
    line: Callable[[str], None],
) -> Child | None:
    """The process of the sources, not started; None where none are configured.

    Args:
        settings: Their tables have been checked.
        paths: Of the data directory.
        dial: ``host:port`` on this machine at which the receiver is reached.
        loopback_only: The server listens on loopback.
        line: Takes each line of its standard error.
    """
    if not settings.sources:
        paths.meter("sources").unlink(missing_ok=True)  # the numbers of sources that are no more
        return None
    start = SourcesStart(
        data_dir=str(paths.root),
        base=f"http://{dial}",
        tables=[dict(table) for table in settings.sources],
        loopback_only=loopback_only,
        allow_sinks=settings.allow_sinks,
        event_bytes_max=settings.event_bytes_max,
        log_level=settings.log_level,
        drain_s=DRAIN_S,
    )
    return Child(
        "sources",
        program("distributary.server.processes.source_process", start),
        line=line,
        withheld=(CREDENTIAL_KEY_VARIABLE,),
    )
