"""The Subscriptions API over AMQP of one server: its port, and the beginning and end of it."""

import socket
from typing import Final

from distributary.core.errors import SettingsError
from distributary.protocols.amqp.engine import AVAILABLE
from distributary.server.processes._ground import listen
from distributary.server.processes._where import base
from distributary.subscriptions.amqp import AmqpServer
from distributary.subscriptions.service import Subscriptions

BACKLOG: Final = 128
"""Connections that the kernel keeps while the loop is busy."""


def listen_for_amqp(host: str, port: int | None) -> socket.socket | None:
    """A socket bound for clients that speak AMQP; None where *port* is: nobody asked for it.

    Raises:
        SettingsError: The port is taken, the host is unknown, or proton is not installed.
    """
    if port is None:
        return None
    if not AVAILABLE:
        raise SettingsError(
            "--amqp-port needs Qpid Proton, which is not installed."
            " Install it (pip install 'distributary[amqp]'), or leave the setting out"
        )
    return listen(host, port, flag="--amqp-port", purpose=" for AMQP", backlog=BACKLOG)


class AmqpApi:
    """The Subscriptions API over AMQP, or nothing.

    Args:
        subscriptions: Does what is asked.
        listener: Of ``listen_for_amqp``; None: there is no such API. Belongs to this from now on.

    Attributes:
        url: Where it listens, such as ``amqp://127.0.0.1:5672``; None: nowhere.
    """

    def __init__(self, subscriptions: Subscriptions, listener: socket.socket | None) -> None:
        self._listener = listener
        self._server: AmqpServer | None = None
        self.url: str | None = None
        if listener is not None:
            host, port = listener.getsockname()[:2]
            self.url = base(host, port, "amqp")
            self._server = AmqpServer(subscriptions)

    async def start(self) -> None:
        """Take connections; after *subscriptions* has started."""
        if self._server is not None and self._listener is not None:
            await self._server.start(self._listener)

    async def close(self) -> None:
        """Finish what is under way; before *subscriptions* is closed."""
        if self._server is not None:
            await self._server.close()
