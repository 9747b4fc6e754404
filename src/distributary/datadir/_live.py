"""Settings that change while the server runs: a file that ``serve`` writes and its children poll.

Read by the child processes of ``server`` and by ``spark``: owners go on with the newest settings at
a quiet moment. A file outlives processes, so a restarted one finds them.
"""

from pathlib import Path

import msgspec

from distributary.datadir._polled_file import PolledFile


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
        self._file = PolledFile(path)

    def look(self) -> LiveSettings | None:
        """Returns the settings if they have changed since the last call; else None."""
        try:
            data = self._file.look()
            return None if data is None else msgspec.json.decode(data, type=LiveSettings)
        except (OSError, msgspec.MsgspecError):
            return None  # missing, or in the format of an earlier version

    def write(self, live: LiveSettings) -> None:
        """Replace the settings atomically.

        Raises:
            StoreError: Writing failed; the file is unchanged.
        """
        self._file.write(msgspec.json.encode(live))
