"""Console output of the commands, and their exit codes.

Colours appear on terminals only, and never with ``NO_COLOR`` set (rich handles both).

Callers: every command. Hides: rich.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import msgspec
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from distributary.cli._http import Response

OK = 0
FAILED = 1
UNUSABLE = 2
UNREACHABLE = 3

EXIT_CODES = {
    OK: "done",
    FAILED: "refused, or not all acknowledged, or a server could not start",
    UNUSABLE: "the command line, a file or a setting cannot be used",
    UNREACHABLE: "no server answered",
    73: "a server found no disk space at its first start",
    78: "a server's files are unusable or damaged, or Spark's master is refused",
    130: "interrupted",
}
"""Each exit code of a command, and what it means."""

UNAUTHENTICATED = 401
OTHER_PROGRAM = "Name the address of the server with --url. A proxy may want a sign-in first"
"""What to do where another program has answered."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

TEXT_CHARACTERS_MAX = 200
"""Longest foreign text on one line: events may carry names of a megabyte."""


def output() -> Console:
    """The console on standard output, for results."""
    return Console(highlight=False, soft_wrap=True)


def errors() -> Console:
    """The console on standard error, for everything else."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def fits_one_line(text: object) -> str:
    """*text* without control characters (they could repaint a terminal), cut to 200."""
    plain = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))
    if len(plain) > TEXT_CHARACTERS_MAX:
        return plain[: TEXT_CHARACTERS_MAX - 1] + "…"
    return plain


ID_CHARS_WHOLE = 40
"""Ids up to this length are never folded in lists: the server's own have 36 characters."""

FOLDS_MAX = 2
"""Most times that a line of a table may be wider than its terminal: nobody reads one that is folded
more, so its rows are shown as names and values."""

CELL_CHARS = 60
"""Characters of a cell that count for that: one long id makes no table unreadable."""

PIPE_COLUMNS = 4_000
"""Width of what is no terminal: 20 columns of the longest text, so no program gets a folded id."""


def counted(number: int, one: str) -> str:
    """How many of something, in words: 1 record, 2,000 records."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def show_rows(
    rows: Iterable[dict[str, Any]],
    columns: Mapping[str, Callable[[dict[str, Any]], object]],
    *,
    as_json: bool,
    none: str,
) -> None:
    """Print *rows* as a table of *columns* for people or as JSON lines; without rows, *none*.

    A terminal folds what does not fit, the first column last, and cuts nothing: people copy ids
    into other commands. Where it is much too narrow, each row is a block of names and values.
    Elsewhere each row is one line, unless ``COLUMNS`` is set.
    """
    shown = []
    for row in rows:
        if as_json:
            print(msgspec.json.encode(row).decode())
            continue
        shown.append([fits_one_line(cell(row)) for cell in columns.values()])
    if as_json:
        return
    console = output()
    if not (console.is_terminal or os.environ.get("COLUMNS")):
        console.width = PIPE_COLUMNS
    widths = [max(map(cell_len, column)) for column in zip(columns, *shown, strict=True)]
    if not shown:
        console.print(none)
    elif sum(min(width, CELL_CHARS) for width in widths) > FOLDS_MAX * console.width:
        _print_blocks(console, list(columns), shown)
    else:
        console.print(_table(list(columns), shown, min(ID_CHARS_WHOLE, widths[0])))


def _table(names: list[str], rows: list[list[str]], first_width: int) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    table.columns[0].min_width = first_width
    return table


def _print_blocks(console: Console, names: list[str], rows: list[list[str]]) -> None:
    """Print each of *rows* as lines of names and values, and a line without text between two."""
    width = max(map(len, names))
    for number, row in enumerate(rows):
        if number:
            console.print()
        for name, text in zip(names, row, strict=True):
            if text:
                console.print(f"[dim]{escape(name):{width}}[/]  {escape(text)}")


def fail(message: str, hint: str = "", code: int = UNUSABLE) -> NoReturn:
    """Print what went wrong and what to do next, then exit with *code*."""
    console = errors()
    console.print(f"[bold red]error:[/] {escape(message)}")
    if hint:
        console.print(f"  {escape(hint)}")
    raise typer.Exit(code)


def show_refusal(response: Response, what: str = "") -> None:
    """Print a refusal (problem details, RFC 9457); *what* names the thing that was refused."""
    problem = response.json()
    problem = problem if isinstance(problem, dict) else {}
    title = problem.get("detail") or problem.get("title") or response.brings
    faults = problem.get("faults")
    console = errors()
    before = f"{escape(what)}: " if what else ""
    console.print(f"{before}[bold red]{response.status}[/] {escape(fits_one_line(title))}")
    if isinstance(faults, list) and faults and not _says(title, faults):
        console.print(faults_table(faults))
    if hint := hint_about(response):
        console.print(f"  {escape(hint)}")


def _says(title: object, faults: list[Any]) -> bool:
    """Whether *title* has all of *faults* already: it names the first one."""
    fits = len(str(title)) <= TEXT_CHARACTERS_MAX
    first = faults[0].get("message") if isinstance(faults[0], dict) else None
    return len(faults) == 1 and fits and bool(first) and str(first) in str(title)


def hint_about(response: Response) -> str:
    """What to do about an answer that is no success; empty: it says so itself."""
    if response.status == UNAUTHENTICATED:
        return "Show who you are: set DISTRIBUTARY_TOKEN, or say --token-from env:NAME|file:PATH"
    if response.status < 400:
        return OTHER_PROGRAM
    return ""


def faults_table(faults: Iterable[Any]) -> Table:
    """Return the faults of a problem body as a table: path and message."""
    table = Table("where", "fault")
    for fault in faults:
        row = fault if isinstance(fault, dict) else {"message": fault}
        cells = (fits_one_line(row.get(member, "")) for member in ("path", "message"))
        table.add_row(*map(escape, cells))
    return table
