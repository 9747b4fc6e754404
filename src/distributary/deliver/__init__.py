"""Deliver: one attempt at a time, to one sink at a time, without one sink delaying another.

Called by ``pipeline``, which offers tasks and classifies what comes of them, and by ``app``,
which builds the transports. Hides lanes, breakers, connections to brokers, and
the rule about which addresses may be dialled. Protocols bring the rest (``protocols``).

Everything runs on one event loop and by callbacks: a task or future for each delivery would
cost as much as the delivery.
"""

from distributary.deliver._addresses import (
    DENIED,
    METADATA,
    OWN,
    AddressRule,
    is_private,
    parse_networks,
)
from distributary.deliver._breaker import TRANSITIONS, BreakerEvent, BreakerState
from distributary.deliver._broker import BrokerTransport
from distributary.deliver._care import CAREFUL_S, Care
from distributary.deliver._connector import Connector
from distributary.deliver._destination import Destination
from distributary.deliver._dispatcher import Dispatcher
from distributary.deliver._endpoint import Endpoint
from distributary.deliver._lane_state import Admission, LaneState
from distributary.deliver._resolver import CachingResolver, Resolver, SystemResolver
from distributary.deliver._session import Flight, Lost, Opener, Session
from distributary.deliver._shared import Limits, attribute_bytes
from distributary.deliver._timers import LoopTimers, Soon, TimerHandle, Timers
from distributary.deliver._transport import (
    BLOCKED,
    CREDENTIAL_EXPIRED,
    CROWDED,
    HOP_LIMIT,
    UNREADABLE,
    Done,
    Transport,
)
from distributary.deliver._wheel import TICK_S, Wheel
from distributary.policy import Answer

__all__ = [
    "BLOCKED",
    "CAREFUL_S",
    "CREDENTIAL_EXPIRED",
    "CROWDED",
    "DENIED",
    "HOP_LIMIT",
    "METADATA",
    "OWN",
    "TICK_S",
    "TRANSITIONS",
    "UNREADABLE",
    "AddressRule",
    "Admission",
    "Answer",
    "BreakerEvent",
    "BreakerState",
    "BrokerTransport",
    "CachingResolver",
    "Care",
    "Connector",
    "Destination",
    "Dispatcher",
    "Done",
    "Endpoint",
    "Flight",
    "LaneState",
    "Limits",
    "LoopTimers",
    "Lost",
    "Opener",
    "Resolver",
    "Session",
    "Soon",
    "SystemResolver",
    "TimerHandle",
    "Timers",
    "Transport",
    "Wheel",
    "attribute_bytes",
    "is_private",
    "parse_networks",
]
