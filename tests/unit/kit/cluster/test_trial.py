"""The trial of a cluster tells what a server did: a small one here does it right, or wrong."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from distributary.cli._behaviour import Behaviour
from distributary.cli._http import Client, parse_address
from distributary.cli._listen_server import ListenServer, Request
from distributary.core.event import Event
from distributary.core.filter import naive_matches
from distributary.protocols.http import binding as event_http
from distributary.testing.ledger_checker import FindingKind
from kit.cluster import trial
from kit.cluster.trial import Trial, table
from kit.running_server import wait_until

pytestmark = pytest.mark.slow

RATE_PER_S = 200.0


class Small:
    """A server that delivers each event once to each matching sink, unless it is told otherwise.

    Attributes:
        copies: Times that an event is delivered to the sink of all events.
        hold: While it is set, nothing is delivered.
    """

    def __init__(self) -> None:
        self.copies: Callable[[str], int] = lambda _name: 1
        self.flowing = threading.Event()
        self.flowing.set()
        self._routes: list[tuple[str, list[dict[str, Any]], str]] = []
        self._server = ListenServer(on_arrival=self._take)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._work: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(self._server.start(), self._loop)
        self.url = f"http://127.0.0.1:{started.result()}"
        return self

    def __exit__(self, *_exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        await asyncio.gather(*self._work)
        await self._server.close()

    def subscribe(self, sink: str, **members: Any) -> str:
        """See ``RunningServer.subscribe``."""
        dead = members["protocolsettings"]["delivery"].get("deadLetterSink", "")
        self._routes.append((sink, members["filters"], dead))
        return sink

    def misbehave(self, status: int) -> None:
        """Answer publishers so from now on."""
        statuses = (trial.StatusChance(status),) if status != 200 else ()
        self._loop.call_soon_threadsafe(
            setattr, self._server, "behaviour", Behaviour(statuses=statuses)
        )

    def _take(self, request: Request) -> None:
        if 200 <= request.status < 300:
            for event in event_http.decode(request.headers, request.body):
                task = asyncio.get_running_loop().create_task(self._deliver(event))
                self._work.add(task)
                task.add_done_callback(self._work.discard)

    async def _deliver(self, event: Event) -> None:
        while not self.flowing.is_set():  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.01)
        lines, body = event_http.encode_binary(event)
        for sink, filters, dead in self._routes:
            if not naive_matches(filters, event.attributes):
                continue
            times = 1 if filters else self.copies(str(event.attributes["id"]))
            for _ in range(times):
                if await self._send(sink, lines, body) == 400:
                    await self._send(dead, lines, body)

    async def _send(self, url: str, lines: bytes, body: bytes) -> int:
        address = parse_address(url)
        client = Client(address._replace(prefix=""))
        try:
            return (await client.request_raw("POST", address.prefix, lines, body)).status
        finally:
            client.close()


@pytest.fixture
def small() -> Iterator[Small]:
    """A server."""
    with Small() as server:
        yield server


@pytest.fixture
def running(tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    """A trial of it, under way."""
    monkeypatch.setattr(trial, "DURABLE_S", 0.2)
    with Trial(tmp_path, [small.url], rate_per_s=RATE_PER_S) as running:
        running.begin(small.subscribe)
        yield running


def some_more(running: Trial, count: int = 20) -> None:
    """Wait until so many more events have been acknowledged."""
    wanted = running.acked + count
    wait_until(lambda: running.acked >= wanted, 30.0, "events are acknowledged")


def test_a_good_server_passes(small: Small, running: Trial) -> None:
    """A time without deliveries, and one without publishing, are seen for what they are."""
    with running.fault("quiet", watch_s=0.0):
        small.flowing.clear()
        some_more(running)
        time.sleep(0.3)
        small.flowing.set()
    with running.fault("refused", watch_s=0.0):
        small.misbehave(503)
        time.sleep(0.3)
        small.misbehave(200)
    report = running.conclude()
    quiet, refused = report.seen
    assert report.verdict.passed, report.verdict.examples[:5]
    assert not report.unexplained
    assert quiet.delivering_s >= 0.2
    assert refused.publishing_s >= 0.2
    assert refused.keyed_s >= 0.2
    assert "none broken" in table(report)


def test_a_lost_event_is_found(
    small: Small, running: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was acknowledged, and came nowhere."""
    monkeypatch.setattr(trial, "RECOVER_S_MAX", 1.0)
    small.copies = lambda name: 0 if name.endswith("50") else 1
    some_more(running, 200)
    report = running.conclude()
    assert set(report.verdict.counts) == {FindingKind.LOST}
    assert {finding.id[-2:] for finding in report.verdict.examples} == {"50"}


def test_a_copy_belongs_to_the_fault_at_its_time(small: Small, running: Trial) -> None:
    """One that came at no fault's time is explained by none."""
    with running.fault("twice", watch_s=0.0):
        small.copies = lambda _name: 2
        some_more(running)
        small.copies = lambda _name: 1
    report = running.conclude()
    assert report.seen[0].copies
    assert not report.unexplained
    assert running.copies_since(0.0)


def test_a_copy_without_a_fault_is_unexplained(small: Small, running: Trial) -> None:
    """However few there are."""
    small.copies = lambda name: 2 if name.endswith("7") else 1
    some_more(running)
    assert running.conclude().unexplained
