"""Scripted behaviour of a sink: statuses, delays, resets and other misbehaviour for tests.

Callers: ``listen`` (from flags), its server (for each request), ``PUT /__behaviour``.
Hides: the choice of a status, which is pure: chance is an argument.
"""

from typing import Literal

import msgspec

from distributary.core.errors import Fault, ResourceError

Reset = Literal["", "connect", "request", "status", "body"]
"""Cut the connection: on connect, after the request, after the status line, amid the body."""

Slow = Literal["", "head", "body"]
"""Send the head or the body of the response at one byte a second."""


class StatusChance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A status to answer with some probability.

    Attributes:
        status: 100 to 599.
        chance: Probability, above 0 to 1.
    """

    status: int
    chance: float = 1.0


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sink does with each request; by default it responds 200 at once.

    Attributes:
        delay_s: Wait before each response, seconds.
        statuses: Statuses drawn in this order; the rest of the probability is 200.
        fail_first: Requests since this behaviour was set that get ``fail_status``.
        fail_status: See ``fail_first``.
        hang: Read every request and respond to none.
        reset: Cut the connection at this point; empty: do not.
        slow: Which part of the response drips; empty: none.
        endless_body: Respond with a body that never ends.
        retry_after: Value of ``Retry-After`` on responses other than 2xx; sent unchanged.
    """

    delay_s: float = 0.0
    statuses: tuple[StatusChance, ...] = ()
    fail_first: int = 0
    fail_status: int = 503
    hang: bool = False
    reset: Reset = ""
    slow: Slow = ""
    endless_body: bool = False
    retry_after: str = ""


def choose_status(behaviour: Behaviour, request: int, draw: float) -> int:
    """Choose the status for a request.

    Args:
        behaviour: In force.
        request: Number of the request since that was set, from 1.
        draw: Chance, ``0.0 <= draw < 1.0``.
    """
    if request <= behaviour.fail_first:
        return behaviour.fail_status
    for option in behaviour.statuses:
        if draw < option.chance:
            return option.status
        draw -= option.chance
    return 200


def parse_status(text: str) -> StatusChance:
    """Parse ``503`` or ``503:0.3`` from the command line.

    Raises:
        ValueError: It is neither; the message names what is expected.
    """
    status, _, chance = text.partition(":")
    try:
        parsed = StatusChance(int(status), float(chance or 1.0))
    except ValueError:
        parsed = StatusChance(0)
    if not _is_possible(parsed):
        raise ValueError(f"expected a status such as 503, or 503:0.3 (probability); got {text!r}")
    return parsed


def _is_possible(option: StatusChance) -> bool:
    return 100 <= option.status <= 599 and 0.0 < option.chance <= 1.0


def decode(body: bytes) -> Behaviour:
    """Decode a behaviour from a JSON body; absent members have their defaults.

    Raises:
        ResourceError: It is not such an object.
    """
    try:
        behaviour = msgspec.json.decode(body, type=Behaviour)
    except msgspec.MsgspecError as error:
        raise ResourceError([Fault("$", "invalid", str(error))]) from error
    faults = check(behaviour)
    if faults:
        raise ResourceError(faults)
    return behaviour


def check(behaviour: Behaviour) -> list[Fault]:
    """Return what is out of range in *behaviour*."""
    faults = [
        Fault(f"$.statuses[{place}]", "range", "expected status 100 to 599, chance above 0 to 1")
        for place, option in enumerate(behaviour.statuses)
        if not _is_possible(option)
    ]
    if not 0.0 <= behaviour.delay_s <= 3600.0:
        faults.append(Fault("$.delay_s", "range", "expected 0 to 3600 seconds"))
    if behaviour.fail_first < 0:
        faults.append(Fault("$.fail_first", "range", "expected 0 or more"))
    if not 100 <= behaviour.fail_status <= 599:
        faults.append(Fault("$.fail_status", "range", "expected 100 to 599"))
    if any(character in behaviour.retry_after for character in "\r\n\0"):
        faults.append(Fault("$.retry_after", "invalid", "expected one line"))
    return faults
