"""Sources for ``serve``: validates their tables and builds their child process."""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.server.processes.source_process import SourcesStart
from distributary.server.processes.supervision.children import Child, program
from distributary.server.settings import Settings
from distributary.sources import read_tables

DRAIN_S = 3.0
"""Part of ``STOP_S`` for events under way at the receiver."""
STOP_S = 6.0
"""Longest wait for the sources process at a stop. It stops before the ingest process, so that
messages under way are accepted and acknowledged."""


def check_sources(settings: Settings) -> None:
    """Check the tables of the sources.

    Raises:
        SettingsError: The sources are unusable; a line for each fault.
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
    node: str = "",
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Child | None:
    """Returns the sources process, not started; None where none are configured.

    Args:
        settings: Settings with checked tables of sources.
        paths: Paths of the data directory.
        dial: Where this machine reaches the receiver, in plain HTTP; see ``OwnAddresses``.
        loopback_only: Whether the server listens on loopback alone.
        line: Called with each line of its standard error.
        node: Name of this node: leases say which sources it runs. Empty: it runs all.
        environ: Where the leases lie, for a node.
    """
    if not settings.sources:
        paths.meter("sources").unlink(missing_ok=True)  # metrics of sources that were removed
        return None
    # Whoever may ask for sinks, the operator alone names brokers: auto looks at the listener.
    private_allowed = {"auto": loopback_only, "allow": True, "deny": False}[settings.private_sinks]
    start = SourcesStart(
        data_dir=str(paths.root),
        base=dial,
        tables=[dict(table) for table in settings.sources],
        private_allowed=private_allowed,
        allow_sinks=settings.allow_sinks,
        nat64_prefixes=settings.nat64_prefixes,
        event_bytes_max=settings.event_bytes_max,
        log_level=settings.log_level,
        drain_s=DRAIN_S,
        node=node,
    )
    return Child(
        "sources",
        program("distributary.server.processes.source_process", start),
        line=line,
        environ=environ,
        withheld=(CREDENTIAL_KEY_VARIABLE,),
    )
