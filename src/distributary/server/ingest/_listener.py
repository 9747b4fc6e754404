"""Accepts connections from a socket that several receivers share, each its part of them.

Caller: ``_server``, where there is more than one receiver, or TLS. All wait for the same queue of
the kernel, so a connection never waits for a receiver that is dead or hangs. Left to themselves,
the first one awake would take all of a burst, and a publisher keeps its connection: so a receiver
that has more connections than another leaves new ones to it, for a moment.
"""

import asyncio
import socket
from collections.abc import Callable

from distributary.datadir import NodeCount, NodeCounts
from distributary.net.tls import Handshakes, Listener

STEP_BACK_S = 0.002
"""How long a connection is left to a receiver that has fewer. That one is awake within a tenth of
it, unless it is dead, hangs or is busy."""


class SharedListener(Listener):
    """Accepts from *sock* until it is closed.

    Args:
        sock: A listening socket; the listener closes it.
        make: Makes the protocol of a connection.
        node: Connections of this receiver and of the others.
        handshakes: Shake hands on each connection before *make* is called; None: no TLS.
    """

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.Protocol],
        node: NodeCounts,
        handshakes: Handshakes | None = None,
    ) -> None:
        self._node = node
        super().__init__(sock, make, handshakes)

    def _on_waiting(self) -> None:
        if self._node.alone:
            super()._on_waiting()
            return
        mine = self._node.own(NodeCount.CONNECTIONS) + len(self._opening)
        if mine > self._node.least_elsewhere(NodeCount.CONNECTIONS):
            self._rest(STEP_BACK_S)
        else:
            self._take(1)
