"""The running parts of a server, and the order in which they start and stop."""

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass

import uvicorn

from distributary.core.clock import until_next_s
from distributary.datadir import DataDir, MappedStatusPage
from distributary.server.processes.base.tls import Tls
from distributary.server.processes.control._issuers import IssuerKeys
from distributary.server.processes.control.access import Access
from distributary.server.processes.control.due import TimerService
from distributary.server.processes.control.form import AppendClient
from distributary.server.processes.control.index import STOP_S as INDEX_STOP_S
from distributary.server.processes.control.knative import Knative
from distributary.server.processes.control.renewal import Renewal
from distributary.server.processes.control.standing import StandingService
from distributary.server.processes.source.sources import STOP_S as SOURCES_STOP_S
from distributary.server.processes.supervision.children import Child
from distributary.server.processes.supervision.health import Health
from distributary.server.processes.supervision.listeners import Listeners
from distributary.server.processes.supervision.outlived import ask_owners_to_end, end_owners
from distributary.server.processes.supervision.probe import Probe
from distributary.subscriptions.amqp import AmqpServer
from distributary.subscriptions.events import Events
from distributary.subscriptions.service import Subscriptions

INGEST_STOP_S = 8.0
"""Longest wait for receivers at a stop: they finish requests under way."""
BEAT_S = 0.5
"""Interval of the control loop's heartbeat, for health checks."""


@dataclass(slots=True)
class Running:
    """The running parts of a server, started and stopped in order."""

    paths: DataDir
    status_pages: Sequence[MappedStatusPage]
    subscriptions: Subscriptions
    routes: AppendClient
    due: TimerService
    issuers: IssuerKeys
    renewal: Renewal
    knative: Knative
    amqp: AmqpServer
    listeners: Listeners
    tls: Tls | None
    receivers: Sequence[Child]
    pipeline: Child | None
    sources: Child | None
    index: Child | None
    api: uvicorn.Server
    probe: Probe
    access: Access
    standing: StandingService
    events: Events

    @property
    def children(self) -> list[Child]:
        """The supervised processes."""
        found = [*self.receivers, self.pipeline, self.sources, self.index]
        return [child for child in found if child is not None]

    async def start(self) -> None:
        """Start everything; sources last, since they publish at the receiver."""
        self.probe.start()
        for receiver in self.receivers:
            receiver.start()
        if self.pipeline is not None:
            self.pipeline.start()
        if self.index is not None:
            self.index.start()
        await self.subscriptions.start()
        if self.listeners.amqp is not None:
            tls = None if self.tls is None else self.tls.amqp
            await self.amqp.start(self.listeners.amqp, tls)
        self.knative.api.deliveries = self.standing.deliveries
        self.knative.api.subscriptions = self.standing.shown
        self.knative.over = self.standing.watcher.standings.over
        self.knative.awaited = self.standing.watcher.agreements.awaited
        await self.knative.start()
        if self.sources is not None:
            self.sources.start()
        gc.freeze()  # objects of the start are never garbage
        self.due.start()
        self.renewal.start()
        self.access.start()
        self.standing.watcher.listen(self.due.hear)
        self.standing.start()

    async def replace_sources(self, sources: Child | None) -> None:
        """Replace the sources process by *sources*, which receives unsettled messages again."""
        if self.sources is not None:
            await asyncio.to_thread(self.sources.stop, SOURCES_STOP_S)
        self.sources = sources
        if sources is not None:
            sources.start()

    async def replace_renewal(self, renewal: Renewal) -> None:
        """Replace the token refresher by *renewal*."""
        await self.renewal.stop()
        self.renewal = renewal
        renewal.start()

    async def stop(self, drain_s: float, serving: asyncio.Task[None]) -> None:
        """Stop in order: what brings events first, the API last, so that it shows progress."""
        self.probe.rest()
        await self.due.stop()
        await self.issuers.stop()
        await self.renewal.stop()
        if self.sources is not None:
            await asyncio.to_thread(self.sources.stop, SOURCES_STOP_S)
        if self.index is not None:
            await asyncio.to_thread(self.index.stop, INDEX_STOP_S)
        stops = [asyncio.to_thread(each.stop, INGEST_STOP_S) for each in self.receivers]
        await asyncio.gather(*stops)
        if self.pipeline is not None:
            ask_owners_to_end(self.status_pages)
            await asyncio.to_thread(self.pipeline.stop, drain_s + 10.0)
            ask_owners_to_end(self.status_pages)
            await asyncio.to_thread(end_owners, self.paths, self.status_pages)
        self.api.should_exit = True
        await self.knative.end_watches()
        await serving
        await self.knative.close()
        await self.amqp.close()
        await self.subscriptions.close()
        await self.access.close()
        await asyncio.to_thread(self.standing.stop)
        self.routes.close()
        await asyncio.to_thread(self.probe.stop)


async def beat(health: Health) -> None:
    """Write heartbeats of the control loop; never returns."""
    while True:
        health.turned()
        await asyncio.sleep(until_next_s(BEAT_S, time.monotonic()))
