"""Delivers tasks through a queue for each destination, so that no sink delays another.

Called by ``partitions``, which passes tasks from the engine and answers back to it. Hides queues
and circuit breakers. The transports own the connections (``protocols``, ``net``).

Everything runs on one event loop with callbacks: an asyncio task or future for each delivery would
cost as much as the delivery itself.
"""

from distributary.core.deliver._dispatcher import Dispatcher
from distributary.core.deliver._timers import LoopTimers, Soon, TimerHandle, Timers
from distributary.core.deliver.breaker import TRANSITIONS, BreakerEvent, BreakerState
from distributary.core.deliver.destination import Destination, signed
from distributary.core.deliver.endpoint import Endpoint
from distributary.core.deliver.limits import Limits
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.deliver.transport import (
    BLOCKED,
    CREDENTIAL_EXPIRED,
    SATURATED,
    UNREADABLE,
    Done,
    Transport,
)
from distributary.core.policy import Answer
