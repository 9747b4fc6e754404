"""A wire that can be cut in many ways, for some of those who use it: a TCP proxy before a server.

Callers: tests with brokers, the cluster and its tests. Hides: the thread with the loop, and who has
dialled.
"""

import asyncio
import contextlib
import enum
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

from kit.listening import stop_listening
from kit.peers import Address, Peers
from kit.ports import free_port

__all__ = ["CuttingProxy", "Fate", "Way"]

LOOPBACK: Final = "127.0.0.1"
CHUNK_BYTES: Final = 64 * 1024

CALL_S_MAX: Final = 60.0
"""Longest time that the loop takes for an order: milliseconds on an idle machine. On a busy one it
looks for the processes behind a hundred connections for ten seconds."""

BACKLOG: Final = 1024
"""Connections that wait to be taken: clients that lost theirs dial together."""

Who: TypeAlias = Callable[[str], bool]
"""Whether the wire of a member is meant, by its name; empty: of nobody known."""

_T = TypeVar("_T")


def everybody(_member: str) -> bool:
    """All wires are meant; who uses each need not be found out."""
    return True


class Way(enum.Enum):
    """Directions that a cut concerns."""

    BOTH = enum.auto()
    THERE = enum.auto()
    """To the server: nothing of what clients say arrives."""
    BACK = enum.auto()
    """From the server: it acts on what it gets, and nobody hears of it."""

    @property
    def there(self) -> bool:
        """Whether bytes to the server are concerned."""
        return self is not Way.BACK

    @property
    def back(self) -> bool:
        """Whether bytes from the server are concerned."""
        return self is not Way.THERE


class Fate(enum.Enum):
    """What becomes of connections, and of bytes, that a cut concerns."""

    REFUSE = enum.auto()
    """Connections are reset, new ones at once: the server is not there."""
    HOLD = enum.auto()
    """Connections stay open and bytes wait: they arrive when the cut is mended, however late."""
    SWALLOW = enum.auto()
    """Connections stay open and bytes are taken and lost: the wire is reset when it is mended."""


class _Cut(NamedTuple):
    """A cut in force.

    Attributes:
        who: Whom it concerns.
        fate: What becomes of them.
        way: In which direction; without meaning where connections are refused.
    """

    who: Who
    fate: Fate
    way: Way


class _Lane:
    """One direction of a connection.

    Attributes:
        open: Set while bytes pass.
        swallowing: Whether bytes are lost meanwhile, rather than waiting.
        torn: Whether some were lost: such a connection cannot go on.
    """

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.swallowing = self.torn = False

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on until one end is gone; the end of a connection is held like bytes."""
        while True:
            block = await reader.read(CHUNK_BYTES)
            if self.swallowing and block:
                self.torn = True
                continue
            await self.open.wait()
            if not block:
                raise ConnectionResetError
            writer.write(block)
            await writer.drain()


class _Link:
    """One connection: both sockets, and its two directions.

    Attributes:
        writers: Of both ends; the client's comes first.
        there: To the server.
        back: From the server.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.there = _Lane()
        self.back = _Lane()

    def peer(self) -> Address:
        """The client's end."""
        host, port = self.writers[0].get_extra_info("peername")[:2]
        return host, port

    def apply(self, cut: _Cut) -> None:
        """Let the cut happen to it."""
        if cut.fate is Fate.REFUSE:
            self.reset()
            return
        for concerned, lane in ((cut.way.there, self.there), (cut.way.back, self.back)):
            if concerned:
                lane.open.clear()
                lane.swallowing = cut.fate is Fate.SWALLOW

    def mend(self) -> None:
        """Undo ``apply`` where that is possible, else reset."""
        for lane in (self.there, self.back):
            lane.swallowing = False
            lane.open.set()
        if self.there.torn or self.back.torn:
            self.reset()

    def reset(self) -> None:
        """Reset both connections."""
        for writer in self.writers:
            opened = writer.get_extra_info("socket")
            if opened.fileno() >= 0:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class CuttingProxy:
    """Relays connections to a server until it is told to cut. A context manager.

    One cut is in force at a time. It concerns open connections and those that come.

    Args:
        target: The server; its port on loopback suffices.
        host: Where clients connect to, an address of loopback.
        port: The same; None: a free one.

    Attributes:
        address: Where clients connect to.
        connections: How many were made so far.
    """

    def __init__(
        self, target: Address | int, *, host: str = LOOPBACK, port: int | None = None
    ) -> None:
        self.address: Address = (host, free_port() if port is None else port)
        self.connections = 0
        self._target: Address = (LOOPBACK, target) if isinstance(target, int) else target
        self._links: set[_Link] = set()
        self._peers = Peers()
        self._cut: _Cut | None = None
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)

    @property
    def port(self) -> int:
        """The port of ``address``."""
        return self.address[1]

    @property
    def place(self) -> str:
        """Where clients connect to, as ``host:port``."""
        return f"{self.address[0]}:{self.address[1]}"

    def open_count(self, who: Who = everybody) -> int:
        """Open connections of those who are meant."""
        return self._do(self._count(who))

    def cut(self, fate: Fate, way: Way = Way.BOTH, who: Who = everybody) -> None:
        """Cut the wire from now until ``mend``."""
        self._do(self._begin(_Cut(who, fate, way)))

    def reset(self, who: Who = everybody) -> None:
        """Reset open connections once; new ones pass."""
        self._do(self._reset(who))

    def mend(self) -> None:
        """Let everything pass again: held bytes first."""
        self._do(self._mend())

    # -- on the loop --------------------------------------------------------------------------

    async def _count(self, who: Who) -> int:
        return len(self._concerned(who))

    async def _begin(self, cut: _Cut) -> None:
        await self._mend()
        self._cut = cut
        for link in self._concerned(cut.who):
            link.apply(cut)

    async def _reset(self, who: Who) -> None:
        for link in self._concerned(who):
            link.reset()

    async def _mend(self) -> None:
        self._cut = None
        for link in self._links:
            link.mend()

    def _concerned(self, who: Who) -> list[_Link]:
        return [link for link in self._links if self._meant(who, link)]

    def _meant(self, who: Who, link: _Link) -> bool:
        return who is everybody or who(self._member(link))

    def _member(self, link: _Link) -> str:
        return self._peers.name(link.peer(), self.address)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        link = _Link(writer)
        self._links.add(link)
        # At the end tasks are cancelled; one that ends so is an error to streams of Python 3.11.
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await self._join(link, reader)
            except* OSError:
                pass  # one end is gone: so is the other
        self._links.discard(link)
        for each in link.writers:
            each.transport.abort()

    async def _join(self, link: _Link, reader: asyncio.StreamReader) -> None:
        """Relay both ways until one end is gone, or the wire is refused."""
        cut = self._cut
        if cut is not None and self._meant(cut.who, link):
            link.apply(cut)
            if cut.fate is Fate.REFUSE:
                return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        link.writers.append(far_writer)
        async with asyncio.TaskGroup() as ways:
            ways.create_task(link.there.pump(reader, far_writer))
            ways.create_task(link.back.pump(far_reader, link.writers[0]))

    # -- beginning and end --------------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S_MAX)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._relay, *self.address, backlog=BACKLOG)

    async def _end(self) -> None:
        if self._server is not None:
            await stop_listening(self._server)
        for link in tuple(self._links):
            link.reset()
        # A connection of the last moment may have a task that has not begun to relay.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def __enter__(self) -> Self:
        """Start relaying."""
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cut everything for good."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):
            self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S_MAX)
        self._loop.close()
