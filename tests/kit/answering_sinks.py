"""HTTP sinks on loopback whose responses, replies included, a function determines.

Callers: tests of a whole server in synchronous code. Hides: the thread with the event loop, the one
port of all sinks, and waiting. Each sink has a separate path, and so a separate queue, breaker and
rate.
"""

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from distributary.core.event import Event
from distributary.protocols.http import binding as event_http
from kit.fake_sink import FakeSink, Request
from kit.running_server import wait_until

__all__ = [
    "AnsweringSink",
    "AnsweringSinks",
    "Arrival",
    "answered",
    "by_turns",
    "cut_off",
    "once_released",
    "released",
    "respond",
    "respond_event",
]

ARRIVE_S_MAX = 60.0
"""Longest wait for a delivery: longer means that it never comes."""

LOOK_S = 0.005
"""Pause between two looks at what arrived."""


class Arrival(NamedTuple):
    """A received request.

    Attributes:
        method: Request method.
        target: Request target.
        headers: Last value of each, names in lower case.
        body: The whole body.
        at_s: When it had arrived completely, monotonic seconds.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def event(self) -> Event:
        """The event in it; raises where it holds none or several."""
        fields = [(name.encode(), value.encode("latin-1")) for name, value in self.headers.items()]
        (event,) = event_http.decode(fields, self.body)
        return event

    @property
    def id(self) -> str:
        """Of the event in it."""
        return str(self.event.attributes["id"])


Answering = Callable[[Arrival, int], "bytes | Awaitable[bytes]"]
"""The answer to a request, and its number at this sink, from 1; no bytes: the connection is cut."""


def respond(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A response; underscores in header names become dashes."""
    lines = [f"HTTP/1.1 {status} Said"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if status >= 200 and status != 204:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def respond_event(
    attributes: Mapping[str, Any], body: bytes = b"", *, status: int = 200, structured: bool = False
) -> bytes:
    """A response with an event, in binary mode or *structured*."""
    required = {"specversion": "1.0", "id": "reply", "source": "/sink", "type": "reply"}
    event = Event(required | dict(attributes), body)
    encode = event_http.encode_structured if structured else event_http.encode_binary
    fields, content = encode(event)
    head = f"HTTP/1.1 {status} Said\r\ncontent-length: {len(content)}\r\n".encode()
    return head + fields + b"\r\n" + content


def answered(response: bytes) -> Answering:
    """Always the same."""
    return lambda _arrival, _number: response


def by_turns(*responses: bytes) -> Answering:
    """The first request gets the first one and so on; the last one stays."""
    return lambda _arrival, number: responses[min(number, len(responses)) - 1]


def cut_off(_arrival: Arrival, _number: int) -> bytes:
    """No answer: the connection ends."""
    return b""


def once_released(release: threading.Event, response: bytes) -> Answering:
    """The answer comes when *release* is set."""

    async def answer(_arrival: Arrival, _number: int) -> bytes:
        while not release.is_set():  # noqa: ASYNC110 - set by a thread of its own
            await asyncio.sleep(LOOK_S)
        return response

    return answer


class AnsweringSink:
    """One sink with a replaceable behaviour.

    Attributes:
        url: Its address.
        answer: Makes its responses; may be replaced at any time.
        arrivals: All requests received, in order.
    """

    def __init__(self, url: str, answer: Answering) -> None:
        self.url = url
        self.answer = answer
        self.arrivals: list[Arrival] = []

    @property
    def ids(self) -> list[str]:
        """Ids of the events that arrived, in order, with repetitions."""
        return [arrival.id for arrival in tuple(self.arrivals)]

    @property
    def events(self) -> list[Event]:
        """The events that arrived, in order."""
        return [arrival.event for arrival in tuple(self.arrivals)]

    def wait(self, count: int = 1) -> list[Arrival]:
        """Wait until *count* requests have arrived; those.

        Raises:
            ServerError: They do not come.
        """
        what = f"{count} requests at {self.url}"
        wait_until(lambda: len(self.arrivals) >= count, ARRIVE_S_MAX, what, LOOK_S)
        return self.arrivals[:count]

    def wait_for(self, *ids: str) -> None:
        """Wait until events with all of these ids have arrived.

        Raises:
            ServerError: They do not come.
        """
        what = f"{ids} at {self.url}"
        wait_until(lambda: set(ids) <= set(self.ids), ARRIVE_S_MAX, what, LOOK_S)


class AnsweringSinks:
    """An HTTP server of such sinks on one port; a context manager.

    Args:
        tls: Makes it speak HTTPS; None: HTTP.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._sinks: dict[str, AnsweringSink] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sinks", daemon=True)
        self._server = FakeSink(self._behave, tls)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.__aenter__(), self._loop).result()
        return self

    def __exit__(self, *_exception: object) -> None:
        closing = self._server.__aexit__(None, None, None)
        asyncio.run_coroutine_threadsafe(closing, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def port(self) -> int:
        """Where all of them listen."""
        return self._server.port

    def sink(self, path: str, answer: Answering | None = None) -> AnsweringSink:
        """A new sink at *path* (with its slash), which stood for none before; answers 200."""
        assert path not in self._sinks, path
        made = AnsweringSink(self._server.uri(path), answer or answered(respond(200)))
        self._sinks[path] = made
        return made

    async def _behave(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self._server.requests.clear()  # sinks keep their own
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        arrival = Arrival(request.method, request.target, headers, request.body, time.monotonic())
        sink = self._sinks.get(request.target)
        if sink is None:
            writer.write(respond(404))
            return
        sink.arrivals.append(arrival)
        response = sink.answer(arrival, len(sink.arrivals))
        content = response if isinstance(response, bytes) else await response
        if not content:
            writer.transport.abort()
        else:
            writer.write(content)


@contextlib.contextmanager
def released() -> Iterator[threading.Event]:
    """An event for ``once_released`` that is set at the end, however the test ends."""
    release = threading.Event()
    try:
        yield release
    finally:
        release.set()
