"""The folder of an archive, on any file system that Spark writes, for the driver of a job.

Hides: Hadoop's ``FileSystem``, called through the JVM.
"""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from distributary.core.errors import StoreError
from distributary.core.files import sync_folder
from distributary.spark.archive.manifest import (
    EVENTS,
    MANIFEST_BYTES_MAX,
    MANIFESTS,
    Contents,
    contents_of,
    is_range_name,
    manifest_name,
    number_of,
)
from distributary.spark.hadoop_folder import os_errors

_HIDDEN: Final = ".tmp"
"""Ends the name of a manifest that is being written."""


class Place:
    """An archive, for the one job that writes it.

    Args:
        spark: The session whose JVM and settings are used.
        url: Path or URL of the folder.

    Raises:
        OSError: Spark has no file system for *url*, or it cannot be reached.

    Attributes:
        url: Of the folder.
        local: The folder, where it is on a file system of this machine; else None.
    """

    def __init__(self, spark: SparkSession, url: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no file systems
        self._hadoop = jvm.org.apache.hadoop.fs
        self._text = jvm.org.apache.commons.io.IOUtils.toString
        with os_errors():
            root = self._hadoop.Path(url.rstrip("/"))
            self._system: Any = root.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
            qualified: Any = self._system.makeQualified(root)
            self.url: str = qualified.toString()
            where = qualified.toUri()
            self.local = Path(where.getPath()) if where.getScheme() == "file" else None

    @property
    def events(self) -> str:
        """URL of the folder of the rows."""
        return f"{self.url}/{EVENTS}"

    def contents(self) -> Contents:
        """Returns what the archive holds.

        Raises:
            LogError: Its manifests do not fit.
            OSError: They cannot be read.
        """
        with os_errors():
            found = []
            for status in self._list(self._path(MANIFESTS)):
                number = number_of(status.getPath().getName())
                if number is not None and status.getLen() <= MANIFEST_BYTES_MAX:
                    found.append((number, self._content(status.getPath())))
        return contents_of(found)

    def has_events(self, path: str) -> bool:
        """Whether there is a file at *path*, below ``events``.

        Raises:
            OSError: The file system cannot be asked.
        """
        with os_errors():
            return bool(self._system.exists(self._path(f"{EVENTS}/{path}")))

    def write_manifest(self, number: int, content: bytes) -> None:
        """Write the manifest *number*: there as a whole, or not at all.

        Raises:
            StoreError: It is there already: another job writes this archive.
            OSError: It cannot be written.
        """
        final = self._path(f"{MANIFESTS}/{manifest_name(number)}")
        beside = self._path(f"{MANIFESTS}/{manifest_name(number)}{_HIDDEN}")
        with os_errors():
            stream = self._system.create(beside, True)
            stream.write(bytearray(content))
            stream.close()
            self._sync([Path(MANIFESTS) / beside.getName()])
            if self._system.exists(final) or not self._system.rename(beside, final):
                raise StoreError(
                    f"{final.toString()} is there already: another job writes this archive."
                    " Name another folder: each log has its own"
                )
            self._sync([Path(MANIFESTS) / final.getName()])

    def sync(self, paths: Sequence[str]) -> None:
        """Bring the files at *paths*, below ``events``, to the medium, where it is this machine's.

        Raises:
            OSError: That failed.
        """
        self._sync([Path(EVENTS) / path for path in paths])

    def sweep(self, kept: Iterable[str], since: str = "", *, left_s: float = 0.0) -> list[str]:
        """Delete what no manifest names; returns the folders of ranges.

        Args:
            kept: Names of the ranges that manifests name.
            since: The first day of which they name files (``2026-01-31``); empty: any.
            left_s: Younger folders of ranges stay: another job may be about to name them. What is
                older than *since* goes in any case.

        Raises:
            OSError: It cannot be deleted.
        """
        names, swept = set(kept), []
        with os_errors():
            temporary = self._path(f"{EVENTS}/_temporary")
            if self._is_left(temporary, left_s):
                self._system.delete(temporary, True)
            for status in self._list(self._path(MANIFESTS)):
                if status.getPath().getName().endswith(_HIDDEN):
                    self._system.delete(status.getPath(), False)
            for day in self._list(self._path(EVENTS)):
                if not day.getPath().getName().startswith("day="):
                    continue
                for status in self._list(day.getPath()):
                    path = status.getPath()
                    name = path.getName().removeprefix("range=")
                    old = day.getPath().getName() < f"day={since}"
                    if is_range_name(name) and (
                        old or (name not in names and self._is_left(path, left_s))
                    ):
                        self._system.delete(path, True)
                        swept.append(f"{day.getPath().getName()}/{path.getName()}")
                if not self._list(day.getPath()):
                    self._system.delete(day.getPath(), False)
        return swept

    def _path(self, below: str) -> Any:
        return self._hadoop.Path(f"{self.url}/{below}")

    def _is_left(self, folder: Any, left_s: float) -> bool:
        """Whether all in *folder* was written more than *left_s* ago."""
        if not left_s:
            return True
        written_ms = [each.getModificationTime() for each in self._list(folder)]
        return time.time() - max(written_ms, default=0) / 1000 > left_s

    def _list(self, path: Any) -> list[Any]:
        return list(self._system.listStatus(path)) if self._system.exists(path) else []

    def _content(self, path: Any) -> bytes:
        stream = self._system.open(path)
        try:
            text: str = self._text(stream, "UTF-8")
        finally:
            stream.close()
        return text.encode()

    def _sync(self, paths: Sequence[Path]) -> None:
        if self.local is None:
            return
        folders = set()
        # Hadoop reads no file whose own checksums, beside it, were torn by a power cut.
        beside = [path.with_name(f".{path.name}.crc") for path in paths]
        for path in (*paths, *(each for each in beside if (self.local / each).exists())):
            fd = os.open(self.local / path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            folders |= {self.local / each for each in path.parents}
        for folder in (*sorted(folders, reverse=True), self.local.parent):
            sync_folder(folder)
