"""A port that others than this machine reach: refused unless it is meant, and never forgotten.

Called by ``_serve``.
"""

import asyncio
import ipaddress
import socket

from structlog.typing import FilteringBoundLogger

from distributary.core.errors import SettingsError
from distributary.server.settings import Settings

WARN_S = 86_400.0
"""Between two warnings of an open port: one in each day's log, whoever looks at which."""


def check_open(settings: Settings) -> None:
    """Refuse an address that is not loopback, where nobody said that this is meant.

    Raises:
        SettingsError: Says how to say so.
    """
    if settings.no_auth or not is_open(settings.host):
        return
    raise SettingsError(
        f"--host {settings.host} is reached from outside of this machine, and nobody is asked who"
        " they are: whoever reaches it may publish, and read and change every subscription."
        " Listen on 127.0.0.1 behind something that asks; or, where everybody who reaches the"
        " address may do all that, say so: --no-auth (no_auth = true)"
    )


def is_open(host: str) -> bool:
    """Whether *host* names an address that is not loopback; a name that nobody knows does not."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False  # whoever listens says so better
    return not all(ipaddress.ip_address(where[0]).is_loopback for *_, where in found)


async def keep_warning(host: str, log: FilteringBoundLogger) -> None:
    """Warn of an open port now and each day; never ends where *host* is one."""
    while is_open(host):
        log.warning(
            "open-to-everybody",
            host=host,
            reason="no_auth is set: whoever reaches this address may do everything",
        )
        await asyncio.sleep(WARN_S)
