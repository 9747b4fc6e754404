"""One archive job in this process, with a Spark of its own: for the command and for the setting."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from distributary.core.errors import LogLockedError, SettingsError, StoreError
from distributary.core.lease import Lease
from distributary.core.log import lock, read_folder
from distributary.datadir import DataDir
from distributary.spark import find_java, java_environment

if TYPE_CHECKING:
    from distributary.spark.archive.job import Done

RANGES_PER_STEP: Final = 8
"""Segments of 64 MiB between two manifests: what a killed job has to do again at most, and enough
that each of some cores writes for seconds before all wait for the slowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOrder:
    """What a job is to do; ``distributary archive --help`` tells of it.

    Attributes:
        data_dir: Data directory.
        to: Path or URL of the archive.
        newest: The newest segment of each partition too.
        skip_damaged: Whether damaged records are left out.
        master: Spark master.
        spark_conf: The operator's Spark properties.
        java_home: Java to run Spark on; None: one is looked for.
        delete_before: See ``Wanted``.
    """

    data_dir: Path
    to: str
    newest: bool = False
    skip_damaged: bool = False
    master: str = "local[2]"
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    java_home: Path | None = None
    delete_before: date | None = None


def run_archive(order: ArchiveOrder, told: Callable[["Done"], None]) -> "Done":
    """Archive what there is to archive, and return.

    Args:
        order: What to do.
        told: Called after each step with what is done so far.

    Raises:
        DistributaryError: It cannot be done; what manifests name is archived nevertheless.
    """
    paths = DataDir(order.data_dir.absolute())
    read_folder(paths.log)
    check_place(order.to, paths)
    java = find_java(os.environ, chosen=order.java_home)
    with alone(paths.archive_lock, paths.archive_scratch):
        os.environ.update(java_environment(java, paths.archive_scratch / "java"))
        # Imported here: it imports pyspark, which needs to know its Java.
        from distributary.spark.archive.session import Wanted, run  # noqa: PLC0415 - see above

        wanted = Wanted(
            paths,
            order.to,
            order.newest,
            order.skip_damaged,
            RANGES_PER_STEP,
            order.delete_before,
        )
        return run(wanted, order.master, order.spark_conf, told)


def check_place(to: str, paths: DataDir) -> None:
    """Refuse an archive inside the data directory.

    Raises:
        SettingsError: It lies there.
    """
    path = "/" + to[len("file:") :].lstrip("/") if to.startswith("file:") else to
    if ":/" in path:
        return
    folder = Path(path)
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
