"""The log that nodes share, as a receiver uses it: each receiver of each node reaches all of it."""

import asyncio
from collections.abc import MutableMapping
from typing import Any, Final, Protocol

from distributary.core.cluster import SharedPlaces
from distributary.core.errors import LogError
from distributary.core.flow import Received
from distributary.core.log.committer import CommitStats
from distributary.server.ingest import AppendPort
from distributary.server.processes.receiver.file_log import ReceiverLog
from distributary.server.processes.receiver.once import OnceAppends


class ClosableAppends(AppendPort, Protocol):
    """Appends to a log elsewhere."""

    @property
    def stats(self) -> CommitStats:
        """Totals since it was made."""

    async def change_partitions(self, count: int) -> None:
        """Use *count* partitions from now on.

        Raises:
            LogUnavailableError: The cluster does not show so many; try again later.
        """

    async def close(self) -> None:
        """Take nothing more; wait for what is under way."""


class SharedLog:
    """``ReceiverLog`` over a log elsewhere: what it takes, it takes for every partition.

    Args:
        appends: Where events go; closed with this object.
        partitions: How many partitions they use.
        log: Takes lines for people.
        once: Whether an event is taken once within a window: then each event goes to the partition
            of its id, where readers find its repeats.

    Attributes:
        splits: See ``AppendPort.splits``.
    """

    splits: Final = False

    def __init__(
        self, appends: ClosableAppends, partitions: int, log: Any, *, once: bool = False
    ) -> None:
        self._shared = appends
        self._port: AppendPort = OnceAppends(self) if once else self
        self._partitions = partitions
        self._log = log
        self._changing: asyncio.Task[None] | None = None
        self._allowed = True

    @property
    def appends(self) -> AppendPort:
        """See ``ReceiverLog.appends``."""
        return self._port

    @property
    def open(self) -> bool:
        """See ``AppendPort.open``."""
        return self._allowed and self._shared.open

    def submit(self, received: Received, done: Any) -> None:
        """See ``AppendPort.submit``."""
        self._shared.submit(received, done)

    def allow(self, allowed: bool) -> bool:
        """See ``ReceiverLog.allow``."""
        changed = allowed != self._allowed
        self._allowed = allowed
        return changed

    @property
    def why_dead(self) -> None:
        """See ``ReceiverLog.why_dead``: the producer renews itself."""

    @property
    def why_closed(self) -> LogError | None:
        """See ``ReceiverLog.why_closed``."""
        return None if self._shared.open else LogError("no broker of the log takes events")

    async def start(self) -> None:
        """See ``ReceiverLog.start``: nobody appends by this receiver."""

    def begin_upkeep(self) -> None:
        """See ``ReceiverLog.begin_upkeep``: the node that leads does it."""

    def look(self) -> None:
        """See ``ReceiverLog.look``: publishers are noted beside their events."""

    def use_partitions(self, count: int) -> None:
        """See ``ReceiverLog.use_partitions``: until then, the old ones take all."""
        if count > self._partitions and (self._changing is None or self._changing.done()):
            self._changing = asyncio.get_running_loop().create_task(self._change(count))

    async def _change(self, count: int) -> None:
        try:
            await self._shared.change_partitions(count)
        except LogError as error:  # the next look tries again
            self._log.warning("log-trouble", reason=str(error))
        else:
            self._partitions = count
            self._log.info("partitions-used", partitions=count)

    def count(self, now: MutableMapping[str, float], gauges: MutableMapping[str, float]) -> None:
        """See ``ReceiverLog.count``; of all partitions together."""
        stats = self._shared.stats
        now["appended_records_total"] = stats.record_count
        now["appended_bytes_total"] = stats.body_bytes
        gauges["log_reached"] = float(self._shared.open)

    def end_upkeep(self) -> None:
        """See ``ReceiverLog.end_upkeep``."""

    async def close(self, _drain_s: float) -> None:
        """See ``ReceiverLog.close``."""
        if self._changing is not None:
            self._changing.cancel()
        await self._shared.close()


def shared_log(
    places: SharedPlaces, partitions: int, log: Any, *, once: bool = False
) -> ReceiverLog:
    """Returns the log at *places*; call it on the loop.

    Args:
        places: Where it is.
        partitions: How many partitions it has.
        log: Takes lines for people.
        once: See ``SharedLog``.

    Raises:
        LogUnavailableError: What says where it is cannot be used.
    """
    from distributary.core.log import kafka as shared  # noqa: PLC0415 - its library: shared alone

    loop = asyncio.get_running_loop()
    appends = shared.KafkaAppends(
        places.log, partitions, loop, lambda reason: log.warning("log-trouble", reason=reason)
    )
    return SharedLog(appends, partitions, log, once=once)
