"""What runs between nodes, for tests: certificates, a gateway, and who answers behind it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from distributary.server.nodes import (
    Authority,
    Gateway,
    NodeFiles,
    Purpose,
    make_authority,
    make_proof,
)


def files_of(folder: Path, authority: Authority | None = None) -> NodeFiles:
    """What a node of the cluster of *authority* shows."""
    folder.mkdir(exist_ok=True)
    files = NodeFiles(folder)
    files.write(make_proof(authority or make_authority()))
    return files


class Relay(asyncio.Protocol):
    """What a receiver passes on: asks once it is connected, and keeps the answer."""

    def __init__(self) -> None:
        self.answer = b""
        self.over = asyncio.Event()
        self.failed = False

    def connection_made(self, transport: Any) -> None:
        """Ask."""
        transport.write(b"ask")

    def data_received(self, data: bytes) -> None:
        """Keep it."""
        self.answer += data

    def connection_lost(self, _error: Exception | None) -> None:
        """It is over."""
        self.over.set()

    def fail(self) -> None:
        """Nothing was reached."""
        self.failed = True
        self.over.set()


@asynccontextmanager
async def answering(path: Path, answer: bytes) -> AsyncIterator[list[bytes]]:
    """A server at a Unix socket that answers *answer*, and closes; yields what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.write(answer)
        await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, path)
    async with server:
        yield asked


@asynccontextmanager
async def gateway(
    files: NodeFiles, routes: dict[Purpose, Callable[[], Path | None]]
) -> AsyncIterator[tuple[str, Gateway]]:
    """The port of a node; yields its address, and the gateway."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen(8)
    sock.setblocking(False)
    made = Gateway(sock, files.context(*Purpose, serves=True), routes)
    made.start()
    try:
        yield f"127.0.0.1:{sock.getsockname()[1]}", made
    finally:
        made.close()
