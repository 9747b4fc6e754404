"""Reloads settings at SIGHUP: which apply at once, which need a restart; one reload at a time."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from distributary.server.settings import TABLES, Reload, Settings, settings_table
from distributary.sources import secret_variables

_RELOADS = {row.name: row.reload for row in settings_table()}


def _settings_of(reload: Reload) -> frozenset[str]:
    return frozenset(name for name, each in _RELOADS.items() if each is reload)


OF_SINKS = _settings_of(Reload.SINKS) | {"secrets"}
"""Settings that restrict where events may be sent."""

OF_TLS = _settings_of(Reload.TLS)
"""Settings of certificates: others are used at once, but TLS begins and ends with a restart."""

RELOADED = _settings_of(Reload.AT_ONCE) | OF_SINKS | OF_TLS | frozenset(TABLES)
"""Settings that running processes apply."""

OF_NODES = _settings_of(Reload.NODES)
"""Settings that nodes apply too."""

OF_SOURCES = frozenset(
    {
        "allow_sinks",
        "event_bytes_max",
        "log_level",
        "nat64_prefixes",
        "private_sinks",
        "sources",
    }
)
"""Those of them that the sources process reads only at its start: a change restarts it."""


class SettingsChange(NamedTuple):
    """The result of a reload.

    Attributes:
        settings: The settings now in force.
        applied: Names of those that changed and are in force.
        waiting: Names of those that changed and need a restart.
        inherited: Environment variables with secrets of sources that were not named before. From
            processes that are started now they are withheld; those that run have inherited them,
            until the server is restarted.
    """

    settings: Settings
    applied: tuple[str, ...]
    waiting: tuple[str, ...]
    inherited: tuple[str, ...] = ()

    @property
    def told(self) -> dict[str, tuple[str, ...]]:
        """Members of the log line that says what was done."""
        told = {"applied": self.applied, "after_a_restart": self.waiting}
        return told | {"inherited": self.inherited} if self.inherited else told


def change_of(running: Settings, wanted: Settings, *, shared: bool = False) -> SettingsChange:
    """Returns which changes from *running* to *wanted* apply now, and which need a restart.

    Args:
        running: The settings in force.
        wanted: Those that were read again.
        shared: Whether nodes share log and store.
    """
    changed = [
        field.name
        for field in dataclasses.fields(Settings)
        if getattr(running, field.name) != getattr(wanted, field.name)
    ]
    reloaded = RELOADED | OF_NODES if shared else RELOADED
    if (running.tls_cert_file is None) != (wanted.tls_cert_file is None):
        reloaded -= OF_TLS
    applied = tuple(name for name in changed if name in reloaded)
    settings = dataclasses.replace(running, **{name: getattr(wanted, name) for name in applied})
    known = secret_variables(running.sources)
    inherited = tuple(name for name in secret_variables(settings.sources) if name not in known)
    waiting = tuple(name for name in changed if name not in reloaded)
    return SettingsChange(settings, applied, waiting, inherited)


class Reloads:
    """Serializes reloads: none before the server has started, never two at once.

    Args:
        reload: Reads the settings and applies them.
    """

    def __init__(self, reload: Callable[[], Awaitable[None]]) -> None:
        self._reload = reload
        self._begun = False
        self._asked = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Allow reloads: the processes run. A reload requested earlier starts now."""
        self._begun = True
        self._go_on()

    def ask(self) -> None:
        """Request a reload. A request during one runs another: the file may have changed."""
        self._asked = True
        self._go_on()

    async def stop(self) -> None:
        """Stop reloading; cancels one that is under way."""
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
