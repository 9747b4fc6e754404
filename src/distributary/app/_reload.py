"""Which settings change while the server runs, and which want a restart.

Called by ``_serve`` at SIGHUP. Pure.
"""

import dataclasses
from typing import NamedTuple

from distributary.settings import Settings

OF_SINKS = frozenset(
    {"allow_sinks", "error_data", "nat64_prefixes", "own_sinks", "private_sinks", "protocols"}
)
"""Settings that say where events may go."""

RELOADED = OF_SINKS | frozenset(
    {
        "allowed_hosts",
        "batch_events_max",
        "connections_max",
        "connections_per_address_max",
        "disk_free_bytes_min",
        "event_bytes_max",
        "log_attempts",
        "log_level",
        "sources",
    }
)
"""Settings that processes take while they run. All others say what was opened, started or laid out
at the start: ports, folders, Spark."""

OF_SOURCES = frozenset({"allow_sinks", "event_bytes_max", "log_level", "sources"})
"""Those of them that the process of the sources is told when it starts: it starts anew."""


class Change(NamedTuple):
    """What another look at the settings came to.

    Attributes:
        settings: That are in force from now on.
        applied: Names of those that changed and are in force.
        waiting: Names of those that changed and want a restart.
    """

    settings: Settings
    applied: tuple[str, ...]
    waiting: tuple[str, ...]


def change_of(running: Settings, wanted: Settings) -> Change:
    """What becomes of *running* where *wanted* is asked for."""
    changed = [
        field.name
        for field in dataclasses.fields(Settings)
        if getattr(running, field.name) != getattr(wanted, field.name)
    ]
    applied = tuple(name for name in changed if name in RELOADED)
    settings = dataclasses.replace(running, **{name: getattr(wanted, name) for name in applied})
    return Change(settings, applied, tuple(name for name in changed if name not in RELOADED))
