"""Changes of the routes of Triggers and messaging Subscriptions, and what they came to."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from distributary.routes.settings import RouteSettings


@dataclass(frozen=True, slots=True)
class PutRoute:
    """The route of a Trigger or messaging Subscription shall stand like this.

    One that stands like this already is left alone: nothing is written, and it is no error.

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
    """The route *uid* shall not stand any more; one that does not is no error.

    Attributes:
        uid: Of the object, and so of the route.
    """

    uid: str


RouteChange = PutRoute | DropRoute


class AppliedRoute(NamedTuple):
    """A change of a Trigger's or messaging Subscription's route that is committed to the store.

    Attributes:
        seq: Number of the newest change; of this one where there is one.
        op: What it came to.
        uid: The route.
        revision: In which it stands; where it was dropped, stood.
        record: The route record that every partition of the log has to take; None: the route stood
            like this already.
    """

    seq: int
    op: Literal["created", "replaced", "deleted", "unchanged"]
    uid: str
    revision: int
    record: bytes | None
