"""Brings the consumer of a partition the records of its log, from where the log lies.

On the loop of the consumer. A chunk is read when the one before it has been taken, so what waits
is bounded, and the log keeps the rest. Where there is none, the appending process rings.
"""

import asyncio
from typing import Final

from distributary.core.errors import LogError
from distributary.core.log import Reader
from distributary.core.log.tail_consumer import TailConsumer
from distributary.datadir import Bell, StatusField, StatusPage

CHUNK_BYTES: Final = 256 * 1024
"""Most bytes read at once: 200 events of 1 KB, which keep the loop busy for some ten milliseconds;
reading and verifying them takes a tenth of a millisecond, or one access of a slow disk."""


BUSY_PAUSES: Final = ((64 * 1024, 0.01), (16 * 1024, 0.005), (4 * 1024, 0.002))
"""(chunk bytes, pause in seconds): a busy log is read in fewer, larger chunks, since each turn
takes some 0.1 ms of the receiver's cores. Single events, and a backlog, do not wait."""


class LogTail:
    """Reads the durable log of one partition to its end, and on whenever it grows.

    Args:
        records: Reads the partition; nobody else uses it.
        bell: Rings when the log has grown.
        status_page: Of the partition.
        consumer: Takes the chunks, and calls ``look_soon`` when it has taken all.
        loop: Runs all of it.
    """

    def __init__(
        self,
        records: Reader,
        bell: Bell,
        status_page: StatusPage,
        consumer: TailConsumer,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._records = records
        self._bell = bell
        self._status_page = status_page
        self._consumer = consumer
        self._loop = loop
        self._offset = 0
        self._chunk_bytes = 0  # of the last one
        self._running = False
        self._looking = False

    def start(self, offset: int) -> None:
        """Read from the record *offset* on."""
        self._offset = offset
        self._running = True
        self._loop.add_reader(self._bell.fd, self._rung)
        self.look()

    def stop(self) -> None:
        """Read nothing more. Stopping twice is harmless."""
        if self._running:
            self._running = False
            self._status_page[StatusField.AWAITS_RECORDS] = 0
            self._loop.remove_reader(self._bell.fd)

    def look_soon(self) -> None:
        """The consumer has taken all that it was given: look again, soon."""
        if self._looking:
            return
        self._looking = True
        pause_s = _pause_after(self._chunk_bytes)
        self._chunk_bytes = 0
        if pause_s:
            self._loop.call_later(pause_s, self._look_now)
        else:
            self._loop.call_soon(self._look_now)

    def look(self) -> None:
        """Feed the next chunk, if there is one and the last one has been taken."""
        if not self._running or self._consumer.buffered_bytes:
            return
        try:
            if not self._feed():
                # In this order: the appender publishes the end before it looks at the word.
                self._status_page[StatusField.AWAITS_RECORDS] = 1
                self._feed()
        except LogError as error:
            self.stop()
            self._consumer.fail(error)

    def end(self) -> int:
        """Returns the durable end; costs under 1 us."""
        return self._records.durable_end()

    def _feed(self) -> bool:
        chunk, after = self._records.read_chunk(self._offset, CHUNK_BYTES)
        if after == self._offset:
            return False
        self._offset = after
        self._chunk_bytes = len(chunk)
        self._status_page[StatusField.AWAITS_RECORDS] = 0
        self._consumer.feed(after, chunk)
        return True

    def _look_now(self) -> None:
        self._looking = False
        self.look()

    def _rung(self) -> None:
        self._bell.heard()
        self.look()


def _pause_after(chunk_bytes: int) -> float:
    """How long to wait after a chunk, seconds."""
    if chunk_bytes >= CHUNK_BYTES // 2:
        return 0.0  # There is more.
    return next((pause_s for size, pause_s in BUSY_PAUSES if chunk_bytes >= size), 0.0)
