"""One partition of the embedded log on a simulated disk, with a ledger of acknowledged records.

Callers: tests of the log, simulations with crashes. Small enough to inspect every byte.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from distributary.core.flow import Logged, RecordKind
from distributary.core.log import Appender, Reader, open_folder, partition_dir
from distributary.testing.simulated_disk import SimulatedDisk
from distributary.testing.virtual import VirtualClock

LOG_DIR = Path("/data/log")
PARTITION_DIR = partition_dir(LOG_DIR, 0)

STAMP = 0x3A5BC7D9
"""A fixed stamp, so that runs repeat byte for byte."""

SEGMENT_BYTES = 4096
"""Short, so that a few appends begin another one."""


class Promise(NamedTuple):
    """A record that was acknowledged.

    Attributes:
        step: Of the disk, when it was.
        offset: Its offset.
        kind: Its kind.
        body: Its body.
    """

    step: int
    offset: int
    kind: int
    body: bytes


class SmallLog:
    """A partition, its disk, and the ledger.

    Attributes:
        disk: The simulated disk.
        clock: Timestamps the records.
        segment_bytes: Length of a segment.
        promises: Acknowledged records, in order.
        tried: Appended bodies, acknowledged or not.
    """

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        clock: VirtualClock | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Nothing is opened yet."""
        self.disk = disk or SimulatedDisk()
        self.clock = clock or VirtualClock()
        self.segment_bytes = segment_bytes
        self.promises: list[Promise] = []
        self.tried: set[bytes] = set()
        self._appender: Appender | None = None

    @property
    def appender(self) -> Appender:
        """The open appender."""
        assert self._appender is not None
        return self._appender

    def open(self, **options: Any) -> Appender:
        """Open folder and appender; *options* go to ``Appender.open``."""
        open_folder(LOG_DIR, 1, disk=self.disk)
        self._appender = Appender.open(
            LOG_DIR,
            0,
            clock=self.clock,
            disk=self.disk,
            segment_bytes=self.segment_bytes,
            make_stamp=lambda: STAMP,
            **options,
        )
        return self._appender

    def reopened_on(self, disk: SimulatedDisk, **options: Any) -> "SmallLog":
        """Returns the log as a new process opens it on *disk*, with the same ledger."""
        other = SmallLog(disk, self.clock, self.segment_bytes)
        other.tried = set(self.tried)
        other.open(**options)
        return other

    def append(self, *bodies: bytes, kind: int = RecordKind.EVENTS) -> int:
        """Append in one commit, and record the promise; returns the offset of the first."""
        self.tried.update(bodies)
        first = self.appender.append([(kind, body) for body in bodies])
        for offset, body in enumerate(bodies, first):
            self.promises.append(Promise(self.disk.step, offset, kind, body))
        return first

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """A reader, as another process would open it."""
        reader = Reader(LOG_DIR, 0, disk=self.disk)
        try:
            yield reader
        finally:
            reader.close()

    def records(self) -> list[Logged]:
        """Every record that can be read, up to the durable end."""
        with self.reader() as reader:
            return list(reader.read(0, reader.durable_end()))

    def bodies(self) -> list[bytes]:
        """Their bodies."""
        return [logged.body for logged in self.records()]
