"""The engine's input ports: current routes and resources."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from distributary.core.deliver.destination import Destination
from distributary.core.demand import Demand
from distributary.core.route import RouteTable


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """Destinations of a route, from the newest revision of its resource.

    Attributes:
        revision: Of the resource.
        sink: The subscriber's sink.
        dead_letter: Its dead letter sink; None: dead letters are kept in the store.
        events_max: Most deliveries in all; None: any number.
        reply: Destination of reply events; None: they are dropped.
        reply_kept: True: replies go to the Broker, and if it cannot store one, the dead letter is
            the original event. False: they go to a Subscription's ``reply``, and if that refuses
            one, the dead letter is the reply (decision 15, replies).
        parks: A 410 response parks the route until it is resumed (decision 13, status codes).
        namespace: Of its subscription or Trigger; None: unknown.
        name: Its id, for people; None: unknown.
    """

    revision: int
    sink: Destination
    dead_letter: Destination | None
    events_max: int | None = None
    reply: Destination | None = None
    reply_kept: bool = False
    parks: bool = False
    namespace: str | None = None
    name: str | None = None


class Targets(Protocol):
    """The newest revision of every route's resource (DESIGN rule 5, revisions); never blocks."""

    def sees(self, seq: int) -> bool:
        """True if change *seq* was read: then a route without a target is deleted."""

    def all_go_to(self, uri: str) -> bool:
        """True if no known resource has another sink than *uri*.

        Includes resources whose route record is still ahead in the log: their sinks wait too.
        """

    def changed_uris(self) -> list[str]:
        """Former sink URIs of routes changed or deleted since the last call.

        Their waiting tasks may have to go elsewhere.
        """

    def demands(self, after_seq: int) -> list[Demand]:
        """Demands of operators (resume, for example) with a number above *after_seq*, in order."""

    def halted(self) -> AbstractSet[str]:
        """Routes that are paused or disabled; the same object until there are others."""

    def get(self, route: str) -> RouteTarget | None:
        """The target of the route with this uid; None: deleted, or its resource is not read yet."""


class ActiveRoutes(Protocol):
    """The routes at the live reader."""

    @property
    def table(self) -> RouteTable:
        """The compiled route table."""

    def changed_at(self, route: str) -> int:
        """Offset at which the current filters of *route* were read; 0: before the live reader."""


def waits_for_resource(route: str) -> str:
    """Queue name on which matches of an unread resource wait; never a valid sink URI."""
    return f"resource of {route}"
