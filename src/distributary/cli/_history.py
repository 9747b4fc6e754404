"""``distributary history``: prints what became of matches, from the files of the history."""

import json as json_text
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from distributary.cli import _console, _extras
from distributary.cli._options import Text
from distributary.cli._times import moment_ms

LOOK_S: Final = 0.5
"""Interval at which ``--follow`` looks for new files."""

NO_ROWS: Final = (
    "no rows: nothing fits, or its rows are deleted (history_age_max_s, history_bytes_max), or were"
    " never written (log_attempts)"
)
"""Said where there is nothing to print; the newest rows are some seconds late."""


def history(
    *,
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data-dir", envvar="DISTRIBUTARY_DATA_DIR", metavar="DIR", help="The data folder."
        ),
    ] = Path("distributary-data"),
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="The history, where it lies elsewhere."),
    ] = None,
    subscription: Annotated[
        Text, typer.Option("--subscription", metavar="ID", help="Id, name or uid of one.")
    ] = None,
    namespace: Annotated[
        Text, typer.Option("--namespace", "-n", metavar="NAME", help="Of one tenant.")
    ] = None,
    event: Annotated[Text, typer.Option("--event", metavar="ID", help="Id of an event.")] = None,
    since: Annotated[
        Text,
        typer.Option("--since", metavar="TIME", help="A time, or a duration before now, as 30m."),
    ] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="Failed attempts, and what was not delivered.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with new rows, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the history: a JSON line for each attempt and each outcome, by time.

    Reads the files of the history, whether or not the server runs; rows are there some seconds
    after their attempt. For history at a URL use Spark.
    """
    _extras.need_server()
    from distributary.history.reading import (  # noqa: PLC0415 - for this command alone
        HistoryReader,
        Question,
    )

    place = folder or data_dir / "history"
    if not place.is_dir():
        hint = (
            "Name the data folder of the server (--data-dir), or the folder of the setting history"
            " (--folder)."
        )
        if not follow:
            _console.fail(f"There is no history in {place}.", hint)
        _console.errors().print(f"There is no history in {place} yet. {hint}", markup=False)
    question = Question(subscription, event, _since(since), failures, namespace)
    try:
        while not place.is_dir():
            time.sleep(LOOK_S)
        reader = HistoryReader(place, question)
        count = 0
        while True:
            for row in reader.rows():
                print(_line(row), flush=follow)
                count += 1
            if not follow:
                break
            time.sleep(LOOK_S)
        if not count:
            _console.errors().print(NO_ROWS, markup=False)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _since(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromtimestamp(moment_ms("--since", text) / 1000, UTC)


def _line(row: dict[str, Any]) -> str:
    """*row* as JSON, without what is null."""
    shown = {name: value for name, value in row.items() if value is not None}
    shown["time"] = row["time"].isoformat().replace("+00:00", "Z")
    return json_text.dumps(shown, ensure_ascii=False)
