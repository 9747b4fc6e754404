"""A folder of history files on this machine, or on what is mounted."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from distributary.core.files import sync_folder
from distributary.history.folder import HIDDEN, StoredFile, day_folder, day_name, hidden_name
from distributary.history.names import HistoryFile, parse

_DAY: Final = re.compile(r"date=\d{4}-\d\d-\d\d", re.ASCII)


class LocalFolder:
    """``HistoryFolder`` on a local path.

    Args:
        root: The folder; made at need.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, file: HistoryFile) -> Path:
        """Returns the path of *file*."""
        return self._root / file.path

    def files(self) -> list[StoredFile]:
        """Returns the history files, in no order."""
        found = []
        for day in self._days():
            for entry in _entries(day):
                file = parse(f"{day.name}/{entry.name}")
                if file is None or not entry.is_file(follow_symlinks=False):
                    continue
                with contextlib.suppress(FileNotFoundError):  # just deleted
                    state = entry.stat(follow_symlinks=False)
                    found.append(StoredFile(file, state.st_size, state.st_mtime))
        return found

    def put(self, source: Path, file: HistoryFile) -> None:
        """Store *source* as *file*: beside it, synced, then renamed."""
        day = self._root / day_folder(file)
        day.mkdir(parents=True, exist_ok=True)
        final = self.path(file)
        if not final.exists():
            beside = day / hidden_name(file)
            beside.unlink(missing_ok=True)
            try:
                os.link(source, beside)
            except OSError:  # another file system, or one without links
                shutil.copyfile(source, beside)
            with beside.open("rb") as written:
                os.fsync(written.fileno())
            beside.rename(final)
        # Names are synced even where the file exists: who put it may have ended before that.
        sync_folder(day)
        sync_folder(self._root)

    def fetch(self, file: HistoryFile, into: Path) -> Path:  # noqa: ARG002 - no copy is needed
        """Returns the path of *file*."""
        return self.path(file)

    def delete(self, file: HistoryFile) -> None:
        """Delete *file*."""
        self.path(file).unlink(missing_ok=True)

    def delete_empty_days(self, before: str) -> None:
        """Delete empty folders of days before *before*."""
        for day in self._days():
            if day.name < day_name(before):
                with contextlib.suppress(OSError):  # it holds something
                    day.rmdir()

    def sweep(self) -> None:
        """Delete hidden files of ``put``."""
        for day in self._days():
            for entry in _entries(day):
                if HIDDEN.fullmatch(entry.name):
                    Path(entry.path).unlink(missing_ok=True)

    def _days(self) -> Iterator[Path]:
        for entry in _entries(self._root):
            if _DAY.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)


def _entries(folder: Path) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []
