"""``distributary archive``: old segments of the log as Parquet, by a Spark job."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distributary.cli import _console, _extras
from distributary.cli._backup import MIB, DataDirOption
from distributary.cli._times import moment_ms

if TYPE_CHECKING:
    from distributary.core.cluster import SharedPlaces

ConfigOption = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Settings of a node, where nodes share the log: instead of --data-dir.",
    ),
]
SparkConfOption = Annotated[
    str,
    typer.Option(
        envvar="DISTRIBUTARY_SPARK_CONF",
        metavar="PAIRS",
        help="Spark properties such as spark.driver.memory=2g, separated by commas.",
    ),
]


def archive(
    *,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            envvar="DISTRIBUTARY_ARCHIVE",
            metavar="PATH",
            help="Folder of the archive: an absolute path, or a URL that Spark can write.",
        ),
    ],
    data_dir: DataDirOption = Path("distributary-data"),
    config: ConfigOption = "",
    newest: Annotated[
        bool,
        typer.Option("--all", help="The newest segment of each partition too, as far as it goes."),
    ] = False,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave damaged records out instead of stopping.")
    ] = False,
    delete_before: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Delete the days of the archive before this one: 2026-01-31, or -90d.",
        ),
    ] = "",
    master: Annotated[
        str, typer.Option("--spark-master", metavar="URL", help="Where Spark runs.")
    ] = "local[2]",
    spark_conf: SparkConfOption = "",
) -> None:
    """Write old segments of the log to Parquet files, one folder a day, and check them.

    The server may run. Each event is written once: a job that was killed is finished by the next
    one. Nothing is deleted from the log; the setting archive makes retention wait for the archive.

    Run it as the user of the server, on the same machine. Each log has an archive of its own.

    Where nodes share a log on Kafka, name the settings file of a node, on its machine, and a folder
    that all tasks of Spark can write. What is younger than a day waits until it fills 64 MiB.

    For example:

      distributary archive --to /mnt/archive --data-dir /var/lib/distributary
      distributary archive --to s3a://bucket/archive --all

      distributary archive --to /mnt/archive --config /etc/distributary/node.toml

      distributary archive --to /mnt/archive --delete-before -365d
    """
    _extras.need_server()
    from distributary.server import processes  # noqa: PLC0415 - after the check

    console = _console.errors()
    data_dir, shared = _log_of(config) if config else (data_dir, None)
    done = processes.archive_log(
        data_dir,
        to.rstrip("/") or "/",
        lambda done: console.print(_said(done), markup=False),
        newest=newest,
        skip_damaged=skip_damaged,
        master=master,
        spark_conf=spark_conf,
        delete_before=(day := _day_of(delete_before)),
        shared=shared,
    )
    _tell(to, done, console, day)


def _log_of(config: str) -> "tuple[Path, SharedPlaces | None]":
    """The data directory of the server with the settings *config*, and what it shares."""
    from distributary.cli._serve import load_settings  # noqa: PLC0415 - for this option alone
    from distributary.server.processes import shared_places  # noqa: PLC0415 - after the check

    settings = load_settings({}, config)
    return settings.data_dir, shared_places(settings, os.environ)


def _day_of(delete_before: str) -> date | None:
    """The day of ``--delete-before``, by UTC; None: it was not given."""
    if not delete_before:
        return None
    return datetime.fromtimestamp(moment_ms("--delete-before", delete_before) / 1000, UTC).date()


def _tell(to: str, done: Any, console: Any, before: date | None) -> None:
    """Say what the job has done, and what it could not; *before*: days were to be deleted."""
    if before is not None and not done.days_deleted:
        print(f"{to}: no day before {before} is there to be deleted")
    if done.days_deleted:
        first, last = done.days_deleted[0], done.days_deleted[-1]
        print(f"{to}: deleted {_console.counted(len(done.days_deleted), 'day')}, {first} to {last}")
    for lost in done.lost:
        console.print(
            f"partition {lost.partition}: records {lost.from_offset} to {lost.to_offset - 1} were"
            " deleted (retention) before they were archived",
            style="yellow",
            markup=False,
        )
    ends = ", ".join(f"{number}:{offset}" for number, offset in sorted(done.positions.items()))
    print(f"{to}: {_said(done)}; checked. Archived to {ends or 'nothing yet'}")


def _said(done: Any) -> str:
    """What a job has done, for people."""
    counts = (_console.counted(done.events, "event"), _console.counted(done.ranges, "segment"))
    size = f"{done.bytes / MIB:,.1f} MiB"
    if done.bytes < MIB:
        size = _console.counted(done.bytes, "byte")
    return f"{' of '.join(counts)}, {size}"
