"""The sources process: consumes from brokers, and publishes at this server's receiver.

Started by ``serve`` where sources are configured. Isolates the brokers' client libraries: some are
in C and may crash, which ends this process alone until it is restarted.
"""

import asyncio
import os
import signal
import sys
from typing import Any

import msgspec
import structlog
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver import LoopTimers
from distributary.core.meter import Meter
from distributary.core.source import SourceSpec
from distributary.datadir import PARENT, DataDir, MappedStatusPage, StatusField
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver, parse_networks
from distributary.protocols.http.sink import HttpTransport
from distributary.server.processes._children import end_with_parent
from distributary.server.processes._logging import configure
from distributary.sources import UNSETTLED_TOTAL_MAX, Source, make_consumer, read_tables

LOOK_S = 0.5
"""How often the process writes its counters."""
EXIT_UNUSABLE = 78
"""Exit code: the configured sources are unusable. They were usable when the server started: a
secret's file has been removed or changed. The process is restarted after a pause."""


class SourcesStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the process: its argument, as JSON. Holds no secret.

    Attributes:
        data_dir: Data directory.
        base: Scheme, host and port at which this machine reaches the receiver.
        tables: ``[[sources]]`` of the configuration file, valid at the server's start.
        loopback_only: Whether the server listens on loopback alone (decision 22, private
            addresses).
        allow_sinks: CIDRs that the operator allows.
        event_bytes_max: Largest body that the receiver accepts.
        log_level: Least level that is logged.
        drain_s: Longest wait for events under way at a stop.
    """

    data_dir: str
    base: str
    tables: list[dict[str, Any]]
    loopback_only: bool
    allow_sinks: tuple[str, ...]
    event_bytes_max: int
    log_level: str
    drain_s: float


async def run(start: SourcesStart, specs: tuple[SourceSpec, ...], meter: Meter) -> None:
    """Run the sources until SIGTERM."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the parent stops us in its order
    clock = SystemClock()
    rule = AddressRule(parse_networks(start.allow_sinks), loopback_allowed=start.loopback_only)
    connector = Connector(rule, CachingResolver(SystemResolver(), clock))
    transport = HttpTransport(connector, clock, loop)
    sources = [
        Source(
            spec,
            make_consumer(spec, connector, clock),
            transport,
            start.base,
            body_bytes_max=start.event_bytes_max,
            unsettled_max=UNSETTLED_TOTAL_MAX // len(specs),
            meter=meter,
            clock=clock,
            timers=LoopTimers(loop),
        )
        for spec in specs
    ]
    for source in sources:
        source.start()
    status_page = MappedStatusPage(DataDir.of(start.data_dir).sources_page)
    writing = loop.create_task(_write(meter, sources, status_page))
    await stopping.wait()
    writing.cancel()
    await asyncio.gather(*(source.stop(start.drain_s) for source in sources))
    await transport.close()
    meter.gauges.clear()
    meter.save()


async def _write(meter: Meter, sources: list[Source], status_page: MappedStatusPage) -> None:
    while True:
        status_page[StatusField.HEARTBEAT_MS] = SystemClock().wall_ms()
        for source in sources:
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
    uvloop.run(run(start, specs, meter))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
