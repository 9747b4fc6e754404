"""What the commands say to people, and the codes they end with.

Colours stand on terminals alone, and never where ``NO_COLOR`` is set (rich sees to both).

Callers: every command. Hides: rich.
"""

import re
from collections.abc import Iterable
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from distributary.cli._http import Response

__all__ = [
    "EXIT_CODES",
    "FAILED",
    "OK",
    "UNREACHABLE",
    "UNUSABLE",
    "errors",
    "fail",
    "faults_table",
    "fits_one_line",
    "folding_table",
    "output",
    "refuse",
    "show_refusal",
]

OK = 0
FAILED = 1
UNUSABLE = 2
UNREACHABLE = 3

EXIT_CODES = (
    "Exit codes: 0 done; 1 refused, or not all acknowledged; 2 the command line, a file or a "
    "setting cannot be used; 3 no server answered; 130 interrupted."
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

TEXT_CHARACTERS_MAX = 200
"""Of a foreign text on one line: events may carry names of a megabyte."""


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
"""An id up to this length stands on one line of a list: the server's own have 36 characters."""


def folding_table(ids: Iterable[str], *names: str) -> Table:
    """A table whose first column holds *ids*, and the others are called *names*.

    Ids are copied into other commands: what does not fit is folded, never cut.
    """
    table = Table(box=None, pad_edge=False)
    longest = max(map(len, ids), default=0)
    table.add_column("id", overflow="fold", min_width=min(ID_CHARS_WHOLE, longest))
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def fail(message: str, hint: str = "", code: int = UNUSABLE) -> NoReturn:
    """Say what went wrong and what to do next, then end with *code*."""
    console = errors()
    console.print(f"[bold red]error:[/] {escape(message)}")
    if hint:
        console.print(f"  {escape(hint)}")
    raise typer.Exit(code)


def refuse(response: Response) -> NoReturn:
    """Show an answer that is a refusal (problem details, RFC 9457), then end with 1."""
    show_refusal(response)
    raise typer.Exit(FAILED)


def show_refusal(response: Response, what: str = "") -> None:
    """Show an answer that is a refusal (problem details, RFC 9457); *what* was refused."""
    problem = response.json()
    problem = problem if isinstance(problem, dict) else {}
    title = problem.get("detail") or problem.get("title") or "the server refused"
    faults = problem.get("faults")
    console = errors()
    before = f"{escape(what)}: " if what else ""
    console.print(f"{before}[bold red]{response.status}[/] {escape(fits_one_line(title))}")
    if isinstance(faults, list) and faults:
        console.print(faults_table(faults))


def faults_table(faults: Iterable[Any]) -> Table:
    """Faults of a problem body, one a row: where, and what is wrong there."""
    table = Table("where", "fault")
    for fault in faults:
        row = fault if isinstance(fault, dict) else {"message": fault}
        cells = (fits_one_line(row.get(member, "")) for member in ("path", "message"))
        table.add_row(*map(escape, cells))
    return table
