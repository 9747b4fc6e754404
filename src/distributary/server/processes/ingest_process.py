"""The ingest process, a receiver: serves the public port, and appends to its partitions of the log.

Inherits the listening socket from ``serve``, so that connections wait in the kernel's queue while
it restarts. Never waits for Spark, never shares its interpreter. Where there are several receivers,
all accept from the socket, and each partition belongs to one of them.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import time

import msgspec
import structlog
import uvloop

from distributary.access import AccessSnapshot
from distributary.core.clock import SystemClock, boot_s, until_next_s
from distributary.core.cluster import SharedPlaces, take_places
from distributary.core.errors import StoreError
from distributary.core.log.taken import OnceLimits
from distributary.core.meter import Meter
from distributary.datadir import (
    PARENT,
    DataDir,
    LiveFile,
    MappedStatusPage,
    NodeCounts,
    Phase,
    PolledFile,
    StatusField,
    TenantCounts,
    WriteSigns,
)
from distributary.datadir.key_uses import SAVE_S, load_uses, save_uses
from distributary.datadir.seen import Seen, load_seen
from distributary.net.otlp import OtlpSettings
from distributary.server.ingest import (
    ACK_BOUNDS_S,
    Guard,
    IngestServer,
    IngestSettings,
    TrustedProxies,
    serve,
)
from distributary.server.nodes import LeaderFile, NodeDialler, NodeFiles, NodePaths
from distributary.server.processes.base.audit import REFUSAL_FILES_MAX, AuditLog, RefusalLog
from distributary.server.processes.base.logging import configure, set_level
from distributary.server.processes.base.memory import give_back, map_large_blocks
from distributary.server.processes.base.owned import role_of
from distributary.server.processes.base.tls import ReceiverTls, count_handshakes
from distributary.server.processes.receiver.access_file import AccessFile
from distributary.server.processes.receiver.channel_paths import ChannelPaths, book_of
from distributary.server.processes.receiver.file_log import FileLog, ReceiverLog
from distributary.server.processes.receiver.namespace_counters import namespace_counters
from distributary.server.processes.receiver.retention import RetentionLimits
from distributary.server.processes.receiver.shared_log import shared_log
from distributary.server.processes.receiver.tracing import open_spans, publish_tracing
from distributary.server.processes.supervision.children import end_with_parent
from distributary.server.processes.supervision.ends import starting
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
FLUSH_S_MAX = 1.0
"""Longest wait at a stop for spans that are not sent yet, seconds: they are not worth more."""


class IngestStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the ingest process: its argument, as JSON.

    Attributes:
        listen_fd: Inherited listening socket of the main port.
        own_fd: Inherited listening socket for this server itself.
        unix_fd: Inherited listening socket for proxies; None: not configured.
        tls_fd: Inherited memory with the certificates; None: no TLS.
        data_dir: Data directory.
        partitions: Number of partitions of the log.
        receivers: Number of receivers.
        hosts: Host names of this machine, and the configured listening host.
        public_url: Published URL of the server; None: not configured.
        allowed_hosts: Further host names that requests may be for.
        trusted_proxies: Whom to believe where requests come from.
        log_level: Least level that is logged.
        limits: Limits of connections and requests.
        retention: How much of each partition is kept.
        disk_free_bytes_min: With less free space, publishing is refused.
        drain_s: Longest wait for requests under way at a stop.
        shares_calls: Whether the control process counts calls of namespaces too: those over AMQP.
        otlp: What is sent to a collector.
        node: Name of this node; empty: there is one.
        once: Bounds of the window in which an event is taken once.
    """

    listen_fd: int
    own_fd: int
    unix_fd: int | None
    tls_fd: int | None
    data_dir: str
    partitions: int
    receivers: int
    hosts: tuple[str, ...]
    public_url: str | None
    allowed_hosts: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    log_level: str
    limits: IngestSettings
    retention: RetentionLimits
    disk_free_bytes_min: int
    drain_s: float
    shares_calls: bool = False
    otlp: OtlpSettings = OtlpSettings()
    node: str = ""
    once: OnceLimits = OnceLimits()

    @property
    def fds(self) -> tuple[int, ...]:
        """All inherited descriptors."""
        found = (self.listen_fd, self.own_fd, self.unix_fd, self.tls_fd)
        return tuple(fd for fd in found if fd is not None)


class IngestProcess:
    """The ingest process: HTTP receiver, group committers, retention and health.

    Args:
        start: Start parameters.
        number: Number of this receiver, from 0.
        places: Where log and store lie that several nodes share; None: in the data directory.
    """

    def __init__(
        self, start: IngestStart, number: int = 0, places: SharedPlaces | None = None
    ) -> None:
        self._paths = DataDir.of(start.data_dir)
        self._places = places
        self._live = LiveFile(self._paths.live if places is None else self._paths.receivers_live)
        self._access = AccessFile(self._paths.access)
        self._asked_keys = PolledFile(self._paths.asked_keys(number))
        self._start = start = self._newest() or start
        self._number = number
        self._clock = SystemClock()
        self._log = structlog.get_logger()
        self._meter = Meter(self._paths.meter(role_of(number)))
        self._before = dict(self._meter.counters)
        self._ack = self._meter.histogram("ack_seconds", ACK_BOUNDS_S)
        self._ack_before = (list(self._ack.counts), self._ack.total)
        self._status_page = MappedStatusPage(self._paths.ingest_page(number))
        self._seen = Seen(load_seen(self._paths.seen(number)))
        self._addresses = self._stored_paths() if places is None else self._node_paths()
        self._tls = None if start.tls_fd is None else ReceiverTls(start.tls_fd)
        self._spans = open_spans(start.otlp, role_of(number), self._log)
        self._stop = asyncio.Event()
        self._saved_s = self._uses_saved_s = float("-inf")
        self._code = 0
        self._fresh = True
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

    def _stored_paths(self) -> ChannelPaths:
        return ChannelPaths(
            lambda: book_of(self._paths),
            lambda reason: self._log.error("addresses-unknown", reason=reason),
            WriteSigns(self._paths.state_db).look,
        )

    def _node_paths(self) -> NodePaths:
        return NodePaths(self._paths, self._number, boot_s, self._freshness)

    def _first_access(self) -> AccessSnapshot:
        """Who may do what: the control process has written it before it starts receivers."""
        self._snapshot = first = self._access.first()
        self._status_page[StatusField.ACCESS] = first.number
        return first

    def _decide_by(self, snapshot: AccessSnapshot) -> None:
        self._snapshot = snapshot
        self._server.decide_by(snapshot if self._fresh else snapshot.configured_alone())
        self._status_page[StatusField.ACCESS] = snapshot.number

    def _freshness(self, fresh: bool) -> None:
        """Trust keys of the store, or not: this node may be dead to the one that revokes them."""
        self._fresh = fresh
        self._server.doubt(stale=not fresh)
        self._decide_by(self._snapshot)
        log = self._log.info if fresh else self._log.warning
        log("store-heard" if fresh else "store-not-heard")

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
        start, log = self._start, self._open_log()
        self._kept = log
        await log.start()
        self._server = await serve(
            socket.socket(fileno=start.listen_fd),
            log.appends,
            settings=start.limits,
            control_socket=self._paths.control_socket,
            dial=self._node_dial(),
            clock=self._clock,
            seen=self._seen,
            addresses=self._addresses.paths,
            guard=self._guard,
            node=self._node_counts(),
            tenants=self._tenant_counts(),
            access=self._first_access(),
            tls=None if self._tls is None else self._tls.handshakes,
            own=socket.socket(fileno=start.own_fd),
            unix=None if start.unix_fd is None else socket.socket(fileno=start.unix_fd),
            proxies=TrustedProxies(start.trusted_proxies),
            tracing=publish_tracing(self._spans),
        )
        self._server.key_uses.update(load_uses([self._paths.key_uses(self._number)]))
        self._uses_saved = dict(self._server.key_uses)
        self._server.record_refusals(self._refusal_log().write)
        self._addresses.tell(self._server.learn)
        # In a task: publishers to ``/events`` need not wait for the Brokers' store.
        self._following = loop.create_task(self._follow_access())
        tasks = [self._following, *map(loop.create_task, (self._look(), give_back()))]
        if isinstance(self._addresses, ChannelPaths):
            tasks.append(loop.create_task(follow(self._addresses)))
        log.begin_upkeep()
        await self._stop.wait()
        log.end_upkeep()
        await self._server.close(start.drain_s)
        for task in tasks:
            task.cancel()
        await log.close(0.0 if self._code else start.drain_s)
        self._addresses.close()
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close, FLUSH_S_MAX)
        self._count(self._server)
        self._save_seen()
        self._save_uses()
        return self._code

    def _refusal_log(self) -> RefusalLog:
        wall_ms, node = self._clock.wall_ms, self._start.node
        changes = AuditLog(self._paths.audit, wall_ms, node=node)
        flood = AuditLog(self._paths.audit_refused, wall_ms, files_max=REFUSAL_FILES_MAX, node=node)
        return RefusalLog(changes, flood, wall_ms)

    def _node_dial(self) -> NodeDialler | None:
        """How requests reach the node that leads; None: this server has one node."""
        paths = self._paths
        if self._places is None:
            return None
        return NodeDialler(
            LeaderFile(paths.leader).look,
            self._start.node,
            paths.control_socket,
            paths.node_socket,
            NodeFiles(paths.run),
        )

    def _open_log(self) -> ReceiverLog:
        """Recover the partitions of this receiver, and make what appends to them."""
        start, addresses = self._start, self._addresses
        if self._places is not None:
            once = start.once.age_max_s > 0
            return shared_log(self._places, start.partitions, self._log, once=once)
        assert isinstance(addresses, ChannelPaths)
        return FileLog(
            self._paths,
            self._number,
            receivers=start.receivers,
            partitions=start.partitions,
            retention=start.retention,
            clock=self._clock,
            meter=self._meter,
            log=self._log,
            look_again=addresses.look,
            on_inline=self._on_inline,
            once=start.once if start.once.age_max_s else None,
        )

    def _node_counts(self) -> NodeCounts:
        shared = self._start.receivers > 1
        return NodeCounts(self._paths.node_counts if shared else None, self._number)

    def _tenant_counts(self) -> TenantCounts:
        shared = self._start.receivers > 1 or self._start.shares_calls or self._places is not None
        return TenantCounts(self._paths.tenant_counts if shared else None, self._number)

    def _on_inline(self, under_way: bool) -> None:
        self._status_page[StatusField.COMMITTING] = under_way

    async def _look(self) -> None:
        while True:
            try:
                self._look_once()
                if self._tls is not None and await self._tls.look():
                    self._server.forget_certificates()
            except OSError as error:
                self._log.error("receiver-look-failed", error=str(error))
            await asyncio.sleep(until_next_s(LOOK_S, time.monotonic()))

    async def _follow_access(self) -> None:
        """Decide by each newer snapshot of access; never returns."""
        while True:
            try:
                snapshot = await asyncio.to_thread(self._access.look)
            except OSError as error:
                self._log.error("receiver-look-failed", error=str(error))
            else:
                if snapshot is not None:
                    self._decide_by(snapshot)
            await asyncio.sleep(until_next_s(LOOK_S, time.monotonic()))

    def _ask_for_keys(self) -> None:
        urls = self._server.take_asked()
        if urls:
            try:
                self._asked_keys.write(msgspec.json.encode(sorted(urls)))
            except StoreError as error:  # the next token asks again
                self._log.warning("keys-not-asked-for", reason=str(error))

    def _look_once(self) -> None:
        log = self._kept
        log.look()
        if isinstance(self._addresses, NodePaths):
            self._addresses.look()
        if log.why_dead is not None and not self._stop.is_set():
            self._log.error("log-dead", reason=str(log.why_dead))
            self._code = EXIT_LOG_DEAD
            log.allow(False)
            self._stop.set()
            return
        log.use_partitions(self._start.partitions)
        if self._following.done():
            self._following.result()  # what it met ends the looks, and so this process
        self._ask_for_keys()
        news = self._newest()
        if news is not None:
            self._start = news
            self._server.change(news.limits)
            self._server.trust(TrustedProxies(news.trusted_proxies))
            self.allow_hosts(news.allowed_hosts)
        free = shutil.disk_usage(self._start.data_dir).free
        why = log.why_closed
        takes = free >= self._start.disk_free_bytes_min and why is None
        if log.allow(takes):
            reason = f"{free} bytes free" if why is None else str(why)
            if takes:
                self._log.warning("log-open", reason=reason)
            else:
                self._log.error("log-closed", reason=reason)
        self._status_page[StatusField.PHASE] = Phase.RUNNING if takes else Phase.DRAINING
        self._status_page[StatusField.PID] = os.getpid()
        self._status_page[StatusField.HEARTBEAT_MS] = self._clock.wall_ms()
        now_s = self._clock.monotonic_s()
        if now_s - self._saved_s >= METER_S:
            self._saved_s = now_s
            self._count(self._server)
            self._save_seen()
        if now_s - self._uses_saved_s >= SAVE_S:
            self._uses_saved_s = now_s
            self._save_uses()

    def _save_uses(self) -> None:
        uses = self._server.key_uses
        if uses == self._uses_saved:
            return
        try:
            save_uses(self._paths.key_uses(self._number), uses)
        except OSError:  # a full disk: the next save writes all of it
            self._meter.add("snapshots_left_out_total")
        else:
            self._uses_saved = dict(uses)

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
        now |= namespace_counters(server.tenants)
        self._kept.count(now, self._meter.gauges)
        for name, value in now.items():
            self._meter.counters[name] = self._before.get(name, 0) + value
        before, total = self._ack_before
        self._ack.counts = [a + b for a, b in zip(before, counters.ack_buckets, strict=True)]
        self._ack.total = total + counters.ack_seconds
        if self._tls is not None:
            count_handshakes(self._meter, self._before, "http", self._tls.handshakes)
        if self._spans is not None:
            self._spans.count_into(self._meter)
        self._meter.gauges["connections_open"] = counters.connections_open
        self._meter.gauges["watches_in_flight"] = counters.watches_in_flight
        self._meter.gauges["ingest_held_bytes"] = counters.held_bytes
        self._meter.save()


async def follow(addresses: ChannelPaths) -> None:
    """Read the Brokers and Channels whenever they have changed; never returns."""
    while True:
        await addresses.look_if_changed()
        await asyncio.sleep(until_next_s(LOOK_S, time.monotonic()))


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
    places = take_places(os.environ)
    return starting(lambda: uvloop.run(_run(start, number, places)), EXIT_LOG_DEAD)


async def _run(start: IngestStart, number: int, places: SharedPlaces | None) -> int:
    return await IngestProcess(start, number, places).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
