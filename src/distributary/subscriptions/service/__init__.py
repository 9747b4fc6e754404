"""The operations of the Subscriptions API, whatever protocol they arrive by."""

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
