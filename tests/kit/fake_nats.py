"""A scripted NATS server, for answers that a real one sends rarely or never."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from kit.listening import stop_listening

INFO: Final[dict[str, Any]] = {
    "server_id": "FAKE",
    "version": "2.9.10",
    "proto": 1,
    "headers": True,
    "max_payload": 2 * 1024 * 1024,
}
"""Its ``INFO``."""

LOOK_UP: Final = "$JS.API.STREAM.NAMES"


@dataclass(frozen=True, slots=True)
class Published:
    """A message that a client published.

    Attributes:
        subject: Its subject.
        reply: Reply subject; empty: none.
        sid: The client's subscription to the reply subject.
        headers: Header block; empty: none.
        payload: The payload.
    """

    subject: str
    reply: str
    sid: str
    headers: bytes
    payload: bytes

    def answered(self, payload: bytes, headers: bytes = b"") -> bytes:
        """The frame that answers it; empty where no answer is wanted."""
        if not self.reply:
            return b""
        total = len(headers) + len(payload)
        if not headers:
            return f"MSG {self.reply} {self.sid} {total}\r\n".encode() + payload + b"\r\n"
        line = f"HMSG {self.reply} {self.sid} {len(headers)} {total}\r\n".encode()
        return line + headers + payload + b"\r\n"


@dataclass(slots=True)
class _Client:
    """State of one connection: subscriptions by subject, and PINGs received."""

    subscriptions: dict[str, str] = field(default_factory=dict)
    pings: int = 0


Answer: TypeAlias = Callable[[Published], bytes | None]
"""What is sent for a message; None: the connection is reset."""


def stored(message: Published) -> bytes:
    """A stream has it."""
    return message.answered(b'{"stream":"S","seq":1}')


def refused(err_code: int) -> Answer:
    """A stream refuses it."""

    def answer(message: Published) -> bytes:
        error = {"code": 400, "err_code": err_code, "description": f"refused as {err_code}"}
        return message.answered(json.dumps({"error": error, "stream": "S", "seq": 0}).encode())

    return answer


def error(text: str) -> Answer:
    """An ``-ERR`` line instead of an answer."""
    return lambda _message: f"-ERR '{text}'\r\n".encode()


class FakeNats:
    """The scripted server on loopback; an asynchronous context manager.

    Args:
        answer: Answers published messages, except the JetStream query for the stream of a subject.
        streams: The answer to that query; bytes: a header block that is the answer.
        info: Replaces ``INFO``; bytes: the whole first line.
        login: The answer to the first PING; None: PONG.
        trickle: Sent every 10 ms after the first published message.
        pongs_max: Most PINGs of one connection that are answered; None: all. The first belongs to
            the login.

    Attributes:
        port: Its port.
        published: Published messages, except those queries.
        connects: The ``CONNECT`` of each client.
    """

    def __init__(
        self,
        answer: Answer = stored,
        *,
        streams: tuple[str, ...] | bytes = ("S",),
        info: dict[str, Any] | bytes = INFO,
        login: bytes | None = None,
        trickle: bytes = b"",
        pongs_max: int | None = None,
    ) -> None:
        self.port = 0
        self.published: list[Published] = []
        self.connects: list[dict[str, Any]] = []
        self._answer = answer
        self._streams = streams
        self._info = info
        self._login = login
        self._trickle = trickle
        self._pongs_max = pongs_max
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def connected(self) -> int:
        """How many clients are connected."""
        return len(self._writers)

    def reset(self) -> None:
        """Cut every connection; new ones are taken."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        info = self._info
        writer.write(
            info if isinstance(info, bytes) else b"INFO " + json.dumps(info).encode() + b"\r\n"
        )
        client = _Client()
        trickling = asyncio.create_task(self._drip(writer))
        try:
            while line := await reader.readline():
                said = await self._said(line.decode().split(), reader, client)
                if said is None:
                    break
                writer.write(said)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client is gone
        finally:
            trickling.cancel()
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        while self._trickle and not writer.is_closing():
            await asyncio.sleep(0.01)
            if self.published:
                writer.write(self._trickle)

    async def _said(
        self, words: list[str], reader: asyncio.StreamReader, client: _Client
    ) -> bytes | None:
        match words:
            case ["CONNECT", *options]:
                self.connects.append(json.loads(" ".join(options)))
                return b""
            case ["PING"]:
                client.pings += 1
                if self._pongs_max is not None and client.pings > self._pongs_max:
                    return b""
                return b"PONG\r\n" if self._login is None else self._login
            case ["SUB", subject, *_, sid]:
                client.subscriptions[subject.removesuffix("*")] = sid
                return b""
            case ["PUB" | "HPUB" as operation, subject, *reply_and_sizes]:
                sizes = 2 if operation == "HPUB" else 1
                reply = "".join(reply_and_sizes[:-sizes])
                body = await reader.readexactly(int(words[-1]) + 2)
                split = int(words[-2]) if sizes == 2 else 0
                prefix = reply.rpartition(".")[0] + "."
                sid = client.subscriptions.get(prefix, "0")
                message = Published(subject, reply, sid, body[:split], body[split:-2])
                return self._take(message)
        return b""

    def _take(self, message: Published) -> bytes | None:
        if message.subject == LOOK_UP:
            if isinstance(self._streams, bytes):
                return message.answered(b"", self._streams)
            return message.answered(json.dumps({"streams": self._streams}).encode())
        self.published.append(message)
        return self._answer(message)

    async def __aenter__(self) -> Self:
        """Start it."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it, and cut every connection."""
        assert self._server is not None
        await stop_listening(self._server)
        self.reset()
        await asyncio.gather(*self._tasks)
