"""``distributary backup`` and ``restore``: a copy of a data directory, and a data directory of it.

They need no server: a backup reads the files of one that may run. Hides: the progress bar.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from distributary.cli import _console

MIB: Final = 1024 * 1024

DataDirOption = Annotated[
    Path,
    typer.Option(
        "--data-dir", envvar="DISTRIBUTARY_DATA_DIR", metavar="DIR", help="The data folder."
    ),
]

KEY_NOTES: Final = {
    "included": "With the key that opens credentials of sinks: whoever has the backup has them.",
    "left-out": "Without the key that opens credentials of sinks: put credentials.key into the"
    " restored folder, or name it (credential_key_file); else they have to be sent again.",
    "elsewhere": "No key that opens credentials of sinks is in the data folder, so none is in the"
    " backup: if settings name one elsewhere, keep it too.",
}


def backup(
    target: Annotated[Path, typer.Argument(metavar="DEST", show_default=False, hidden=True)],
    *,
    data_dir: DataDirOption = Path("distributary-data"),
    without_key: Annotated[
        bool,
        typer.Option("--without-key", help="Leave the key out that opens credentials of sinks."),
    ] = False,
    rate: Annotated[
        float, typer.Option(metavar="NUMBER", min=0, help="At most so many MiB a second; 0: any.")
    ] = 0,
) -> None:
    """Copy the data folder to the new folder DEST while its server runs.

    What was acknowledged before it began is in the copy: events, subscriptions, objects, retries,
    dead letters, counts. What was delivered shortly before may be delivered again by a server that
    starts on it. The history is left out.

    Run it as the user of the server, or as root, on the same machine. While it copies, the log
    does not shrink.

    For example:

      distributary backup /mnt/backup/2026-11-23 --data-dir /var/lib/distributary

      distributary backup /mnt/backup/now --without-key --rate 50
    """
    from distributary.server import backup as backups  # noqa: PLC0415 - for this command alone

    with _bar("copying") as progress:
        made = backups.back_up(
            data_dir, target, with_key=not without_key, rate=rate * MIB, progress=progress
        )
    with _bar("checking") as progress:
        backups.check(target, progress)
    files, size = len(made.files), made.total_bytes / MIB
    print(f"{target}: {files} files, {size:,.1f} MiB, as of {made.began}; checked")
    _console.errors().print(KEY_NOTES[made.key], markup=False)


def restore(
    source: Annotated[Path, typer.Argument(metavar="SRC", show_default=False, hidden=True)],
    *,
    data_dir: DataDirOption = Path("distributary-data"),
    check: Annotated[
        bool, typer.Option("--check", help="Only check the backup; restore nothing.")
    ] = False,
) -> None:
    """Make a new data folder of the backup in SRC, or check the backup.

    Each file is compared with the checksum in the manifest of the backup. The data folder must be
    missing or empty. Resource versions, ids of timer events and numbers of the history go on
    behind all that the server can have used after the backup.

    Do not start two servers with the same subscriptions: both would deliver.

    For example:

      distributary restore /mnt/backup/2026-11-23 --data-dir /var/lib/distributary

      distributary restore /mnt/backup/2026-11-23 --check
    """
    from distributary.server import backup as backups  # noqa: PLC0415 - for this command alone

    if check:
        with _bar("checking") as progress:
            made = backups.check(source, progress)
    else:
        with _bar("restoring") as progress:
            made = backups.restore(source, data_dir, progress)
    size = made.total_bytes / MIB
    what = f"{len(made.files)} files, {size:,.1f} MiB, as of {made.began}, by {made.version}"
    print(f"{source}: {what}; as written" if check else f"{data_dir}: {what}")
    if not check:
        _console.errors().print(KEY_NOTES[made.key], markup=False)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal; call what is yielded with bytes done, and in all."""
    console = _console.errors()
    columns = (TextColumn(title), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(
        *columns,
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task(title, total=None)

        def advance(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        yield advance
