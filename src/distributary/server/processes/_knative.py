"""Wires Knative Eventing: object store, reconciler, and the Kubernetes-shaped API."""

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
        paths: Paths of the data directory; the store must exist.
        partitions: Number of partitions of the log.
        log: Tells receivers of new addresses; for this object alone, which closes it.
        leader: Writes routes.
        site: Published addresses of the server.
        clock: For timestamps and waits.
        meter: Counts reconciliations.

    Attributes:
        api: Serves the Kubernetes-shaped API, once ``open`` has returned.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: int,
        log: RouteAppendClient,
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
        self._log = log
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
        """The API by each of its path prefixes."""
        return dict.fromkeys(PATHS, self.api)

    async def open(self) -> None:
        """Read the objects; call it before ingest starts, which reads their addresses.

        Raises:
            StoreError: The objects cannot be read.
        """
        await self._objects.start()

    async def start(self) -> None:
        """Start the reconciler; call it after the leader has started."""
        await self._reconciler.start()

    def change_site(self, site: Site) -> None:
        """Change the published addresses, and where events may be sent."""
        self._reconciler.change_site(site)

    async def end_watches(self) -> None:
        """End open watches, so that the API can stop: they last for minutes otherwise."""
        await self.api.close()

    async def close(self) -> None:
        """Finish work under way, and close the stores."""
        await self._reconciler.close()
        self._log.close()
        await self._objects.close()
