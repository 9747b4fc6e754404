"""A sink: an HTTP server that takes whatever comes, tells about it, and misbehaves on request.

Paths of its own: ``GET /__stats`` and ``PUT /__behaviour`` (JSON of ``_behaviour.Behaviour``).
Every other path is a sink.

Callers: ``listen``, the demo, end-to-end tests, benchmarks (their receiving side: while nobody
looks at arrivals and the behaviour is good, a request costs one parse and one write).
Hides: which connections there are, and what was counted.
"""

import asyncio
import collections
from collections.abc import Callable

import msgspec

from distributary.cli import _behaviour
from distributary.cli._behaviour import Behaviour
from distributary.cli._listen_connection import Connection, KeepingConnection, Request, Timers
from distributary.core.clock import Random, SystemRandom

__all__ = ["ListenServer", "Request", "Stats"]

BACKLOG = 1024
"""Connections waiting to be accepted: a router may open hundreds at once after a restart."""


class Stats(msgspec.Struct, kw_only=True):
    """Counts since the start.

    Attributes:
        requests: Requests read whole, without those to ``/__stats`` and ``/__behaviour``.
        answered: Answers by status, as text.
        unanswered: Requests that got no answer.
        connections: Connections open now.
    """

    requests: int = 0
    answered: dict[str, int] = {}
    unanswered: int = 0
    connections: int = 0


class ListenServer:
    """A sink on one port.

    Args:
        behaviour: How to answer, until ``behaviour`` is set anew.
        on_arrival: Called with each request once it was answered or dropped; None saves the
            cost of keeping headers and bodies.
        path: The one path that is a sink, others answer 404; None: every path is.
        random: Source of chance for ``Behaviour.statuses``.
        timers: What runs delays; None: the running event loop.
    """

    def __init__(
        self,
        behaviour: Behaviour | None = None,
        *,
        on_arrival: Callable[[Request], None] | None = None,
        path: str | None = None,
        random: Random | None = None,
        timers: Timers | None = None,
    ) -> None:
        self.on_arrival = on_arrival
        self.path = path
        self.random = random or SystemRandom()
        self.timers = timers
        self.counts: collections.Counter[int] = collections.Counter()
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.behaviour = behaviour or Behaviour()

    @property
    def behaviour(self) -> Behaviour:
        """How requests are answered from now on; setting it restarts ``fail_first``."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._seen = 0
        self.hurried = behaviour == Behaviour() and self.on_arrival is None and self.path is None
        """True while a request needs no more than to be counted and answered 200."""

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen; the port, which the system chose if *port* was 0. OSError: it is taken."""
        loop = asyncio.get_running_loop()
        self.timers = self.timers or loop
        self._server = await loop.create_server(self.connect, host, port, backlog=BACKLOG)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    def connect(self) -> Connection:
        """A protocol for a new connection; ``start`` gives this to the event loop."""
        return (Connection if self.on_arrival is None else KeepingConnection)(self)

    async def close(self) -> None:
        """Stop listening and cut every connection. Safe to call twice."""
        if self._server is not None:
            self._server.close()
            for connection in tuple(self.connections):
                connection.transport.abort()
            await self._server.wait_closed()
            self._server = None

    def stats(self) -> Stats:
        """Counts until now."""
        return Stats(
            requests=self.counts.total(),
            answered={str(status): n for status, n in sorted(self.counts.items()) if status},
            unanswered=self.counts[0],
            connections=len(self.connections),
        )

    def next_status(self) -> int:
        """Status for the next request, by the behaviour."""
        self._seen += 1
        return _behaviour.choose_status(self._behaviour, self._seen, self.random.unit())
