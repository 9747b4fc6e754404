"""Where a receiver appends an event: its own partitions, or those of another receiver.

An event without a key goes to a partition of the receiver that took it; one with a key to the
partition of the key, whoever took it.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from distributary.core.errors import LogError
from distributary.core.flow import Received
from distributary.server.ingest import Settle, partition_of
from distributary.server.processes.base.owned import receiver_of
from distributary.server.processes.receiver._forward import Link
from distributary.server.processes.receiver.once import Committer

TURN_BYTES_MAX = 256 * 1024
"""A partition with more queued has fallen behind: the shortest queue gets the event instead."""


class LogAppends:
    """``server.ingest.AppendPort`` over one group committer a partition, and links to the others.

    Args:
        committers: Group committers of this receiver's partitions, by number; at least one.
        partitions: Number of partitions of the log.
        links: Links to the other receivers, by number.

    Attributes:
        open: See ``AppendPort.open``.
        splits: See ``AppendPort.splits``.
    """

    splits: Final = False

    def __init__(
        self,
        committers: Mapping[int, Committer],
        partitions: int,
        links: Mapping[int, Link],
    ) -> None:
        self._committers = list(committers.values())
        self._by_partition = [committers.get(number) for number in range(partitions)]
        self._links = links
        self._receivers = len(links) + 1
        self._loop = asyncio.get_running_loop()
        self._turn = 0
        self._turning = False
        self.open = True

    def submit(self, received: Received, done: Settle) -> None:
        """Append *received* as one record; calls *done* when it is durable or has failed."""
        key = received.partition_key
        committer: Committer | None
        if key is None:
            committer = self._next()
        else:
            partition = partition_of(key, len(self._by_partition))
            committer = self._by_partition[partition]
            if committer is None:
                self._forward(partition, received, done)
                return

        try:
            committer.submit(received.kind, received.body, done, received.by)
        except LogError as error:
            done(error)

    def _forward(self, partition: int, received: Received, done: Settle) -> None:
        link = self._links[receiver_of(partition, self._receivers)]
        try:
            link.submit(partition, received.kind, received.body, done, received.by)
        except LogError as error:
            done(error)

    def _next(self) -> Committer:
        """Returns the committer of an event without a key: one for each turn of the event loop.

        So one sync serves the whole turn, and round robin fills partitions evenly. Where the
        current one has fallen behind (a slow disk), the shortest queue gets the record.
        """
        committers = self._committers
        current = committers[self._turn]
        if current.pending_bytes > TURN_BYTES_MAX:
            return min(committers, key=lambda committer: committer.pending_bytes)
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._next_turn)
        return current

    def _next_turn(self) -> None:
        self._turning = False
        self._turn = (self._turn + 1) % len(self._committers)
