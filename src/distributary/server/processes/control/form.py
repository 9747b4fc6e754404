"""What a server's control part stands on: a data directory, or log and store that nodes share.

``Alone`` is the server of one machine, which has receivers of its own. ``node.led.Led`` is the
control part of a node: its node process has the lock, the sockets and the receivers.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from distributary.core.clock import SystemClock
from distributary.core.cluster import SharedPlaces
from distributary.core.database import StorePlace, sqlite_url
from distributary.core.lease import Lease
from distributary.core.log import lock, open_folder
from distributary.core.meter import Meter
from distributary.core.outcome import FileReservations, ReservationStore
from distributary.datadir import (
    DataDir,
    MappedStatusPage,
    PolledFile,
    StatusField,
)
from distributary.server.processes.base import ground
from distributary.server.processes.base.cores import cores, partitions_wanted, receivers_wanted
from distributary.server.processes.base.key_source import bring_keys
from distributary.server.processes.control.cluster import FileCluster
from distributary.server.processes.control.index import index_child
from distributary.server.processes.control.views import FileViews, Views
from distributary.server.processes.ingest_process import IngestStart
from distributary.server.processes.pipeline.archiving import (
    archive_child,
    has_work,
    is_recall_wanted,
    keep_archiving,
    keep_recalling,
)
from distributary.server.processes.receiver.receivers import (
    append_sockets,
    prepare,
    receiver_children,
)
from distributary.server.processes.receiver.route_wire import RouteAppendClient
from distributary.server.processes.supervision.children import Child
from distributary.server.processes.supervision.listeners import Listeners
from distributary.server.settings import Settings, own_name
from distributary.subscriptions.http import Cluster
from distributary.subscriptions.lifecycle import EventAppender
from distributary.subscriptions.store.leader import RouteAppender
from distributary.subscriptions.timers import TimerEventAppender

TOLD_S_MAX = 2.0
"""Longest wait until all receivers decide by a change. They look four times a second; one that
hangs or restarts reads it before its next request."""
LOOK_S = 0.02
"""Interval of looking whether they do."""


class AppendClient(RouteAppender, TimerEventAppender, EventAppender, Protocol):
    """Appends for the control part, and tells of new addresses; for one user, which closes it."""

    def close(self) -> None:
        """Let go of what it holds."""


class AccessBoard(Protocol):
    """Tells receivers who may do what. For the event loop: never blocks it for long.

    Attributes:
        told_s_max: Longest wait for ``numbers``, seconds.
        look_s: Interval of asking for them.
    """

    told_s_max: float
    look_s: float

    def newest(self) -> int:
        """Number of the newest snapshot that outlives this process; 0: none does. May block.

        Raises:
            StoreError: It cannot be read.
        """

    def publish(self, number: int, snapshot: bytes) -> None:
        """Tell them.

        Raises:
            StoreError: They cannot be told.
        """

    def numbers(self) -> list[int]:
        """Numbers of the snapshots that receivers decide by; empty: there are none."""

    def close(self) -> None:
        """Let go of what it holds."""


class FileBoard:
    """``AccessBoard`` by a file that the receivers of this machine read.

    Args:
        paths: Paths of the data directory.
        receivers: Number of receivers.
    """

    told_s_max = TOLD_S_MAX
    look_s = LOOK_S

    def __init__(self, paths: DataDir, receivers: int) -> None:
        self._file = PolledFile(paths.access)
        self._pages = [MappedStatusPage(paths.ingest_page(each)) for each in range(receivers)]

    def newest(self) -> int:
        """See ``AccessBoard.newest``: receivers end with this server."""
        return 0

    def publish(self, _number: int, snapshot: bytes) -> None:
        """See ``AccessBoard.publish``."""
        self._file.write(snapshot)

    def numbers(self) -> list[int]:
        """See ``AccessBoard.numbers``."""
        return [page[StatusField.ACCESS] for page in self._pages]

    def close(self) -> None:
        """See ``AccessBoard.close``."""
        for page in self._pages:
            page.close()
        self._pages = []


class ClosableReservations(ReservationStore, Protocol):
    """A ``ReservationStore`` that is closed in the end."""

    def close(self) -> None:
        """Close the store."""


class Form(Protocol):
    """What the control part stands on.

    Attributes:
        partitions: Number of partitions of the log.
        receivers: Number of receivers of this machine.
        store: Where the resource store lies.
        shared: Where log and state lie that several nodes share; None: in the data directory.
        node: Name of this node, likewise; empty: it is none.
        runs_pipeline: Whether the control part runs the driver of the pipeline.
    """

    node: str
    partitions: int
    receivers: int
    store: StorePlace
    shared: SharedPlaces | None
    runs_pipeline: bool

    def prepare(self) -> None:
        """Make what the processes share, and have the keys of credentials in the environment.

        Raises:
            SettingsError: The data directory cannot be written, or the keys cannot be had.
        """

    def listen(self) -> Listeners:
        """Returns the listening sockets.

        Raises:
            SettingsError: One cannot be opened.
        """

    def begin(self) -> None:
        """Called once the event loop runs."""

    def reservations(self) -> ClosableReservations:
        """Opens the counts of deliveries, for one user."""

    def board(self) -> AccessBoard:
        """Returns what tells receivers who may do what."""

    def append_client(self) -> AppendClient:
        """Returns a new client for one user."""

    def receiver_children(
        self,
        start: IngestStart,
        line: Callable[[str], None],
        *,
        withheld: Sequence[str],
        ended: Callable[[int], bool],
        worked: Callable[[int, int, int], bool],
    ) -> list[Child]:
        """Returns the receivers that the control part runs; see ``receiver.receivers``."""

    def index_child(self, settings: Settings, line: Callable[[str], None]) -> Child | None:
        """Returns the process that makes the index of ids; None: there is none."""

    def views(self) -> Views:
        """Returns what reads the state of owners and receivers."""

    def cluster(self, views: Views) -> Cluster:
        """Returns what reads who takes part, and who owns what; *views* read the log's ends."""

    async def upkeep(
        self, settings: Callable[[], Settings], meter: Meter, line: Callable[[str], None]
    ) -> None:
        """What the control part does for the log beside all else, until cancelled.

        Args:
            settings: Returns those in force. How much is kept counts from the start on.
            meter: Counts failures.
            line: Called with each line that a process started here writes.
        """

    async def end(self) -> None:
        """Called when everything has stopped."""

    def release(self) -> None:
        """Let go of the data directory."""


class Alone:
    """``Form`` of a server of one machine: everything is in its data directory, which it locks.

    Args:
        settings: Validated settings.
        paths: The data directory.

    Raises:
        DistributaryError: The data directory is locked, unusable or of a newer version.
    """

    def __init__(self, settings: Settings, paths: DataDir) -> None:
        self._settings = settings
        self._paths = paths
        self._address = ("", 0)
        ground.make_folder(paths.root)
        self._lease: Lease = lock(paths.lock)
        try:
            count = cores()
            self.partitions = open_folder(paths.log, partitions_wanted(settings, count))
            self.receivers = receivers_wanted(settings, count, self.partitions)
        except BaseException:
            self._lease.release()
            raise
        self.shared: SharedPlaces | None = None
        self.node = ""
        self.runs_pipeline = True
        self.store = StorePlace(sqlite_url(paths.state_db))

    def prepare(self) -> None:
        """See ``Form.prepare``."""
        for path in (self._paths.run, self._paths.root / "logs"):
            ground.make_private(path)
        prepare(self._paths, self.receivers)
        bring_keys(self._settings, os.environ)

    def listen(self) -> Listeners:
        """See ``Form.listen``."""
        listeners = Listeners(self._settings, self._paths)
        self._address = listeners.address
        return listeners

    def begin(self) -> None:
        """See ``Form.begin``."""

    def reservations(self) -> ClosableReservations:
        """See ``Form.reservations``."""
        return FileReservations(self._paths.quota_db)

    def board(self) -> AccessBoard:
        """See ``Form.board``."""
        return FileBoard(self._paths, self.receivers)

    def append_client(self) -> AppendClient:
        """See ``Form.append_client``."""
        return RouteAppendClient(append_sockets(self._paths, self.receivers))

    def receiver_children(self, start: IngestStart, line: Any, **how: Any) -> list[Child]:
        """See ``Form.receiver_children``."""
        return receiver_children(start, line, **how)

    def index_child(self, settings: Settings, line: Callable[[str], None]) -> Child | None:
        """See ``Form.index_child``."""
        return index_child(settings, self._paths, self.partitions, line)

    def views(self) -> Views:
        """See ``Form.views``."""
        return FileViews(self._paths, self.partitions)

    def cluster(self, views: Views) -> Cluster:
        """See ``Form.cluster``."""
        host, port = self._address
        return FileCluster(
            self._paths,
            self.partitions,
            views.end,
            SystemClock(),
            name=own_name(self._settings),
            address=f"{f'[{host}]' if ':' in host else host}:{port}",
            receivers=self.receivers,
        )

    async def upkeep(
        self, settings: Callable[[], Settings], meter: Meter, line: Callable[[str], None]
    ) -> None:
        """See ``Form.upkeep``: jobs of the archive; receivers look after their parts of the log."""
        del meter  # a failed job is in the log, and in retention's gauge
        paths, partitions, clock = self._paths, self.partitions, SystemClock()
        async with asyncio.TaskGroup() as group:
            group.create_task(
                keep_archiving(
                    settings,
                    lambda to: has_work(paths, partitions, to),
                    lambda chosen, now_ms: archive_child(chosen, paths, line, now_ms=now_ms),
                    clock,
                )
            )
            group.create_task(
                keep_recalling(
                    settings,
                    lambda: is_recall_wanted(paths, partitions),
                    lambda chosen: archive_child(chosen, paths, line, recalls=True),
                    clock.monotonic_s,
                )
            )

    async def end(self) -> None:
        """See ``Form.end``."""

    def release(self) -> None:
        """See ``Form.release``."""
        self._lease.release()
