"""The operations of the Subscriptions API, for all protocol bindings."""

from distributary.subscriptions.service._deliveries import (
    DeadLetterSelection,
    Deliveries,
    ListedDeadLetter,
)
from distributary.subscriptions.service._orders import Orders
from distributary.subscriptions.service._runs import PHASES, Runs, RunState, run_name
from distributary.subscriptions.service._status import (
    Brief,
    Failures,
    Overview,
    RouteState,
    Statuses,
    TargetConsent,
    Word,
)
from distributary.subscriptions.service._subscriptions import PAGE_MAX, Subscriptions
from distributary.subscriptions.service._wiring import (
    PROTOCOLS_ABSENT,
    rules,
)
