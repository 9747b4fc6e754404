"""Who may do what, as the control process tells a receiver: read beside the event loop."""

import contextlib
from pathlib import Path
from typing import Final

from distributary.access import AccessSnapshot, PolicyRecord, SnapshotReader
from distributary.core.errors import ResourceError
from distributary.datadir import PolledFile

PREPARED_AT_ONCE: Final = 64
"""Policies of the start that are prepared at one look: 20 ms of a processor for those that people
write, 0.7 s for the longest. A newer snapshot waits so long at most."""


class AccessFile:
    """The file of snapshots, for one receiver; one thread at a time.

    Args:
        path: Path of the file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._file = PolledFile(path)
        self._reader = SnapshotReader()
        self._unprepared: list[PolicyRecord] = []

    def first(self) -> AccessSnapshot:
        """The snapshot to begin with; without a file nobody may do anything.

        Its policies are prepared by later looks: a start waits for none. An event that comes first
        prepares those that name its sender.
        """
        data = self._file.look()
        if data is None:
            return AccessSnapshot(required=True)
        snapshot = self._reader.read(data)
        self._unprepared = list(self._reader.changed)
        return snapshot

    def look(self) -> AccessSnapshot | None:
        """Returns the snapshot if it has changed since, its new policies prepared; else None.

        Call it in a thread: it takes some seconds where a thousand policies have changed.

        Raises:
            OSError: It cannot be read; the next call tries again.
        """
        data = self._file.look()
        if data is not None:
            snapshot = self._reader.read(data)
            _prepare(self._reader.changed)
            return snapshot
        _prepare(self._unprepared[:PREPARED_AT_ONCE])
        del self._unprepared[:PREPARED_AT_ONCE]
        return None


def _prepare(policies: "tuple[PolicyRecord, ...] | list[PolicyRecord]") -> None:
    for policy in policies:
        with contextlib.suppress(ResourceError):  # of a newer version: it lets no event pass
            policy.prepare()
