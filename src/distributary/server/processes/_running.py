"""What runs between a start and a stop of the server, and the order of both. For ``_serve``."""

import asyncio
import gc
import socket
from dataclasses import dataclass

import uvicorn

from distributary.server.processes._children import Child
from distributary.server.processes._due import TimerService
from distributary.server.processes._health import Health
from distributary.server.processes._knative import Knative
from distributary.server.processes._probe import Probe
from distributary.server.processes._renewal import Renewal
from distributary.server.processes._route_wire import RouteAppendClient
from distributary.server.processes._sources import STOP_S as SOURCES_STOP_S
from distributary.subscriptions.amqp import AmqpServer
from distributary.subscriptions.service import Subscriptions

INGEST_STOP_S = 8.0
"""Longest wait for the ingest process at a stop: it finishes requests under way."""
BEAT_S = 0.5
"""How often the loop says that it turns, for those who ask after health."""


@dataclass(slots=True)
class Running:
    """What runs between a start and a stop, and the order of both."""

    subscriptions: Subscriptions
    routes: RouteAppendClient
    due: TimerService
    renewal: Renewal
    knative: Knative
    amqp: AmqpServer
    amqp_socket: socket.socket | None
    ingest: Child
    pipeline: Child
    sources: Child | None
    api: uvicorn.Server
    probe: Probe

    @property
    def children(self) -> list[Child]:
        """The processes that are kept running."""
        found = [self.ingest, self.pipeline]
        return found if self.sources is None else [*found, self.sources]

    async def start(self) -> None:
        """Start; sources last: what they bring must find a receiver."""
        self.probe.start()
        self.ingest.start()
        self.pipeline.start()
        await self.subscriptions.start()
        if self.amqp_socket is not None:
            await self.amqp.start(self.amqp_socket)
        await self.knative.start()
        if self.sources is not None:
            self.sources.start()
        gc.freeze()  # what stood at the start is never garbage
        self.due.start()
        self.renewal.start()

    async def replace_sources(self, sources: Child | None) -> None:
        """Have *sources* read in place of those before: they take up what is not settled."""
        if self.sources is not None:
            await asyncio.to_thread(self.sources.stop, SOURCES_STOP_S)
        self.sources = sources
        if sources is not None:
            sources.start()

    async def replace_renewal(self, renewal: Renewal) -> None:
        """Have *renewal* keep tokens fresh in place of the one before."""
        await self.renewal.stop()
        self.renewal = renewal
        renewal.start()

    async def stop(self, drain_s: float, serving: asyncio.Task[None]) -> None:
        """Stop: who brings events first, the API last, so that it can be asked how it goes."""
        self.probe.rest()
        await self.due.stop()
        await self.renewal.stop()
        if self.sources is not None:
            await asyncio.to_thread(self.sources.stop, SOURCES_STOP_S)
        await asyncio.to_thread(self.ingest.stop, INGEST_STOP_S)
        await asyncio.to_thread(self.pipeline.stop, drain_s + 10.0)
        self.api.should_exit = True
        await self.knative.end_watches()
        await serving
        await self.knative.close()
        await self.amqp.close()
        await self.subscriptions.close()
        self.routes.close()
        await asyncio.to_thread(self.probe.stop)


async def beat(health: Health) -> None:
    """Say for ever that the loop turns."""
    while True:
        health.turned()
        await asyncio.sleep(BEAT_S)
