"""A folder of history files in memory, which can fail at any call; any content will do."""

from collections.abc import Callable
from pathlib import Path

from distributary.history.folder import StoredFile
from distributary.history.names import HistoryFile


class MemoryHistory:
    """``HistoryFolder`` in memory.

    Args:
        now_s: Gives the time of changes, seconds since 1970.

    Attributes:
        content: File -> its bytes and the time of its last change.
        before: Called with the name of each method before it does anything; what it raises comes
            out of the method.
    """

    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self.content: dict[HistoryFile, tuple[bytes, float]] = {}
        self.before: Callable[[str], None] = lambda _method: None

    def files(self) -> list[StoredFile]:
        """Returns the files."""
        self.before("files")
        return [StoredFile(file, len(kept), at_s) for file, (kept, at_s) in self.content.items()]

    def put(self, source: Path, file: HistoryFile) -> None:
        """Store the content of *source*."""
        self.before("put")
        self.content.setdefault(file, (source.read_bytes(), self._now_s()))

    def fetch(self, file: HistoryFile, into: Path) -> Path:
        """Returns *into*, which is a copy."""
        self.before("fetch")
        if file not in self.content:
            raise FileNotFoundError(file.path)
        into.write_bytes(self.content[file][0])
        return into

    def delete(self, file: HistoryFile) -> None:
        """Delete *file*."""
        self.before("delete")
        self.content.pop(file, None)

    def delete_empty_days(self, before: str) -> None:  # noqa: ARG002 - there are no folders
        """Does nothing: days have no folders here."""
        self.before("delete_empty_days")

    def sweep(self) -> None:
        """Does nothing: ``put`` leaves nothing."""
        self.before("sweep")
