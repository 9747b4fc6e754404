"""A scripted MQTT broker, for packets that a real one does not send on demand."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

from kit.listening import stop_listening

LOGIN_3: Final = b"\x20\x02\x00\x00"
LOGIN_5: Final = b"\x20\x03\x00\x00\x00"
"""A successful CONNACK."""

TRICKLE_S: Final = 0.01
DRIP_S: Final = 0.002


class Packet(NamedTuple):
    """A packet of the client.

    Attributes:
        first: Its first byte.
        body: The bytes after its length.
    """

    first: int
    body: bytes

    @property
    def kind(self) -> int:
        """The upper half of its first byte: 1 CONNECT, 3 PUBLISH, 6 PUBREL, 8 SUBSCRIBE..."""
        return self.first >> 4

    @property
    def packet_id(self) -> bytes:
        """Of PUBLISH at QoS 1 and 2, SUBSCRIBE, PUBREL: its two bytes."""
        if self.kind != 3:
            return self.body[:2]
        topic_end = 2 + int.from_bytes(self.body[:2], "big")
        return self.body[topic_end : topic_end + 2]


Script = Callable[[Packet], bytes | None]
"""What the broker sends when a packet comes: bytes, empty for nothing; None: reset."""


def packet(first: int, body: bytes) -> bytes:
    """A packet of less than 128 bytes."""
    return bytes((first, len(body))) + body


class FakeMqtt:
    """The scripted broker on loopback; an asynchronous context manager.

    Args:
        script: Called for each packet; CONNECT and PINGREQ included.
        trickle: Also send PINGRESP endlessly.
        drip: Send byte by byte.

    Attributes:
        port: Its port, once it listens.
        packets: Packets of all connections.
        connections: Count of connections.
    """

    def __init__(self, script: Script, *, trickle: bool = False, drip: bool = False) -> None:
        self.port = 0
        self.packets: list[Packet] = []
        self.connections = 0
        self._script = script
        self._trickle = trickle
        self._drip = drip
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def open_connections(self) -> int:
        """How many there are now."""
        return len(self._writers)

    def reset(self) -> None:
        """Reset every connection; new ones are taken."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every connection."""
        assert self._server is not None
        await stop_listening(self._server)
        self.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        trickle = asyncio.create_task(_trickle(writer)) if self._trickle else None
        try:
            while True:
                came = await _read(reader)
                self.packets.append(came)
                answer = self._script(came)
                if answer is None:
                    return
                for part in _bytes(answer) if self._drip else (answer,):
                    writer.write(part)
                    await writer.drain()
                    if self._drip:
                        await asyncio.sleep(DRIP_S)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has gone
        finally:
            if trickle is not None:
                trickle.cancel()
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()


def _bytes(block: bytes) -> list[bytes]:
    return [block[at : at + 1] for at in range(len(block))]


async def _trickle(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(TRICKLE_S)
        writer.write(b"\xd0\x00")


async def _read(reader: asyncio.StreamReader) -> Packet:
    first = (await reader.readexactly(1))[0]
    length = shift = 0
    while True:
        byte = (await reader.readexactly(1))[0]
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return Packet(first, await reader.readexactly(length))


def logs_in(version: int, then: Script) -> Script:
    """Says yes to CONNECT, answers PINGREQ, and leaves the rest to *then*."""

    def script(came: Packet) -> bytes | None:
        if came.kind == 1:
            return LOGIN_5 if version == 5 else LOGIN_3
        if came.kind == 12:
            return b"\xd0\x00"
        if came.kind == 14:
            return b""
        return then(came)

    return script
