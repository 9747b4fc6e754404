"""The composition root: builds clock, stores and transports, and starts the processes.

Called by ``cli`` (``serve``) and by the child processes. Decides nothing about events: ``core``
and the other packages do. Two flows between processes are wired here: the control process
appends route records through the ingest process (``receiver.route_wire``), and the pipeline reads
what ingest appended.

Modules named ``..._process`` are the programs of child processes. Folders hold their parts:
``control``, ``receiver``, ``pipeline`` and ``source`` those of one process each, ``node`` what a
server does that shares log and store, ``supervision`` starting and watching, ``base`` the rest.
"""

import os
from collections.abc import Callable, MutableMapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.core import lean
from distributary.core.cluster import SharedPlaces
from distributary.core.errors import SettingsError
from distributary.server.processes.base.early import end_when_asked
from distributary.server.settings import Settings, parse_table

if TYPE_CHECKING:
    from distributary.spark.archive.job import Done

lean.load_logging()  # before the modules of this package import it


def serve(settings: Settings, read_settings: Callable[[], Settings] | None = None) -> int:
    """Run ``distributary serve``; returns the program's exit code.

    Args:
        settings: Validated settings.
        read_settings: Reads them again at SIGHUP; raises ``SettingsError`` with all faults. None:
            SIGHUP changes nothing.
    """
    # The child processes import this package too and need no API and no supervisor.
    from distributary.server.processes._start import serve as run  # noqa: PLC0415

    return run(settings, read_settings)


def shared_places(settings: Settings, environ: MutableMapping[str, str]) -> SharedPlaces | None:
    """Returns where log and state lie that machines share; None: in the data folder.

    Takes both passwords out of *environ*.

    Raises:
        SettingsError: A password cannot be had.
    """
    from distributary.server.processes.node import shared_places as places  # noqa: PLC0415

    return places.shared_places(settings, environ)


def archive_classes() -> Path:
    """Archive the classes that Spark loads, for faster starts; returns the file.

    Raises:
        SettingsError: It cannot be made or written; the message says why.
    """
    from distributary.spark import find_java, make_class_archive  # noqa: PLC0415 - as above

    return make_class_archive(find_java(os.environ))


def archive_log(
    data_dir: Path,
    to: str,
    told: Callable[["Done"], None],
    *,
    newest: bool,
    skip_damaged: bool,
    master: str,
    spark_conf: str,
    delete_before: date | None = None,
    shared: SharedPlaces | None = None,
) -> "Done":
    """Write old segments of the log to an archive, in this process.

    Args:
        data_dir: The data directory; where nodes share the log, that of this node.
        to: Path or URL of the archive.
        told: Called after each step with what is done so far.
        newest: The newest segment of each partition too.
        skip_damaged: Whether damaged records are left out.
        master: Spark master.
        spark_conf: Spark properties, as pairs separated by commas.
        delete_before: Events that were appended before this day are deleted of the archive.
        shared: Where log and store lie that nodes share; None: in the data directory.

    Raises:
        DistributaryError: It cannot be done; what was checked is archived nevertheless.
    """
    from distributary.server.processes.pipeline import archive_job as job  # noqa: PLC0415

    try:
        properties = parse_table(spark_conf)
    except ValueError as error:
        raise SettingsError(
            "--spark-conf: expected pairs such as spark.driver.memory=2g, separated by commas"
        ) from error
    order = job.ArchiveOrder(
        data_dir=data_dir,
        to=to,
        newest=newest,
        skip_damaged=skip_damaged,
        master=master,
        spark_conf=properties,
        delete_before=delete_before,
        shared=shared,
    )
    return job.run_archive(order, told)


def faults_before_start(settings: Settings) -> list[str]:
    """Returns a line for each reason for which ``serve`` would not start; changes nothing."""
    from distributary.server.processes import _before  # noqa: PLC0415 - as above

    return _before.faults_before_start(settings)
