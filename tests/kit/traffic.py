"""Traffic that leaves evidence: sinks that write ledgers, and one publisher at a steady rate.

Everything runs on an event loop in a thread of its own, so that a test can kill and wait in
plain code meanwhile.

Callers: end-to-end and crash tests, the soak run. Hides: the loop, pacing, ledgers.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from distributary.cli._behaviour import Behaviour
from distributary.cli._http import Client, Response, parse_address
from distributary.cli._listen import arrivals_of
from distributary.cli._listen_server import ListenServer, Request
from distributary.cli._outgoing import Envelope, wrap
from distributary.cli._publish import Publisher, PublishResult, ledger_lines, publish_all
from distributary.cli.ledger import LedgerWriter
from distributary.core.clock import SystemClock, SystemRandom
from distributary.core.errors import EventError, TransportError
from distributary.core.event import Event
from distributary.protocols.http import binding as event_http

__all__ = ["Sink", "Traffic"]

PUBLISHERS = 16
"""Requests under way at once: more than a rate of 1,000/s needs at 5 ms an answer."""

GIVE_UP_S = 120.0
"""A publisher outlives the longest restart, so that what it sends is acknowledged in the end."""

JOIN_S_MAX = 300.0
"""Longest wait for the publisher to finish what is under way."""

ANSWER_S_MAX = 10.0
"""How long a publisher waits for one answer by default."""

_T = TypeVar("_T")


class _AnyNode:
    """Sends to one of several nodes, and to the next one after a failure: a good client.

    Args:
        clients: One for each node.
        turn: Which one is the first.
    """

    def __init__(self, clients: Sequence[Client], turn: int) -> None:
        self._clients = clients
        self._turn = turn

    async def request_raw(self, method: str, path: str, lines: bytes, body: bytes) -> Response:
        """Send a request; one response, or ``TransportError``."""
        client = self._clients[self._turn % len(self._clients)]
        try:
            response = await client.request_raw(method, path, lines, body)
        except TransportError:
            self._turn += 1
            raise
        if response.status >= 500:
            self._turn += 1
        return response

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            client.close()


class Sink:
    """A sink with a ledger and the events that it took.

    Attributes:
        name: Its name.
        url: Where it listens.
        requests: Every request that it answered or dropped, only where they are kept.
        taken: Ids of the events that it answered 2xx, with the monotonic time of the first.
        copies: Events that it answered 2xx beyond the first time.
    """

    def __init__(self, name: str, ledger: Path, *, keep_requests: bool) -> None:
        self.name = name
        self.url = ""
        self.ledger = ledger
        self.requests: list[Request] = []
        self.taken: dict[str, float] = {}
        self.copies: list[tuple[str, float, float]] = []
        self._keep = keep_requests
        self._writer = LedgerWriter(ledger)
        self._clock = SystemClock()
        self.server = ListenServer(on_arrival=self._note)

    def _note(self, request: Request) -> None:
        if self._keep:
            self.requests.append(request)
        with contextlib.suppress(EventError):  # a request without an event is nobody's evidence
            events = event_http.decode(request.headers, request.body)
            self._writer.write(*arrivals_of(request, events, self._clock.wall_ms()))
            if 200 <= request.status < 300:
                now_s = self._clock.monotonic_s()
                for event in events:
                    self._take(str(event.attributes["id"]), now_s)

    def _take(self, name: str, now_s: float) -> None:
        first_s = self.taken.setdefault(name, now_s)
        if first_s != now_s:
            self.copies.append((name, first_s, now_s))

    async def open(self) -> None:
        """Listen on a free port."""
        self.url = f"http://127.0.0.1:{await self.server.start()}/{self.name}"

    async def close(self) -> None:
        """Stop listening; the ledger is whole on disk."""
        await self.server.close()
        self._writer.__exit__(None, None, None)


class Traffic:
    """Sinks and a publisher; a context manager.

    Args:
        folder: For the ledgers; that of the publisher is ``sent.jsonl``.
        sinks: Name -> how it behaves at first.
        keep_requests: Keep every request whole, for tests that look at them.
    """

    def __init__(
        self, folder: Path, sinks: Mapping[str, Behaviour], *, keep_requests: bool = False
    ) -> None:
        self.sent = folder / "sent.jsonl"
        self.sinks = {
            name: Sink(name, folder / f"{name}.jsonl", keep_requests=keep_requests)
            for name in sinks
        }
        self.acked: dict[int, float] = {}
        """Numbers of acknowledged events, with the monotonic time of the acknowledgement."""
        self.begun = 0
        """Events whose sending has begun: the number of the next one."""
        self.begun_s: dict[int, float] = {}
        """Numbers of events whose sending has begun, with the monotonic time of it."""
        self.resent: set[str] = set()
        """Ids of events whose sending was repeated: the log may hold them twice, rightly."""
        self._behaviours = dict(sinks)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="traffic", daemon=True)
        self._ledger = LedgerWriter(self.sent)
        self._clock = SystemClock()
        self._over = False
        self._publishing: Any = None

    def _call(self, work: Coroutine[Any, Any, _T], timeout_s: float = JOIN_S_MAX) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def __enter__(self) -> Self:
        self._thread.start()
        for name, sink in self.sinks.items():
            self._call(sink.open())
            sink.server.behaviour = self._behaviours[name]
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything; ledgers are whole on disk. Safe to call twice."""
        if self._loop.is_closed():
            return
        self.finish()
        for sink in self.sinks.values():
            self._call(sink.close())
        self._ledger.__exit__(None, None, None)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def behave(self, name: str, behaviour: Behaviour) -> None:
        """Let the sink *name* behave otherwise from now on."""
        self._call(self._behave(name, behaviour))

    async def _behave(self, name: str, behaviour: Behaviour) -> None:
        self.sinks[name].server.behaviour = behaviour

    def publish(
        self,
        url: str | Sequence[str],
        make: Callable[[int], Event],
        rate_per_s: float,
        *,
        path: str = "/events",
        answer_s_max: float = ANSWER_S_MAX,
        pause_s_max: float = GIVE_UP_S,
    ) -> None:
        """Begin to publish ``make(0)``, ``make(1)``… to *path* until ``finish``.

        Args:
            url: The server, or its nodes: a publisher turns to the next one after a failure.
            make: Makes the events.
            rate_per_s: Events a second.
            path: Where to.
            answer_s_max: Longest wait for one answer, seconds.
            pause_s_max: Longest pause before an event is sent again, whatever was asked for.
        """
        self._over = False
        urls = [url] if isinstance(url, str) else list(url)
        publishers = self._publishers(urls, path, answer_s_max, pause_s_max)
        work = self._publish(publishers, make, rate_per_s)
        self._publishing = asyncio.run_coroutine_threadsafe(work, self._loop)

    def publish_now(self, url: str, make: Callable[[int], Event], count: int) -> None:
        """Publish *count* more events as fast as they are taken, and wait for the end."""
        publishers = self._publishers([url], "/events", ANSWER_S_MAX, GIVE_UP_S)
        self._call(self._publish(publishers, make, 1e9, self.begun + count))

    def finish(self) -> None:
        """Begin no more events; wait until the end of every one under way is known."""
        self._over = True
        publishing, self._publishing = self._publishing, None
        if publishing is not None:
            publishing.result(JOIN_S_MAX)
        self._ledger.flush()

    def _publishers(
        self, urls: Sequence[str], path: str, answer_s_max: float, pause_s_max: float
    ) -> list[tuple[_AnyNode, Publisher]]:
        async def pause(asked_s: float) -> None:
            await asyncio.sleep(min(asked_s, pause_s_max))

        made = []
        for turn in range(PUBLISHERS):
            clients = [Client(parse_address(url), timeout_s=answer_s_max) for url in urls]
            node = _AnyNode(clients, turn)
            publisher = Publisher(
                node,
                path,
                clock=self._clock,
                random=SystemRandom(),
                give_up_s=GIVE_UP_S,
                sleep=pause,
            )
            made.append((node, publisher))
        return made

    async def _publish(
        self,
        publishers: Sequence[tuple[_AnyNode, Publisher]],
        make: Callable[[int], Event],
        rate_per_s: float,
        stop: int = 1 << 60,
    ) -> None:
        numbers: dict[str, int] = {}

        def note(published: PublishResult) -> None:
            self._ledger.write(*ledger_lines(published, self._clock.wall_ms()))
            name = str(published.envelope.events[0].attributes["id"])
            number = numbers.pop(name)
            if published.ambiguous:
                self.resent.add(name)
            if published.state == "acked":
                self.acked[number] = self._clock.monotonic_s()

        try:
            events = self._paced(make, rate_per_s, stop, numbers)
            await publish_all(events, [publisher for _, publisher in publishers], note)
        finally:
            for node, _ in publishers:
                node.close()

    async def _paced(
        self,
        make: Callable[[int], Event],
        rate_per_s: float,
        stop: int,
        numbers: dict[str, int],
    ) -> AsyncIterator[Envelope]:
        due_s = time.monotonic()
        while not self._over and self.begun < stop:
            event = make(self.begun)
            numbers[str(event.attributes["id"])] = self.begun
            self.begun_s[self.begun] = time.monotonic()
            self.begun += 1
            yield wrap([event], "binary")
            # What an outage kept from being sent is not made up for: the rate is the rate.
            due_s = max(due_s + 1.0 / rate_per_s, time.monotonic() - 0.1)
            wait_s = due_s - time.monotonic()
            if wait_s > 0.0:
                await asyncio.sleep(wait_s)
