"""``distributary listen``: a sink in a terminal. Shows what arrives, or writes it down.

Callers: ``_commands``; the demo uses ``LedgerSink``. Hides: decoding of arrivals and their
one-line form.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from distributary.cli import _console
from distributary.cli._behaviour import Behaviour
from distributary.cli._listen_server import ListenServer, Request
from distributary.cli._outgoing import canonical_attributes
from distributary.cli.ledger import Arrival, LedgerWriter, attributes_sha256, data_sha256
from distributary.core.clock import Clock, SystemClock
from distributary.core.errors import EventError
from distributary.core.event import Event
from distributary.protocols.http import binding as event_http

__all__ = ["LedgerSink", "Watch", "arrivals_of", "line_of", "run"]

FLUSH_S = 0.2
"""Ledger lines reach the file so often: a reader beside us sees them soon, at no real cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What ``listen`` was told.

    Attributes:
        host: Address to listen on.
        port: Port; 0: a free one.
        path: The one path that is a sink; None: every path.
        behaviour: How to answer.
        show: ``lines``, ``json`` or ``nothing``.
        ledger: File for ledger lines; None: none.
    """

    host: str
    port: int
    path: str | None
    behaviour: Behaviour
    show: str
    ledger: Path | None


def arrivals_of(request: Request, events: list[Event], wall_ms: int) -> list[Arrival]:
    """Ledger lines of one request."""
    return [
        Arrival(
            id=attributes["id"],
            source=attributes["source"],
            t=wall_ms,
            status=request.status,
            route=request.path,
            data_sha256=data_sha256(event.data),
            attributes_sha256=attributes_sha256(attributes),
            error_dest=attributes.get("knativeerrordest", ""),
            error_code=attributes.get("knativeerrorcode", ""),
        )
        for event in events
        for attributes in (canonical_attributes(event),)
    ]


class LedgerSink:
    """Writes arrivals to a ledger; give ``note`` to a server as its ``on_arrival``."""

    def __init__(self, ledger: LedgerWriter, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self.strangers = 0
        """Requests that held no event."""

    def note(self, request: Request) -> None:
        """Write down the events of *request*."""
        try:
            events = event_http.decode(request.headers, request.body)
        except EventError:
            self.strangers += 1
            return
        self._ledger.write(*arrivals_of(request, events, self._clock.wall_ms()))


def line_of(request: Request, event: Event, clock_text: str) -> Text:
    """One line for one event: time, status, type, source, id, subject, mode."""
    attributes = canonical_attributes(event)
    line = Text(overflow="ellipsis", no_wrap=True)
    good = 200 <= request.status < 300
    line.append(clock_text, style="dim")
    line.append(f" {request.status or '---'} ", style="green" if good else "bold red")
    for name, style in (("type", "cyan"), ("source", "magenta"), ("id", "bold"), ("subject", "")):
        if name in attributes:
            line.append(_console.fits_one_line(attributes[name]) + " ", style=style)
    line.append(_mode_of(request), style="dim")
    if "knativeerrordest" in attributes:
        code = attributes.get("knativeerrorcode", "no answer")
        line.append(f" dead letter ({_console.fits_one_line(code)})", style="yellow")
    return line


def _mode_of(request: Request) -> str:
    content_type = dict(request.headers).get(b"content-type", b"")
    if content_type.startswith(b"application/cloudevents-batch"):
        return "batch"
    return "structured" if content_type.startswith(b"application/cloudevents") else "binary"


class _Screen:
    """Shows arrivals as they come."""

    def __init__(self, console: Console, *, as_json: bool) -> None:
        self._console = console
        self._as_json = as_json

    def note(self, request: Request) -> None:
        now = time.strftime("%H:%M:%S")
        try:
            events = event_http.decode(request.headers, request.body)
        except EventError as error:
            reason = _console.fits_one_line(error)
            if self._as_json:
                print(msgspec.json.encode({"status": request.status, "fault": reason}).decode())
            else:
                self._console.print(Text(f"{now} {request.status} not an event: {reason}", "red"))
            return
        for event in events:
            if self._as_json:
                print(_json_line(request, event), flush=True)
            else:
                cut = self._console.is_terminal  # a file or a pipe gets whole lines
                self._console.print(line_of(request, event, now), soft_wrap=not cut)


def _json_line(request: Request, event: Event) -> str:
    line: dict[str, object] = {
        "status": request.status,
        "path": request.path,
        "mode": _mode_of(request),
        "attributes": event.attributes,
    }
    if event.data is not None:
        try:
            line["data"] = event.data.decode()
        except UnicodeDecodeError:
            line["data_base64"] = event.data
    return msgspec.json.encode(line).decode()


def run(watch: Watch) -> int:
    """Listen until interrupted; the exit code."""
    import uvloop  # noqa: PLC0415 - costs every other command 60 ms

    uvloop.run(_listen(watch))
    return _console.OK


async def _listen(watch: Watch) -> None:
    with contextlib.ExitStack() as stack:
        notes: list[Callable[[Request], None]] = []
        ledger = None
        if watch.ledger is not None:
            ledger = stack.enter_context(LedgerWriter(watch.ledger))
            notes.append(LedgerSink(ledger, SystemClock()).note)
        if watch.show != "nothing":
            notes.append(_Screen(_console.output(), as_json=watch.show == "json").note)
        server = ListenServer(watch.behaviour, on_arrival=_all(notes), path=watch.path)
        try:
            port = await server.start(watch.host, watch.port)
        except OSError as error:
            hint = "Choose another: --port 0 takes a free one."
            _console.fail(f"cannot listen on {watch.host}:{watch.port}: {error.strerror}", hint)
        host = f"[{watch.host}]" if ":" in watch.host else watch.host
        path = watch.path or "/"
        _console.errors().print(f"listening on http://{host}:{port}{path}", markup=False)
        await _until_stopped(ledger)
        await server.close()
        stats = server.stats()
    parts = [f"{count:,} x {status}" for status, count in stats.answered.items()]
    parts += [f"{stats.unanswered:,} unanswered"] if stats.unanswered else []
    counts = ", ".join(parts)
    _console.errors().print(f"{stats.requests:,} requests{': ' if counts else ''}{counts}")


def _all(notes: list[Callable[[Request], None]]) -> Callable[[Request], None] | None:
    if len(notes) < 2:
        return notes[0] if notes else None

    def note(request: Request) -> None:
        for one in notes:
            one(request)

    return note


async def _until_stopped(ledger: LedgerWriter | None) -> None:
    """Wait for Ctrl-C or SIGTERM; keep the ledger's file current meanwhile."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    while not stopped.is_set():
        if ledger is not None:
            ledger.flush()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), FLUSH_S if ledger is not None else None)
