"""``distributary filter``: tries a filter on events from files, without a server.

Callers: ``_commands``. Hides: which events are shown, and the exit code.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from distributary.cli import (
    _console,
    _filter_entries,
    _filter_history,
    _filter_request,
    _filter_screen,
)
from distributary.cli._options import Exact, Files, Prefix, Source, Sql, Suffix, Types
from distributary.cli._outgoing import Unreadable, open_events
from distributary.core.errors import SettingsError
from distributary.core.event import Event
from distributary.subscriptions.resource import FilterSelection

Show = Literal["all", "pass", "fail", "none"]
Expect = Literal["all", "none"]
FilterJson = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", metavar="JSON", help="An expression, an array of them, or a whole subscription."
    ),
]
FilterFile = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A file with such a JSON text.")
]


def filter_(
    files: Files = None,
    *,
    filter_json: FilterJson = None,
    filter_file: FilterFile = None,
    sql: Sql = None,
    exact: Exact = None,
    prefix: Prefix = None,
    suffix: Suffix = None,
    type_: Types = None,
    source: Source = None,
    show: Annotated[
        Show, typer.Option(metavar="all|pass|fail|none", help="Which events are shown.")
    ] = "all",
    json: Annotated[bool, typer.Option("--json", help="JSON lines in place of trees.")] = False,
    expect: Annotated[
        Expect | None,
        typer.Option(metavar="all|none", help="Exit code 1 unless all, or none, pass."),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="The events of the log in place of files.")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Logged then or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Logged before; now if not given.")
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(metavar="UID", help="Published to this Broker, not to the default one."),
    ] = None,
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data-dir", envvar="DISTRIBUTARY_DATA_DIR", metavar="DIR", help="The data folder."
        ),
    ] = Path("distributary-data"),
) -> None:
    """Try a filter on events from files or of the log: the verdict, and the part that decided.

    FILE holds structured events, as JSON lines or as a JSON array; - is standard input.

    Needs no server, and sends nothing. All that is given must hold. Without files the filter is
    only checked. Of a subscription, source, types and filters are used (in any revision).

    For example:

      distributary filter events.jsonl --prefix type=com.example.

      distributary filter events.jsonl --sql "EXISTS subject AND type LIKE 'a%'"

      distributary subscriptions get ID > sub.json
      distributary filter --filter-file sub.json events.jsonl --show fail

      distributary filter --history --from 7d --filter-file draft.json --show pass

      distributary filter - --filter '{"not": {"exact": {"source": "/test"}}}'

    Exit code 1 if the expectation is not met or an entry is no event; 2 if the filter cannot be
    used.
    """
    wanted = _filter_history.asked(
        history=history, data_dir=data_dir, since=since, until=until, broker=broker
    )
    if wanted is not None and files:
        raise SettingsError("--history: name no files beside it")
    selection, misfits = _filter_request.read(
        texts=filter_json or (),
        files=filter_file or (),
        sql=sql or (),
        exact=exact or (),
        prefix=prefix or (),
        suffix=suffix or (),
        types=type_ or (),
        source=source,
    )
    if misfits:
        _filter_screen.show_misfits(misfits, as_json=json)
        raise typer.Exit(_console.UNUSABLE)
    if wanted is None and not files:
        _console.errors().print(
            "[green]the filter is valid[/]; name files of events to try it on them"
        )
        return
    with contextlib.ExitStack() as stack:
        tried = _of_files(files or (), stack) if wanted is None else _filter_history.entries(wanted)
        raise typer.Exit(_run(selection, tried, show=show, as_json=json, expect=expect))


def _of_files(
    files: Sequence[str], stack: contextlib.ExitStack
) -> Iterator[tuple[int, Event | Unreadable]]:
    opened = [open_events(name, stack) for name in files]
    for file in opened:
        yield from _filter_entries.entries(file)


def _run(
    selection: FilterSelection,
    tried: Iterable[tuple[int | str, Event | Unreadable]],
    *,
    show: Show,
    as_json: bool,
    expect: Expect | None,
) -> int:
    summary = _filter_screen.Summary()
    for place, entry in tried:
        if isinstance(entry, Unreadable):
            summary.unreadable += 1
            _filter_screen.show_unreadable(entry, place, as_json=as_json)
            continue
        explanation = selection.explain(entry.attributes)
        summary.add(explanation)
        if show in {"all", "pass" if explanation.verdict else "fail"}:
            _filter_screen.show_event(place, entry, explanation, as_json=as_json)
    _filter_screen.show_summary(summary, as_json=as_json)
    unmet = _unmet(expect, summary)
    if unmet:
        _console.errors().print(f"[bold red]expected {expect} to pass:[/] {unmet}")
    return _console.FAILED if unmet or summary.unreadable else _console.OK


def _unmet(expect: Expect | None, summary: _filter_screen.Summary) -> str:
    """Why the expectation is not met; empty where it is met, or where there is none."""
    if expect is None:
        return ""
    if not summary.passed + summary.failed:
        return "there was no event to try it on"  # else a check on a wrong file would succeed
    if expect == "all":
        return f"{summary.failed:,} events do not pass" if summary.failed else ""
    return f"{summary.passed:,} events pass" if summary.passed else ""
