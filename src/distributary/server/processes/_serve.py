"""``distributary serve``: the control process, which wires the server and supervises the others.

It holds the data directory's lock and the listening sockets, runs the API, and supervises the
children ``ingest`` (public port, log), ``pipeline`` (Spark) and, where configured, ``sources``.
"""

import asyncio
import contextlib
import functools
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet

import msgspec
import structlog
import uvicorn
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import DistributaryError
from distributary.core.lease import Lease
from distributary.core.log import lock, open_folder
from distributary.core.meter import Meter
from distributary.core.sqlite import sqlite_url
from distributary.datadir import DataDir, LiveFile, LiveSettings, MappedStatusPage
from distributary.datadir.seen import load_all_seen
from distributary.partitions import SessionSettings
from distributary.resource import is_loopback
from distributary.server.processes import _ground as ground
from distributary.server.processes._api_server import ApiServer
from distributary.server.processes._banner import print_banner
from distributary.server.processes._children import Child, keep_memory_private, program
from distributary.server.processes._cores import cores, partitions_wanted, receivers_wanted
from distributary.server.processes._due import TimerService
from distributary.server.processes._early import say
from distributary.server.processes._ends import ends_the_server
from distributary.server.processes._health import Health
from distributary.server.processes._history import place_of, written_into
from distributary.server.processes._knative import Knative
from distributary.server.processes._logging import LineLoggers, Lines, configure, set_level
from distributary.server.processes._memory import give_back, map_large_blocks
from distributary.server.processes._owned import ROLE
from distributary.server.processes._probe import Probe, listen_for_health
from distributary.server.processes._receivers import (
    append_sockets,
    ingest_start,
    prepare,
    receiver_children,
    seen_files,
)
from distributary.server.processes._reload import OF_SINKS, OF_SOURCES, Reloads, change_of
from distributary.server.processes._renewal import Renewal
from distributary.server.processes._route_wire import RouteAppendClient
from distributary.server.processes._running import Running, beat
from distributary.server.processes._sources import check_sources, sources_child
from distributary.server.processes._watchdog import ProcFolder, Watchdog, watched_processes
from distributary.server.processes._where import (
    base,
    listeners_of,
    reach_of,
    site_of,
    url_of,
)
from distributary.server.processes.ingest_process import IngestStart
from distributary.server.processes.pipeline_process import PipelineStart, spark_environ
from distributary.server.settings import Settings
from distributary.sources import secret_variables
from distributary.spark import check_master, find_java, java_environment
from distributary.subscriptions.amqp import AmqpServer
from distributary.subscriptions.http import create_app
from distributary.subscriptions.service import Deliveries, Subscriptions, rules
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store

EXIT_FAILED = 1
"""Exit code: the server could not start; the message says what to do."""
SWITCH_S = 0.0005
"""Thread switch interval, seconds. Writing a large object occupies a thread for a second; by
default (5 ms) the event loop would wait that long for each of its turns meanwhile."""
COLLECT_AFTER = (100_000, 20, 50)
"""Thresholds of the cycle collector, above what one request of the largest size allocates. Objects
of the Kubernetes API are trees, and each full collection stops everything for a while."""


def serve(settings: Settings, read_settings: Callable[[], Settings] | None = None) -> int:
    """Run the server until SIGTERM or Ctrl-C; see ``processes.serve``."""
    os.umask(ground.UMASK)
    try:
        server = Server(settings, read_settings or (lambda: settings))
        try:
            return uvloop.run(server.run())
        finally:
            server.release()
    except DistributaryError as error:
        say(settings.log_format, "error", "cannot-start", str(error))
        return EXIT_FAILED


class Server:
    """The server of one machine.

    Args:
        settings: Validated settings.
        read_settings: Reads them again.

    Raises:
        DistributaryError: The start failed: the data directory is locked, full, read-only or of a
            newer version, a port is taken, or Java is missing. Nothing was started.
    """

    def __init__(self, settings: Settings, read_settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._read_settings = read_settings
        ground.check_open(settings)
        check_sources(settings)
        ground.raise_file_limit()
        data_dir = settings.data_dir.absolute()
        self._paths = DataDir(data_dir)
        self._history = place_of(settings.history, self._paths)
        java = find_java(os.environ, chosen=settings.java_home)
        ground.check_socket_path(self._paths.control_socket)
        ground.make_folder(data_dir)
        self._lease: Lease = lock(data_dir / "LOCK")
        try:
            count = cores()
            folder = open_folder(self._paths.log, partitions_wanted(settings, count))
            self._partitions = folder.partitions
            self._receivers = receivers_wanted(settings, count, self._partitions)
            check_master(settings.spark_master, self._partitions, settings.spark_conf)
            for path in (self._paths.run, data_dir / "logs"):
                ground.make_private(path)
            prepare(self._paths, self._receivers)
            self._java = java_environment(java, self._paths.run / "java")
            chosen = settings.credential_key_file
            self._key_file = str(chosen.absolute()) if chosen else ""
            self._keys().check()
            self._store = Store(sqlite_url(self._paths.state_db), sealer=Sealer(self._keys()))
            self._socket = ground.listen(settings.host, settings.port)
            self._amqp_socket = ground.listen_for_amqp(settings.host, settings.amqp_port)
            self._health_socket = listen_for_health(settings.host, settings.health_port)
        except BaseException:
            self._lease.release()
            raise
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        listeners = (self._socket, self._amqp_socket, self._health_socket)
        self._reach = reach_of(settings, listeners_of(listeners))
        self._stopping = asyncio.Event()
        self._lines = Lines(sys.stderr, settings.log_format, ground.other_log(data_dir / "logs"))
        self._clock = SystemClock()
        self._log = structlog.get_logger()
        self._began_s = time.monotonic()
        self._health: Health | None = None
        self._live = LiveFile(self._paths.live)
        self._settings_number = 0
        self._on_terminal = sys.stderr.isatty()
        self._exit_code = 0
        self._has_delivered = False

    def release(self) -> None:
        """Close the sockets and release the data directory."""
        self._socket.close()
        if self._amqp_socket is not None:
            self._amqp_socket.close()
        self._lease.release()

    async def run(self) -> int:
        """Start everything, wait for a signal, stop in order; returns the exit code."""
        configure(self._settings.log_level, role="serve")
        structlog.configure(logger_factory=LineLoggers(self._lines))
        sys.setswitchinterval(SWITCH_S)
        keep_memory_private()
        map_large_blocks()
        gc.set_threshold(*COLLECT_AFTER)
        loop = self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        self._write_live()
        routes = self._append_client()
        subscriptions = Subscriptions(self._store, routes, rules(self._reach.rule()), self._clock)
        meter = Meter(self._paths.meter("control"))
        due = TimerService(
            self._paths,
            self._partitions,
            self._append_client(),
            subscriptions,
            clock=self._clock,
            meter=meter,
        )
        await due.before_start(self._store)
        renewal = self._renewal(meter)
        knative = Knative(
            self._paths,
            self._partitions,
            self._append_client(),
            subscriptions.leader,
            site=site_of(self._reach),
            clock=self._clock,
            meter=meter,
        )
        await knative.open()
        receivers, pipeline = self._receiver_children(), self._pipeline()
        sources = self._sources()
        health = self._health = Health(
            self._paths,
            self._partitions,
            self._clock,
            receivers=self._receivers,
            behind=subscriptions.behind,
            restarts=lambda: {child.role: child.restarts for child in running.children},
        )
        health.forget()
        probe = self._probe(health, receivers, pipeline, lambda: running.sources)
        api = self._api(subscriptions, health, knative)
        running = Running(
            self._paths,
            [MappedStatusPage(self._paths.status_page(p)) for p in range(self._partitions)],
            subscriptions,
            routes,
            due,
            renewal,
            knative,
            AmqpServer(subscriptions),
            self._amqp_socket,
            receivers,
            pipeline,
            sources,
            api,
            probe,
        )
        reloads = Reloads(lambda: self._reload(running, meter))
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup, reloads)
        await self._run_until_asked(running, health, reloads)
        self._log.info("stopped")
        return self._exit_code

    async def _run_until_asked(self, running: Running, health: Health, reloads: Reloads) -> None:
        serving = asyncio.create_task(running.api.serve())
        beating = asyncio.create_task(beat(health))
        aside = [
            asyncio.create_task(ground.keep_warning(self.address[0], self._log)),
            asyncio.create_task(give_back()),
        ]
        starting = asyncio.create_task(self._start(running, health, reloads))
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        await stopped
        for task in aside:
            task.cancel()
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        await reloads.stop()
        await running.stop(self._settings.drain_s, serving)
        beating.cancel()
        self._store.close()

    async def _start(self, running: Running, health: Health, reloads: Reloads) -> None:
        await running.start()
        reloads.begin()
        self._say_serving()
        await self._announce(health)

    def _append_client(self) -> RouteAppendClient:
        return RouteAppendClient(append_sockets(self._paths, self._receivers))

    def _probe(
        self,
        health: Health,
        receivers: list[Child],
        pipeline: Child,
        sources: Callable[[], Child | None],
    ) -> Probe:
        watched = watched_processes(self._paths, self._partitions, receivers, pipeline, sources)
        return Probe(
            health,
            Watchdog(watched, ProcFolder(), self._clock.monotonic_s),
            self._clock,
            port=self._socket,
            own=self._health_socket,
        )

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            # A second signal ends at once: acknowledged events are on disk.
            os._exit(128 + signal.SIGINT)
        self._log.info("stopping", drain_s=self._settings.drain_s)
        self._stopping.set()

    # -- settings that change -----------------------------------------------------------------

    def _on_hangup(self, reloads: Reloads) -> None:
        if self._on_terminal and not sys.stderr.isatty():
            self._on_signal()  # the terminal was closed: this is no request to reload
        else:
            reloads.ask()

    async def _reload(self, running: Running, meter: Meter) -> None:
        """Read the settings again; unusable ones change nothing."""
        before = self._settings, self._reach
        try:
            wanted = await asyncio.to_thread(self._read_settings)
            check_sources(wanted)
            change = change_of(self._settings, wanted)
            self._settings = change.settings
            self._reach = reach_of(self._settings, self._reach.own.listeners)
            if change.applied:
                self._write_live()
        except DistributaryError as error:
            self._settings, self._reach = before  # the next reload finds the same changes
            self._log.error("reload-refused", faults=str(error).splitlines())
            return
        set_level(self._settings.log_level)
        await self._apply(frozenset(change.applied), running, meter)
        self._log.info("reloaded", applied=change.applied, after_a_restart=change.waiting)

    async def _apply(self, names: AbstractSet[str], running: Running, meter: Meter) -> None:
        if names & OF_SINKS:
            running.subscriptions.change_rules(rules(self._reach.rule()))
            running.knative.change_site(site_of(self._reach))
            await running.replace_renewal(self._renewal(meter))
        if names & OF_SOURCES:
            await running.replace_sources(self._sources())

    def _write_live(self) -> None:
        """Publish the settings to the running processes."""
        self._settings_number += 1
        self._live.write(
            LiveSettings(
                number=self._settings_number,
                log_level=self._settings.log_level,
                session=msgspec.Raw(msgspec.json.encode(self._session_settings())),
                ingest=msgspec.Raw(msgspec.json.encode(self._ingest_start())),
            )
        )

    def _renewal(self, meter: Meter) -> Renewal:
        sealer = Sealer(self._keys())
        return Renewal(self._paths, sealer, self._clock, meter, self._reach)

    # -- children -----------------------------------------------------------------------------

    def _ended(self, role: str, code: int) -> bool:
        """Handle the end of a child; returns whether to restart it. Called in its thread."""
        assert self._health is not None
        if role == "pipeline":
            self._health.pipeline_ended()
        ran = self._health.ingest_began if role == ROLE else self._has_delivered
        if not ends_the_server(role, code, ran=ran):
            return True
        self._log.error("stopping", process=role, code=code, reason="it cannot run; see its line")
        self._exit_code = code
        self._loop.call_soon_threadsafe(self._stopping.set)
        return False

    def _receiver_worked(self, number: int, pid: int, code: int) -> bool:
        """Whether a receiver that has ended was healthy until something else ended it.

        It could loop, so only a kill counts as somebody else's doing. (A pipeline whose JVM ends
        has a distinct exit code; its start takes long enough to prevent a busy loop.)
        """
        assert self._health is not None
        return code == -signal.SIGKILL and self._health.ingest_pid(number) == pid

    def _ingest_start(self) -> IngestStart:
        return ingest_start(
            self._settings,
            self._paths,
            self._reach,
            self._socket,
            partitions=self._partitions,
            receivers=self._receivers,
        )

    def _session_settings(self) -> SessionSettings:
        settings = self._settings
        return SessionSettings(
            data_dir=str(self._paths.root),
            reach=self._reach,
            log_attempts=settings.log_attempts,
            history=written_into(self._history, self._paths),
            log_level=settings.log_level,
            drain_s=settings.drain_s,
            credential_key_file=self._key_file,
            partitions=self._partitions,
            lag_bytes_max=settings.lag_bytes_max,
            lag_age_max_s=settings.lag_age_max_s,
            dead_letter_bytes_max=settings.dead_letter_bytes_max,
            dead_letter_route_bytes_max=settings.dead_letter_route_bytes_max,
            dead_letter_age_max_s=settings.dead_letter_age_max_s,
        )

    def _receiver_children(self) -> list[Child]:
        return receiver_children(
            self._ingest_start(),
            self._lines.write,
            withheld=(CREDENTIAL_KEY_VARIABLE, *secret_variables(self._settings.sources)),
            ended=functools.partial(self._ended, ROLE),
            worked=self._receiver_worked,
        )

    def _pipeline(self) -> Child:
        settings = self._settings
        start = PipelineStart(
            data_dir=str(self._paths.root),
            session=msgspec.Raw(msgspec.json.encode(self._session_settings())),
            history=self._history,
            history_age_max_s=settings.history_age_max_s,
            history_bytes_max=settings.history_bytes_max,
            partitions=self._partitions,
            master=settings.spark_master,
            epoch_s=settings.epoch_s,
            drain_s=settings.drain_s,
            log_level=settings.log_level,
        )
        return Child(
            "pipeline",
            program("distributary.server.processes.pipeline_process", start),
            line=self._lines.write,
            environ={**self._java, **spark_environ(settings.spark_conf)},
            withheld=secret_variables(settings.sources),
            ended=functools.partial(self._ended, "pipeline"),
            worked=lambda _pid, _code: self._health is not None and self._health.pipeline_ready,
        )

    def _sources(self) -> Child | None:
        return sources_child(
            self._settings,
            self._paths,
            self._reach.own.dial or "",
            loopback_only=is_loopback(self.address[0]),
            line=self._lines.write,
        )

    def _keys(self) -> Keys:
        """Returns a new ``Keys`` for each user: one instance serves one thread at a time."""
        return Keys.of(self._paths.key_file(self._key_file), os.environ)

    def _say_serving(self) -> None:
        url = base(*self.address)
        amqp_url = url_of(self._amqp_socket, "amqp")
        health_url = url_of(self._health_socket, "http")
        if self._lines.for_people:
            kept = self._history
            print_banner(url, self._paths.root, kept, amqp_url=amqp_url, health_url=health_url)
        self._log.info(
            "serving",
            address=url,
            data_dir=str(self._paths.root),
            partitions=self._partitions,
            receivers=self._receivers,
            amqp=amqp_url,
            health=health_url,
        )

    async def _announce(self, health: Health) -> None:
        while not health.ready()[0]:  # noqa: ASYNC110 - other processes: no event
            await asyncio.sleep(0.1)
        self._has_delivered = True
        self._log.info("ready", seconds=round(time.monotonic() - self._began_s, 1))

    def _api(
        self, subscriptions: Subscriptions, health: Health, knative: Knative
    ) -> uvicorn.Server:
        numbers = range(self._partitions)
        deliveries = Deliveries(
            self._store,
            self._clock,
            [self._paths.delivery_db(number) for number in numbers],
            [self._paths.failing(number) for number in numbers],
        )
        application = create_app(
            subscriptions,
            health,
            lambda: load_all_seen(seen_files(self._paths)),
            deliveries,
            knative.mounted,
        )
        self._paths.control_socket.unlink(missing_ok=True)
        config = uvicorn.Config(
            application,
            uds=str(self._paths.control_socket),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        return ApiServer(config)
