"""Settings that change while the server runs: a file that ``serve`` writes and processes look at.

Called by ``server`` (writes it, and reads it in its children) and by ``spark`` (the driver ends an
epoch when there is news, and owners begin with what stands there). A file outlives the processes,
so that one that is started again finds the newest settings.
"""

from pathlib import Path

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import PRIVATE_MODE, write_atomically


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The newest settings. Holds no secret.

    Attributes:
        number: Of these settings; it rises with each change.
        log_level: Least level that is logged.
        session: For owners, as JSON of their own.
        ingest: For the ingest process, as JSON of its own.
    """

    number: int
    log_level: str
    session: msgspec.Raw
    ingest: msgspec.Raw


class LiveFile:
    """The file, for one reader or for its writer.

    Args:
        path: Where it is; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (0, 0)

    def look(self) -> LiveSettings | None:
        """What stands there, where it is news since the last look; else None."""
        try:
            found = self._path.stat()
            seen = (found.st_ino, found.st_mtime_ns)
            if seen == self._seen:
                return None
            live = msgspec.json.decode(self._path.read_bytes(), type=LiveSettings)
        except (OSError, msgspec.MsgspecError):
            return None  # not there; a version before this one may have left another
        self._seen = seen
        return live

    def write(self, live: LiveSettings) -> None:
        """Put *live* there, at once for all readers.

        Raises:
            StoreError: It stays as it was.
        """
        try:
            write_atomically(self._path, msgspec.json.encode(live), mode=PRIVATE_MODE)
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error.strerror or error}") from error
