"""Changes of the routes of Triggers and messaging Subscriptions, and their results."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from distributary.routes.settings import RouteSettings


@dataclass(frozen=True, slots=True)
class PutRoute:
    """Create or replace the route of a Trigger or messaging Subscription.

    If the route is equal already, nothing is written; that is no error.

    Attributes:
        uid: Of the object, and so of the route.
        address: Uid of the Broker or Channel where it listens; empty: the default broker.
        filters: Filter expressions; all must hold.
        present: Attributes that an event must have, with any value.
        settings: Where its deliveries go, and how.
    """

    uid: str
    address: str
    filters: tuple[dict[str, Any], ...]
    present: tuple[str, ...]
    settings: RouteSettings


@dataclass(frozen=True, slots=True)
class DropRoute:
    """Delete the route *uid*; no error if there is none.

    Attributes:
        uid: Of the object, and so of the route.
    """

    uid: str


RouteChange = PutRoute | DropRoute


class AppliedRoute(NamedTuple):
    """A change of a Trigger's or messaging Subscription's route that is committed to the store.

    Attributes:
        seq: Number of the newest change; of this one where there is one.
        op: What the change did.
        uid: The route.
        revision: Current revision of the route; its last one if it was dropped.
        record: Route record to append to every partition of the log; None: the route was equal
            already.
    """

    seq: int
    op: Literal["created", "replaced", "deleted", "unchanged"]
    uid: str
    revision: int
    record: bytes | None
