import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from distributary.cli._listen_server import ListenServer, Request


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and says how it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ended = ""

    def write(self, data: Any) -> None:
        if not self.ended:
            self.written += bytes(data)

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"


class Ticks:
    """Timers that run when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.due: list[tuple[float, int, Callable[[], object]]] = []
        self.count = 0

    def call_later(self, delay: float, callback: Callable[[], object]) -> object:
        self.count += 1
        self.due.append((self.now_s + delay, self.count, callback))
        return None

    def advance(self, seconds: float) -> None:
        """Run what falls due within *seconds*, in order."""
        end_s = self.now_s + seconds
        while self.due and min(self.due)[0] <= end_s:
            entry = min(self.due)
            self.due.remove(entry)
            self.now_s = entry[0]
            entry[2]()
        self.now_s = end_s


class Bench:
    """A sink on which a test plays the other side."""

    def __init__(self, **options: Any) -> None:
        self.arrivals: list[Request] = []
        self.ticks = Ticks()
        if options.pop("watched", True):
            options["on_arrival"] = self.arrivals.append
        self.server = ListenServer(timers=self.ticks, **options)
        self.connect()

    def connect(self) -> None:
        """Open a connection in place of the last."""
        self.wire = Wire()
        self.connection = self.server.connect()
        self.connection.connection_made(self.wire)

    def post(self, path: str = "/", body: bytes = b"x", method: str = "POST") -> bytes:
        """Send a request; what was answered until now."""
        head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nCE-Id: 1\r\n"
        head += f"content-length: {len(body)}\r\n\r\n"
        self.connection.data_received(head.encode() + body)
        return self.wire.written

    def lose(self) -> None:
        """The other side is gone."""
        self.wire.ended = "lost"
        self.connection.connection_lost(None)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """Make a sink with options."""
    return Bench
