"""Wires Knative Eventing: object store, reconciler, and the Kubernetes-shaped API."""

import functools
import uuid
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from distributary.core import filter as filter_room
from distributary.core.clock import Clock, SystemRandom
from distributary.core.database import StorePlace
from distributary.core.meter import Meter
from distributary.datadir import DataDir
from distributary.knative.apiserver.http import PATHS, KubernetesApi
from distributary.knative.apiserver.objects import Objects
from distributary.knative.kinds import KINDS, admit, defaulted
from distributary.knative.reconcile import Reconciler, Site
from distributary.resource import Vault
from distributary.server.processes.control.access import Access
from distributary.server.processes.control.form import AppendClient
from distributary.subscriptions.service import Subscriptions


class Knative:
    """Brokers, Triggers, Channels and Subscriptions of one server.

    Args:
        paths: Paths of the data directory; the store must exist.
        partitions: Number of partitions of the log.
        log: Tells receivers of new addresses; for this object alone, which closes it.
        subscriptions: Their leader writes routes, and they have the quotas of namespaces.
        site: Published addresses of the server.
        clock: For timestamps and waits.
        meter: Counts reconciliations.
        access: Decides by EventPolicies, and answers who may do what.
        vault: Makes what seals and opens the values of Secrets, one for each thread.
        place: Where the resource store lies.

    Attributes:
        api: Serves the Kubernetes-shaped API, once ``open`` has returned.
        over: Returns the routes that deliver again in another partition; set before ``start``.
        awaited: Returns the routes that wait for a consent; set before ``start``.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: int,
        log: AppendClient,
        subscriptions: Subscriptions,
        *,
        site: Site,
        clock: Clock,
        meter: Meter,
        access: Access,
        vault: Callable[[], Vault],
        place: StorePlace,
    ) -> None:
        self.over: Callable[[], AbstractSet[str]] = frozenset
        self.awaited: Callable[[], Mapping[str, tuple[str, int]]] = dict
        url, leader = place
        self._objects = Objects(
            url,
            kinds=KINDS,
            admit=functools.partial(admit, check=filter_room.check),
            default=defaulted,
            clock=clock,
            new_uid=lambda: str(uuid.uuid4()),
            quotas=lambda: subscriptions.quotas,
            vault=vault(),
            leader=leader,
        )
        self._log = log
        self._reconciler = Reconciler(
            self._objects,
            subscriptions.leader,
            self._log,
            site,
            clock,
            failing=[paths.failing(number) for number in range(partitions)],
            over=lambda: self.over(),  # noqa: PLW0108 - it is set later
            awaited=lambda: self.awaited(),  # noqa: PLW0108 - it is set later
            count=meter.add,
            gatekeeper=access,
            steering=subscriptions.orders(partitions),
            vault=vault(),
        )
        self.api = KubernetesApi(
            self._objects, self._reconciler.settled, clock, SystemRandom(), access.gate
        )

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
        # No receiver takes an event that a policy forbids.
        self._reconciler.tell_policies()

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
