"""A file that one process replaces and others poll, such as who may do what."""

from pathlib import Path

from distributary.core.errors import StoreError
from distributary.core.files import PRIVATE_MODE, write_atomically


class PolledFile:
    """The file, for one reader or for its writer.

    Args:
        path: Path of the file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (0, 0)

    def look(self) -> bytes | None:
        """Returns the content if it has changed since the last call; else None. Cheap.

        Raises:
            OSError: It cannot be read; the next call tries again.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        seen = (found.st_ino, found.st_mtime_ns)
        if seen == self._seen:
            return None
        data = self._path.read_bytes()
        self._seen = seen
        return data

    def write(self, data: bytes) -> None:
        """Replace the content atomically.

        Raises:
            StoreError: Writing failed; the file is unchanged.
        """
        try:
            write_atomically(self._path, data, mode=PRIVATE_MODE)
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error.strerror or error}") from error
