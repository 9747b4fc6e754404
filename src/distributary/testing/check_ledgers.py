"""``python -m distributary.testing.check_ledgers``: the ledger checker as a program.

::

    check_ledgers --routes routes.json --sent sent.jsonl --delivered orders=orders.jsonl
                  [--dead orders=dead.jsonl] [--state state.json] [--duplicates 100] [--json]

``routes.json`` is an object: route name -> ``{"source", "types", "filters"}`` as in a
subscription, or ``{"expect": [[source, id], …]}``. Either may have ``"path"``: then only lines
of that request path count, so that one sink's ledger serves several routes; and ``"sink"``:
then only dead letters whose ``knativeerrordest`` is that count. ``state.json`` is ``{"pending":
[{"route", "source", "id"}, …], "dead_letters": […], "dropped": […]}``.

Exit codes: 0 every promise held; 1 a promise was broken; 2 the evidence cannot be read.

Callers: crash and soak tests, the demo, people. Hides: files and the report's form.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from distributary.cli.ledger import Arrival, LedgerError, Sent, read_arrivals, read_sent
from distributary.core.filter import naive_matches
from distributary.testing.ledger_checker import Key, Report, RouteEvidence, check, expects_keys

__all__ = ["RouteSpec", "State", "main", "matches_of"]

FINDINGS_SHOWN_MAX = 20
"""Findings on the screen; the JSON report has more."""


class RouteSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a route must get, as in ``routes.json``.

    Attributes:
        source: Exact source; None: any.
        types: Any of these types; empty: any.
        filters: Filter expressions, all must hold.
        expect: The very events, in place of the three above.
        path: Only arrivals on this path count; None: all.
        sink: Only dead letters for this sink count; None: all.
    """

    source: str | None = None
    types: tuple[str, ...] = ()
    filters: tuple[dict[str, Any], ...] = ()
    expect: tuple[Key, ...] | None = None
    path: str | None = None
    sink: str | None = None


class Kept(msgspec.Struct, frozen=True):
    """One event of a route in a state dump; other members are ignored."""

    route: str
    source: str
    id: str


class State(msgspec.Struct, frozen=True):
    """A state dump: what the server still holds, and what it gave up with a reason."""

    pending: tuple[Kept, ...] = ()
    dead_letters: tuple[Kept, ...] = ()
    dropped: tuple[Kept, ...] = ()


def matches_of(spec: RouteSpec) -> Callable[[Sent], bool]:
    """Returns the predicate of *spec*; evaluates filters by the naive matcher."""
    if spec.expect is not None:
        return expects_keys(spec.expect)

    def matches(sent: Sent) -> bool:
        attributes = sent.attributes
        return (
            (spec.source is None or sent.source == spec.source)
            and (not spec.types or attributes.get("type") in spec.types)
            and naive_matches(spec.filters, attributes)
        )

    return matches


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        report = _check(options)
    except (LedgerError, OSError, msgspec.MsgspecError, ValueError) as error:
        print(f"the evidence cannot be read: {error}", file=sys.stderr)  # noqa: T201 - a program
        return 2
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(_as_json(report)) + b"\n")
    else:
        _show(report)
    return 0 if report.passed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="check_ledgers", description="Hold ledgers together.")
    parser.add_argument("--routes", type=Path, required=True, help="what each route must get")
    parser.add_argument("--sent", type=Path, action="append", required=True, metavar="FILE")
    for flag in ("--delivered", "--dead"):
        parser.add_argument(flag, action="append", default=[], metavar="ROUTE=FILE")
    parser.add_argument("--state", type=Path, help="state dump of the server")
    parser.add_argument("--duplicates", type=int, default=0, help="extra copies allowed a route")
    parser.add_argument("--json", action="store_true", help="a JSON report instead of a table")
    return parser


def _check(options: argparse.Namespace) -> Report:
    specs = msgspec.json.decode(options.routes.read_bytes(), type=dict[str, RouteSpec])
    state = State()
    if options.state is not None:
        state = msgspec.json.decode(options.state.read_bytes(), type=State)
    delivered = _files_of(options.delivered, specs)
    dead = _files_of(options.dead, specs)
    routes = {
        name: RouteEvidence(
            matches_of(spec),
            [line for line in _lines(delivered[name]) if spec.path in {None, line.route}],
            [line for line in _lines(dead[name]) if spec.sink in {None, line.error_dest}],
            _keys(state.pending, name),
            _keys((*state.dead_letters, *state.dropped), name),
        )
        for name, spec in specs.items()
    }
    sent = (line for path in options.sent for line in read_sent(path))
    return check(sent, routes, duplicates_max=options.duplicates)


def _files_of(pairs: Sequence[str], specs: dict[str, RouteSpec]) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {name: [] for name in specs}
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not separator or name not in files:
            raise ValueError(f"{pair!r}: expected ROUTE=FILE with a route of the routes file")
        files[name].append(Path(path))
    return files


def _lines(paths: Sequence[Path]) -> Iterator[Arrival]:
    for path in paths:
        yield from read_arrivals(path)


def _keys(kept: Sequence[Kept], route: str) -> list[Key]:
    return [Key(entry.source, entry.id) for entry in kept if entry.route == route]


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "passed": report.passed,
        "sent": report.sent,
        "routes": report.routes,
        "findings": report.counts,
        "examples": [finding._asdict() for finding in report.examples],
    }


def _show(report: Report) -> None:
    console = Console(highlight=False)
    title = "sent: " + ", ".join(f"{n:,} {state}" for state, n in report.sent.items())
    table = Table("route", title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
    columns = ("expected", "delivered", "dead", "pending", "settled", "attempts", "extra")
    for column in columns:
        table.add_column(column, justify="right")
    for name, counts in report.routes.items():
        table.add_row(Text(name), *(f"{counts[column]:,}" for column in columns))
    console.print(table)
    for finding in report.examples[:FINDINGS_SHOWN_MAX]:
        place = f"{finding.route}: {finding.source!r} {finding.id!r}"
        line = Text(f"{finding.kind}: {place}: {finding.detail}", "red")
        console.print(line, soft_wrap=True)
    if report.passed:
        console.print("[green]every promise held[/]")
    else:
        total = ", ".join(f"{count:,} {kind}" for kind, count in report.counts.items())
        console.print(Text(f"broken promises: {total}", "bold red"))


if __name__ == "__main__":
    sys.exit(main())
