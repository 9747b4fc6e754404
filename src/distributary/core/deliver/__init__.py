"""Deliver: one attempt at a time, to one sink at a time, without one sink delaying another.

Called by ``partitions``, which brings the tasks that the engine sends and the answers to it. Hides
queues and breakers. Connections are the transports' (``protocols``, ``net``).

Everything runs on one event loop and by callbacks: a task or future for each delivery would
cost as much as the delivery.
"""

from distributary.core.deliver._dispatcher import Dispatcher
from distributary.core.deliver._timers import LoopTimers, Soon, TimerHandle, Timers
from distributary.core.deliver.breaker import TRANSITIONS, BreakerEvent, BreakerState
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.endpoint import Endpoint
from distributary.core.deliver.limits import Limits, attribute_bytes
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.deliver.transport import (
    BLOCKED,
    CREDENTIAL_EXPIRED,
    HOP_LIMIT,
    SATURATED,
    UNREADABLE,
    Done,
    Transport,
)
from distributary.core.policy import Answer
