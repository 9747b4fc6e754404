"""The sources process: consumes from brokers, and publishes at this server's receiver.

Started by ``serve`` where sources are configured. Isolates the brokers' client libraries: some are
in C and may crash, which ends this process alone until it is restarted.
"""

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
import uvloop

from distributary.access.internal import InternalKey
from distributary.core.clock import SystemClock
from distributary.core.cluster import SharedPlaces, take_places
from distributary.core.deliver import LoopTimers
from distributary.core.meter import Meter
from distributary.core.source import SourceSpec
from distributary.datadir import (
    PARENT,
    DataDir,
    MappedStatusPage,
    StatusField,
    read_internal_key,
)
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.protocols.http.sink import HttpTransport
from distributary.resource import Reach
from distributary.server.processes.base.logging import configure
from distributary.server.processes.supervision.children import end_with_parent
from distributary.sources import UNSETTLED_TOTAL_MAX, Source, make_consumer, read_tables

if TYPE_CHECKING:
    from distributary.server.processes.source.source_leases import SourceLeases

LOOK_S = 0.5
"""How often the process writes its counters."""
EXIT_UNUSABLE = 78
"""Exit code: the configured sources are unusable. They were usable when the server started: a
secret's file has been removed or changed. The process is restarted after a pause."""


class SourcesStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the process: its argument, as JSON. Holds no secret.

    Attributes:
        data_dir: Data directory.
        base: Where this machine reaches the receiver: ``unix:`` and the path of its socket.
        tables: ``[[sources]]`` of the configuration file, valid at the server's start.
        private_allowed: Whether brokers may be at private addresses (decision 22).
        allow_sinks: CIDRs that the operator allows nevertheless.
        nat64_prefixes: As in ``Reach``.
        event_bytes_max: Largest body that the receiver accepts.
        log_level: Least level that is logged.
        drain_s: Longest wait for events under way at a stop.
        node: Name of this node, where several share the sources; empty: it is none.
    """

    data_dir: str
    base: str
    tables: list[dict[str, Any]]
    private_allowed: bool
    allow_sinks: tuple[str, ...]
    nat64_prefixes: tuple[str, ...]
    event_bytes_max: int
    log_level: str
    drain_s: float
    node: str = ""

    def rule(self) -> AddressRule:
        """Where brokers may be."""
        return AddressRule.of(
            Reach(
                private_allowed=self.private_allowed,
                allow_sinks=self.allow_sinks,
                nat64_prefixes=self.nat64_prefixes,
            )
        )


class Sources:
    """The sources of this process.

    Args:
        start: Start parameters.
        specs: All sources.
        meter: Counts.
    """

    def __init__(self, start: SourcesStart, specs: tuple[SourceSpec, ...], meter: Meter) -> None:
        loop = asyncio.get_running_loop()
        self._start, self._meter = start, meter
        self._specs = {spec.name: spec for spec in specs}
        self._clock = SystemClock()
        resolver = CachingResolver(SystemResolver(), self._clock)
        self._connector = Connector(start.rule(), resolver)
        self.transport = HttpTransport(self._connector, self._clock, loop)
        self._timers = LoopTimers(loop)
        seed = read_internal_key(DataDir.of(start.data_dir).internal_key)
        assert seed is not None  # the control process has made it
        self._key = InternalKey(seed)
        self.running: dict[str, Source] = {}

    def make(self, name: str) -> Source:
        """Returns the source *name*, not started."""
        spec = self._specs[name]
        made = Source(
            spec,
            make_consumer(spec, self._connector, self._clock),
            self.transport,
            self._start.base,
            token=self._key.token(_namespace_of(spec.to)),
            body_bytes_max=self._start.event_bytes_max,
            unsettled_max=UNSETTLED_TOTAL_MAX // len(self._specs),
            meter=self._meter,
            clock=self._clock,
            timers=self._timers,
        )
        self.running[name] = made
        return made

    def ended(self, name: str) -> None:
        """The source *name* runs no more here: nothing is said of it."""
        self.running.pop(name, None)
        label = f'{{source="{name}"}}'
        for gauge in ("source_reading", "source_unsettled"):
            self._meter.gauges.pop(f"{gauge}{label}", None)


async def run(
    start: SourcesStart,
    specs: tuple[SourceSpec, ...],
    meter: Meter,
    places: SharedPlaces | None = None,
) -> None:
    """Run the sources until SIGTERM: all of them, or where nodes share them, by leases."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the parent stops us in its order
    sources = Sources(start, specs, meter)
    leases = None if places is None else _leases(start, specs, sources, places)
    if leases is None:
        for spec in specs:
            sources.make(spec.name).start()
    status_page = MappedStatusPage(DataDir.of(start.data_dir).sources_page)
    tasks = [loop.create_task(_write(meter, sources, status_page))]
    if leases is not None:
        tasks.append(loop.create_task(leases.follow()))
    await stopping.wait()
    if leases is not None:
        await leases.stop(start.drain_s)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(each.stop(start.drain_s) for each in sources.running.values()))
    await sources.transport.close()
    meter.gauges.clear()
    meter.save()


def _leases(
    start: SourcesStart, specs: tuple[SourceSpec, ...], sources: Sources, places: SharedPlaces
) -> "SourceLeases":
    from distributary.core.database import database_url  # noqa: PLC0415 - only of a node
    from distributary.server.processes.source.source_leases import (  # noqa: PLC0415 - likewise
        PostgresSourceLeases,
        SourceLeases,
    )

    table = PostgresSourceLeases(database_url(places.store), start.node)
    names = [spec.name for spec in specs]
    return SourceLeases(table, start.node, names, sources.make, ended=sources.ended)


def _namespace_of(path: str) -> str:
    """Namespace of the Broker or Channel at *path*; ``/events`` is that of ``default``."""
    return next(iter(path.split("/")[2:]), "default")


async def _write(meter: Meter, sources: Sources, status_page: MappedStatusPage) -> None:
    while True:
        status_page[StatusField.HEARTBEAT_MS] = SystemClock().wall_ms()
        for source in sources.running.values():
            source.gauge()
        meter.save()
        await asyncio.sleep(LOOK_S)


def main(arguments: list[str]) -> int:
    """Entry point of the process: one argument, ``SourcesStart`` as JSON."""
    end_with_parent(int(os.environ[PARENT]))
    start = msgspec.json.decode(arguments[0], type=SourcesStart)
    configure(start.log_level, role="sources")
    specs, faults = read_tables(start.tables, os.environ)
    meter = Meter(DataDir.of(start.data_dir).meter("sources"))
    meter.save()  # resets the gauges that an earlier process left
    if faults:
        structlog.get_logger().error("sources-unusable", faults=faults)
        return EXIT_UNUSABLE
    uvloop.run(run(start, specs, meter, take_places(os.environ)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
