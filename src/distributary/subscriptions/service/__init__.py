"""The operations of the Subscriptions API, for all protocol bindings."""

from distributary.subscriptions.service._deliveries import (
    DeadLetterSelection,
    Deliveries,
    ListedDeadLetter,
    RouteState,
)
from distributary.subscriptions.service._subscriptions import PAGE_MAX, Subscriptions
from distributary.subscriptions.service._wiring import (
    PROTOCOLS_ABSENT,
    route_policy,
    rules,
)
