"""Publishers of events with keys, over many connections of which any carries any key.

Each key has one publisher, which sends an event after the one before was acknowledged, on the next
of its connections each time: so an order exists, and it crosses receivers. Callers: end-to-end
tests of several receivers. Hides: HTTP, and sending again what was not acknowledged.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from distributary.core.event import record
from distributary.core.flow import RecordKind
from distributary.core.log import Reader

__all__ = ["Connections", "logged", "publish_keyed"]

RETRY_S = 0.05
"""Pause before an event is sent again."""


class Connections:
    """Kept connections to one port; one that was lost is opened again.

    Args:
        port: Of the server, on loopback.
        count: How many.
    """

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter] | None]
        self._streams = [None] * count
        self._locks = [asyncio.Lock() for _ in range(count)]

    def __len__(self) -> int:
        return len(self._streams)

    async def post(self, number: int, fields: dict[str, str], body: bytes) -> int:
        """Publish on connection *number*; the status, 0 where the connection was lost."""
        index = number % len(self._streams)
        async with self._locks[index]:
            try:
                return await self._exchange(index, fields, body)
            except (OSError, EOFError, ValueError):
                self._drop(index)
                return 0

    async def _exchange(self, index: int, fields: dict[str, str], body: bytes) -> int:
        streams = self._streams[index]
        if streams is None:
            streams = self._streams[index] = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = streams
        lines = ["POST /events HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        head = await reader.readuntil(b"\r\n\r\n")
        named = [line.partition(b":") for line in head.lower().split(b"\r\n")]
        length = next((int(value) for name, _, value in named if name == b"content-length"), 0)
        await reader.readexactly(length)
        if b"\r\nconnection: close" in head.lower():
            self._drop(index)
        return int(head.split(b" ")[1])

    def _drop(self, index: int) -> None:
        streams, self._streams[index] = self._streams[index], None
        if streams is not None:
            streams[1].close()

    def close(self) -> None:
        """Close all."""
        for index in range(len(self._streams)):
            self._drop(index)


async def publish_keyed(
    connections: Connections,
    keys: Sequence[str | None],
    go_on: Callable[[int], bool],
    told: Callable[[str, int], None] = lambda _id, _status: None,
) -> list[str]:
    """Publish for each of *keys* (None: without) while *go_on* of the next number holds.

    Args:
        connections: Used in turn.
        keys: One publisher each.
        go_on: Asked with the number of the next event, from 0.
        told: Called with the id of an event and each status that it was answered.

    Returns:
        Ids of all acknowledged events: name of the publisher and number.
    """
    acked: list[str] = []

    async def publisher(place: int, key: str | None) -> None:
        number, turn = 0, place
        while go_on(number):
            name = f"{place}:{number}"
            fields = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/keyed", "ce-type": "k"}
            if key is not None:
                fields["ce-partitionkey"] = key
            status = await connections.post(turn, fields, b"")
            told(name, status)
            turn += 1
            if status == 202:
                acked.append(name)
                number += 1
            else:
                await asyncio.sleep(RETRY_S)

    await asyncio.gather(*(publisher(place, key) for place, key in enumerate(keys)))
    return acked


def logged(log_dir: Path, partition: int) -> list[tuple[str, str | None]]:
    """Id and key of each event in *partition*, in the order of the log."""
    found: list[tuple[str, str | None]] = []
    reader = Reader(log_dir, partition)
    with contextlib.closing(reader):
        for each in reader.read(0, reader.durable_end()):
            if each.kind != RecordKind.EVENTS:
                continue  # routes, and what these publishers do not send
            for event in record.decode(each.body):
                key = event.attributes.get("partitionkey")
                found.append((str(event.attributes["id"]), None if key is None else str(key)))
    return found
