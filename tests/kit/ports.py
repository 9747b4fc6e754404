"""TCP ports for servers that cannot choose one themselves, or have to be restarted at the same."""

import contextlib
import secrets
import socket
from typing import Final

__all__ = ["free_port"]

PORTS: Final = range(20_000, 32_000)
"""Below those that systems give to outgoing connections: one of them could take a port between the
probe and its use, as could a probe of another run that lets the system choose."""

_claims: dict[int, socket.socket] = {}
"""Port -> a socket whose name says the number, held until this process ends: several runs draw
their ports on one machine, and each passes over what another one has been given. The name is one of
the kernel's own, in no folder: a UDP socket would be in the way of servers that use both."""


def free_port() -> int:
    """A TCP port on loopback that was free a moment ago, and that no other call is given."""
    while True:
        port = secrets.choice(PORTS)
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            claim.bind(f"\0distributary-test-port-{port}")
            with socket.create_server(("127.0.0.1", port)):
                _claims[port] = claim
                return port
        claim.close()
