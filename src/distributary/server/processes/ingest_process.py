"""The ingest process, a receiver: serves the public port, and appends to its partitions of the log.

Inherits the listening socket from ``serve``, so that connections wait in the kernel's queue while
it restarts. Never waits for Spark, never shares its interpreter. Where there are several receivers,
all accept from the socket, and each partition belongs to one of them.
"""

import asyncio
import functools
import os
import shutil
import signal
import socket
import sys

import msgspec
import structlog
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.journal import read_journal
from distributary.core.log import Appender, GroupCommitter
from distributary.core.meter import Meter
from distributary.datadir import (
    PARENT,
    Bell,
    ConsumerPhase,
    DataDir,
    LiveFile,
    MappedStatusPage,
    NodeCounts,
    StatusField,
    WriteSigns,
)
from distributary.datadir.seen import Seen, load_seen
from distributary.server.ingest import (
    ACK_BOUNDS_S,
    Guard,
    IngestServer,
    IngestSettings,
    serve,
)
from distributary.server.processes._appends import LogAppends
from distributary.server.processes._channel_paths import Book, ChannelPaths
from distributary.server.processes._children import end_with_parent
from distributary.server.processes._ends import starting
from distributary.server.processes._forward import ForwardServer, Link, keep_linked
from distributary.server.processes._logging import configure, set_level
from distributary.server.processes._memory import give_back, map_large_blocks
from distributary.server.processes._owned import partitions_of, role_of
from distributary.server.processes._retention import Retention, RetentionLimits
from distributary.server.processes._route_wire import RouteAppendServer
from distributary.server.settings import is_host_name

LOOK_S = 0.25
"""How often the process checks disk space, Brokers and Channels."""
METER_S = 1.0
"""Interval of the metrics' snapshots: replacing a file costs as much as some events."""
EXIT_LOG_DEAD = 72
"""Exit code: the log refused a write or a sync; a new process recovers it from the medium."""
SWITCH_S = 0.0001
"""A committing thread must get the interpreter soon after each system call, or acknowledgements
wait for the loop's turn to end."""
LINK_S_MAX = 0.5
"""Longest wait, before the port is served, for the links to the other receivers."""


class IngestStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the ingest process: its argument, as JSON.

    Attributes:
        listen_fd: Inherited listening socket.
        data_dir: Data directory.
        partitions: Number of partitions of the log.
        receivers: Number of receivers.
        hosts: Host names of this machine, and the configured listening host.
        public_url: Published URL of the server; None: not configured.
        allowed_hosts: Further host names that requests may be for.
        log_level: Least level that is logged.
        limits: Limits of connections and requests.
        retention: How much of each partition is kept.
        disk_free_bytes_min: With less free space, publishing is refused.
        drain_s: Longest wait for requests under way at a stop.
    """

    listen_fd: int
    data_dir: str
    partitions: int
    receivers: int
    hosts: tuple[str, ...]
    public_url: str | None
    allowed_hosts: tuple[str, ...]
    log_level: str
    limits: IngestSettings
    retention: RetentionLimits
    disk_free_bytes_min: int
    drain_s: float


class IngestProcess:
    """The ingest process: HTTP receiver, group committers, retention and health.

    Args:
        start: Start parameters.
        number: Number of this receiver, from 0.
    """

    def __init__(self, start: IngestStart, number: int = 0) -> None:
        self._paths = DataDir.of(start.data_dir)
        self._live = LiveFile(self._paths.live)
        self._start = start = self._newest() or start
        self._number = number
        self._own = partitions_of(number, start.receivers, start.partitions)
        self._clock = SystemClock()
        self._log = structlog.get_logger()
        self._meter = Meter(self._paths.meter(role_of(number)))
        self._before = dict(self._meter.counters)
        self._ack = self._meter.histogram("ack_seconds", ACK_BOUNDS_S)
        self._ack_before = (list(self._ack.counts), self._ack.total)
        self._status_page = MappedStatusPage(self._paths.ingest_page(number))
        self._seen = Seen(load_seen(self._paths.seen(number)))
        self._addresses = ChannelPaths(
            lambda: _book(self._paths),
            lambda reason: self._log.error("addresses-unknown", reason=reason),
            WriteSigns(self._paths.state_db).look,
        )
        self._stop = asyncio.Event()
        self._saved_s = float("-inf")
        self._code = 0
        self._allowed_hosts: tuple[str, ...] = ()
        self._guard = Guard(start.hosts, start.public_url, told=self._host_refused)
        self.allow_hosts(start.allowed_hosts)

    def _newest(self) -> IngestStart | None:
        """Returns changed settings, else None; applies their log level."""
        live = self._live.look()
        if live is None:
            return None
        set_level(live.log_level)
        return msgspec.json.decode(live.ingest, type=IngestStart)

    def allow_hosts(self, names: tuple[str, ...]) -> None:
        """Replace ``allowed_hosts``."""
        self._allowed_hosts = names
        self._guard.allow(names)

    def _host_refused(self, name: str) -> None:
        self._log.warning("host-refused", host=name, **host_remedy(name, self._allowed_hosts))

    async def run(self) -> int:
        """Serve until SIGTERM; returns the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # the parent stops us in its order
        self._status_page[StatusField.COMMITTING] = 0  # set by a process that was killed meanwhile
        self._open_log()
        self._link_others()
        self._appends = LogAppends(self._committers, self._start.partitions, self._links)
        routes = RouteAppendServer(self._committers, self._addresses.look)
        await routes.start(self._paths.append_socket(self._number))
        forwards = ForwardServer(self._committers, lambda: self._appends.open, self._clock)
        await self._start_links(forwards)
        start = self._start
        self._server = await serve(
            socket.socket(fileno=start.listen_fd),
            self._appends,
            settings=start.limits,
            control_socket=self._paths.control_socket,
            clock=self._clock,
            seen=self._seen,
            addresses=self._addresses.paths,
            guard=self._guard,
            node=self._node_counts(),
        )
        self._addresses.tell(self._server.learn)
        # In a task: publishers to ``/events`` need not wait for the Brokers' store.
        following = loop.create_task(self._follow_addresses())
        tasks = [loop.create_task(each) for each in (self._look(), give_back())]
        retaining = loop.create_task(self._retention().run())
        await self._stop.wait()
        retaining.cancel()
        await self._server.close(start.drain_s)
        for task in (*tasks, following, *self._linking):
            task.cancel()
        for link in self._links.values():
            link.close()
        if not self._code:
            await forwards.drain(start.drain_s)
        forwards.close()
        routes.close()
        self._addresses.close()
        await self._close_log()
        self._count(self._server)
        self._save_seen()
        return self._code

    def _open_log(self) -> None:
        """Recover the partitions of this receiver, and make what appends to them."""
        loop = asyncio.get_running_loop()
        self._appenders = [self._open(number) for number in self._own]
        self._bells = [self._make_bell(number) for number in self._own]
        for appender in self._appenders:
            for damage in appender.damages:
                self._log.error("log-damage", damage=repr(damage))
                self._meter.add("log_damage_total")
        self._committers = {
            appender.partition: GroupCommitter(
                appender,
                loop,
                clock=self._clock,
                inline=True,
                on_inline=self._on_inline,
                on_durable=bell.ring,
            )
            for appender, bell in zip(self._appenders, self._bells, strict=True)
        }

    def _link_others(self) -> None:
        others = [each for each in range(self._start.receivers) if each != self._number]
        self._links = {
            each: Link(self._number, self._clock, functools.partial(self._linked, each))
            for each in others
        }

    def _linked(self, receiver: int, reached: bool) -> None:
        if not self._stop.is_set():
            event = "receiver-reached" if reached else "receiver-lost"
            self._log.info(event, receiver=receiver)

    async def _start_links(self, forwards: ForwardServer) -> None:
        """Connect to the other receivers; waits a moment for them."""
        self._linking: list[asyncio.Task[None]] = []
        if not self._links:
            return
        await forwards.start(self._paths.forward_socket(self._number))
        for number, link in self._links.items():
            keeping = keep_linked(link, self._paths.forward_socket(number))
            self._linking.append(asyncio.get_running_loop().create_task(keeping))
        reached = [asyncio.create_task(link.reached.wait()) for link in self._links.values()]
        _, late = await asyncio.wait(reached, timeout=LINK_S_MAX)
        for task in late:
            task.cancel()

    def _node_counts(self) -> NodeCounts:
        return NodeCounts(self._paths.node_counts if self._links else None, self._number)

    def _retention(self) -> Retention:
        return Retention(
            self._paths,
            self._own,
            self._start.retention,
            clock=self._clock,
            meter=self._meter,
            log=self._log,
        )

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

    def _make_bell(self, partition: int) -> Bell:
        status_page = MappedStatusPage(self._paths.status_page(partition))
        return Bell(self._paths.bell(partition), status_page)

    async def _close_log(self) -> None:
        for appender in self._appenders:
            await self._committers[appender.partition].close()
            appender.close()
        for bell in self._bells:
            bell.close()

    def _on_inline(self, under_way: bool) -> None:
        self._status_page[StatusField.COMMITTING] = under_way

    async def _look(self) -> None:
        while True:
            try:
                self._look_once()
            except OSError as error:
                self._log.error("look-failed", error=str(error))
            await asyncio.sleep(LOOK_S)

    async def _follow_addresses(self) -> None:
        while True:
            await self._addresses.look_if_changed()
            await asyncio.sleep(LOOK_S)

    def _look_once(self) -> None:
        # A committer that met a bug appends nothing more either, and only this check sees it.
        whys = [each.dead for each in self._appenders] + [
            each.broken for each in self._committers.values()
        ]
        dead = [why for why in whys if why is not None]
        if dead and not self._stop.is_set():
            self._log.error("log-dead", reason=str(dead[0]))
            self._code = EXIT_LOG_DEAD
            self._appends.open = False
            self._stop.set()
            return
        news = self._newest()
        if news is not None:
            self._start = news
            self._server.change(news.limits)
            self.allow_hosts(news.allowed_hosts)
        free = shutil.disk_usage(self._start.data_dir).free
        space = [a.space_error for a in self._appenders if a.space_error is not None]
        takes = free >= self._start.disk_free_bytes_min and not space
        if takes != self._appends.open:
            self._appends.open = takes
            reason = str(space[0]) if space else f"{free} bytes free"
            self._log.warning("log-open" if takes else "log-closed", reason=reason)
        self._status_page[StatusField.PHASE] = (
            ConsumerPhase.RUNNING if takes else ConsumerPhase.DRAINING
        )
        self._status_page[StatusField.CONSUMER_PID] = os.getpid()
        self._status_page[StatusField.HEARTBEAT_MS] = self._clock.wall_ms()
        now_s = self._clock.monotonic_s()
        if now_s - self._saved_s >= METER_S:
            self._saved_s = now_s
            self._count(self._server)
            self._save_seen()

    def _save_seen(self) -> None:
        if not self._seen.changed:
            return
        try:
            self._seen.save(self._paths.seen(self._number))
        except OSError:  # a full disk: the next save writes all of it
            self._meter.add("snapshots_left_out_total")

    def _count(self, server: IngestServer) -> None:
        counters = server.counters
        now: dict[str, float] = {
            "accepted_events_total": counters.accepted_events,
            "accepted_requests_total": counters.accepted_requests,
            "received_bytes_total": counters.received_bytes,
            "relayed_requests_total": counters.relayed_requests,
            "relay_failures_total": counters.relay_failures,
            "connections_total": counters.connections_total,
            "connections_refused_total": counters.connections_refused,
            "connections_cut_total": counters.connections_cut,
        }
        for status, count in counters.answers_by_status.items():
            now[f'answers_total{{status="{status}"}}'] = count
        for code, count in counters.refusals_by_code.items():
            now[f'refusals_total{{code="{code}"}}'] = count
        for number, committer in self._committers.items():
            stats = committer.stats()
            now[f'appended_records_total{{partition="{number}"}}'] = stats.record_count
            now[f'appended_bytes_total{{partition="{number}"}}'] = stats.body_bytes
            now[f'commits_total{{partition="{number}"}}'] = stats.commit_count
            self._meter.gauges[f'append_queue_depth{{partition="{number}"}}'] = committer.pending
            self._meter.gauges[f'last_commit_seconds{{partition="{number}"}}'] = stats.last_commit_s
        if self._links:
            forwarded = sum(link.forwarded_count for link in self._links.values())
            now["forwarded_requests_total"] = forwarded
        for name, value in now.items():
            self._meter.counters[name] = self._before.get(name, 0) + value
        before, total = self._ack_before
        self._ack.counts = [a + b for a, b in zip(before, counters.ack_buckets, strict=True)]
        self._ack.total = total + counters.ack_seconds
        self._meter.gauges["connections_open"] = counters.connections_open
        self._meter.gauges["watches_in_flight"] = counters.watches_in_flight
        self._meter.gauges["ingest_held_bytes"] = counters.held_bytes
        self._meter.save()


def _book(paths: DataDir) -> Book:
    """Opens the store of Brokers and Channels."""
    # Imported late, in a thread: the port is open by then.
    from distributary.core.sqlite import sqlite_url  # noqa: PLC0415 - see above
    from distributary.knative.apiserver.objects import AddressBook  # noqa: PLC0415 - see above

    return AddressBook(sqlite_url(paths.state_db))


def host_remedy(name: str, allowed: tuple[str, ...]) -> dict[str, str]:
    """Returns log fields for a refused *name*: the setting that would allow it, if one can."""
    if not is_host_name(name):
        return {}
    listed = ", ".join(f'"{one}"' for one in (*allowed, name))
    return {"remedy": f"allowed_hosts = [{listed}]"}


def main(arguments: list[str]) -> int:
    """Entry point of the process: ``IngestStart`` as JSON, and its number where not 0."""
    end_with_parent(int(os.environ[PARENT]))
    start = msgspec.json.decode(arguments[0], type=IngestStart)
    number = int(arguments[1]) if len(arguments) > 1 else 0
    configure(start.log_level, role=role_of(number))
    sys.setswitchinterval(SWITCH_S)
    map_large_blocks()
    return starting(lambda: uvloop.run(_run(start, number)), EXIT_LOG_DEAD)


async def _run(start: IngestStart, number: int) -> int:
    return await IngestProcess(start, number).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
