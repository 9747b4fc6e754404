"""TCP ports for servers that cannot choose one themselves, or have to be restarted at the same."""

import contextlib
import secrets
import socket
from typing import Final

__all__ = ["free_port"]

PORTS: Final = range(20_000, 32_000)
"""Below those that systems give to outgoing connections: one of them could take a port between the
probe and its use, as could a probe of another run that lets the system choose."""

_given: set[int] = set()


def free_port() -> int:
    """A port on loopback that was free a moment ago; another one at each call."""
    while True:
        port = secrets.choice(PORTS)
        if port in _given:
            continue
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            _given.add(port)
            return port
