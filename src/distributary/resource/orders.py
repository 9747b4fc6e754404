"""Orders: what annotations of an object say about its deliveries.

Read by ``knative``, carried out by ``subscriptions``. Two are states, ``true`` as long as they
stand; the others are carried out once for each new value.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from distributary.core.demand import RATE_MAX, RATE_MIN
from distributary.resource.times import parse_time_ms

PREFIX: Final = "distributary.dev/"
"""Begins the name of each annotation."""
PAUSED: Final = "paused"
"""``true``: nothing is sent."""
DISABLED: Final = "disabled"
"""``true``: nothing is sent, and no resume ends it."""
ENABLE: Final = "enable"
"""A new value ends that it is disabled, also by the server."""
RETRY: Final = "retry"
"""A new value makes the waiting retries now."""
REDRIVE: Final = "redrive"
"""A new value sends its kept dead letters again."""
REPLAY: Final = "replay"
"""``from=TIME[,to=TIME][,rate=N]``: a new value sends events of the log again."""
STATES: Final = (PAUSED, DISABLED)
ORDERS: Final = (PAUSED, DISABLED, ENABLE, RETRY, REDRIVE, REPLAY)
TEXT_MAX: Final = 128
"""Longest value, in characters: two times and a rate."""


class ReplayOrder(NamedTuple):
    """The order ``replay``.

    Attributes:
        since_ms: Records appended then or later, wall clock, milliseconds.
        until_ms: Before this time; None: before it was ordered.
        rate: Most events a second; None: any.
    """

    since_ms: int
    until_ms: int | None = None
    rate: float | None = None

    @staticmethod
    def read(text: str) -> "ReplayOrder":
        """Read a value of the annotation.

        Raises:
            ValueError: It is none; the message says what is expected.
        """
        expected = "expected from=TIME[,to=TIME][,rate=N], times as in RFC 3339"
        said: dict[str, str] = {}
        for part in text.split(","):
            name, equals, value = part.strip().partition("=")
            if not equals or name in said or name not in {"from", "to", "rate"}:
                raise ValueError(expected)
            said[name] = value
        if "from" not in said:
            raise ValueError(expected)
        since_ms = parse_time_ms(said["from"])
        until_ms = parse_time_ms(said["to"]) if "to" in said else None
        rate = float(said["rate"]) if "rate" in said else None
        if rate is not None and not RATE_MIN <= rate <= RATE_MAX:
            raise ValueError(f"rate is a number from {RATE_MIN:g} to {RATE_MAX:,.0f}")
        if until_ms is not None and until_ms <= since_ms:
            raise ValueError("to must be after from")
        return ReplayOrder(since_ms, until_ms, rate)


def orders_in(annotations: Mapping[str, object]) -> dict[str, str]:
    """The orders among *annotations*, by their short names."""
    found = ((name, annotations.get(PREFIX + name)) for name in ORDERS)
    return {name: text for name, text in found if isinstance(text, str)}


def fault_of(name: str, text: str) -> str | None:
    """Why the order *name* cannot have the value *text*; None: it can."""
    if name in STATES:
        return None if text in {"true", "false"} else 'expected "true" or "false"'
    if not 0 < len(text) <= TEXT_MAX:
        return f"expected 1 to {TEXT_MAX} characters"
    if name == REPLAY:
        try:
            ReplayOrder.read(text)
        except ValueError as error:
            return str(error)
    return None
