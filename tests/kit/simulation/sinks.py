"""Behaviours of simulated sinks.

Called by ``partition``, for the script of a ``ScriptedTransport``.
"""

import dataclasses
import random
from collections.abc import Callable

from distributary.core.deliver import Destination
from distributary.core.deliver.broker_settings import SinkSettings
from distributary.core.engine import RouteTarget
from distributary.core.event import Event
from distributary.core.flow import Stage
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step

__all__ = [
    "Behaviour",
    "ScriptSettings",
    "addressee",
    "answers",
    "destination",
    "hangs",
    "origin_id",
    "replied",
    "replies",
    "reply_to",
    "target_of",
]

_REPLY = ".reply"
"""Suffix of the id of a reply, after the event's id."""
_TEMPLATE = Event({"specversion": "1.0", "id": _REPLY, "source": "/sink", "type": "reply"}, None)

Behaviour = Callable[[random.Random], Step]
"""Returns a sink's reaction to an attempt."""


def answers(
    status: int = 204, after_s: float = 0.005, *, retry_after: str | None = None, body: bytes = b""
) -> Behaviour:
    """Returns a sink that responds with *status*."""
    reply = Reply(status, retry_after, None, body)
    return lambda _chance: Step(reply, after_s)


def replies(status: int = 200, after_s: float = 0.005, *, fault: str | None = None) -> Behaviour:
    """Returns a sink that replies with an event, or (*fault*) with a malformed one."""
    event = None if fault else _TEMPLATE
    reply = Reply(status, None, None, b"", event=event, event_fault=fault)
    return lambda _chance: Step(reply, after_s)


def replied(step: Step, event: Event) -> Step:
    """Returns *step* with the reply to *event*, if it is a step of ``replies``."""
    answer = step.answer
    if not isinstance(answer, Reply) or answer.event is None:
        return step
    return step._replace(answer=dataclasses.replace(answer, event=reply_to(event)))


def reply_to(event: Event) -> Event:
    """Returns the reply of a sink of ``replies`` to *event*."""
    identity = f"{event.attributes['id']}{_REPLY}"
    return Event({**_TEMPLATE.attributes, "id": identity}, event.data)


def origin_id(event: Event) -> str:
    """Returns the id of the published event, whether *event* is it or the reply to it."""
    return str(event.attributes["id"]).removesuffix(_REPLY)


def hangs(_chance: random.Random) -> Step:
    """A sink that accepts events and never responds."""
    return Step(None)


@dataclasses.dataclass(frozen=True, slots=True)
class ScriptSettings(SinkSettings):
    """Settings that identify route and stage for the script; sinks are shared."""

    route: str
    stage: Stage

    @property
    def place(self) -> None:
        """The URI names the whole sink."""


def target_of(
    route: str,
    sink: str,
    policy: DeliveryPolicy,
    dead_letter: str | None,
    reply: str | None,
    *,
    own: bool,
) -> RouteTarget:
    """The target of the first revision of *route*; *own*: replies go to our own Broker."""
    dead = back = None
    if dead_letter is not None:
        dead = destination(dead_letter, route, Stage.DEAD_LETTER, policy)
    if reply is not None:
        back = dataclasses.replace(destination(reply, route, Stage.REPLY, policy), own=own)
    return RouteTarget(1, destination(sink, route, Stage.PRIMARY, policy), dead, reply=back)


def addressee(destination: Destination) -> tuple[str, Stage]:
    """Returns route and stage of an attempt at *destination*."""
    assert isinstance(destination.settings, ScriptSettings)
    return destination.settings.route, destination.settings.stage


def destination(uri: str, route: str, stage: Stage, policy: DeliveryPolicy) -> Destination:
    """Returns a destination at *uri* whose settings identify route and stage for the script."""
    return Destination(
        uri,
        settings=ScriptSettings(route, stage),
        policy=policy,
        wants_reply=stage is Stage.PRIMARY,
        paced_by=f"{route} {stage:d}",
    )
