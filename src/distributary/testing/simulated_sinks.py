"""What the sinks of a simulation do with what they are sent.

Called by ``simulation``, which hands its script to a ``ScriptedTransport``.
"""

import dataclasses
import random
from collections.abc import Callable

from distributary.core.deliver import Destination
from distributary.core.event import Event
from distributary.core.flow import Stage
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step

__all__ = [
    "Behaviour",
    "answers",
    "destination",
    "hangs",
    "origin_id",
    "replied",
    "replies",
    "reply_to",
]

_REPLY = ".reply"
"""The id of a reply is that of the event with this behind it."""
_TEMPLATE = Event({"specversion": "1.0", "id": _REPLY, "source": "/sink", "type": "reply"}, None)

Behaviour = Callable[[random.Random], Step]
"""What a sink does with an attempt."""


def answers(
    status: int = 204, after_s: float = 0.005, *, retry_after: str | None = None, body: bytes = b""
) -> Behaviour:
    """A sink that answers *status*."""
    reply = Reply(status, retry_after, None, body)
    return lambda _chance: Step(reply, after_s)


def replies(status: int = 200, after_s: float = 0.005, *, fault: str | None = None) -> Behaviour:
    """A sink that answers with an event, or (*fault*) with what only says that it is one."""
    event = None if fault else _TEMPLATE
    reply = Reply(status, None, None, b"", event=event, event_fault=fault)
    return lambda _chance: Step(reply, after_s)


def replied(step: Step, event: Event) -> Step:
    """*step* with the reply to *event*, where it is a step of ``replies``."""
    answer = step.answer
    if not isinstance(answer, Reply) or answer.event is None:
        return step
    return step._replace(answer=dataclasses.replace(answer, event=reply_to(event)))


def reply_to(event: Event) -> Event:
    """What a sink of ``replies`` answers *event* with."""
    identity = f"{event.attributes['id']}{_REPLY}"
    return Event({**_TEMPLATE.attributes, "id": identity}, event.data)


def origin_id(event: Event) -> str:
    """The id of the event that was published, whether *event* is it or the reply to it."""
    return str(event.attributes["id"]).removesuffix(_REPLY)


def hangs(_chance: random.Random) -> Step:
    """A sink that takes and never answers."""
    return Step(None)


def destination(uri: str, route: str, stage: Stage, policy: DeliveryPolicy) -> Destination:
    """A sink at *uri* that tells the script for whom it is."""
    # The headers tell the script for whom it is; the sinks are shared.
    headers = ((b"route", route.encode()), (b"leg", b"%d" % stage))
    return Destination(
        uri,
        headers=headers,
        policy=policy,
        wants_reply=stage is Stage.PRIMARY,
        paced_by=f"{route} {stage:d}",
    )
