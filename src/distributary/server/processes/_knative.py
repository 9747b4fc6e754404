"""Knative Eventing of one server: objects, reconciler, and their API, wired."""

import functools
import uuid

from distributary.core import filter as filter_room
from distributary.core.clock import Clock, SystemRandom
from distributary.core.meter import Meter
from distributary.core.sqlite import sqlite_url
from distributary.datadir import DataDir
from distributary.knative.apiserver.http import PATHS, KubernetesApi
from distributary.knative.apiserver.objects import Objects
from distributary.knative.kinds import KINDS, admit, defaulted
from distributary.knative.reconcile import Reconciler, Site
from distributary.server.processes._route_wire import RouteAppendClient
from distributary.subscriptions.store.leader import Leader


class Knative:
    """Brokers, Triggers, Channels and Subscriptions of one server.

    Args:
        paths: Of the data directory; the store must have been made.
        partitions: Of the log.
        leader: Makes routes stand.
        site: Where the server is reached.
        clock: For stamps and waits.
        meter: Counts.

    Attributes:
        api: Answers the paths of the Kubernetes-shaped API, once ``open`` has returned.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: int,
        leader: Leader,
        *,
        site: Site,
        clock: Clock,
        meter: Meter,
    ) -> None:
        self._objects = Objects(
            sqlite_url(paths.state_db),
            kinds=KINDS,
            admit=functools.partial(admit, check=filter_room.check),
            default=defaulted,
            clock=clock,
            new_uid=lambda: str(uuid.uuid4()),
        )
        self._log = RouteAppendClient(paths.append_socket)
        self._reconciler = Reconciler(
            self._objects,
            leader,
            self._log,
            site,
            clock,
            failing=[paths.failing(number) for number in range(partitions)],
            count=meter.add,
        )
        self.api = KubernetesApi(self._objects, self._reconciler.settled, clock, SystemRandom())

    @property
    def mounted(self) -> dict[str, KubernetesApi]:
        """Paths of the Kubernetes-shaped API -> who answers them."""
        return dict.fromkeys(PATHS, self.api)

    async def open(self) -> None:
        """Read the objects; before the receiver of events starts, which reads their addresses.

        Raises:
            StoreError: They cannot be read.
        """
        await self._objects.start()

    async def start(self) -> None:
        """Reconcile; after the leader has started."""
        await self._reconciler.start()

    def change_site(self, site: Site) -> None:
        """Where the server is reached, and where events may go, from now on."""
        self._reconciler.change_site(site)

    async def end_watches(self) -> None:
        """Let the API's server stop: a watch ends by itself only after minutes."""
        await self.api.close()

    async def close(self) -> None:
        """Finish what is under way."""
        await self._reconciler.close()
        self._log.close()
        await self._objects.close()
