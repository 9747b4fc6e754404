"""What the engine asks of its surroundings: routes and resources, as they stand now."""

from dataclasses import dataclass
from typing import Protocol

from distributary.core.deliver.destination import Destination
from distributary.core.flow import Demand
from distributary.core.route import RouteTable


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """Where a route delivers now: the newest revision of its resource.

    Attributes:
        revision: Of the resource.
        sink: The subscriber's sink.
        dead_letter: Its dead letter sink; None: what fails for good is kept in the store.
        events_max: How many deliveries it may make in all; None: any number.
        reply: Where an event goes that the sink answers with; None: it is dropped.
        reply_kept: The reply goes back to the Broker: where that cannot store it, the dead letter
            is the original event. Else it goes to a Subscription's ``reply``: where that does not
            take it, the dead letter is the reply (decision 15).
        parks: An answer 410 parks it: nothing is sent until somebody resumes (decision 13).
    """

    revision: int
    sink: Destination
    dead_letter: Destination | None
    events_max: int | None = None
    reply: Destination | None = None
    reply_kept: bool = False
    parks: bool = False


class Targets(Protocol):
    """The newest revision of every route's resource (DESIGN rule 5); waits for nothing."""

    def sees(self, seq: int) -> bool:
        """True where change *seq* was taken in: a route of it without a target is deleted."""

    def all_go_to(self, uri: str) -> bool:
        """True where no resource is known to have another sink than *uri*.

        Resources count whose route record still lies ahead in the log: their sinks wait too.
        """

    def changed_uris(self) -> list[str]:
        """Sinks whose waiting tasks may belong elsewhere since the last call.

        These are the URIs that changed or deleted routes had before.
        """

    def demands(self, after_seq: int) -> list[Demand]:
        """What owners were asked to do, those with a number above *after_seq*, in order."""

    def get(self, route: str) -> RouteTarget | None:
        """The target of the route with this uid; None: its resource is deleted, or not read yet."""


class ActiveRoutes(Protocol):
    """The routes at the live reader."""

    @property
    def table(self) -> RouteTable:
        """They, compiled."""

    def changed_at(self, route: str) -> int:
        """Where the filters of *route* that stand now were met; 0: before the live path began."""


def waits_for_resource(route: str) -> str:
    """Where matches wait whose resource was not read yet: no URI of a sink is like it."""
    return f"resource of {route}"
