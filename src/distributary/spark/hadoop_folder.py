"""A folder of history files on any file system that Spark writes, through Hadoop's ``FileSystem``.

Runs in the driver, whose JVM does the work; the operator's ``spark.hadoop.*`` settings apply. Each
call to the JVM costs both some tenths of a millisecond, so lists come as one text.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from distributary.history.folder import (
    HIDDEN,
    StoredFile,
    day_folder,
    day_name,
    hidden_name,
)
from distributary.history.names import HistoryFile, parse

_DAY: Final = re.compile(r"date=\d{4}-\d\d-\d\d(?=[,}])", re.ASCII)
_NAME: Final = re.compile(r"p\d{4,10}-\d{20}-\d{20}\.parquet(?=[,}])", re.ASCII)
_HIDDEN: Final = re.compile(rf"(?<=/){HIDDEN.pattern}(?=[,}}])", re.ASCII)
_REASON_CHARACTERS_MAX: Final = 300


class HadoopFolder:
    """``HistoryFolder`` at a URL.

    Args:
        spark: The session whose JVM and settings are used.
        url: URL of the folder.

    Raises:
        OSError: Spark has no file system for *url*, or it cannot be opened.
    """

    def __init__(self, spark: SparkSession, url: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no file systems
        self._hadoop = jvm.org.apache.hadoop.fs
        self._arrays = jvm.org.apache.commons.lang3.ArrayUtils
        self._url = url.rstrip("/")
        self._known: dict[HistoryFile, StoredFile] = {}
        settings = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        with os_errors():
            self._system: Any = self._path("").getFileSystem(settings)

    def files(self) -> list[StoredFile]:
        """Returns the history files; asks for sizes of new names alone, since no file changes."""
        known = self._known
        self._known = {}
        with os_errors():
            for day in self._days():
                for name in _NAME.findall(self._listed(day)):
                    file = parse(f"{day}/{name}")
                    if file is not None:
                        self._known[file] = known.get(file) or self._stored(file)
        return list(self._known.values())

    def put(self, source: Path, file: HistoryFile) -> None:
        """Store *source* as *file*: copied to a hidden name, then renamed."""
        if not source.is_file():
            raise FileNotFoundError(str(source))
        final = self._path(file.path)
        beside = self._path(f"{day_folder(file)}/{hidden_name(file)}")
        with os_errors():
            if self._system.exists(final):
                return
            self._system.copyFromLocalFile(False, True, self._local(source), beside)
            if not self._system.rename(beside, final) and not self._system.exists(final):
                raise OSError(f"{final.toString()} could not be renamed from its hidden name")

    def fetch(self, file: HistoryFile, into: Path) -> Path:
        """Copy *file* to *into*."""
        with os_errors():
            local = self._local(into)
            self._system.copyToLocalFile(False, self._path(file.path), local, True)
        return into

    def delete(self, file: HistoryFile) -> None:
        """Delete *file*."""
        with os_errors():
            self._system.delete(self._path(file.path), False)

    def delete_empty_days(self, before: str) -> None:
        """Delete empty folders of days before *before*."""
        with os_errors():
            for day in self._days():
                path = self._path(day)
                if day < day_name(before) and not len(self._system.listStatus(path)):
                    self._system.delete(path, False)

    def sweep(self) -> None:
        """Delete hidden files of ``put``."""
        with os_errors():
            for day in self._days():
                for name in _HIDDEN.findall(self._listed(day)):
                    self._system.delete(self._path(f"{day}/{name}"), False)

    def _days(self) -> list[str]:
        return _DAY.findall(self._listed(""))

    def _listed(self, folder: str) -> str:
        """The paths in *folder* as one text; empty where there is no such folder."""
        path = self._path(folder)
        if not self._system.exists(path):
            return ""
        found = self._hadoop.FileUtil.stat2Paths(self._system.listStatus(path))
        text: str = self._arrays.toString(found)
        return text

    def _stored(self, file: HistoryFile) -> StoredFile:
        status = self._system.getFileStatus(self._path(file.path))
        return StoredFile(file, status.getLen(), status.getModificationTime() / 1000)

    def _path(self, below: str) -> Any:
        return self._hadoop.Path(f"{self._url}/{below}" if below else self._url)

    def _local(self, path: Path) -> Any:
        return self._hadoop.Path(f"file://{path.absolute()}")


@contextmanager
def os_errors() -> Iterator[None]:
    """Raise what the JVM raises as ``OSError``, with the first line of its message."""
    try:
        yield
    except Py4JError as error:
        java = getattr(error, "java_exception", None)
        text = str(error if java is None else java.toString())
        first, *_ = text.strip().splitlines() or [repr(error)]
        raise OSError(first[:_REASON_CHARACTERS_MAX]) from error
