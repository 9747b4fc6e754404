"""``distributary serve``: the control process, which wires the server and supervises the others.

It holds the data directory's lock and the listening sockets, runs the API, and supervises the
children ``ingest`` (public port, log), ``pipeline`` (Spark) and, where configured, ``sources``.
"""

import asyncio
import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet

import msgspec
import structlog
import uvicorn

from distributary import spark
from distributary.core.clock import SystemClock
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import DistributaryError
from distributary.core.meter import Meter
from distributary.datadir import DataDir, LiveFile, LiveSettings, MappedStatusPage
from distributary.datadir.seen import load_all_seen
from distributary.knative.reconcile import Site
from distributary.partitions import SessionSettings
from distributary.resource import Reach, is_loopback
from distributary.server import console
from distributary.server.processes.base import ground
from distributary.server.processes.base.audit import ChangeLog
from distributary.server.processes.base.logging import LineLoggers, Lines, configure, set_level
from distributary.server.processes.base.memory import give_back
from distributary.server.processes.base.owned import ROLE
from distributary.server.processes.base.tls import Tls, files_of
from distributary.server.processes.base.where import reach_of, site_of
from distributary.server.processes.control.access import Access
from distributary.server.processes.control.api_server import api_server
from distributary.server.processes.control.audited import Audited
from distributary.server.processes.control.banner import say_serving
from distributary.server.processes.control.consent import consent_of
from distributary.server.processes.control.due import TimerService
from distributary.server.processes.control.events import events_of_server
from distributary.server.processes.control.form import Alone, Form
from distributary.server.processes.control.knative import Knative
from distributary.server.processes.control.reload import OF_SINKS, OF_SOURCES, Reloads, change_of
from distributary.server.processes.control.renewal import Renewal
from distributary.server.processes.control.running import Running, beat
from distributary.server.processes.control.standing import StandingService
from distributary.server.processes.control.views import Views
from distributary.server.processes.ingest_process import IngestStart
from distributary.server.processes.pipeline.history import place_of
from distributary.server.processes.pipeline.issuing import issuing_of
from distributary.server.processes.pipeline.pipeline import find_jvm, pipeline_child
from distributary.server.processes.pipeline.session_start import session_settings
from distributary.server.processes.receiver.receivers import (
    ingest_start,
    seen_files,
    tenants_of,
)
from distributary.server.processes.source.sources import check_sources, sources_child
from distributary.server.processes.supervision.children import Child
from distributary.server.processes.supervision.ends import ends_the_server
from distributary.server.processes.supervision.health import Health
from distributary.server.processes.supervision.probe import Probe
from distributary.server.processes.supervision.telemetry import Telemetry
from distributary.server.processes.supervision.tuning import tune
from distributary.server.processes.supervision.watchdog import (
    ProcFolder,
    Watchdog,
    watched_processes,
)
from distributary.server.settings import Settings, read_namespaces
from distributary.sources import secret_variables
from distributary.subscriptions.amqp import AmqpServer
from distributary.subscriptions.events import Events
from distributary.subscriptions.http import create_app
from distributary.subscriptions.service import Deliveries, Subscriptions, rules
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store


class Server:
    """The server of one machine.

    Args:
        settings: Validated settings.
        read_settings: Reads them again.
        form: Makes what it stands on.

    Raises:
        DistributaryError: The start failed: the data directory is locked, full, read-only or of a
            newer version, a port is taken, or Java is missing. Nothing was started.
    """

    def __init__(
        self,
        settings: Settings,
        read_settings: Callable[[], Settings],
        form: Callable[[Settings, DataDir], Form] = Alone,
    ) -> None:
        self._settings = settings
        self._read_settings = read_settings
        check_sources(settings)
        self._clock, self._log = SystemClock(), structlog.get_logger()
        files = files_of(settings)
        self._tls = None if files is None else Tls(files, self._clock, self._log)
        ground.raise_file_limit()
        data_dir = settings.data_dir.absolute()
        self._paths = DataDir(data_dir)
        self._history = place_of(settings.history, self._paths)
        ground.check_socket_path(self._paths.control_socket)
        self._form = form(settings, self._paths)
        self._partitions, self._receivers = self._form.partitions, self._form.receivers
        try:
            if self._form.runs_pipeline:
                spark.check_master(settings.spark_master, self._partitions, settings.spark_conf)
            self._form.prepare()
            self._jvm = find_jvm(settings, self._paths) if self._form.runs_pipeline else None
            chosen = settings.credential_key_file
            self._key_file = str(chosen.absolute()) if chosen else ""
            self._keys().check()
            self._store = self._open_store()
            self._listeners = self._form.listen()
            self._reach = self._reach_of(settings)
            self._issuing = issuing_of(settings, self._reach.own.urls[0])
        except BaseException:
            self._form.release()
            raise
        self.address = self._listeners.address
        self._stopping = asyncio.Event()
        self._lines = Lines(sys.stderr, settings.log_format, ground.other_log(data_dir / "logs"))
        self._access = Access(
            self._paths,
            self._clock,
            self._receivers,
            place=self._form.store,
            board=self._form.board(),
        )
        self._audit = ChangeLog(self._paths.audit, self._clock.wall_ms, node=self._form.node)
        self._calls = tenants_of(self._paths, self._receivers)
        self._began_s = time.monotonic()
        self._health: Health | None = None
        self._live = LiveFile(self._paths.live)
        self._settings_number = 0
        self._on_terminal = sys.stderr.isatty()
        self._exit_code, self._has_delivered = 0, False

    def release(self) -> None:
        """Close the sockets and release the data directory."""
        self._listeners.close()
        self._form.release()

    async def run(self) -> int:
        """Start everything, wait for a signal, stop in order; returns the exit code."""
        configure(self._settings.log_level, role="serve")
        structlog.configure(logger_factory=LineLoggers(self._lines))
        self._telemetry = Telemetry(self._settings, self._lines, self._clock, self._log)
        tune()
        loop = self._loop = asyncio.get_running_loop()
        self._form.begin()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        self._write_live()
        routes = self._form.append_client()
        subscriptions = Subscriptions(self._store, routes, rules(self._reach.rule()), self._clock)
        meter = Meter(self._paths.meter("control"))
        self._access.issuers.start(meter)
        due = TimerService(
            self._paths,
            self._form,
            (self._form.append_client(), self._form.append_client()),
            subscriptions,
            clock=self._clock,
            meter=meter,
            base_url=self._reach.own.urls[0],
        )
        await due.before_start(self._store)
        knative = self._knative(subscriptions, meter)
        await knative.open()
        receivers, pipeline = self._receiver_children(), self._pipeline()
        views = self._form.views()
        health = self._health = Health(
            self._paths,
            self._partitions,
            self._clock,
            receivers=self._receivers,
            end=views.end,
            behind=subscriptions.behind,
            restarts=lambda: {child.role: child.restarts for child in running.children},
        )
        health.forget()
        probe = self._probe(health, receivers, pipeline, lambda: running.sources)
        standing = self._standing(health, views)
        api, events = self._api(subscriptions, knative, standing, views)
        running = Running(
            self._paths,
            [MappedStatusPage(self._paths.status_page(p)) for p in range(self._partitions)],
            subscriptions,
            routes,
            due,
            self._access.issuers,
            self._renewal(meter, standing),
            knative,
            AmqpServer(subscriptions, self._access.gate, self._audit.change, self._calls.take_call),
            self._listeners,
            self._tls,
            receivers,
            pipeline,
            self._sources(),
            self._form.index_child(self._settings, self._lines.write),
            api,
            probe,
            self._access,
            standing,
            events,
        )
        reloads = Reloads(lambda: self._reload(running, meter))
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup, reloads)
        await self._run_until_asked(running, health, reloads, meter)
        self._log.info("stopped")
        return self._exit_code

    def _standing(self, health: Health, views: Views) -> StandingService:
        data = self._paths, self._store, self._clock, self._settings
        return StandingService(*data, health, views=views, place=self._form.store)

    async def _run_until_asked(
        self, running: Running, health: Health, reloads: Reloads, meter: Meter
    ) -> None:
        serving = asyncio.create_task(running.api.serve())
        beating = asyncio.create_task(beat(health))
        watching = [ground.keep_warning(self._settings, self._log), give_back()]
        watching.append(self._telemetry.follow(health, meter))
        watching.append(self._form.upkeep(lambda: self._settings, meter, self._lines.write))
        if self._tls is not None:
            watching.append(self._tls.follow(meter, running.amqp.forget_certificates))
        aside = [asyncio.create_task(each) for each in watching]
        starting = asyncio.create_task(self._start(running, health, reloads))
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        await stopped
        for task in (*aside, starting):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        await reloads.stop()
        await running.stop(self._settings.drain_s, serving)
        await self._telemetry.close(health)
        beating.cancel()
        await self._form.end()
        self._audit.close()
        self._store.close()

    async def _start(self, running: Running, health: Health, reloads: Reloads) -> None:
        await running.start()
        reloads.begin()
        self._say_serving()
        await self._announce(health)
        await running.events.keep_prepared()

    def _reach_of(self, settings: Settings) -> Reach:
        addresses = self._listeners.addresses
        consent = consent_of(settings, self._partitions)
        return reach_of(settings, addresses, self._paths.own_socket, consent)

    def _site(self) -> Site:
        return site_of(self._reach, audiences=ground.auth_required(self._settings))

    def _knative(self, subscriptions: Subscriptions, meter: Meter) -> Knative:
        return Knative(
            self._paths,
            self._partitions,
            self._form.append_client(),
            subscriptions,
            site=self._site(),
            clock=self._clock,
            meter=meter,
            access=self._access,
            vault=lambda: Sealer(self._keys()),
            place=self._form.store,
        )

    def _probe(
        self,
        health: Health,
        receivers: list[Child],
        pipeline: Child | None,
        sources: Callable[[], Child | None],
    ) -> Probe:
        watched = watched_processes(self._paths, self._partitions, receivers, pipeline, sources)
        return Probe(
            health,
            Watchdog(watched, ProcFolder(), self._clock.monotonic_s),
            self._clock,
            port=self._listeners.stands_in,
            own=self._listeners.health,
            tls=None if self._tls is None else self._tls.of_probe,
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
            change = change_of(self._settings, wanted, shared=self._form.shared is not None)
            self._settings = change.settings
            self._reach = self._reach_of(self._settings)
            if self._tls is not None:
                await asyncio.to_thread(self._tls.change, self._settings)
            if change.applied:
                self._write_live()
        except DistributaryError as error:
            self._settings, self._reach = before  # the next reload finds the same changes
            self._log.error("reload-refused", faults=str(error).splitlines())
            return
        set_level(self._settings.log_level)
        await self._apply(frozenset(change.applied), running, meter)
        self._log.info("reloaded", **change.told)

    async def _apply(self, names: AbstractSet[str], running: Running, meter: Meter) -> None:
        if names & OF_SINKS:
            running.subscriptions.change_rules(rules(self._reach.rule()))
            running.knative.change_site(self._site())
            await running.replace_renewal(self._renewal(meter, running.standing))
        if names & OF_SOURCES:
            await running.replace_sources(self._sources())

    def _write_live(self) -> None:
        """Publish the settings to the running processes."""
        self._access.apply(self._settings, self._reach)
        quotas = read_namespaces(self._settings.namespaces)[0]
        self._store.keep_within(quotas)
        self._calls.change(quotas)
        self._settings_number += 1
        self._live.write(
            LiveSettings(
                number=self._settings_number,
                log_level=self._settings.log_level,
                session=msgspec.Raw(msgspec.json.encode(self._session_settings())),
                ingest=msgspec.Raw(msgspec.json.encode(self._ingest_start())),
            )
        )

    def _renewal(self, meter: Meter, standing: StandingService) -> Renewal:
        return Renewal(
            self._paths,
            lambda: Sealer(self._keys()),
            self._clock,
            meter,
            self._reach,
            agreements=standing.watcher.agreements,
            place=self._form.store,
        )

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
            self._listeners,
            tls_fd=None if self._tls is None else self._tls.fd,
            partitions=self._partitions,
            receivers=self._receivers,
        )

    def _session_settings(self) -> SessionSettings:
        return session_settings(
            self._settings,
            self._paths,
            self._reach,
            self._history,
            self._issuing,
            key_file=self._key_file,
            partitions=self._partitions,
        )

    def _receiver_children(self) -> list[Child]:
        return self._form.receiver_children(
            self._ingest_start(),
            self._lines.write,
            withheld=(CREDENTIAL_KEY_VARIABLE, *secret_variables(self._settings.sources)),
            ended=functools.partial(self._ended, ROLE),
            worked=self._receiver_worked,
        )

    def _pipeline(self) -> Child | None:
        if self._jvm is None:
            return None
        return pipeline_child(
            self._settings,
            self._paths,
            self._history,
            self._session_settings(),
            partitions=self._partitions,
            jvm=self._jvm,
            line=self._lines.write,
            ended=functools.partial(self._ended, "pipeline"),
            worked=lambda _pid, _code: self._health is not None and self._health.pipeline_ready,
        )

    def _sources(self) -> Child | None:
        if self._form.shared is not None:
            return None  # each node runs some
        return sources_child(
            self._settings,
            self._paths,
            self._reach.own.dial or "",
            loopback_only=is_loopback(self.address[0]),
            line=self._lines.write,
        )

    def _open_store(self) -> Store:
        url, leader = self._form.store
        return Store(url, sealer=Sealer(self._keys()), leader=leader)

    def _keys(self) -> Keys:
        """Returns a new ``Keys`` for each user: one instance serves one thread at a time."""
        return Keys.of(self._paths.key_file(self._key_file), os.environ)

    def _say_serving(self) -> None:
        counts = {"partitions": self._partitions, "receivers": self._receivers}
        places = self._listeners, self._paths.root, self._history
        say_serving(self._log, places, counts, banner=self._lines.for_people)

    async def _announce(self, health: Health) -> None:
        while not health.ready()[0]:  # noqa: ASYNC110 - other processes: no event
            await asyncio.sleep(0.1)
        self._has_delivered = True
        self._log.info("ready", seconds=round(time.monotonic() - self._began_s, 1))

    def _api(
        self,
        subscriptions: Subscriptions,
        knative: Knative,
        standing: StandingService,
        views: Views,
    ) -> tuple[uvicorn.Server, Events]:
        places = self._paths, self._history, self._store
        events = events_of_server(
            lambda: self._settings, *places, views=views, place=self._form.store
        )
        application = create_app(
            subscriptions,
            standing.health,
            lambda: load_all_seen(seen_files(self._paths)),
            Deliveries(self._store, self._clock, standing.readers, standing.awaited),
            {**knative.mounted, console.PATH: console.Console()},
            events=events,
            statuses=standing.statuses,
            keys=self._access.keys,
            gate=self._access.gate,
            issuer=self._issuing.documents,
            cluster=self._form.cluster(views),
        )
        return api_server(Audited(application, self._audit), self._paths.control_socket), events
