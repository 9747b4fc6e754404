"""``distributary send``: publish events and say what became of each.

Callers: ``_commands``. Hides: pacing, progress, the summary.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from distributary.cli import _console, _outgoing, _publish
from distributary.cli._http import Address, Client
from distributary.cli._outgoing import Envelope, Mode, Unreadable
from distributary.cli.ledger import LedgerWriter
from distributary.core.clock import Clock, SystemClock, SystemRandom
from distributary.core.event import Event

__all__ = ["Plan", "Tally", "run"]

SILENCE_S = 1.0
"""A first answer that takes longer is worth a word: people wait at a terminal."""

SILENCE_AGAIN_S = 10.0
"""Least time between two such words: a server that restarts has a bad second, not a line each."""

INTERRUPTED = 130
"""Exit code after Ctrl-C (128 + SIGINT)."""

REFUSALS_SHOWN_MAX = 20
"""Refused requests that are shown whole; a summary line counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to send, where and how.

    Attributes:
        address: The server.
        path: Path to post to.
        event: The one event of the flags; None: read *files*.
        files: Paths of files of events; ``-`` is standard input.
        repeat: How often each event is sent.
        mode: Content mode.
        batch_events: Events a request in mode ``batch``.
        concurrency: Requests under way at one time.
        rate_per_s: Events started a second; 0: as fast as answers come.
        give_up_s: No attempt at a request begins later after its first, seconds.
        timeout_s: Longest wait for one answer, seconds.
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
    """Events by what became of them."""

    acked: int = 0
    refused: int = 0
    unknown: int = 0
    unreadable: int = 0
    retried: int = 0
    refusals_shown: int = 0
    never_reached: bool = field(default=True)
    """True while no request had an answer of any kind."""

    @property
    def failed(self) -> int:
        """Events that are not acknowledged."""
        return self.refused + self.unknown + self.unreadable

    def exit_code(self) -> int:
        """The code of the whole command."""
        if not self.failed:
            return _console.OK
        if self.never_reached and not self.unreadable:
            return _console.UNREACHABLE
        return _console.FAILED


def run(plan: Plan) -> int:
    """Send by *plan*; the exit code."""
    with contextlib.ExitStack() as stack:
        files = [_open(name, stack) for name in plan.files]
        ledger = stack.enter_context(LedgerWriter(plan.ledger)) if plan.ledger else None
        progress = stack.enter_context(_progress(plan))
        sending = _Sending(plan, ledger, progress, SystemClock())
        started_s = sending.clock.monotonic_s()
        interrupted = False
        try:
            asyncio.run(sending.send(_pieces(plan, files)))
        except KeyboardInterrupt:
            interrupted = True
            sending.give_up()
        duration_s = sending.clock.monotonic_s() - started_s
    _summarise(plan, sending.tally, duration_s, interrupted=interrupted)
    return INTERRUPTED if interrupted else sending.tally.exit_code()


def _open(name: str, stack: contextlib.ExitStack) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as error:
        _console.fail(
            f"{name}: {error.strerror}", "Name a file of events, or - for standard input."
        )


def _pieces(plan: Plan, files: Iterable[BinaryIO]) -> Iterator[list[Event | Unreadable]]:
    if plan.event is not None:
        yield [plan.event]
    for file in files:
        yield from _outgoing.read_events(file)


def _progress(plan: Plan) -> Progress:
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
    """One run: the connections, the pace, the tally."""

    def __init__(
        self, plan: Plan, ledger: LedgerWriter | None, progress: Progress, clock: Clock
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

    async def send(self, pieces: Iterator[list[Event | Unreadable]]) -> None:
        """Send everything in *pieces*."""
        plan = self.plan
        clients = [Client(plan.address, plan.timeout_s) for _ in range(plan.concurrency)]
        patience = _publish.Patience(plan.give_up_s)
        self._publishers = [
            _publish.Publisher(
                client,
                plan.path,
                patience,
                clock=self.clock,
                random=SystemRandom(),
                on_silence=lambda error: self._say_silence(str(error)),
            )
            for client in clients
        ]
        waiting = asyncio.get_running_loop().call_later(SILENCE_S, self._look_for_an_answer)
        try:
            await _publish.publish_all(self._envelopes(pieces), self._publishers, self._note)
        finally:
            waiting.cancel()
            for client in clients:
                client.close()

    def give_up(self) -> None:
        """Interrupted: what is under way may have been stored, and nobody will know."""
        for publisher in self._publishers:
            if publisher.under_way is not None:
                self.tally.unknown += len(publisher.under_way.events)

    def _look_for_an_answer(self) -> None:
        asked = any(publisher.under_way is not None for publisher in self._publishers)
        if asked and self.tally.never_reached:
            self._say_silence("no answer yet")

    def _say_silence(self, reason: str) -> None:
        """Say that nobody answers and what is done about it, now and then."""
        now_s = self.clock.monotonic_s()
        if self._spoke_s is not None and now_s - self._spoke_s < SILENCE_AGAIN_S:
            return
        self._spoke_s = now_s
        plan = self.plan
        where = f"{plan.address.host}:{plan.address.port}"
        self._progress.console.print(
            f"no server answers at {escape(where)} ({escape(_console.fits_one_line(reason))});"
            f" trying each request for {plan.give_up_s:g} s. Start it with: distributary serve"
        )

    async def _envelopes(
        self, pieces: Iterator[list[Event | Unreadable]]
    ) -> AsyncIterator[Envelope]:
        """Requests at the planned pace. Reading happens in a thread: a pipe may be slow."""
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

    def _note(self, published: _publish.Published) -> None:
        """Count, write down and, where it failed, show one request."""
        tally = self.tally
        count = len(published.envelope.events)
        tally.retried += published.attempts - 1
        tally.never_reached = tally.never_reached and published.response is None
        if published.state == "acked":
            tally.acked += count
        elif published.state == "refused":
            tally.refused += count
        else:
            tally.unknown += count
        if published.state != "acked":
            headline, faults = _publish.problem_of(published)
            first = published.envelope.events[0].attributes["id"]
            self._show(f"{published.state}: id {first}: {headline}", faults)
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


def _summarise(plan: Plan, tally: Tally, duration_s: float, *, interrupted: bool) -> None:
    console = _console.errors()
    if interrupted:
        console.print("[yellow]interrupted[/]")
    hidden = tally.refusals_shown - REFUSALS_SHOWN_MAX
    if hidden > 0:
        console.print(f"[red]… and {hidden:,} more[/]")
    if tally.exit_code() == _console.UNREACHABLE and not interrupted:
        where = f"{plan.address.host}:{plan.address.port}"
        console.print(f"[bold red]error:[/] no server answered at {escape(where)}")
        console.print("  Start it with: distributary serve")
    parts = [f"[green]{tally.acked:,} acknowledged[/]"]
    if tally.refused:
        parts.append(f"[red]{tally.refused:,} refused[/]")
    if tally.unknown:
        parts.append(f"[yellow]{tally.unknown:,} unknown (may have been stored)[/]")
    if tally.unreadable:
        parts.append(f"[red]{tally.unreadable:,} unreadable[/]")
    if tally.retried:
        parts.append(f"{tally.retried:,} retries")
    rate = (tally.acked + tally.refused) / max(duration_s, 1e-6)
    console.print(", ".join(parts) + f" in {duration_s:.2f} s ({rate:,.0f}/s)")
