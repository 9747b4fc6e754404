"""``distributary send``: publishes events and reports the result of each.

Callers: ``_commands``. Hides: pacing, progress, the summary.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from distributary.cli import _console, _outgoing, _publish
from distributary.cli._http import Address, Client, advice
from distributary.cli._options import (
    DEFAULT_URL,
    Files,
    Namespace,
    Text,
    TokenFrom,
    Url,
    checked_namespace,
)
from distributary.cli._outgoing import Envelope, Mode, Unreadable
from distributary.cli._server import server_at
from distributary.cli._stoppable import StoppableReads
from distributary.cli._times import moment, seconds
from distributary.cli.ledger import LedgerWriter
from distributary.core.clock import Clock, SystemClock, SystemRandom
from distributary.core.errors import SettingsError
from distributary.core.event import Event
from distributary.core.tenant import DEFAULT_NAMESPACE, path_in

SILENCE_S = 1.0
"""Wait for the first response after which a message is shown, seconds: people wait for it."""

SILENCE_AGAIN_S = 10.0
"""Least time between two such messages, seconds: a restarting server needs one, not many."""

INTERRUPTED = 130
"""Exit code after Ctrl-C (128 + SIGINT)."""

REFUSALS_SHOWN_MAX = 20
"""Most refused requests that are shown in full; a summary line counts the others."""

IDS_SHOWN_MAX = 20
"""Most ids of acknowledged events that are printed; ``--ledger`` has all."""

TIMEOUT_S_MIN = 0.1
"""Shortest ``--timeout``, seconds: with less, sending gives up before any server responds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPlan:
    """What to send, where and how.

    Attributes:
        address: The server.
        path: Path to post to.
        event: The one event of the flags; None: read *files*.
        files: Paths of files of events; ``-`` is standard input.
        repeat: How often each event is sent.
        mode: Content mode.
        batch_events: Events a request in mode ``batch``.
        concurrency: Most requests in flight.
        rate_per_s: Events started a second; 0: as fast as responses arrive.
        give_up_s: No attempt of a request begins later after its first, seconds.
        timeout_s: Longest wait for one response, seconds.
        ledger: File to write ledger lines to; None: none.
    """

    address: Address
    path: str
    event: Event | None
    files: tuple[str, ...]
    repeat: int
    mode: Mode
    batch_events: int
    concurrency: int
    rate_per_s: float
    give_up_s: float
    timeout_s: float
    ledger: Path | None


@dataclass(slots=True)
class Tally:
    """Counts of events by result."""

    acked: int = 0
    refused: int = 0
    unknown: int = 0
    unreadable: int = 0
    retried: int = 0
    refusals_shown: int = 0
    ids: list[str] = field(default_factory=list)
    """Of the first events that were acknowledged."""
    hints: set[str] = field(default_factory=set)
    """What to do about what was refused."""
    never_reached: bool = field(default=True)
    """True while no request had any response."""

    @property
    def failed(self) -> int:
        """Events that were not acknowledged."""
        return self.refused + self.unknown + self.unreadable

    def exit_code(self) -> int:
        """Exit code of the command."""
        if not self.failed:
            return _console.OK
        if self.never_reached and not self.unreadable:
            return _console.UNREACHABLE
        return _console.FAILED


def send(
    files: Files = None,
    *,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    path: Annotated[
        Text, typer.Option(metavar="PATH", help="Path to publish to, in place of the namespace's.")
    ] = None,
    type_: Annotated[
        str, typer.Option("--type", metavar="TEXT", help="Attribute type.")
    ] = "dev.distributary.example",
    source: Annotated[
        str, typer.Option(metavar="TEXT", help="Attribute source.")
    ] = "/distributary/send",
    id_: Annotated[
        Text, typer.Option("--id", metavar="TEXT", help="Attribute id; absent: a new one.")
    ] = None,
    subject: Annotated[Text, typer.Option(metavar="TEXT", help="Attribute subject.")] = None,
    time: Annotated[Text, typer.Option(metavar="TIME", help="Attribute time; now, say.")] = None,
    extension: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="An extension attribute.")
    ] = None,
    content_type: Annotated[
        Text, typer.Option(metavar="TEXT", help="Content type of the data.")
    ] = None,
    data: Annotated[Text, typer.Option(metavar="TEXT", help="Payload.")] = None,
    data_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File whose bytes are the payload.")
    ] = None,
    mode: Annotated[
        Literal["binary", "structured", "batch"],
        typer.Option(metavar="binary|structured|batch", help="Content mode."),
    ] = "binary",
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Events a batch.")
    ] = 100,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, help="Send each event N times, as id-1 to id-N.")
    ] = 1,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Requests under way at one time.")
    ] = 8,
    rate: Annotated[
        float,
        typer.Option(metavar="NUMBER", min=0, help="Events a second; 0: as fast as answers come."),
    ] = 0,
    retry_for: Annotated[
        str, typer.Option(metavar="DURATION", help="Repeat a failing request for so long.")
    ] = "30s",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Longest wait for one answer.")
    ] = "30s",
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append what became of each event, as JSON lines."),
    ] = None,
) -> None:
    """Publish events, print their ids, and say what became of each.

    One event from options, or many from files: FILE holds structured events, as JSON lines or as a
    JSON array; - is standard input. A request without an answer, or answered 429,
    502, 503 or 504, is repeated: an event may be stored twice, but none is lost in silence.

    For example:

      distributary send --type com.example.order --data '{"total": 12}'

      distributary send events.jsonl --mode batch --concurrency 4

      tail -f orders.jsonl | distributary send -

      distributary send --repeat 100000 --rate 5000 --ledger sent.jsonl

    Exit code 1 if any event was not acknowledged; 3 if no server answered.
    """
    address = server_at(url, token_from)
    event = None
    if not files:
        attributes = {
            "id": str(uuid.uuid4()) if id_ is None else id_,
            "source": source,
            "type": type_,
            "subject": subject,
            "time": None if time is None else moment("--time", time),
            "datacontenttype": content_type,
        }
        payload = _payload(data, data_file)
        event = _outgoing.one_event(attributes, extension or (), payload)
    plan = SendPlan(
        address=address,
        path=path_in(checked_namespace(namespace), "/events") if path is None else path,
        event=event,
        files=tuple(files or ()),
        repeat=repeat,
        mode=mode,
        batch_events=batch_size,
        concurrency=concurrency if files or repeat > 1 else 1,
        rate_per_s=rate,
        give_up_s=seconds("--retry-for", retry_for),
        timeout_s=seconds("--timeout", timeout, TIMEOUT_S_MIN),
        ledger=ledger,
    )
    raise typer.Exit(_run(plan))


def _payload(data: str | None, data_file: Path | None) -> bytes | None:
    if data is not None and data_file is not None:
        raise SettingsError("Give --data or --data-file, not both.")
    if data_file is None:
        return None if data is None else data.encode("utf-8", "surrogateescape")
    try:
        return data_file.read_bytes()
    except OSError as error:
        raise SettingsError(f"--data-file {data_file}: {error.strerror}") from error


def _run(plan: SendPlan) -> int:
    """Send by *plan*; returns the exit code."""
    with contextlib.ExitStack() as stack:
        reads = stack.enter_context(StoppableReads())
        files = [reads.of(_outgoing.open_events(name, stack)) for name in plan.files]
        ledger = stack.enter_context(LedgerWriter(plan.ledger)) if plan.ledger else None
        progress = stack.enter_context(_progress(plan))
        sending = _Sending(plan, ledger, progress, SystemClock())
        started_s = sending.clock.monotonic_s()
        interrupted = False
        try:
            asyncio.run(sending.send(_pieces(plan, files), reads))
        except ExceptionGroup as failed:  # a file that can be opened and not read, say
            raise _first(failed) from None
        except KeyboardInterrupt:
            interrupted = True
            sending.give_up()
        duration_s = sending.clock.monotonic_s() - started_s
    _summarise(plan, sending.tally, duration_s, interrupted=interrupted)
    return INTERRUPTED if interrupted else sending.tally.exit_code()


def _first(failed: ExceptionGroup[Exception]) -> Exception:
    """The first failure of a group, which may hold groups."""
    first = failed.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _pieces(plan: SendPlan, files: Iterable[BinaryIO]) -> Iterator[list[Event | Unreadable]]:
    if plan.event is not None:
        yield [plan.event]
    for file in files:
        yield from _outgoing.read_events(file)


def _progress(plan: SendPlan) -> Progress:
    one = plan.event is not None and plan.repeat == 1
    console = _console.errors()
    return Progress(
        TextColumn("sending"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[trouble]}"),
        console=console,
        transient=True,
        disable=one or not console.is_terminal,
    )


class _Sending:
    """One run: its connections, rate and counts."""

    def __init__(
        self, plan: SendPlan, ledger: LedgerWriter | None, progress: Progress, clock: Clock
    ) -> None:
        self.plan = plan
        self.tally = Tally()
        self.clock = clock
        self._ledger = ledger
        self._progress = progress
        total = plan.repeat if plan.event is not None else None
        self._publishers: list[_publish.Publisher] = []
        self._spoke_s: float | None = None
        self._bar = progress.add_task("sending", total=total, trouble="")

    async def send(self, pieces: Iterator[list[Event | Unreadable]], reads: StoppableReads) -> None:
        """Send all events of *pieces*, whose *reads* are ended at an interrupt."""
        plan = self.plan
        clients = [Client(plan.address, plan.timeout_s) for _ in range(plan.concurrency)]
        self._publishers = [
            _publish.Publisher(
                client,
                plan.path,
                clock=self.clock,
                random=SystemRandom(),
                give_up_s=plan.give_up_s,
                on_silence=lambda error: self._say_silence(str(error), advice(plan.address, error)),
            )
            for client in clients
        ]
        waiting = asyncio.get_running_loop().call_later(SILENCE_S, self._look_for_an_answer)
        try:
            await _publish.publish_all(self._envelopes(pieces), self._publishers, self._note)
        finally:
            reads.stop()
            waiting.cancel()
            for client in clients:
                client.close()

    def give_up(self) -> None:
        """Count requests in flight at an interrupt as unknown: they may have been stored."""
        for publisher in self._publishers:
            if publisher.under_way is not None:
                self.tally.unknown += len(publisher.under_way.events)

    def _look_for_an_answer(self) -> None:
        asked = any(publisher.under_way is not None for publisher in self._publishers)
        if asked and self.tally.never_reached:
            self._say_silence("no answer yet", "")

    def _say_silence(self, reason: str, hint: str) -> None:
        """Tell the user, now and then, that no server responds and that requests are repeated."""
        now_s = self.clock.monotonic_s()
        if self._spoke_s is not None and now_s - self._spoke_s < SILENCE_AGAIN_S:
            return
        self._spoke_s = now_s
        plan = self.plan
        where = plan.address.place
        self._progress.console.print(
            f"no server answers at {escape(where)} ({escape(_console.fits_one_line(reason))});"
            f" trying each request for {plan.give_up_s:g} s. {escape(hint)}".rstrip()
        )

    async def _envelopes(
        self, pieces: Iterator[list[Event | Unreadable]]
    ) -> AsyncIterator[Envelope]:
        """Yield requests at the planned rate. Reads in a thread: a pipe may be slow."""
        plan = self.plan
        size = plan.batch_events if plan.mode == "batch" else 1
        started_s = self.clock.monotonic_s()
        begun = 0
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            for group in _groups(self._readable(piece), size):
                if plan.rate_per_s:
                    due_s = started_s + begun / plan.rate_per_s
                    await asyncio.sleep(max(0.0, due_s - self.clock.monotonic_s()))
                begun += len(group)
                yield _outgoing.wrap(group, plan.mode)

    def _readable(self, piece: Iterable[Event | Unreadable]) -> Iterator[Event]:
        for entry in piece:
            if isinstance(entry, Unreadable):
                self.tally.unreadable += 1
                faults = [{"path": f.path, "message": f.message} for f in entry.faults]
                self._show(f"entry {entry.place} is no event and was not sent", faults)
            else:
                yield from _outgoing.copies(entry, self.plan.repeat)

    def _note(self, published: _publish.PublishResult) -> None:
        """Count and record one request, and show it if it failed."""
        tally = self.tally
        count = len(published.envelope.events)
        tally.retried += published.attempts - 1
        tally.never_reached = tally.never_reached and published.response is None
        if published.state == "acked":
            tally.acked += count
            room = IDS_SHOWN_MAX - len(tally.ids)
            if room > 0:
                acked = published.envelope.events[:room]
                tally.ids += [str(event.attributes["id"]) for event in acked]
        elif published.state == "refused":
            tally.refused += count
        else:
            tally.unknown += count
        if published.state != "acked":
            headline, faults = _publish.problem_of(published)
            first = published.envelope.events[0].attributes["id"]
            self._show(f"{published.state}: id {first}: {headline}", faults)
            if published.response is not None:
                tally.hints.add(_console.hint_about(published.response))
            elif published.error is not None:
                tally.hints.add(advice(self.plan.address, published.error))
        if self._ledger is not None:
            self._ledger.write(*_publish.ledger_lines(published, self.clock.wall_ms()))
        self._progress.update(
            self._bar, advance=count, trouble=f"{tally.failed} failed" if tally.failed else ""
        )

    def _show(self, headline: str, faults: list[dict[str, str]] | list[object]) -> None:
        self.tally.refusals_shown += 1
        if self.tally.refusals_shown > REFUSALS_SHOWN_MAX:
            return
        console = self._progress.console
        console.print(f"[red]{escape(_console.fits_one_line(headline))}[/]")
        if faults:
            console.print(_console.faults_table(faults))


def _groups(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    group: list[Event] = []
    for event in events:
        group.append(event)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _hint(tally: Tally) -> None:
    """Say what to do about what was refused."""
    for hint in filter(None, sorted(tally.hints)):
        _console.errors().print(f"  {escape(hint)}")


def _summarise(plan: SendPlan, tally: Tally, duration_s: float, *, interrupted: bool) -> None:
    for id_ in tally.ids:
        _console.output().print(_console.fits_one_line(id_), markup=False)
    console = _console.errors()
    if tally.acked > len(tally.ids):
        console.print(f"… and {tally.acked - len(tally.ids):,} more ids (--ledger has all)")
    if interrupted:
        console.print("[yellow]interrupted[/]")
    hidden = tally.refusals_shown - REFUSALS_SHOWN_MAX
    if hidden > 0:
        console.print(f"[red]… and {hidden:,} more[/]")
    if tally.exit_code() == _console.UNREACHABLE and not interrupted:
        where = plan.address.place
        console.print(f"[bold red]error:[/] no server answered at {escape(where)}")
    _hint(tally)
    parts = [f"[green]{tally.acked:,} acknowledged[/]"]
    if tally.refused:
        parts.append(f"[red]{tally.refused:,} refused[/]")
    if tally.unknown:
        parts.append(f"[yellow]{tally.unknown:,} unknown (may have been stored)[/]")
    if tally.unreadable:
        parts.append(f"[red]{tally.unreadable:,} unreadable[/]")
    if tally.retried:
        parts.append("1 retry" if tally.retried == 1 else f"{tally.retried:,} retries")
    rate = (tally.acked + tally.refused) / max(duration_s, 1e-6)
    console.print(", ".join(parts) + f" in {duration_s:.2f} s ({rate:,.0f}/s)")
