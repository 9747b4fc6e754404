"""A client of an ASGI application, in this process and without a socket.

For tests of HTTP APIs. Replaces the server: it sends what a server would have parsed, and returns
what a server would have written, without framing or limits.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from starlette.types import ASGIApp, Message

__all__ = ["Answer", "AsgiClient"]


class Answer(NamedTuple):
    """A response of the application.

    Attributes:
        status: Status code.
        headers: Names in lower case; repeated fields are joined by commas.
        body: The whole body.
        chunks: Count of pieces of the body.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    chunks: int

    def json(self) -> Any:
        """The JSON value of the body."""
        return msgspec.json.decode(self.body)


class AsgiClient:
    """A client of *app* whose requests run on the loop of *runner*, one at a time.

    Args:
        app: The application.
        runner: Its loop; tasks of the application continue between requests.
    """

    def __init__(self, app: ASGIApp, runner: asyncio.Runner) -> None:
        self._app = app
        self._runner = runner

    def request(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] = b"",
        headers: Iterable[tuple[str, str]] = (),
    ) -> Answer:
        """The answer to one request.

        Args:
            method: Request method.
            target: Path, and query after a question mark.
            body: The body, or the pieces in which it arrives.
            headers: Header fields; ``host`` is added.
        """
        return self._runner.run(self.ask(method, target, body, headers))

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] = b"",
        headers: Iterable[tuple[str, str]] = (),
    ) -> Answer:
        """As ``request``, for callers who are on the loop already."""
        path, _, query = target.partition("?")
        fields = [("host", "sut.example"), *headers]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in fields],
            "client": ("127.0.0.1", 1),
            "server": ("sut.example", 80),
        }
        pieces = [body] if isinstance(body, bytes) else list(body)
        incoming: list[Message] = [
            {"type": "http.request", "body": piece, "more_body": n + 1 < len(pieces)}
            for n, piece in enumerate(pieces)
        ]
        sent: list[Message] = []

        async def receive() -> Message:
            if incoming:
                return incoming.pop(0)
            await asyncio.Event().wait()  # the client stays, and says nothing more
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return _answer(sent)


def _answer(sent: list[Message]) -> Answer:
    start, *rest = sent
    headers: dict[str, str] = {}
    for raw_name, raw_value in start["headers"]:
        name, value = raw_name.decode(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    bodies = [message.get("body", b"") for message in rest]
    return Answer(start["status"], headers, b"".join(bodies), sum(1 for body in bodies if body))
