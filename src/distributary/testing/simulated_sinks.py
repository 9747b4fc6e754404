"""What the sinks of a simulation do with what they are sent.

Called by ``simulation``, which hands its script to a ``ScriptedTransport``.
"""

import random
from collections.abc import Callable

from distributary.deliver import Destination
from distributary.flow import Leg
from distributary.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step

__all__ = ["Behaviour", "answers", "destination", "hangs"]

Behaviour = Callable[[random.Random], Step]
"""What a sink does with an attempt."""


def answers(
    status: int = 204, after_s: float = 0.005, *, retry_after: str | None = None, body: bytes = b""
) -> Behaviour:
    """A sink that answers *status*."""
    reply = Reply(status, retry_after, None, body)
    return lambda _chance: Step(reply, after_s)


def hangs(_chance: random.Random) -> Step:
    """A sink that takes and never answers."""
    return Step(None)


def destination(uri: str, route: str, leg: Leg, policy: DeliveryPolicy) -> Destination:
    """A sink at *uri* that tells the script for whom it is."""
    # The headers tell the script for whom it is; the sinks are shared.
    headers = ((b"route", route.encode()), (b"leg", b"%d" % leg))
    return Destination(uri, headers=headers, policy=policy)
