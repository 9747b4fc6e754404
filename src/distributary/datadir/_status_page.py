"""The status page of a partition: a page of numbers in shared memory.

The owner writes its progress, the driver its requests; the ingest process (retention, wake-ups) and
the API (readiness, backlog) read. A field is eight bytes in a shared memory map: one store,
never torn. Nothing on it is needed after a restart: log and outcome journal are authoritative.
"""

import enum
import mmap
import os
from pathlib import Path
from typing import Protocol

_FIELDS = 64
_BYTES = _FIELDS * 8


class StatusField(enum.IntEnum):
    """Index of each number on the status page."""

    # Written by the owner (the process that holds the partition).
    HEARTBEAT_MS = 0
    """Wall clock of the owner's last heartbeat, milliseconds."""
    EPOCH = 1
    """Epoch that the owner serves."""
    PHASE = 2
    """A ``Phase`` of whoever writes the page: owner, receiver or driver."""
    LIVE_OFFSET = 3
    """Next record of the live path."""
    COMMITTED_OFFSET = 4
    """The durable committed offset."""
    KEEP_FROM = 5
    """Lowest record that a cursor, backfill or retry still needs: retention deletes below it."""
    IN_FLIGHT = 6
    """Attempts under way."""
    QUEUED = 7
    """Tasks in queues."""
    BACKFILLING = 8
    """Routes with a backfill."""
    WAITING = 9
    """Waiting retry rows."""
    OLDEST_IN_FLIGHT_MS = 10
    """Age of the oldest attempt under way, milliseconds."""
    PID = 11
    """Process id of the owner, or of the receiver on its own page."""
    AWAITS_RECORDS = 12
    """1 while the owner has taken all records and sleeps: ring when there are more."""
    FAILURES = 15
    """Consecutive failures to own the partition."""
    RETRY_AT_MS = 16
    """Wall clock of the next retry, milliseconds."""

    # Written by the task that becomes the owner.
    SUCCESSOR = 13
    """Process id of a task that waits for the partition; 0: nobody does."""
    SETTINGS = 25
    """Version of the settings that the owner started with; see ``LiveSettings``."""

    # Written by the ingest process, on its own status page.
    COMMITTING = 24
    """1 while its event loop commits: it waits for the disk."""
    ACCESS = 26
    """Number of the ``access.AccessSnapshot`` that it decides by."""
    ADDRESSES = 27
    """Number of the addresses of Brokers and Channels that it serves, where nodes share them."""

    # Written by the node process, on a page of its own, where nodes share log and store.
    FRESH_UNTIL_MS = 28
    """Until when what it has read counts: milliseconds of ``boot_s``."""
    LEADS_UNTIL_MS = 29
    """Until when this node may lead, likewise; 0: it does not lead."""

    # Written by the driver.
    END_EPOCH = 33
    """Tasks of epochs up to this one end."""
    STOP = 34
    """1: the system stops; owners drain until their deadline. A page that nodes share shows a stop
    to the driver that stops and to its own owners alone."""
    READY = 35
    """1: the driver has seen the partition run since it started the query."""


class Phase(enum.IntEnum):
    """What an owner, a receiver or the driver is doing."""

    ABSENT = 0
    LOADING = 1
    RUNNING = 2
    DRAINING = 3


class StatusPage(Protocol):
    """Numbers that a partition's consumer, the driver and the ingest process exchange.

    Each field has one writer and is read atomically; two fields are not consistent with each other.
    Values are visible to all later readers, and outlive their writer. The initial value is 0.
    """

    def __getitem__(self, field: StatusField) -> int:
        """Returns the number at *field*."""

    def __setitem__(self, field: StatusField, value: int) -> None:
        """Write *value*, from 0 to 2**64 - 1, at *field*."""

    def close(self) -> None:
        """Close this view; the values stay."""


class MappedStatusPage:
    """A status page in shared memory, for processes of one machine.

    Args:
        path: File of the status page; created when it is missing.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # A hole would be filled at the first store, which kills the process where the disk is
            # full (SIGBUS). Bytes that are there stay, so any process may do it.
            os.posix_fallocate(fd, 0, _BYTES)
            self._map = mmap.mmap(fd, _BYTES)
        finally:
            os.close(fd)
        self._words = memoryview(self._map).cast("Q")

    def __getitem__(self, field: StatusField) -> int:
        """The number at *field*."""
        return self._words[field]

    def __setitem__(self, field: StatusField, value: int) -> None:
        """Write *value*, not negative, at *field*."""
        self._words[field] = value

    def close(self) -> None:
        """Unmap the page; the file stays."""
        self._words.release()
        self._map.close()
