"""The pipeline of a node: its process starts before the node leads, and outlasts a lapsed lease.

The node process runs it, not the control part. So Spark starts while the lease of a leader that is
gone runs out, or long before where a warm standby is wanted; and deliveries go on where only the
database was away. Nothing that it does needs the lease of those who lead: owners have leases of
their own.
"""

import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any, Final

from distributary.core import database
from distributary.core.cluster import SharedPlaces
from distributary.core.errors import StoreError
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.server.processes.base.where import reach_of
from distributary.server.processes.control.consent import consent_of
from distributary.server.processes.node._node_store import end_left_owners
from distributary.server.processes.pipeline.history import place_of
from distributary.server.processes.pipeline.issuing import issuing_of
from distributary.server.processes.pipeline.pipeline import find_jvm, pipeline_child
from distributary.server.processes.pipeline.session_start import session_settings
from distributary.server.processes.supervision.children import Child
from distributary.server.processes.supervision.listeners import Listeners
from distributary.server.processes.supervision.watchdog import WatchedProcess, watched_driver
from distributary.server.settings import Settings
from distributary.spark.master import is_standalone

KEPT_S: Final = 30.0
"""Longest time without a lease after which a pipeline goes on: a failover of the database takes up
to half a minute. Where another node leads by then, it has a pipeline of its own, which gets no
partition as long as this one has them."""

HEIR_S: Final = 3.0
"""Longest wait for the next leader, which looks once a second, before owners are ended that an
earlier one has left."""

STOP_S: Final = 10.0
"""Longest stop beyond ``drain_s``."""


class NodePipeline:
    """The driver process of a node, started and stopped as the node says. For its event loop.

    Args:
        settings: Of the node.
        paths: Its data directory.
        places: Where log and store lie.
        listeners: Of the receivers, for their addresses.
        partitions: Number of partitions of the log.
        line: Takes lines of the process.
        log: Takes lines of this one.

    Raises:
        SettingsError: There is no usable Java, or the settings make no session.
    """

    def __init__(
        self,
        settings: Settings,
        paths: DataDir,
        places: SharedPlaces,
        listeners: Listeners,
        *,
        partitions: int,
        line: Callable[[str], None],
        log: Any,
    ) -> None:
        self._settings, self._paths, self._log = settings, paths, log
        self._places, self._listeners, self._line = places, listeners, line
        self.child: Child | None = None
        self.use_partitions(partitions)

    def use_partitions(self, partitions: int) -> None:
        """Run it with so many partitions from the next ``start`` on.

        Raises:
            SettingsError: As for the class.
        """
        settings, paths, listeners = self._settings, self._paths, self._listeners
        self._pages = [MappedStatusPage(paths.status_page(each)) for each in range(partitions)]
        history = place_of(settings.history, paths)
        consent = consent_of(settings, partitions)
        reach = reach_of(settings, listeners.addresses, paths.own_socket, consent)
        chosen = settings.credential_key_file
        session = session_settings(
            settings,
            paths,
            reach,
            history,
            issuing_of(settings, reach.own.urls[0]),
            key_file=str(chosen.absolute()) if chosen else "",
            partitions=partitions,
        )
        self._make = functools.partial(
            pipeline_child,
            settings,
            paths,
            history,
            session,
            partitions=partitions,
            jvm=find_jvm(settings, paths),
            line=self._line,
            ended=self._ended,
            worked=lambda _pid, _code: self._delivers,
            shared=self._places,
        )

    @property
    def children(self) -> list[Child]:
        """The process, if there is one."""
        return [] if self.child is None else [self.child]

    @property
    def _delivers(self) -> bool:
        return any(page[StatusField.READY] for page in self._pages)

    def _ended(self, _code: int) -> bool:
        """Called in the child's thread: it is started again, whatever ended it.

        What it lacks may come back, and this node takes events meanwhile.
        """
        for page in self._pages:
            page[StatusField.READY] = 0
        return True

    def watched(self) -> WatchedProcess:
        """The process, for the watchdog."""
        return watched_driver(self._paths, lambda: self.child)

    def prepare(self, *, wanted: bool) -> Callable[[], None]:
        """Have the process stand by where that is *wanted*, and end one that stands by in vain.

        Returns:
            What ends it; blocks.
        """
        if wanted:
            self.start()
            return lambda: None
        return self.stopping(0.0)

    def start(self) -> None:
        """Start the process, which waits until the node leads; none where it runs."""
        if self.child is None:
            # Of an earlier leadership: the control part writes what is in force.
            self._paths.live.unlink(missing_ok=True)
            self.child = self._make()
            self.child.start()
            self._log.info("pipeline-starts", process=self.child.pid)

    def stopping(self, wait_s: float) -> Callable[[], None]:
        """Run it no more; returns what ends the process within *wait_s*, and blocks."""
        child, self.child = self.child, None
        return (lambda: None) if child is None else functools.partial(_stop, child, wait_s)

    def stopping_orderly(self) -> Callable[[], None]:
        """The same, which lets it finish what is under way.

        Where nobody leads then, owners that an earlier leader has left to the next one end too.
        """
        ran, stop = self.child is not None, self.stopping(self._settings.drain_s + STOP_S)

        def stop_all() -> None:
            # Owners are left only under Spark's own master. The lease is free already: a driver
            # that has waited for the next leader leaves nothing to wait for here.
            waits = is_standalone(self._settings.spark_master)
            until_s = time.monotonic() + (HEIR_S if waits else 0.0)
            stop()
            with contextlib.suppress(StoreError):  # they end after some time
                wait_s = max(0.0, until_s - time.monotonic())
                end_left_owners(database.database_url(self._places.store), wait_s)

        return stop_all if ran else stop


def _stop(child: Child, wait_s: float) -> None:
    child.stop(wait_s)
