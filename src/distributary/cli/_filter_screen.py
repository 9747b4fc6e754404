"""Output of ``distributary filter``: one tree an event, JSON lines, faults, the summary.

Callers: ``_filter``. Hides: rich, and the shape of the JSON lines.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from distributary import cesql
from distributary.cesql import CesqlSyntaxError
from distributary.cli import _console
from distributary.cli._filter_request import Misfit
from distributary.cli._outgoing import Unreadable
from distributary.core.event import Event
from distributary.core.filter import Explanation

PARTS_SHOWN_MAX: Final = 10
"""Most rows in the table of parts that stopped events; one line counts the others."""

PIPE_COLUMNS: Final = 4_096
"""Wider than any line of a tree: paths of the deepest filter, and a reason."""

EXPRESSIONS: Final = (".sql", ".cesql")
"""Ends of paths of expressions in CloudEvents SQL."""

EXCERPT_CHARS_MAX: Final = 60
"""Characters of an expression shown on either side of a fault."""

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Summary:
    """Counts of a run.

    Attributes:
        passed: Events that pass.
        failed: Events that do not.
        unreadable: Entries that are not events.
        stopped_by: Path and dialect of a part -> events that it was the first to stop.
    """

    passed: int = 0
    failed: int = 0
    unreadable: int = 0
    stopped_by: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, explanation: Explanation) -> None:
        """Count one event."""
        if explanation.verdict:
            self.passed += 1
            return
        self.failed += 1
        part = next(explanation.deciding())
        self.stopped_by[part.path, part.dialect] += 1


def show_event(place: int | str, event: Event, explanation: Explanation, *, as_json: bool) -> None:
    """Show one event with its verdict and the parts that decided."""
    if as_json:
        print(_encode(_event_line(place, event, explanation)).decode())
        return
    word = "[bold green]pass[/]" if explanation.verdict else "[bold red]fail[/]"
    known = (event.attributes.get(name, "") for name in ("id", "type", "source"))
    tree = Tree(f"{word} {place}: {escape(_console.fits_one_line(' '.join(map(str, known))))}")
    _grow(tree, explanation, decisive=True)
    console = _console.output()
    if not console.is_terminal:  # a terminal wraps inside the tree, a pipe must not
        console.width = PIPE_COLUMNS
    console.print(tree, soft_wrap=False)


def show_unreadable(entry: Unreadable, place: int | str, *, as_json: bool) -> None:
    """Show one entry that is not an event."""
    rows = _rows(entry.faults)
    if as_json:
        print(_encode({"place": place, "faults": rows}).decode())
        return
    console = _console.errors()
    console.print(f"[red]entry {place} is no event[/]")
    console.print(_console.faults_table(rows))


def show_misfits(misfits: Sequence[Misfit], *, as_json: bool) -> None:
    """Show every fault of the filter."""
    if as_json:
        print(_encode({"faults": [_misfit_line(misfit) for misfit in misfits]}).decode())
        return
    console = _console.errors()
    console.print("[bold red]error:[/] the filter cannot be used")
    rows = [
        {"path": f"{misfit.given} {misfit.fault.path}", "message": misfit.fault.message}
        for misfit in misfits
    ]
    console.print(_console.faults_table(rows))
    for misfit in misfits:
        error = _syntax_error(misfit)
        if error is not None:
            console.print(_excerpt(str(misfit.value), error.offset), markup=False)
    console.print("Correct it there, or see what can be given: distributary filter --help")


def show_summary(summary: Summary, *, as_json: bool) -> None:
    """Show how many pass, and which parts stopped the others; on standard error."""
    console = _console.errors()
    count = summary.passed + summary.failed
    colour = "green" if summary.passed else "yellow"
    line = f"[{colour}]{summary.passed:,} of {count:,} events pass[/]"
    if summary.unreadable:
        words = "entry is no event" if summary.unreadable == 1 else "entries are no events"
        line += f"; [red]{summary.unreadable:,} {words}[/]"
    if summary.stopped_by and not as_json:
        table = Table("stopped by", "dialect")
        table.add_column("events", justify="right")
        for (path, dialect), stopped in summary.stopped_by.most_common(PARTS_SHOWN_MAX):
            table.add_row(escape(_console.fits_one_line(path)), escape(dialect), f"{stopped:,}")
        console.print(table)
        hidden = len(summary.stopped_by) - PARTS_SHOWN_MAX
        if hidden > 0:
            console.print(f"… and {hidden:,} more")
    console.print(line)


def _grow(tree: Tree, explanation: Explanation, *, decisive: bool) -> None:
    """Draw *explanation* below *tree*; parts that did not decide are dim."""
    colour = ("green" if explanation.verdict else "red") if decisive else "dim"
    word = str(explanation.verdict).lower()
    name = "" if explanation.parts else f" {explanation.path}"
    reason = escape(_console.fits_one_line(explanation.reason))
    label = f"[{colour}]{word}[/] {escape(explanation.dialect)}{escape(name)}: {reason}"
    branch = tree.add(label if decisive else f"[dim]{label}[/]")
    for part in explanation.parts:
        among = any(part is decider for decider in explanation.decided_by)
        _grow(branch, part, decisive=decisive and among)


def _syntax_error(misfit: Misfit) -> CesqlSyntaxError | None:
    """The syntax error, with its place, of an expression in CloudEvents SQL; None: none."""
    if not isinstance(misfit.value, str) or not misfit.fault.path.endswith(EXPRESSIONS):
        return None
    try:
        errors = list(cesql.parse(misfit.value).missing_functions())
    except CesqlSyntaxError as error:
        errors = [error]
    return next((error for error in errors if error.message in misfit.fault.message), None)


def _excerpt(text: str, offset: int) -> str:
    """Return the line around *offset* with a caret below it."""
    start = max(text.rfind("\n", 0, offset) + 1, offset - EXCERPT_CHARS_MAX)
    end = text.find("\n", offset)
    before = _console.fits_one_line(text[start:offset])
    behind = _console.fits_one_line(text[offset : len(text) if end < 0 else end])
    return f"  {before}{behind[:EXCERPT_CHARS_MAX]}\n  {' ' * cell_len(before)}^"


def _misfit_line(misfit: Misfit) -> dict[str, Any]:
    line: dict[str, Any] = {"given": misfit.given, **_rows([misfit.fault])[0]}
    error = _syntax_error(misfit)
    return line if error is None else {**line, "offset": error.offset}


def _event_line(place: int | str, event: Event, explanation: Explanation) -> dict[str, Any]:
    attributes = event.attributes
    return {
        "place": place,
        "id": attributes["id"],
        "source": attributes["source"],
        "type": attributes["type"],
        "matches": explanation.verdict,
        "decided_by": [
            {"dialect": part.dialect, "path": part.path, "reason": part.reason}
            for part in explanation.deciding()
        ],
    }


def _rows(faults: Sequence[Any]) -> list[dict[str, str]]:
    return [{"path": f.path, "code": f.code, "message": f.message} for f in faults]
