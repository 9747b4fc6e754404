"""The wire between nodes: who dials whom, and by what."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from distributary.core.files import PRIVATE_MODE, write_atomically
from distributary.net.own_nodes import NAME, give_up_when_silent
from distributary.server.nodes._leader import Leader
from distributary.server.nodes.proof import Proof, context

CONTROL_ALPN: Final = "distributary-control"
"""Connections to the API of the leading node."""

CONNECT_S_MAX: Final = 3.0
"""Longest time to connect to another node, seconds: one that was cut off answers nothing."""

NODE: Final = frozenset((b"/healthz", b"/readyz", b"/metrics", b"/cluster"))
"""Paths that each node answers for itself."""


class NodeFiles:
    """What a node shows, as files of one data directory that its user alone can read.

    Args:
        folder: ``run`` of the data directory.
    """

    def __init__(self, folder: Path) -> None:
        self._authority = folder / "nodes.pem"
        self._chain = folder / "node.pem"

    def write(self, proof: Proof) -> None:
        """Write them, for the receivers.

        Raises:
            OSError: They cannot be written.
        """
        write_atomically(self._authority, proof.authority.encode(), mode=PRIVATE_MODE)
        write_atomically(self._chain, proof.chain.encode(), mode=PRIVATE_MODE)

    def context(self, *purposes: str, serves: bool = False) -> ssl.SSLContext:
        """See ``proof.context``."""
        return context(self._authority, self._chain, ",".join(purposes), serves=serves)


class NodeDialler:
    """Connects relays of a receiver to the node that leads. ``server.ingest.Dial``.

    Args:
        leader: Returns who leads; cheap.
        own: Name of this node.
        control_socket: Socket of the API, where this node leads.
        node_socket: Socket at which this node answers for itself, where it does not lead.
        files: What this node shows the others.
    """

    def __init__(
        self,
        leader: Callable[[], Leader],
        own: str,
        control_socket: Path,
        node_socket: Path,
        files: NodeFiles,
    ) -> None:
        self._leader = leader
        self._own = own
        self._control = str(control_socket)
        self._node = str(node_socket)
        self._files = files
        self._context: ssl.SSLContext | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(
        self, relay: asyncio.Protocol, failed: Callable[[], None], path: bytes = b""
    ) -> None:
        """See ``Dial``."""
        task = asyncio.get_running_loop().create_task(self._dial(relay, failed, path))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, relay: asyncio.Protocol, failed: Callable[[], None], path: bytes) -> None:
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                reached = await self._connect(relay, path)
        except (OSError, TimeoutError):  # the request is answered 503
            reached = False
        if not reached:
            failed()

    async def _connect(self, relay: asyncio.Protocol, path: bytes) -> bool:
        """Connect *relay*; False: nobody leads."""
        loop = asyncio.get_running_loop()
        leader = self._leader()
        leads = leader.known and leader.name == self._own
        if leads or path in NODE:
            where = self._control if leads else self._node
            await loop.create_unix_connection(lambda: relay, where)
            return True
        if not leader.known:
            return False
        host, _, port = leader.address.rpartition(":")
        if self._context is None:
            self._context = self._files.context(CONTROL_ALPN)
        transport, _ = await loop.create_connection(
            lambda: relay,
            host.strip("[]"),
            int(port),
            ssl=self._context,
            server_hostname=NAME,
        )
        give_up_when_silent(transport)
        return True


async def ends(task: asyncio.Task[None]) -> None:
    """Cancel *task*, and wait for its end."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
