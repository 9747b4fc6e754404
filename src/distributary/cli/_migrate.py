"""``distributary migrate``: moves a stopped data directory to Kafka and PostgreSQL.

Hides: settings of the places, the progress bar.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from distributary.cli import _console
from distributary.cli._backup import DataDirOption
from distributary.core.errors import SettingsError

if TYPE_CHECKING:
    from distributary.server.migrate import Moved, Step

ANY_ADDRESS: Final = "localhost:1"
"""Where this node is does not matter here: nobody is to reach it."""

KEY_NOTE: Final = (
    "Give every node the same keys of credentials (credential_key_file), and a data folder of its"
    " own. What was moved speaks of records by new numbers; the history stays where it is."
)


def migrate(
    *,
    data_dir: DataDirOption = Path("distributary-data"),
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="TOML file of the nodes, with log and store."),
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="URL", help="kafka://host:port,host:port/prefix")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="postgresql://user@host:port/database")
    ] = None,
    key_file: Annotated[
        str,
        typer.Option(
            "--credential-key-file", metavar="PATH", help="Keys, if not in the data folder."
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be moved.")
    ] = False,
) -> None:
    """Move the data folder of a stopped server to Kafka and PostgreSQL, for several nodes.

    Everything that was accepted goes along: events, subscriptions, objects, keys, what
    was delivered, retries, backlogs, dead letters, runs, counts. Topic and database must
    be empty. If it is interrupted, call it again with the same folder and places: it goes
    on, and nothing is doubled.

    At the end everything is compared, and the data folder is marked: no server starts on
    it any more, since it would deliver everything again.

    Passwords come from where the settings of nodes say, or from DISTRIBUTARY_LOG_PASSWORD and
    DISTRIBUTARY_STORE_PASSWORD.

    For example:

      distributary migrate --data-dir /var/lib/distributary --config node.toml

      distributary migrate --log kafka://k:9092/a --store postgresql://me@db/a
    """
    from distributary.cli._serve import load_settings  # noqa: PLC0415 - for this command alone
    from distributary.server import migrate as moves  # noqa: PLC0415 - as above
    from distributary.server.processes import shared_places  # noqa: PLC0415 - as above

    flags: dict[str, Any] = {"log": log, "store": store}
    if log or store:
        flags["node_address"] = ANY_ADDRESS
    places = shared_places(load_settings(flags, config), os.environ)
    if places is None:
        raise SettingsError("log, store: name where the data goes, by --config or by both options")
    if dry_run:
        _show(moves.look(data_dir, places, key_file=key_file), "would be moved")
        return
    with _bar() as progress:
        moved = moves.migrate(data_dir, places, progress, key_file=key_file)
    for warning in moved.warnings:
        _console.errors().print(f"warning: {warning}", markup=False)
    _show(moved, "moved and compared")
    _console.errors().print(KEY_NOTE, markup=False)


def _show(moved: "Moved", what: str) -> None:
    records = _console.counted(moved.records, "record")
    print(f"{records} of {_console.counted(len(moved.partitions), 'partition')} {what}")
    for partition, counts in enumerate(moved.partitions):
        said = ", ".join(f"{name} {value}" for name, value in counts._asdict().items())
        print(f"partition {partition}: {said.replace('_', ' ')}")
    rows = ", ".join(f"{name} {count}" for name, count in moved.rows.items() if count)
    print(f"tables: {rows or 'empty'}")


@contextmanager
def _bar() -> "Iterator[Callable[[Step], None]]":
    """A progress bar on a terminal, for each step its own."""
    console = _console.errors()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bars: dict[str, Any] = {}

        def told(step: "Step") -> None:
            if step.name not in bars:
                bars[step.name] = progress.add_task(step.name, total=step.total)
            progress.update(bars[step.name], completed=step.done, total=step.total)

        yield told
