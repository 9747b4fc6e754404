"""Which settings change while the server runs, and which want a restart; one reload at a time.

Called by ``_serve`` at SIGHUP.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from distributary.server.settings import Settings

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


class SettingsChange(NamedTuple):
    """What another look at the settings came to.

    Attributes:
        settings: That are in force from now on.
        applied: Names of those that changed and are in force.
        waiting: Names of those that changed and want a restart.
    """

    settings: Settings
    applied: tuple[str, ...]
    waiting: tuple[str, ...]


def change_of(running: Settings, wanted: Settings) -> SettingsChange:
    """What becomes of *running* where *wanted* is asked for."""
    changed = [
        field.name
        for field in dataclasses.fields(Settings)
        if getattr(running, field.name) != getattr(wanted, field.name)
    ]
    applied = tuple(name for name in changed if name in RELOADED)
    settings = dataclasses.replace(running, **{name: getattr(wanted, name) for name in applied})
    return SettingsChange(
        settings, applied, tuple(name for name in changed if name not in RELOADED)
    )


class Reloads:
    """Has the settings read again, once the server has begun; one time after the other.

    Args:
        reload: Reads them and has them taken.
    """

    def __init__(self, reload: Callable[[], Awaitable[None]]) -> None:
        self._reload = reload
        self._begun = False
        self._asked = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """What takes settings runs now: what was asked for until here is done."""
        self._begun = True
        self._go_on()

    def ask(self) -> None:
        """Reload soon. What is asked during a reload is one more: the file may have changed."""
        self._asked = True
        self._go_on()

    async def stop(self) -> None:
        """Reload no more; one that is under way is broken off."""
        self._begun = False
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _go_on(self) -> None:
        if self._begun and self._asked and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._asked:
            self._asked = False
            await self._reload()
