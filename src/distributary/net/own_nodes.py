"""Reaches this server's own receivers where they may be on other machines: by any of its nodes.

Both ends prove that they belong to one cluster, by TLS with certificates of the cluster's own
authority. Called by ``Connector`` and by the nodes themselves. Hides which node is taken.
"""

import asyncio
import contextlib
import itertools
import os
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Final

from distributary.core.errors import DistributaryError, TransportError

NAME: Final = "node.distributary.internal"
"""The name in every certificate of a node, which both ends expect."""

OWN_ALPN: Final = "distributary-own"
"""Connections to a node's receivers: of owners and sources, which show whom they publish for."""

DIAL_S_EACH: Final = 2.0
"""Time for one node before the next one is dialled: nodes are near each other."""

NODES_TRIED_MAX: Final = 4
"""Most nodes that are dialled for one connection: an attempt has to end within its timeout."""

KNOWN_S: Final = 2.0
"""How long what was read of the nodes counts: no more than a look each two seconds and process."""

AVOIDED_S: Final = 5.0
"""How long a node that could not be reached is tried last."""

NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)
"""OpenSSL's ``X509_V_FLAG_NO_CHECK_TIME``, which ``ssl`` does not name. The key is the proof, and
clocks of machines may differ; earlier versions made certificates that begin on the day before."""

IDLE_S: Final = 5
"""Keepalive: how long nothing comes before the first probe."""
INTERVAL_S: Final = 2
"""Keepalive: pause between two probes."""
PROBES: Final = 3
"""Keepalive: a connection on which nothing comes is probed after five seconds, and given up after
three probes without an answer: 11 s, when the others take a silent node for dead long since."""

UNACKNOWLEDGED_MS: Final = 10_000
"""What was sent and is not acknowledged for so long ends the connection: without this the kernel
sends it again for a quarter of an hour, and a half-open relay hangs as long."""


def node_context(
    authority: str, chain: str | os.PathLike[str], purposes: Sequence[str], *, serves: bool
) -> ssl.SSLContext:
    """The context of one end of a connection between parts of a cluster.

    Args:
        authority: Certificate of the authority, in PEM.
        chain: Path of a file with our certificate and its key.
        purposes: What the connection is for, as ALPN names it; several where this end serves.
        serves: Whether this end accepts.

    Raises:
        OSError: The file cannot be read, or something is no certificate (``ssl.SSLError``).
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serves else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=authority)
    made.load_cert_chain(chain)
    made.set_alpn_protocols(list(purposes))
    made.verify_flags |= NO_CHECK_TIME
    return made


def give_up_when_silent(transport: asyncio.BaseTransport) -> None:
    """End *transport* soon once its far end is gone without a word: a cut cable sends none."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # it has gone, or the kernel has none of it
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)


class OwnNodes:
    """Opens connections to receivers of living nodes. For one event loop at a time.

    Connections are spread over the nodes; one that cannot be reached is tried last for a while.

    Args:
        addresses: Returns ``host:port`` of each node that takes events; blocks. Raises
            ``DistributaryError`` where nobody can be asked: those known before count.
        context: Makes the context of our end.
        now_s: A clock that no one sets.
    """

    def __init__(
        self,
        addresses: Callable[[], Sequence[str]],
        context: Callable[[], ssl.SSLContext],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = addresses
        self._make = context
        self._now_s = now_s
        self._context: ssl.SSLContext | None = None
        self._known: tuple[str, ...] = ()
        self._known_s = float("-inf")
        self._failed: dict[str, float] = {}
        self._turn = itertools.count(os.getpid())  # processes begin at different nodes

    async def open(self, factory: Callable[[], asyncio.Protocol]) -> None:
        """Connect to the receivers of a node, with the protocol that *factory* makes.

        Raises:
            TransportError: ``refused``: no node could be reached; ``tls``: there is no proof.
        """
        if self._context is None:
            try:
                self._context = self._make()
            except OSError as error:
                raise TransportError("tls", f"No proof for this server's nodes: {error}") from error
        why = "none lives"
        for address in await self._ordered():
            try:
                async with asyncio.timeout(DIAL_S_EACH):
                    await self._open_one(address, factory)
            except (OSError, TimeoutError) as error:  # ssl.SSLError is among them
                self._failed[address] = self._now_s()
                why = f"{address}: {error or 'no answer'}"
            else:
                return
        raise TransportError("refused", f"No connection to a node of this server: {why}")

    async def _open_one(self, address: str, factory: Callable[[], asyncio.Protocol]) -> None:
        host, _, port = address.rpartition(":")
        transport, _ = await asyncio.get_running_loop().create_connection(
            factory, host.strip("[]"), int(port), ssl=self._context, server_hostname=NAME
        )
        give_up_when_silent(transport)

    async def _ordered(self) -> list[str]:
        now_s = self._now_s()
        if now_s - self._known_s >= KNOWN_S:
            self._known_s = now_s  # others go on with what is known meanwhile
            with contextlib.suppress(DistributaryError):
                self._known = tuple(await asyncio.to_thread(self._read))
        known = self._known
        first = next(self._turn) % len(known) if known else 0
        turned = [*known[first:], *known[:first]]
        self._failed = {each: at for each, at in self._failed.items() if now_s - at < AVOIDED_S}
        return sorted(turned, key=lambda each: each in self._failed)[:NODES_TRIED_MAX]
