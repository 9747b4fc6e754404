"""``distributary filter``: its options and its help. ``_filter`` does the work.

Callers: ``_commands``.
"""

from pathlib import Path
from typing import Annotated

import typer

from distributary.cli import _filter
from distributary.cli._filter_wish import Wish
from distributary.cli._options import Exact, Prefix, Source, Sql, Suffix, Types

__all__ = ["filter_"]


EventFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        hidden=True,  # the text explains it, without the type that typer would show
    ),
]
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
    files: EventFiles = None,
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
        _filter.Show, typer.Option(metavar="all|pass|fail|none", help="Which events are shown.")
    ] = "all",
    json: Annotated[bool, typer.Option("--json", help="JSON lines in place of trees.")] = False,
    expect: Annotated[
        _filter.Expect | None,
        typer.Option(metavar="all|none", help="Exit code 1 unless all, or none, pass."),
    ] = None,
) -> None:
    """Try a filter on events from files: the verdict, and the part that decided.

    FILE holds structured events, as JSON lines or as a JSON array; - is standard input.

    Needs no server, and sends nothing. All that is given must hold. Without files the filter is
    only checked. Of a subscription, source, types and filters are used (in any revision).

    For example:

      distributary filter events.jsonl --prefix type=com.example.

      distributary filter events.jsonl --sql "EXISTS subject AND type LIKE 'a%'"

      distributary subscriptions get ID > sub.json
      distributary filter --filter-file sub.json events.jsonl --show fail

      distributary filter - --filter '{"not": {"exact": {"source": "/test"}}}'

    Exit code 1 if the expectation is not met or an entry is no event; 2 if the filter cannot be
    used.
    """
    wish = Wish(
        filters=tuple(filter_json or ()),
        files=tuple(filter_file or ()),
        sql=tuple(sql or ()),
        exact=tuple(exact or ()),
        prefix=tuple(prefix or ()),
        suffix=tuple(suffix or ()),
        types=tuple(type_ or ()),
        source=source,
    )
    trial = _filter.Trial(
        wish=wish, files=tuple(files or ()), show=show, as_json=json, expect=expect
    )
    raise typer.Exit(_filter.run(trial))
