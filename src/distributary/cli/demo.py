"""``distributary demo``: publishes real events through its own server, and checks the result.

Four sinks listen in this process: a steady one that three subscriptions share, one that answers
503 for a while and then recovers, one that refuses everything with 400, and the dead letter
sink of the latter. Everything runs on free ports and in a temporary folder, which is removed.

Callers: ``_commands``, ``python -m distributary.cli.demo``. Hides: the script of the demo. It ends
by running the checker, as a program, over the ledgers of publisher and sinks.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from distributary.cli import _behaviour, _console, _demo_input, _listen, _outgoing, _publish
from distributary.cli._demo_screen import DemoRow, Screen
from distributary.cli._http import Client, parse_address
from distributary.cli._listen_server import ListenServer, Request
from distributary.cli.ledger import LedgerWriter
from distributary.core.clock import SystemClock, SystemRandom
from distributary.core.errors import DistributaryError, EventError, TransportError
from distributary.core.event import Event
from distributary.core.filter import naive_matches
from distributary.protocols.http import binding as event_http

__all__ = ["DemoError", "run"]

READY_S_MAX = 110.0
"""Longest wait for the server: 78 s were seen on two busy cores, most of it the JVM."""

FINISH_S_MAX = 60.0
"""Longest wait for the last delivery after the last event was published."""

STOP_S_MAX = 20.0
"""Longest wait for the server to drain; then it is killed, and the demo has failed."""

RATE_PER_S = 100.0
"""Events a second: so that people can watch."""

CONNECTIONS = 4
"""Events in flight at once: at this rate one connection suffices, and four hide a slow commit."""
DELIVERY = {"retry": 20, "backoffDelay": "PT0.2S", "backoffMax": "PT1S"}
"""Retries that outlast the failing sink's bad time, at waits short enough to watch."""
_PORTS = range(20_000, 32_000)
"""Below those that most systems give to outgoing connections: one of them could take the port
before the server has started."""
_PORTS_TRIED_MAX = 100
"""Ports that are tried: where so many cannot be opened, none can."""


class DemoError(DistributaryError):
    """The demo could not be shown; the message has the reason."""


class _Play:
    """Sinks, lanes and ledgers of one run."""

    def __init__(self, chosen: _demo_input.DemoInput, folder: Path) -> None:
        self.chosen = chosen
        self.folder = folder
        self.clock = SystemClock()
        self.stack = contextlib.ExitStack()
        refusing = _behaviour.Behaviour(statuses=(_behaviour.StatusChance(400),))
        failing = _behaviour.Behaviour(statuses=(_behaviour.StatusChance(503),))
        self.sinks = {
            "steady": ListenServer(on_arrival=self._note),
            "failing": ListenServer(failing, on_arrival=self._note),
            "refusing": ListenServer(refusing, on_arrival=self._note),
            "dead": ListenServer(on_arrival=self._note),
        }
        plans: tuple[tuple[str, str, list[dict[str, Any]]], ...] = (
            ("everything", "steady", []),
            ("some", "steady", [chosen.some]),
            ("few", "steady", [chosen.few]),
            ("recovering", "failing", [{"not": chosen.some}]),
            ("refused", "refusing", [chosen.few]),
        )
        self.filters = {name: filters for name, _, filters in plans}
        self.sink_of = {name: sink for name, sink, _ in plans}
        self.rows = {name: self._row(name) for name in self.filters}
        self.ledgers = {
            name: self.stack.enter_context(LedgerWriter(folder / f"{name}.jsonl"))
            for name in (*self.filters, "dead", "sent")
        }
        self.urls: dict[str, str] = {}
        self.finished = asyncio.Event()
        """Set when every match is delivered or dead-lettered."""
        self.screen = Screen(_console.output(), list(self.rows.values()))

    def _row(self, name: str) -> DemoRow:
        filters = self.filters[name]
        expected = sum(naive_matches(filters, event.attributes) for event in self.chosen.events)
        words = msgspec.json.encode(filters[0]).decode() if filters else "every event"
        about = {"failing": " → fails, recovers", "refusing": " → answers 400"}
        return DemoRow(name, words + about.get(self.sink_of[name], ""), expected)

    async def open_sinks(self) -> None:
        """Start the sinks; each subscription has its own path."""
        ports = {name: await sink.start() for name, sink in self.sinks.items()}
        for name, sink in self.sink_of.items():
            self.urls[name] = f"http://127.0.0.1:{ports[sink]}/{name}"
        self.urls["dead"] = f"http://127.0.0.1:{ports['dead']}/dead"

    async def close(self) -> None:
        """Stop the sinks and finish the ledgers."""
        for sink in self.sinks.values():
            await sink.close()
        self.stack.close()

    def _note(self, request: Request) -> None:
        """Record one arrival: in its ledger, in its lane, on the screen."""
        name = request.path.removeprefix("/")
        row = self.rows["refused" if name == "dead" else name]
        try:
            events = event_http.decode(request.headers, request.body)
        except EventError as error:
            self.screen.say(f"{name}: something that is no event arrived: {error}")
            return
        arrivals = _listen.arrivals_of(request, events, self.clock.wall_ms())
        self.ledgers[name].write(*arrivals)
        for event, arrival in zip(events, arrivals, strict=True):
            if 200 <= request.status < 300:
                reached = row.dead if name == "dead" else row.delivered
                reached.add((arrival.source, arrival.id))
            else:
                row.attempts += 1
            self.screen.arrived(row, _listen.line_of(request, event, time.strftime("%H:%M:%S")))
        if all(row.finished for row in self.rows.values()):
            self.finished.set()

    def routes_json(self) -> bytes:
        """What the checker expects; it evaluates the same filters independently."""
        routes = {
            name: {"filters": filters, "path": f"/{name}", "sink": self.urls[name]}
            for name, filters in self.filters.items()
        }
        return msgspec.json.encode(routes)


def run(command: Sequence[str] | None = None) -> int:
    """Show the demo; returns the exit code.

    Args:
        command: Starts a server, with ``{port}`` and ``{folder}`` filled in; None: ``serve``.
    """
    serve = [sys.executable, "-m", "distributary.cli", "serve"]
    serve += ["--host", "127.0.0.1", "--port", "{port}", "--data-dir", "{folder}/data"]
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="distributary-demo-") as name:
        try:
            code = asyncio.run(_play(Path(name), command or serve))
        except (DemoError, TransportError) as error:
            _console.errors().print(f"the demo failed: {error}", style="bold red", markup=False)
            return _console.FAILED
    _console.output().print(f"took {time.monotonic() - started_s:.0f} s")
    return code


async def _play(folder: Path, command: Sequence[str]) -> int:
    chosen = _demo_input.find_input(Path.cwd())
    port = _free_port()
    play = _Play(chosen, folder)
    try:
        await play.open_sinks()
        play.screen.say(f"{len(chosen.events)} events: {chosen.title}")
        play.screen.say("starting distributary serve (Spark takes some seconds) …")
        async with _server(command, folder, port):
            await _publish_and_wait(play, f"http://127.0.0.1:{port}")
    finally:
        await play.close()
    return await _verdict(play)


def _free_port() -> int:
    why: OSError | None = None
    for _ in range(_PORTS_TRIED_MAX):
        port = secrets.choice(_PORTS)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as error:
            why = error
    raise DemoError(f"no port can be opened on 127.0.0.1: {why}")


@contextlib.asynccontextmanager
async def _server(command: Sequence[str], folder: Path, port: int) -> AsyncIterator[None]:
    """Run a server that is ready; stops it in order at the end."""
    words = [word.format(port=port, folder=folder) for word in command]
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *words, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=_environ()
        )
    try:
        await _until_ready(process, port, log)
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_S_MAX)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise DemoError(f"the server did not stop.\n{_tail(log)}") from None


def _environ() -> dict[str, str]:
    """Our environment without settings: the server has only the demo's, in its own folder."""
    environ = {name: text for name, text in os.environ.items() if "DISTRIBUTARY_" not in name}
    if "PYTHONPATH" in environ:
        places = environ["PYTHONPATH"].split(os.pathsep)
        environ["PYTHONPATH"] = os.pathsep.join(str(Path(place).resolve()) for place in places)
    return environ


async def _until_ready(process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    client = Client(parse_address(f"http://127.0.0.1:{port}"), timeout_s=5.0)
    deadline_s = time.monotonic() + READY_S_MAX
    try:
        while time.monotonic() < deadline_s and process.returncode is None:
            with contextlib.suppress(TransportError):
                if (await client.request("GET", "/readyz")).status == 200:
                    return
            await asyncio.sleep(0.1)
    finally:
        client.close()
    raise DemoError(f"the server did not become ready.\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])


async def _publish_and_wait(play: _Play, url: str) -> None:
    client = Client(parse_address(url))
    try:
        for name in play.filters:
            await _subscribe(play, client, name)
    finally:
        client.close()
    play.screen.say(f"{len(play.filters)} subscriptions are ready; publishing")
    with play.screen:
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(_tick(play.screen))
            await _publish_events(play, url)
            with contextlib.suppress(TimeoutError):  # the checker reports what is missing
                await asyncio.wait_for(play.finished.wait(), FINISH_S_MAX)
            ticking.cancel()


async def _subscribe(play: _Play, client: Client, name: str) -> None:
    delivery: dict[str, Any] = dict(DELIVERY)
    if name == "refused":
        delivery["deadLetterSink"] = play.urls["dead"]
    body = {
        "sink": play.urls[name],
        "protocol": "HTTP",
        "filters": play.filters[name],
        "protocolsettings": {"delivery": delivery},
    }
    headers = (("content-type", "application/json"),)
    answer = await client.request("POST", "/subscriptions", headers, msgspec.json.encode(body))
    if answer.status != 201:
        text = answer.body.decode("utf-8", "replace")
        raise DemoError(f"subscription {name} was answered {answer.status}: {text}")


async def _publish_events(play: _Play, url: str) -> None:
    """Publish at a rate that people can watch; then the failing sink recovers."""
    events = play.chosen.events
    clients = [Client(parse_address(url)) for _ in range(CONNECTIONS)]
    publishers = [
        _publish.Publisher(client, "/events", clock=play.clock, random=SystemRandom())
        for client in clients
    ]

    def note(published: _publish.PublishResult) -> None:
        play.ledgers["sent"].write(*_publish.ledger_lines(published, play.clock.wall_ms()))
        if published.state != "acked":
            play.screen.say(f"not acknowledged: {_publish.problem_of(published)[0]}")

    try:
        await _publish.publish_all(_paced(events), publishers, note)
    finally:
        for client in clients:
            client.close()
    play.screen.say("all published; the failing sink recovers")
    play.sinks["failing"].behaviour = _behaviour.Behaviour()


async def _paced(events: list[Event]) -> AsyncIterator[_outgoing.Envelope]:
    modes: tuple[_outgoing.Mode, ...] = ("binary", "structured")
    for number, event in enumerate(events):
        yield _outgoing.wrap([event], modes[number % 2])
        await asyncio.sleep(1 / RATE_PER_S)


async def _tick(screen: Screen) -> None:
    while True:
        screen.refresh()
        await asyncio.sleep(1.0 if not _console.output().is_terminal else 0.12)


async def _verdict(play: _Play) -> int:
    """Run the checker over the ledgers; returns its exit code."""
    routes = play.folder / "routes.json"
    routes.write_bytes(play.routes_json())
    words = ["--routes", str(routes), "--sent", str(play.folder / "sent.jsonl")]
    for name in play.filters:
        words += ["--delivered", f"{name}={play.folder / f'{name}.jsonl'}"]
    words += ["--dead", f"refused={play.folder / 'dead.jsonl'}"]
    play.screen.say("the checker holds what was sent against what arrived:")
    checker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "distributary.testing.check_ledgers", *words
    )
    return await checker.wait()


if __name__ == "__main__":
    sys.exit(run())
