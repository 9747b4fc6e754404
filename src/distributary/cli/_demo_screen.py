"""Screen of the demo: a live table on a terminal, plain lines elsewhere.

Callers: ``demo``. Hides: rich.
"""

import collections
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from distributary.cli import _console

LATEST_SHOWN = 8
"""Arrivals shown under the table."""

FIRST_SHOWN = 2
"""Arrivals shown of each lane where there is no terminal; counts follow."""


@dataclass(slots=True)
class DemoRow:
    """Counts of one subscription.

    Attributes:
        name: Of the subscription.
        about: Its filter and its sink, in words.
        expected: Events that match.
        delivered: Distinct events that its sink accepted.
        attempts: Deliveries that its sink refused or dropped.
        dead: Events that reached its dead letter sink.
    """

    name: str
    about: str
    expected: int
    delivered: set[tuple[str, str]] = field(default_factory=set)
    attempts: int = 0
    dead: set[tuple[str, str]] = field(default_factory=set)

    @property
    def finished(self) -> bool:
        """Whether every matching event was delivered or dead-lettered."""
        return len(self.delivered | self.dead) >= self.expected


class Screen:
    """Shows lanes and arrivals; a context manager."""

    def __init__(self, console: Console, rows: list[DemoRow]) -> None:
        self._console = console
        self._rows = rows
        self._latest: collections.deque[Text] = collections.deque(maxlen=LATEST_SHOWN)
        self._shown: collections.Counter[str] = collections.Counter()
        self._counts_shown = ""
        live = console.is_terminal
        self._live = Live(console=console, refresh_per_second=8, transient=False) if live else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.refresh()
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print one line of the story."""
        self._console.print(Text(text, "bold"))

    def arrived(self, row: DemoRow, line: Text) -> None:
        """Show an arrival where there is space for it; it is counted in any case."""
        if self._live is not None:
            self._latest.append(Text.assemble((f"{row.name:>12} ", "yellow"), line))
            return
        self._shown[row.name] += 1
        if self._shown[row.name] <= FIRST_SHOWN:
            self._console.print(Text.assemble(f"{row.name:>12} ", line))

    def refresh(self) -> None:
        """Update the counts on the screen."""
        if self._live is not None:
            self._live.update(Group(self._table(), *self._latest))
            return
        parts = []
        for row in self._rows:
            part = f"{row.name} {len(row.delivered)}/{row.expected}"
            part += f" ({row.attempts} refused)" if row.attempts else ""
            dead = _console.counted(len(row.dead), "dead letter")
            parts.append(part + (f" ({dead})" if row.dead else ""))
        counts = ", ".join(parts)
        if counts != self._counts_shown:
            self._counts_shown = counts
            self._console.print(counts)

    def _table(self) -> Table:
        table = Table("subscription", "gets", title="publish → filter → sinks")
        for column in ("matching", "delivered", "refused", "dead letters"):
            table.add_column(column, justify="right")
        for row in self._rows:
            done = "green" if row.finished else "yellow"
            table.add_row(
                row.name,
                _console.fits_one_line(row.about),
                str(row.expected),
                Text(str(len(row.delivered)), done),
                Text(str(row.attempts), "red" if row.attempts else "dim"),
                Text(str(len(row.dead)), "yellow" if row.dead else "dim"),
            )
        return table
