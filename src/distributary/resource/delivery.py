"""``protocolsettings.delivery``: retries, waits and rate (decision 21, delivery settings).

``_settings`` reads the dead letter sink, which is in the same object but has settings itself.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

from distributary.core.policy import (
    BACKOFF_DELAY_S_DEFAULT,
    BACKOFF_POLICY_DEFAULT,
    BACKOFF_S_MAX_DEFAULT,
    RETRY_DEFAULT,
    TIMEOUT_S_DEFAULT,
    BackoffPolicy,
    DeliveryPolicy,
)
from distributary.resource import patterns
from distributary.resource.durations import (
    TEXT_CHARS_MAX,
    format_duration,
    iso_duration,
    parse_duration_s,
)
from distributary.resource.faults import Faults
from distributary.resource.schema import Schema, checked, closed, with_defaults

RETRY_MAX: Final = 1000
"""Most retries: three days at the default waits, beyond which a dead letter serves better."""

BACKOFF_POLICIES: Final = tuple(each.value for each in BackoffPolicy)

TIMEOUT_S_MAX: Final = 600.0
"""Longest attempt, seconds. It holds a connection and a place in flight as long."""

BACKOFF_S_MAX: Final = 7 * 86_400.0
"""Longest wait, seconds. By default the log keeps an event for a week."""

POLICIES_KNOWN_MAX: Final = 1_024
"""Policies that are remembered: most resources have the defaults, and share one object."""

RATE_PER_S_MAX: Final = 1_000_000
"""Highest rate limit, attempts a second; one machine sends a twentieth of it."""


def _why_no_duration(text: str) -> str:
    try:
        iso_duration(text)
    except ValueError as error:
        return str(error)
    return f"not an ISO 8601 duration such as PT0.2S: {text!r}"


def _realize_duration(seconds_max: float, faults: Faults, path: str, value: Any) -> str | None:
    """Return a duration of any spelling as ISO 8601; None, with a fault, where it is too long."""
    try:
        text = iso_duration(value)
    except ValueError as error:  # over ten years
        faults.add(path, "duration", str(error))
        return None
    if parse_duration_s(text) > seconds_max:
        faults.add(path, "value", f"at most {seconds_max:.0f} seconds")
        return None
    return text


def _duration(default_s: float, text: str, seconds_max: float) -> Schema:
    return {
        "type": ["string", "number"],
        "pattern": patterns.DURATION,
        "maxLength": TEXT_CHARS_MAX,
        "minimum": 0,
        "maximum": seconds_max,
        "default": format_duration(default_s),
        "description": f"{text} A duration such as PT30S, 30s or 30; answered as ISO 8601.",
        "x-codes": dict.fromkeys(("pattern", "maxLength", "minimum"), "duration"),
        "x-expected": _why_no_duration,
        "x-rule": functools.partial(_realize_duration, seconds_max),
    }


DELIVERY: Final[dict[str, Schema]] = {
    "retry": {
        "type": "integer",
        "minimum": 0,
        "maximum": RETRY_MAX,
        "default": RETRY_DEFAULT,
        "description": "Retries after the first attempt.",
    },
    "backoffPolicy": {
        "enum": list(BACKOFF_POLICIES),
        "default": BACKOFF_POLICY_DEFAULT.value,
        "description": "Waits are constant, or double.",
    },
    "backoffDelay": _duration(BACKOFF_DELAY_S_DEFAULT, "The first wait.", BACKOFF_S_MAX),
    "backoffMax": _duration(BACKOFF_S_MAX_DEFAULT, "Ceiling of a wait.", BACKOFF_S_MAX),
    "timeout": _duration(TIMEOUT_S_DEFAULT, "Deadline of one attempt.", TIMEOUT_S_MAX),
    "rateLimit": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": RATE_PER_S_MAX,
        "description": "Most deliveries a second; absent: no limit.",
    },
}
"""Member of ``delivery`` -> its schema, in the order of realized objects."""

_SPEC: Final = DELIVERY | {
    name: DELIVERY[name] | {"type": "string", "pattern": patterns.ISO_DURATION}
    for name in ("backoffDelay", "backoffMax", "timeout")
}
"""The same in Knative's DeliverySpec, where durations are ISO 8601."""

WAIT: Final = _SPEC["backoffMax"]
"""Any wait of a DeliverySpec."""

_MEMBERS: Final = (*DELIVERY, "deadLetterSink", "format")
"""Knative's DeliverySpec has ``format`` here; ``_settings`` moves it."""


def realize_delivery(
    faults: Faults, path: str, value: object, *, iso_alone: bool = False
) -> dict[str, Any]:
    """Return the object with every default, without ``deadLetterSink``; faults are noted.

    Durations of any spelling become ISO 8601. With *iso_alone* other spellings are faults
    (Knative's DeliverySpec).
    """
    written = faults.object_at(path, value)
    if written is None:
        return {}
    faults.unknown_members(path, written, _MEMBERS)
    schemas = _SPEC if iso_alone else DELIVERY
    realized: dict[str, Any] = checked(
        faults, path, closed(schemas), with_defaults(schemas, written)
    )
    _check_waits(faults, path, realized, max_is_given="backoffMax" in written)
    if realized["timeout"] is not None and parse_duration_s(realized["timeout"]) == 0.0:
        faults.add(f"{path}.timeout", "value", "a timeout is longer than zero")
    return realized


def _check_waits(
    faults: Faults, path: str, realized: dict[str, Any], *, max_is_given: bool
) -> None:
    """Check both waits; a defaulted ``backoffMax`` is raised to ``backoffDelay``."""
    delay, ceiling = realized["backoffDelay"], realized["backoffMax"]
    if delay is None or ceiling is None or parse_duration_s(delay) <= parse_duration_s(ceiling):
        return
    if max_is_given:
        faults.add(f"{path}.backoffMax", "value", "the ceiling of waits lies below backoffDelay")
    else:
        realized["backoffMax"] = delay


def policy_of(realized: Mapping[str, Any]) -> DeliveryPolicy:
    """The policy that *realized* says: what ``realize_delivery`` has returned.

    A ``retryAfterMax`` may be added, which Knative's DeliverySpec has beside it.

    Raises:
        LookupError, TypeError, ValueError, AssertionError: It is something else.
    """
    return _known_policy(
        retry=realized["retry"],
        backoff=realized["backoffPolicy"],
        delay=realized["backoffDelay"],
        longest=realized["backoffMax"],
        timeout=realized["timeout"],
        rate=realized.get("rateLimit"),
        asked=realized.get("retryAfterMax"),
    )


@functools.lru_cache(POLICIES_KNOWN_MAX)
def _known_policy(
    *,
    retry: int,
    backoff: str,
    delay: str,
    longest: str,
    timeout: str,
    rate: float | None,
    asked: str | None,
) -> DeliveryPolicy:
    return DeliveryPolicy(
        retry=retry,
        backoff_policy=BackoffPolicy(backoff),
        backoff_delay_s=parse_duration_s(delay),
        backoff_max_s=parse_duration_s(longest),
        timeout_s=parse_duration_s(timeout),
        rate_limit_per_s=rate,
        retry_after_max_s=None if asked is None else parse_duration_s(asked),
    )
