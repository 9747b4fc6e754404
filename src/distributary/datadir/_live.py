"""Settings that change while the server runs: a file that ``serve`` writes and its children poll.

Read by the child processes of ``server`` and by ``spark``: the driver ends an epoch after a change,
and owners start with the newest settings. A file outlives processes, so a restarted one finds them.
"""

from pathlib import Path

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import PRIVATE_MODE, write_atomically


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The newest settings. Holds no secret.

    Attributes:
        number: Version number, which rises with each change.
        log_level: Least level that is logged.
        session: Settings of owners (``SessionSettings``), as JSON.
        ingest: Settings of the ingest process (``IngestStart``), as JSON.
    """

    number: int
    log_level: str
    session: msgspec.Raw
    ingest: msgspec.Raw


class LiveFile:
    """The settings file, for one reader or for its writer.

    Args:
        path: Path of the file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (0, 0)

    def look(self) -> LiveSettings | None:
        """Returns the settings if they have changed since the last call; else None."""
        try:
            found = self._path.stat()
            seen = (found.st_ino, found.st_mtime_ns)
            if seen == self._seen:
                return None
            live = msgspec.json.decode(self._path.read_bytes(), type=LiveSettings)
        except (OSError, msgspec.MsgspecError):
            return None  # missing, or in the format of an earlier version
        self._seen = seen
        return live

    def write(self, live: LiveSettings) -> None:
        """Replace the settings atomically.

        Raises:
            StoreError: Writing failed; the file is unchanged.
        """
        try:
            write_atomically(self._path, msgspec.json.encode(live), mode=PRIVATE_MODE)
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error.strerror or error}") from error
