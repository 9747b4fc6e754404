"""The operations of the Subscriptions API, whatever protocol they arrive by."""

from distributary.subscriptions.service._deliveries import (
    Deliveries,
    ListedDeadLetter,
    RouteState,
    Selection,
)
from distributary.subscriptions.service._subscriptions import PAGE_MAX, Subscriptions
from distributary.subscriptions.service._wiring import (
    PROTOCOLS_ABSENT,
    route_policy,
    rules,
)

__all__ = [
    "PAGE_MAX",
    "PROTOCOLS_ABSENT",
    "Deliveries",
    "ListedDeadLetter",
    "RouteState",
    "Selection",
    "Subscriptions",
    "route_policy",
    "rules",
]
