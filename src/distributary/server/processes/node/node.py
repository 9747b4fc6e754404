"""A node: a server that shares log and store with others. Runs receivers, and may lead.

Its process holds the lock of the data directory, the sockets and the lease, and supervises the
receivers. While it leads it has one more child, the control part (``led``). It asks the database
in threads alone.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from sqlalchemy.engine import Engine

from distributary import __version__
from distributary.core import database
from distributary.core.clock import SystemClock, boot_s, until_next_s
from distributary.core.cluster import SharedPlaces, encode_places
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import SettingsError
from distributary.core.lease import Lease
from distributary.core.log import kafka as shared
from distributary.core.log import lock
from distributary.core.postgres_lease import CONTROL, PostgresLease
from distributary.datadir import DataDir, LiveFile, LiveSettings, read_internal_key
from distributary.resource import is_loopback
from distributary.server.nodes import (
    TAKE_S,
    Election,
    Gateway,
    Leader,
    Mandate,
    NodeFiles,
    NodeKeeper,
    NodeSign,
    Purpose,
    live,
)
from distributary.server.nodes.postgres import settle_partitions
from distributary.server.processes.base import ground
from distributary.server.processes.base.cores import cores, partitions_wanted, receivers_wanted
from distributary.server.processes.base.key_source import bring_keys
from distributary.server.processes.base.logging import LineLoggers, Lines, configure, set_level
from distributary.server.processes.base.owned import ROLE
from distributary.server.processes.base.tls import Tls, files_of
from distributary.server.processes.base.where import reach_of
from distributary.server.processes.control.api_server import api_server
from distributary.server.processes.control.index import index_children
from distributary.server.processes.control.reload import OF_SOURCES, change_of
from distributary.server.processes.control.running import BEAT_S, INGEST_STOP_S
from distributary.server.processes.ingest_process import IngestStart
from distributary.server.processes.node._growth import check_partitions
from distributary.server.processes.node._log_reach import reach_of_log
from distributary.server.processes.node._looking import keep_looking
from distributary.server.processes.node._node_control import CONTROL_STOP_S, UNFIT_S, NodeControl
from distributary.server.processes.node._node_health import (
    ControlReadiness,
    count_node,
    node_application,
    why_not_ready,
)
from distributary.server.processes.node._node_pipeline import KEPT_S, NodePipeline
from distributary.server.processes.node._node_probe import probe_of
from distributary.server.processes.node._node_sources import NodeSources
from distributary.server.processes.node._node_store import check_keys, join, keep_keys, who_leads
from distributary.server.processes.node._shared_cluster import cluster_of
from distributary.server.processes.receiver.receivers import (
    ingest_start,
    prepare,
    receiver_children,
)
from distributary.server.processes.source.sources import check_sources
from distributary.server.processes.supervision.children import Child
from distributary.server.processes.supervision.ends import ends_the_server
from distributary.server.processes.supervision.health import Health
from distributary.server.processes.supervision.listeners import Listeners
from distributary.server.processes.supervision.probe import Probe
from distributary.server.processes.supervision.tuning import tune
from distributary.server.processes.supervision.watchdog import watched_receivers
from distributary.server.settings import Settings, own_name
from distributary.sources import secret_variables

RESIGN_S_MAX: Final = 3.0
"""Longest wait for the database at a stop; a lease that is not handed over runs out."""

END_S_MAX: Final = 10.0
"""Longest wait for the rest, and for threads, once all is stopped: a database may be away."""


class Node:
    """The node process.

    Args:
        settings: Validated settings, with both places.
        read_settings: Reads them again.
        places: Where log and store lie.

    Raises:
        DistributaryError: The start failed: the data directory is locked, a port is taken, log or
            store cannot be used, or this node's keys do not open the cluster's secrets.
    """

    def __init__(
        self, settings: Settings, read_settings: Callable[[], Settings], places: SharedPlaces
    ) -> None:
        self._settings, self._read_settings, self._places = settings, read_settings, places
        self.name = own_name(settings)
        assert settings.node_address is not None
        self._address = settings.node_address
        check_sources(settings)
        self._clock, self._log = SystemClock(), structlog.get_logger()
        files = files_of(settings)
        self._tls = None if files is None else Tls(files, self._clock, self._log)
        ground.raise_file_limit()
        paths = self._paths = DataDir(settings.data_dir.absolute())
        ground.check_socket_path(paths.control_socket)
        ground.make_folder(paths.root)
        self._lease: Lease = lock(paths.lock)
        self._listeners: Listeners | None = None
        self._for_nodes: socket.socket | None = None
        self._leases: Engine | None = None
        try:
            for path in (paths.run, paths.root / "logs"):
                ground.make_private(path)
            bring_keys(settings, os.environ)
            self._url = database.database_url(places.store)
            self._leases, self._nodes = join(settings, paths, self._url)
            keep_keys(settings, paths)
            wanted = partitions_wanted(settings, cores())
            prepared = shared.prepare_topics(places.log, wanted)
            for warning in prepared.warnings:
                self._log.warning("log-unsafe", reason=warning)
            in_use = self._partitions = settle_partitions(self._url, prepared.partitions)
            check_partitions(settings.partitions, in_use, prepared.partitions)
            self._receivers = receivers_wanted(settings, cores(), self._partitions)
            prepare(paths, self._receivers, read_internal_key(paths.internal_key) or b"")
            self._listeners = Listeners(settings, paths)
            host, _, port = (settings.node_listen or self._address).rpartition(":")
            self._for_nodes = ground.listen(
                host.strip("[]"), int(port), flag="--node-address", purpose=" for other nodes"
            )
            other = ground.other_log(paths.root / "logs")
            self._lines = Lines(sys.stderr, settings.log_format, other)
            on = settings, paths, places, self._listeners
            self._pipeline = NodePipeline(
                *on, partitions=self._partitions, line=self._lines.write, log=self._log
            )
            self._control = NodeControl(
                paths,
                places,
                self._listeners,
                node=self.name,
                receivers=self._receivers,
                line=self._lines.write,
            )
        except BaseException:
            self.release()
            raise
        self._sources = NodeSources(
            paths,
            places,
            self.name,
            loopback_only=is_loopback(self._listeners.address[0]),
            line=self._lines.write,
        )
        self._stopping = asyncio.Event()
        self._exit_code, self._number, self._used = 0, 0, self._partitions
        self._live = LiveFile(paths.receivers_live)
        self._run = secrets.token_hex(16)
        self._started_ms = self._clock.wall_ms()
        self._reach = reach_of_log(places.log, lambda: self._partitions, self.name, boot_s)
        self._cluster = cluster_of(self._url, places.log, self._partitions, self._clock)

    def release(self) -> None:
        """Close the sockets and release the data directory."""
        if self._listeners is not None:
            self._listeners.close()
        if self._for_nodes is not None:
            self._for_nodes.close()
        if self._leases is not None:
            self._leases.dispose()
        self._lease.release()

    # -- running ------------------------------------------------------------------------------

    async def run(self) -> int:
        """Start everything, wait for a signal, stop in order; returns the exit code."""
        configure(self._settings.log_level, role="node")
        structlog.configure(logger_factory=LineLoggers(self._lines))
        structlog.contextvars.bind_contextvars(node=self.name)
        tune()
        loop = self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        self._election = Election(self._take, lambda: who_leads(self._leases)[1], boot_s)
        self._gave_up = False
        self._keeper = NodeKeeper(
            self._paths,
            self._nodes,
            self._sign,
            lambda: who_leads(self._leases)[0],
            receivers=self._receivers,
            now_s=boot_s,
            log=self._log,
            run=self._run,
        )
        await asyncio.to_thread(self._keeper.start)
        self._write_live()
        receivers = self._receiver_children()
        index = index_children(self._settings, self._paths, self._lines.write, self._places)
        self._children = [*receivers, *index]
        self._readiness = ControlReadiness(self._paths.control_socket)
        health = self._health = self._make_health()
        health.forget()
        assert self._listeners is not None
        watched = watched_receivers(self._paths, receivers)
        watched += self._pipeline.watched(), self._sources.watched()
        tls = None if self._tls is None else self._tls.of_probe
        probe = probe_of(self._health, watched, self._clock, self._listeners, tls)
        gateway = self._gateway = self._make_gateway()
        api = api_server(node_application(health, self._cluster), self._paths.node_socket)
        gateway.start()
        probe.start()
        for child in self._children:
            child.start()
        self._sources.start(self._settings)
        serving = asyncio.create_task(api.serve())
        leading = keep_looking(self._lead, self._give_up, self._log)
        watching = [self._beat(), leading, self._readiness.follow(), self._reach.follow()]
        if self._tls is not None:
            watching.append(self._tls.follow())
        aside = [asyncio.create_task(each) for each in watching]
        self._log.info(
            "serving",
            address=self._listeners.url,
            node_address=self._address,
            data_dir=str(self._paths.root),
            partitions=self._partitions,
            receivers=self._receivers,
        )
        await self._stopping.wait()
        probe.rest()
        for task in aside:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._leave(probe)
        api.should_exit = True
        await serving
        self._log.info("stopped")
        return self._exit_code

    async def _leave(self, probe: Probe) -> None:
        """Stop in order: what brings events and leads first, receivers late."""
        await asyncio.to_thread(self._sources.stop)
        await self._end_control(self._settings.drain_s + CONTROL_STOP_S)
        # The next node leads meanwhile; its pipeline gets the partitions.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(self._election.close()), RESIGN_S_MAX)
        await asyncio.to_thread(self._pipeline.stopping_orderly())
        stops = [asyncio.to_thread(each.stop, INGEST_STOP_S) for each in self._children]
        await asyncio.gather(*stops)
        await asyncio.to_thread(probe.stop)
        assert self._listeners is not None
        self._listeners.close()  # who would wait for an answer turns to another node
        self._gateway.close()
        await asyncio.to_thread(self._keeper.stop)
        last = threading.Timer(END_S_MAX, os._exit, (self._exit_code,))
        last.daemon = True
        last.start()

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            os._exit(128 + signal.SIGINT)  # acknowledged events are in the log
        self._log.info("stopping", drain_s=self._settings.drain_s)
        self._stopping.set()

    async def _beat(self) -> None:
        while True:
            self._health.turned()
            await asyncio.sleep(until_next_s(BEAT_S, time.monotonic()))

    # -- who leads ----------------------------------------------------------------------------

    def _take(self) -> Mandate:
        try:
            check_keys(self._settings, self._paths, self._url)
        except SettingsError as error:
            self._log.error("leads-not", reason=str(error))
            raise
        self._reach.check(self._keeper.rows)
        holder = Leader(name=self.name, address=self._address, generation=1).holder()
        return PostgresLease(self._url, CONTROL, holder=holder)

    def _sign(self) -> NodeSign:
        return NodeSign(
            name=self.name,
            address=self._address,
            version=__version__,
            started_ms=self._started_ms,
            role="leader" if self._control.leads else "follower",
            takes=hasattr(self, "_health") and not self._health.ingest_silent,
            run=self._run,
            once=self._settings.once,
            reaches_log=self._reach.reached,
        )

    async def _lead(self) -> None:
        """Lead when nobody else does; end the control part when this node must not lead."""
        election, mandate = self._election, self._election.mandate
        if mandate is None:
            if self._keeper.partitions > self._used:
                await self._use_partitions(self._keeper.partitions)
            await self._follow()
        elif election.over or self._control.failed or boot_s() > mandate.until_s + KEPT_S:
            self._log.warning("leads-no-more")
            pause_s = TAKE_S
            if self._control.unfit:
                pause_s = UNFIT_S
                self._log.error("leads-not", reason="its control part cannot run; see its line")
            await self._end_control(0.0)
            await asyncio.to_thread(self._pipeline.stopping(0.0))
            await asyncio.to_thread(election.resign(pause_s))
        elif not election.may_act:
            # Nobody has taken the lease: the pipeline goes on, and the rest once it is renewed.
            if self._control.leads:
                self._log.warning("lease-lapsed")
                await self._end_control(0.0)
        elif self._reach.is_vain(self._keeper.rows):
            self._log.warning("leads-in-vain")
            await self._give_up()
        elif self._keeper.partitions > self._used:
            await self._use_partitions(self._keeper.partitions)
        elif not self._control.leads or self._control.ended:
            await self._end_control(0.0)
            self._begin_control(mandate)
        else:
            self._control.tell_until(mandate.until_s)

    async def _give_up(self) -> None:
        """Lead no more; the pipeline goes on until another node leads."""
        self._gave_up = self._gave_up or self._election.mandate is not None
        try:
            await self._end_control(0.0)
        finally:
            await asyncio.to_thread(self._election.resign())

    async def _follow(self) -> None:
        """Look whether this node is to lead, and have Spark started ahead where that is likely."""
        election = self._election
        if not election.due:
            return
        mandate = await asyncio.to_thread(election.take)
        if mandate is not None:
            self._gave_up = False
            self._pipeline.start()
            self._begin_control(mandate)
        elif self._gave_up:
            # Its query goes on until another node leads: two would ask for the same partitions.
            if election.followed:
                self._gave_up = False
                await asyncio.to_thread(self._pipeline.stopping(0.0))
        else:
            wanted = election.late or (self._settings.standby == "warm" and election.followed)
            await asyncio.to_thread(self._pipeline.prepare(wanted=wanted))

    def _begin_control(self, mandate: Mandate) -> None:
        self._log.info("leads", generation=mandate.generation)
        self._readiness.begin()
        self._control.begin(mandate.generation, mandate.until_s, self._settings)
        self._keeper.hurry()

    async def _end_control(self, wait_s: float) -> None:
        await self._control.end(wait_s, self._election, self._gateway)
        self._keeper.hurry()

    async def _use_partitions(self, count: int) -> None:
        """Use more partitions: the leader has added them. Deliveries pause for a restart."""
        self._log.info("partitions-grown", before=self._partitions, partitions=count)
        self._partitions = self._cluster.partitions = count
        self._write_live()  # receivers go on meanwhile
        await self._end_control(self._settings.drain_s + CONTROL_STOP_S)
        await asyncio.to_thread(self._pipeline.stopping_orderly())
        self._pipeline.use_partitions(count)
        self._used = count  # all of it is done: it is done again where something failed
        if self._election.mandate is not None:
            self._pipeline.start()

    def _cannot_run(self, code: int) -> None:
        """Called in a thread: a child says that no restart would mend it."""
        self._exit_code = code
        self._loop.call_soon_threadsafe(self._stopping.set)

    # -- parts --------------------------------------------------------------------------------

    def _make_gateway(self) -> Gateway:
        context = NodeFiles(self._paths.run).context(*Purpose, serves=True)
        routes = {
            Purpose.CONTROL: lambda: self._paths.control_socket if self._control.leads else None,
            Purpose.OWN: lambda: self._paths.own_socket,
        }
        assert self._for_nodes is not None
        return Gateway(self._for_nodes, context, routes)

    def _make_health(self) -> Health:
        health = Health(
            self._paths,
            0,
            self._clock,
            receivers=self._receivers,
            behind=lambda: why_not_ready(
                self._keeper, lambda: self._control.leads, self._readiness
            ),
            restarts=lambda: {
                child.role: child.restarts
                for part in (self._children, self._pipeline.children, self._sources.children)
                for child in part
            },
        )
        health.count_more = lambda meter: count_node(
            meter, self.name, leads=self._control.leads, live=len(live(self._keeper.rows))
        )
        return health

    def _receiver_children(self) -> list[Child]:
        return receiver_children(
            self._ingest_start(),
            self._lines.write,
            withheld=(CREDENTIAL_KEY_VARIABLE, *secret_variables(self._settings.sources)),
            ended=self._on_receiver_ended,
            worked=lambda number, pid, code: (
                code == -signal.SIGKILL and self._health.ingest_pid(number) == pid
            ),
            environ=encode_places(self._places),
        )

    def _on_receiver_ended(self, code: int) -> bool:
        if not ends_the_server(ROLE, code, ran=self._health.ingest_began):
            return True
        self._log.error("stopping", process=ROLE, code=code, reason="it cannot run; see its line")
        self._cannot_run(code)
        return False

    def _ingest_start(self) -> IngestStart:
        assert self._listeners is not None
        reach = reach_of(self._settings, self._listeners.addresses, self._paths.own_socket)
        start = ingest_start(
            self._settings,
            self._paths,
            reach,
            self._listeners,
            tls_fd=None if self._tls is None else self._tls.fd,
            partitions=self._partitions,
            receivers=self._receivers,
        )
        return msgspec.structs.replace(start, node=self.name)

    # -- settings that change -----------------------------------------------------------------

    def _reload(self) -> None:
        """Read the settings again: receivers and the control part apply what they can."""
        try:
            wanted = self._read_settings()
            check_sources(wanted)
            check_partitions(wanted.partitions, self._partitions, self._partitions)
            change = change_of(self._settings, wanted, shared=True)
            if self._tls is not None:
                self._tls.change(change.settings)
        except SettingsError as error:
            self._log.error("reload-refused", faults=str(error).splitlines())
            return
        self._settings = change.settings
        set_level(self._settings.log_level)
        self._write_live()
        self._control.replace_settings(self._settings)
        if OF_SOURCES.intersection(change.applied):
            self._sources.replace(self._settings)
        self._log.info("reloaded", applied=change.applied, after_a_restart=change.waiting)

    def _write_live(self) -> None:
        self._number += 1
        self._live.write(
            LiveSettings(
                number=self._number,
                log_level=self._settings.log_level,
                session=msgspec.Raw(b"null"),
                ingest=msgspec.Raw(msgspec.json.encode(self._ingest_start())),
            )
        )
