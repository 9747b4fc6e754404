"""One archive job in this process, with a Spark of its own: for the command and for the setting.

One job works for a log at a time: a lock of the data directory sees to it, and where nodes share
the log a lease in their store.
"""

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from distributary.core.cluster import SharedPlaces
from distributary.core.errors import LogLockedError, SettingsError, StoreError
from distributary.core.lease import Lease
from distributary.core.log import lock, read_folder
from distributary.datadir import DataDir
from distributary.spark import find_java, java_environment, usable_class_archive

if TYPE_CHECKING:
    from distributary.spark.archive.job import Done, Wanted

RANGES_PER_STEP: Final = 8
"""Segments of 64 MiB between two manifests: what a killed job has to do again at most, and enough
that each of some cores writes for seconds before all wait for the slowest."""

LEASE: Final = "archive"
"""Name of the lease of the job of a log that nodes share."""

LEFT_S: Final = 86_400.0
"""Age from which on files that no manifest names are deleted where nodes share a log. A lease may
run out unseen, a lock cannot: so nobody deletes what another job may be about to name."""

OLD_S: Final = 86_400.0
"""Age from which on records of a topic are archived though they fill no range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOrder:
    """What a job is to do; ``distributary archive --help`` tells of it.

    Attributes:
        data_dir: Data directory; where nodes share the log, that of this node.
        to: Path or URL of the archive.
        newest: The newest segment of each partition too.
        skip_damaged: Whether damaged records are left out.
        master: Spark master.
        spark_conf: The operator's Spark properties.
        java_home: Java to run Spark on; None: one is looked for.
        delete_before: See ``Wanted``.
        shared: Where log and store lie that nodes share; None: in the data directory.
    """

    data_dir: Path
    to: str
    newest: bool = False
    skip_damaged: bool = False
    master: str = "local[2]"
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    java_home: Path | None = None
    delete_before: date | None = None
    shared: SharedPlaces | None = None


def run_archive(order: ArchiveOrder, told: Callable[["Done"], None]) -> "Done":
    """Archive what there is to archive, and return.

    Args:
        order: What to do.
        told: Called after each step with what is done so far.

    Raises:
        DistributaryError: It cannot be done; what manifests name is archived nevertheless.
    """
    paths = DataDir(order.data_dir.absolute())
    if order.shared is None:
        read_folder(paths.log)
    check_place(order.to, paths)
    java = find_java(os.environ, chosen=order.java_home)
    with alone(paths.archive_lock, paths.archive_scratch):
        os.environ.update(java_environment(java, paths.archive_scratch / "java"))
        # Imported here: it imports pyspark, which needs to know its Java.
        from distributary.spark.archive.session import run  # noqa: PLC0415 - see above

        with _wanted(order, paths) as wanted:
            conf, classes = order.spark_conf, usable_class_archive(java)
            return run(wanted, paths.archive_scratch, order.master, conf, told, classes=classes)


@contextlib.contextmanager
def _wanted(order: ArchiveOrder, paths: DataDir) -> Iterator["Wanted"]:
    """What the job is to do; where nodes share the log, no other job works for it meanwhile.

    Raises:
        StoreError: One does, or the store cannot be reached.
    """
    from distributary.spark.archive.job import Wanted  # noqa: PLC0415 - see ``run_archive``
    from distributary.spark.archive.logs import FolderLog  # noqa: PLC0415 - as above

    log = FolderLog(paths)
    wanted = Wanted(
        log,
        order.to,
        order.newest,
        order.skip_damaged,
        RANGES_PER_STEP,
        order.delete_before,
        note=lambda contents: log.note(order.to, contents),
        noted=lambda: log.noted(order.to),
    )
    if order.shared is None:
        yield wanted
    else:
        with _of_nodes(wanted, order.shared) as of_nodes:
            yield of_nodes


@contextlib.contextmanager
def _of_nodes(wanted: "Wanted", shared: SharedPlaces) -> Iterator["Wanted"]:
    """*wanted*, of the log that nodes share."""
    # Clients of Kafka and PostgreSQL are loaded where there are some.
    from distributary.core.database import database_url  # noqa: PLC0415
    from distributary.core.log.kafka.store_archived import (  # noqa: PLC0415
        noted_positions,
        write_archived,
    )
    from distributary.core.postgres_lease import PostgresLease  # noqa: PLC0415
    from distributary.partitions.executor import LeaseHolder  # noqa: PLC0415
    from distributary.spark.archive.logs import TopicLog, stretches_of  # noqa: PLC0415

    url = database_url(shared.store)
    holder = LeaseHolder(host=socket.gethostname(), pid=os.getpid())
    try:
        lease = PostgresLease(url, LEASE, holder=holder.encode())
    except LogLockedError as error:
        raise StoreError(f"another job works for this log: {error}") from error
    try:
        yield replace(
            wanted,
            log=TopicLog(shared.log, int((time.time() - OLD_S) * 1000)),
            note=lambda contents: write_archived(
                url, wanted.to, contents.positions(), stretches_of(contents), lease.check_in
            ),
            noted=lambda: noted_positions(url, wanted.to),
            check=lease.check,
            left_s=LEFT_S,
        )
    finally:
        lease.release()


def is_path(to: str) -> bool:
    """Whether the archive *to* is no URL of another file system than this machine's."""
    return to.startswith("file:") or ":/" not in to


def check_place(to: str, paths: DataDir) -> None:
    """Refuse an archive inside the data directory.

    Raises:
        SettingsError: It lies there.
    """
    if not is_path(to):
        return
    folder = Path("/" + to[len("file:") :].lstrip("/") if to.startswith("file:") else to)
    if not folder.is_absolute():
        raise SettingsError(f"archive: {to}: give an absolute path, or a URL")
    if folder.resolve().is_relative_to(paths.root.resolve()):
        raise SettingsError(f"archive: {to} lies in the data directory: name another folder")


@contextlib.contextmanager
def alone(lock_path: Path, scratch: Path) -> Iterator[None]:
    """Hold the lock of a kind of job, with an empty folder for its Spark.

    Raises:
        StoreError: Another job of the kind runs.
    """
    lock_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        lease: Lease = lock(lock_path)
    except LogLockedError as error:
        raise StoreError(f"another job works for this log: {error}") from error
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
        yield
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        lease.release()
