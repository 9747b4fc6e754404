"""``distributary listen``: a sink in a terminal that shows arrivals or writes them to a ledger.

Callers: ``_commands``; the demo shows arrivals the same way. Hides: decoding of arrivals and
their one-line form.
"""

import asyncio
import contextlib
import signal
import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.text import Text as Line

from distributary.cli import _behaviour, _console
from distributary.cli._listen_server import ListenServer, Request
from distributary.cli._options import Text
from distributary.cli._outgoing import canonical_attributes
from distributary.cli._times import seconds
from distributary.cli.ledger import Arrival, LedgerWriter, attributes_sha256, data_sha256
from distributary.core.clock import SystemClock
from distributary.core.errors import EventError, SettingsError
from distributary.core.event import Event
from distributary.protocols.http import binding as event_http

FLUSH_S = 0.2
"""Interval of flushing the ledger, seconds: a concurrent reader sees lines soon, at little cost."""

Statuses = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE[:P]", help="Answer with it (P: probability; else 200)."),
]
Reset = Annotated[
    Literal["connect", "request", "status", "body"] | None,
    typer.Option(metavar="connect|request|status|body", help="Reset the connection at this point."),
]


def listen(
    *,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0: a free one.")
    ] = 9000,
    path: Annotated[
        Text, typer.Option(metavar="PATH", help="Take this path only; others answer 404.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Show events as JSON lines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but counts.")] = False,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append every arrival, as JSON lines.")
    ] = None,
    status: Statuses = None,
    delay: Annotated[str, typer.Option(metavar="DURATION", help="Wait before each answer.")] = "0s",
    fail_first: Annotated[
        int, typer.Option(metavar="N", min=0, help="Answer 503 to the first N.")
    ] = 0,
    retry_after: Annotated[
        str, typer.Option(metavar="TEXT", help="Retry-After of answers not 2xx.")
    ] = "",
    hang: Annotated[bool, typer.Option("--hang", help="Never answer.")] = False,
    reset: Reset = None,
    slow_head: Annotated[bool, typer.Option("--slow-head", help="Head at 1 byte/s.")] = False,
    slow_body: Annotated[bool, typer.Option("--slow-body", help="Body at 1 byte/s.")] = False,
    endless_body: Annotated[
        bool, typer.Option("--endless-body", help="A body without end.")
    ] = False,
) -> None:
    """Be a sink: show what arrives, with path and data; misbehave on request.

    Behaviour can be changed while it runs: PUT a JSON object to /__behaviour (members
    delay_s, statuses, fail_first, fail_status, hang, reset, slow, endless_body, retry_after).
    GET /__stats answers counts.

    For example:

      distributary listen --port 9000

      distributary listen --json | jq .attributes.type

      distributary listen --status 503:0.3 --status 429:0.1 --retry-after 2

      curl -X PUT -d '{"hang": true}' http://127.0.0.1:9000/__behaviour
    """
    behaviour = _behaviour.Behaviour(
        delay_s=seconds("--delay", delay),
        statuses=_statuses(status or []),
        fail_first=fail_first,
        hang=hang,
        reset=reset or "",
        slow="head" if slow_head else "body" if slow_body else "",
        endless_body=endless_body,
        retry_after=retry_after,
    )
    faults = _behaviour.check(behaviour)
    if faults:
        raise SettingsError("; ".join(f"{fault.path[2:]}: {fault.message}" for fault in faults))
    show = "nothing" if quiet else "json" if json else "lines"
    import uvloop  # noqa: PLC0415 - costs every other command 60 ms

    with contextlib.ExitStack() as stack:
        file = None if ledger is None else stack.enter_context(LedgerWriter(ledger))
        arrivals = None if quiet and file is None else _Arrivals(show, file).note
        server = ListenServer(behaviour, on_arrival=arrivals, path=path)
        uvloop.run(_listen(server, host, port, file))


def _statuses(texts: list[str]) -> tuple[_behaviour.StatusChance, ...]:
    try:
        return tuple(_behaviour.parse_status(text) for text in texts)
    except ValueError as error:
        raise SettingsError(f"--status: {error}") from error


async def _listen(
    server: ListenServer, address: str, port: int, ledger: LedgerWriter | None
) -> None:
    try:
        port = await server.start(address, port)
    except OSError as error:
        hint = "Choose another: --port 0 takes a free one."
        _console.fail(f"cannot listen on {address}:{port}: {error.strerror}", hint)
    host = f"[{address}]" if ":" in address else address
    where = f"http://{host}:{port}{server.path or '/'}"
    _console.errors().print(f"listening on {where}", markup=False)
    await _until_stopped(ledger)
    await server.close()
    stats = server.stats()
    parts = [f"{count:,} x {status}" for status, count in stats.answered.items()]
    parts += [f"{stats.unanswered:,} unanswered"] if stats.unanswered else []
    counts = ", ".join(parts)
    _console.errors().print(
        f"{_console.counted(stats.requests, 'request')}{': ' if counts else ''}{counts}"
    )


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


class _Arrivals:
    """Shows arrivals and writes them to a ledger.

    Args:
        show: ``lines``, ``json`` or ``nothing``.
        ledger: Receives them; None: none.
    """

    def __init__(self, show: str, ledger: LedgerWriter | None) -> None:
        self._console = _console.output()
        self._show = show
        self._ledger = ledger
        self._clock = SystemClock()

    def note(self, request: Request) -> None:
        now = time.strftime("%H:%M:%S")
        try:
            events = event_http.decode(request.headers, request.body)
        except EventError as error:
            reason = _console.fits_one_line(error)
            if self._show == "json":
                print(msgspec.json.encode({"status": request.status, "fault": reason}).decode())
            elif self._show == "lines":
                self._console.print(Line(f"{now} {request.status} not an event: {reason}", "red"))
            return
        if self._ledger is not None:
            self._ledger.write(*arrivals_of(request, events, self._clock.wall_ms()))
        for event in events:
            if self._show == "json":
                print(_json_line(request, event), flush=True)
            elif self._show == "lines":
                cut = self._console.is_terminal  # files and pipes get whole lines
                self._console.print(line_of(request, event, now), soft_wrap=not cut)
                data = data_line_of(event)
                if data is not None:
                    self._console.print(data, soft_wrap=not cut)


def arrivals_of(request: Request, events: list[Event], wall_ms: int) -> list[Arrival]:
    """Ledger lines for one request."""
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


def line_of(request: Request, event: Event, clock_text: str) -> Line:
    """One line for one event: time, status, path, type, source, id, subject, mode."""
    attributes = canonical_attributes(event)
    line = Line(overflow="ellipsis", no_wrap=True)
    good = 200 <= request.status < 300
    line.append(clock_text, style="dim")
    line.append(f" {request.status or '---'} ", style="green" if good else "bold red")
    line.append(_console.fits_one_line(request.path) + " ", style="dim")
    for name, style in (("type", "cyan"), ("source", "magenta"), ("id", "bold"), ("subject", "")):
        if name in attributes:
            line.append(_console.fits_one_line(attributes[name]) + " ", style=style)
    line.append(_mode_of(request), style="dim")
    if "knativeerrordest" in attributes:
        code = attributes.get("knativeerrorcode", "no answer")
        line.append(f" dead letter ({_console.fits_one_line(code)})", style="yellow")
    return line


def data_line_of(event: Event) -> Line | None:
    """A line with the data of an event: text shortened, other bytes by their number; None: none."""
    if event.data is None:
        return None
    line = Line(overflow="ellipsis", no_wrap=True)
    try:
        line.append("  " + _console.fits_one_line(event.data.decode()))
    except UnicodeDecodeError:
        line.append(f"  {_console.counted(len(event.data), 'byte')}", style="dim")
    return line


def _mode_of(request: Request) -> str:
    content_type = dict(request.headers).get(b"content-type", b"")
    if content_type.startswith(b"application/cloudevents-batch"):
        return "batch"
    return "structured" if content_type.startswith(b"application/cloudevents") else "binary"


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
