"""The control part of a node, in a process of its own while the node leads.

Its node process has the lock of the data directory, the sockets, the receivers and the lease, and
starts it when the lease is taken. It ends at once when the lease is about to run out, by itself
where the node process does not: both look at the same clock.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog
from sqlalchemy import URL

from distributary.core import database
from distributary.core.clock import SystemClock, boot_s
from distributary.core.cluster import SharedPlaces
from distributary.core.log import kafka as shared
from distributary.core.meter import Meter
from distributary.core.outcome.postgres import PostgresReservations
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.knative.apiserver.objects import AddressBook
from distributary.partitions.cluster_places import prepare_places
from distributary.server.nodes import Told
from distributary.server.nodes.postgres import PostgresNodes, partitions_in_use
from distributary.server.processes.control.form import (
    AccessBoard,
    AppendClient,
    ClosableReservations,
)
from distributary.server.processes.control.views import Views
from distributary.server.processes.ingest_process import IngestStart
from distributary.server.processes.node._agreement import Agreement
from distributary.server.processes.node._growth import Growth
from distributary.server.processes.node._node_recalls import NodeRecalls
from distributary.server.processes.node._shared_cluster import SharedCluster
from distributary.server.processes.node._shared_retention import LeaderRetention
from distributary.server.processes.node._shared_views import SharedViews
from distributary.server.processes.pipeline.archiving import (
    Shared,
    archive_child,
    is_recall_wanted,
    keep_recalling,
)
from distributary.server.processes.receiver.retention import (
    LateArchive,
    RetentionLimits,
    keep_retaining,
)
from distributary.server.processes.supervision.children import Child
from distributary.server.processes.supervision.listeners import LedListeners, Listeners
from distributary.server.settings import Settings
from distributary.subscriptions.http import Cluster

EXIT_LED: Final = 75
"""Exit code: this node cannot lead, another one might."""

EXIT_LAPSED: Final = 76
"""Exit code: the lease was not renewed in time. It may have been since: nothing is wrong here."""

LOOK_S: Final = 0.05
"""Interval of looks at the clock. The lease lapses one second before it ends."""


class LedStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the control part: its argument, as JSON. The settings are in a file.

    Attributes:
        data_dir: Data directory of the node.
        node: Name of the node.
        generation: Of its lease: in each transaction, another one ends it.
        receivers: Number of receivers of this node.
        http_fd: Inherited listening socket of the receivers: for its address.
        own_fd: Likewise, of the socket for this server itself.
    """

    data_dir: str
    node: str
    generation: int
    receivers: int
    http_fd: int
    own_fd: int


def end_when_not_led(paths: DataDir) -> None:
    """End this process once its node may not lead any more; starts a thread that looks."""
    page = MappedStatusPage(paths.node_page)

    def watch() -> None:
        while boot_s() * 1000 < page[StatusField.LEADS_UNTIL_MS]:
            time.sleep(LOOK_S)
        os._exit(EXIT_LAPSED)

    threading.Thread(target=watch, name="led", daemon=True).start()


class SharedRoutes:
    """``AppendClient`` of one user over what all of them share.

    Args:
        routes: Appends; closed by who made it.
        told: Knows what all nodes serve.
        agreement: Of store and log.
    """

    def __init__(self, routes: shared.KafkaRoutes, told: Told, agreement: Agreement) -> None:
        self.agree = agreement.agree
        self.append_routes = routes.append_routes
        self.append_timer_events = routes.append_timer_events
        self.append_events = routes.append_events
        self.look_again = told.look_again

    def close(self) -> None:
        """See ``AppendClient.close``."""


class Led:
    """``Form`` of the control part of a node; see ``control.form.Form`` for each method.

    Args:
        start: Start parameters.
        places: Where log and store lie.
        settings: The settings.
        paths: The data directory: its lock is the node process's.
        in_use: Asks the store how many partitions are in use.

    Raises:
        DistributaryError: The store cannot be used.
    """

    def __init__(
        self,
        start: LedStart,
        places: SharedPlaces,
        settings: Settings,
        paths: DataDir,
        in_use: Callable[[URL], int] = partitions_in_use,
    ) -> None:
        self._start = start
        self.runs_pipeline = False  # the node does, so that it outlasts this part
        self.shared: SharedPlaces | None = places
        self.node = start.node
        self._places = places
        self._paths = paths
        self._settings = settings
        self._log = structlog.get_logger()
        self.receivers = start.receivers
        url = database.database_url(places.store)
        # Asked now that this node leads: an earlier leader adds none any more.
        self.partitions = in_use(url)
        self.store = database.StorePlace(url, start.generation)
        self._told = Told(PostgresNodes(url, start.generation), self._newest_addresses, self._log)
        self._routes: shared.KafkaRoutes | None = None
        self._agreement = Agreement(
            places.log, self.store, self.partitions, self._log, lambda: os._exit(EXIT_LAPSED)
        )

    def _newest_addresses(self) -> int:
        book = AddressBook(self.store.url)
        try:
            return sum(book.version())
        finally:
            book.close()

    def prepare(self) -> None:
        """The node process has made all of it; this one inherits the keys that it has brought."""

    def listen(self) -> Listeners:
        """The sockets of the receivers, for their addresses; opens that of AMQP."""
        http = socket.socket(fileno=os.dup(self._start.http_fd))
        own = socket.socket(fileno=os.dup(self._start.own_fd))
        return LedListeners(self._settings, http, own)

    def begin(self) -> None:
        """Connect to the log."""
        self._routes = shared.KafkaRoutes(
            self._places.log,
            self.partitions,
            asyncio.get_running_loop(),
            lambda reason: self._log.warning("log-trouble", reason=reason),
        )

    def reservations(self) -> ClosableReservations:
        """In the store."""
        return PostgresReservations(self.store.url)

    def board(self) -> AccessBoard:
        """All nodes."""
        return self._told

    def append_client(self) -> AppendClient:
        """All of them share one producer."""
        assert self._routes is not None
        return SharedRoutes(self._routes, self._told, self._agreement)

    def receiver_children(self, start: IngestStart, line: Any, **how: Any) -> list[Child]:
        """The node process runs them."""
        del start, line, how
        return []

    def index_child(self, settings: Settings, line: Callable[[str], None]) -> Child | None:
        """The node process runs it, so that the next leader has an index too."""
        del settings, line
        return None

    def views(self) -> Views:
        """Of log and store; makes the tables of owners, where no owner has been yet."""
        prepare_places(self.store.url)
        views = SharedViews(self._places, self.store, self.partitions, self._paths)
        views.begin()
        return views

    def cluster(self, views: Views) -> Cluster:
        """See ``Form.cluster``."""

        def ends() -> list[int | None]:
            return [views.end(number) for number in range(self.partitions)]

        return SharedCluster(self.store.url, self.partitions, ends, SystemClock())

    async def upkeep(
        self, settings: Callable[[], Settings], meter: Meter, line: Callable[[str], None]
    ) -> None:
        """Retention, recalls of the archive, more partitions where wanted; see ``Agreement``."""
        assert self._routes is not None
        growth = Growth(self._places.log, self.store, self._routes, self._log)
        bytes_max = settings().retention_bytes_max // self.partitions
        archive = settings().archive
        limits = RetentionLimits(bytes_max, settings().retention_age_max_s, archive)
        late = LateArchive(archive, meter, self._log)
        retention = LeaderRetention(self._places.log, self.store, limits, late, lines=self._log)
        recalls = NodeRecalls(self._places, self.partitions, self._paths)
        shared = Shared(self._places, self.partitions)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._agreement.follow())
                group.create_task(growth.follow(lambda: settings().partitions or 0))
                group.create_task(recalls.follow(lambda: settings().archive))
                group.create_task(
                    keep_recalling(
                        settings,
                        lambda: is_recall_wanted(self._paths, self.partitions),
                        lambda chosen: archive_child(
                            chosen, self._paths, line, recalls=True, shared=shared
                        ),
                        SystemClock().monotonic_s,
                    )
                )
                await keep_retaining(range(self.partitions), retention.retain, meter, self._log)
        finally:
            await asyncio.to_thread(retention.close)

    async def end(self) -> None:
        """Close what all users shared."""
        if self._routes is not None:
            await self._routes.close()

    def release(self) -> None:
        """The node process has the lock."""
