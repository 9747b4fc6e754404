"""The log in files, as a receiver uses it: appends, what others pass on, retention.

Caller: ``ingest_process``, which serves the port. Hides partitions: which this receiver appends to,
and how it reaches those of others.
"""

import asyncio
import functools
from collections.abc import Callable, MutableMapping
from typing import Any, Final, Protocol

from distributary.core.clock import Clock
from distributary.core.errors import LogError
from distributary.core.journal import read_journal
from distributary.core.log import Appender, GroupCommitter
from distributary.core.log.taken import OnceLimits
from distributary.core.meter import Meter
from distributary.datadir import Bell, DataDir, MappedStatusPage
from distributary.datadir.publishers import PublisherBook
from distributary.server.ingest import AppendPort
from distributary.server.processes.base.owned import partitions_of
from distributary.server.processes.receiver._appends import LogAppends
from distributary.server.processes.receiver._forward import ForwardServer, Link, keep_linked
from distributary.server.processes.receiver.once import (
    OnceAppends,
    OnceCommitter,
    read_taken,
)
from distributary.server.processes.receiver.retention import Retention, RetentionLimits
from distributary.server.processes.receiver.route_wire import LookAgain, RouteAppendServer

LINK_S_MAX: Final = 0.5
"""Longest wait, before the port is served, for the links to the other receivers."""


class ReceiverLog(Protocol):
    """The log, as a receiver uses it. For its event loop."""

    @property
    def appends(self) -> AppendPort:
        """Where events go."""

    def allow(self, allowed: bool) -> bool:
        """Take appends from now on, or refuse them; returns whether that is a change."""

    @property
    def why_dead(self) -> BaseException | None:
        """Why it will append nothing any more: a new process recovers it; None: it lives."""

    @property
    def why_closed(self) -> BaseException | None:
        """Why it appends nothing at present; None: it does."""

    async def start(self) -> None:
        """Serve what is appended by other processes."""

    def begin_upkeep(self) -> None:
        """Begin what is done beside, now that the port is served."""

    def look(self) -> None:
        """Write notes down; called a few times a second."""

    def use_partitions(self, count: int) -> None:
        """Append to *count* partitions from some time on; called as often."""

    def count(self, now: MutableMapping[str, float], gauges: MutableMapping[str, float]) -> None:
        """Add the metrics: counters since the start of the process, and gauges."""

    def end_upkeep(self) -> None:
        """End what is done beside; the port still has requests under way."""

    async def close(self, drain_s: float) -> None:
        """End all of it, once the port is closed.

        Args:
            drain_s: Longest wait for what other receivers pass on, seconds; 0: none.
        """


class FileLog:
    """``ReceiverLog`` in the data directory: the partitions of one receiver.

    Args:
        paths: Paths of the data directory.
        number: Number of the receiver, from 0.
        receivers: Number of receivers.
        partitions: Number of partitions of the log.
        retention: How much of each partition is kept.
        clock: For stamps and ages.
        meter: Counts damage, and failures of retention.
        log: Takes lines for people.
        on_inline: Called with whether the event loop waits for the disk.
        once: Bounds of the window in which an event is taken once; None: there is none.

    Raises:
        LogError: The partitions cannot be opened.
    """

    def __init__(
        self,
        paths: DataDir,
        number: int,
        *,
        receivers: int,
        partitions: int,
        retention: RetentionLimits,
        clock: Clock,
        meter: Meter,
        log: Any,
        look_again: LookAgain,
        on_inline: Callable[[bool], None],
        once: OnceLimits | None = None,
    ) -> None:
        self._paths = paths
        self._number = number
        self._clock = clock
        self._log = log
        self._closing = False
        own = partitions_of(number, receivers, partitions)
        self._appenders = [self._open(each) for each in own]
        self._bells = [self._make_bell(each) for each in own]
        for appender in self._appenders:
            for damage in appender.damages:
                log.error("log-damage", damage=repr(damage))
                meter.add("log_damage_total")
        self._book = PublisherBook(
            {each: paths.publishers(each) for each in own},
            lambda reason: log.warning("publishers-not-noted", reason=reason),
        )
        loop = asyncio.get_running_loop()
        self._committers = {
            appender.partition: GroupCommitter(
                appender,
                loop,
                clock=clock,
                inline=True,
                on_inline=on_inline,
                on_durable=bell.ring,
                on_published=functools.partial(self._book.note, appender.partition),
            )
            for appender, bell in zip(self._appenders, self._bells, strict=True)
        }
        others = [each for each in range(receivers) if each != number]
        self._links = {
            each: Link(number, clock, functools.partial(self._linked, each)) for each in others
        }
        self._once = {} if once is None else self._windows(once)
        takers = self._once or self._committers
        self._appends = LogAppends(takers, partitions, self._links)
        self._port = OnceAppends(self._appends) if self._once else self._appends
        self._routes = RouteAppendServer(self._committers, look_again)
        self._forwards = ForwardServer(takers, lambda: self._appends.open, clock)
        self._linking: list[asyncio.Task[None]] = []
        self._retention = Retention(paths, own, retention, clock=clock, meter=meter, log=log)
        self._retaining: asyncio.Task[None] | None = None

    def _open(self, partition: int) -> Appender:
        # A cursor above the end of the log means that the medium lost acknowledged records:
        # their offsets are never used again.
        state, _ = read_journal(self._paths.journal(partition))
        return Appender.open(
            self._paths.log,
            partition,
            clock=self._clock,
            min_next_offset=state.mark.offset,
        )

    def _windows(self, limits: OnceLimits) -> dict[int, OnceCommitter]:
        """Read which ids each partition has taken of late, before anything is served."""
        now_ms = self._clock.wall_ms()
        return {
            number: OnceCommitter(
                committer, read_taken(self._paths.log, number, limits, now_ms), self._clock
            )
            for number, committer in self._committers.items()
        }

    def _make_bell(self, partition: int) -> Bell:
        status_page = MappedStatusPage(self._paths.status_page(partition))
        return Bell(self._paths.bell(partition), status_page)

    def _linked(self, receiver: int, reached: bool) -> None:
        if not self._closing:
            if reached:
                self._log.info("receiver-reached", receiver=receiver)
            else:
                self._log.warning("receiver-lost", receiver=receiver)

    @property
    def appends(self) -> AppendPort:
        """See ``ReceiverLog.appends``."""
        return self._port

    def allow(self, allowed: bool) -> bool:
        """See ``ReceiverLog.allow``."""
        changed = allowed != self._appends.open
        self._appends.open = allowed
        return changed

    @property
    def why_dead(self) -> LogError | None:
        """See ``ReceiverLog.why_dead``."""
        # A committer that met a bug appends nothing more either, and only this check sees it.
        whys = [each.dead for each in self._appenders]
        whys += [each.broken for each in self._committers.values()]
        return next((why for why in whys if why is not None), None)

    @property
    def why_closed(self) -> LogError | None:
        """See ``ReceiverLog.why_closed``."""
        errors = (appender.space_error for appender in self._appenders)
        return next((why for why in errors if why is not None), None)

    async def start(self) -> None:
        """See ``ReceiverLog.start``; waits a moment for the other receivers."""
        await self._routes.start(self._paths.append_socket(self._number))
        if not self._links:
            return
        await self._forwards.start(self._paths.forward_socket(self._number))
        for number, link in self._links.items():
            keeping = keep_linked(link, self._paths.forward_socket(number))
            self._linking.append(asyncio.get_running_loop().create_task(keeping))
        reached = [asyncio.create_task(link.reached.wait()) for link in self._links.values()]
        _, late = await asyncio.wait(reached, timeout=LINK_S_MAX)
        for task in late:
            task.cancel()

    def begin_upkeep(self) -> None:
        """See ``ReceiverLog.begin_upkeep``: retention."""
        self._retaining = asyncio.get_running_loop().create_task(self._retention.run())

    def look(self) -> None:
        """See ``ReceiverLog.look``."""
        self._book.flush()

    def use_partitions(self, count: int) -> None:
        """See ``ReceiverLog.use_partitions``: a log in files keeps those that it has."""

    def count(self, now: MutableMapping[str, float], gauges: MutableMapping[str, float]) -> None:
        """See ``ReceiverLog.count``."""
        for number, committer in self._committers.items():
            stats = committer.stats()
            now[f'appended_records_total{{partition="{number}"}}'] = stats.record_count
            now[f'appended_bytes_total{{partition="{number}"}}'] = stats.body_bytes
            now[f'commits_total{{partition="{number}"}}'] = stats.commit_count
            gauges[f'append_queue_depth{{partition="{number}"}}'] = committer.pending
            gauges[f'last_commit_seconds{{partition="{number}"}}'] = stats.last_commit_s
        for number, taker in self._once.items():
            now[f'repeated_events_total{{partition="{number}"}}'] = taker.repeated_count
        if self._links:
            forwarded = sum(link.forwarded_count for link in self._links.values())
            now["forwarded_requests_total"] = forwarded

    def end_upkeep(self) -> None:
        """See ``ReceiverLog.end_upkeep``."""
        self._closing = True
        if self._retaining is not None:
            self._retaining.cancel()

    async def close(self, drain_s: float) -> None:
        """See ``ReceiverLog.close``."""
        for task in self._linking:
            task.cancel()
        for link in self._links.values():
            link.close()
        if drain_s:
            await self._forwards.drain(drain_s)
        self._forwards.close()
        self._routes.close()
        for appender in self._appenders:
            await self._committers[appender.partition].close()
            appender.close()
        self._book.flush()
        for bell in self._bells:
            bell.close()
