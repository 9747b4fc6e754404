"""``protocolsettings.delivery``: retries, waits and rate, checked and realized (decision 21).

The dead letter sink stands in the same object and is read by ``_settings``, since it holds
settings of its own.
"""

from collections.abc import Callable
from typing import Any, Final

from distributary.durations import iso_duration
from distributary.resource._faults import Faults, one_of
from distributary.resource.api_subscription import _defaults

RETRY_MAX: Final = 1000
"""Most retries. With the default waits that is three days, beyond which a dead letter serves
better."""

BACKOFF_POLICIES: Final = ("linear", "exponential")

TIMEOUT_S_MAX: Final = 600.0
"""Longest attempt, seconds. It holds a connection and a place in flight as long."""

BACKOFF_S_MAX: Final = 7 * 86_400.0
"""Longest wait, seconds: the log keeps an event for a week unless told otherwise."""

RATE_PER_S_MAX: Final = 1_000_000
"""Highest rate limit, attempts a second; one machine sends a twentieth of it."""

DELIVERY_SETTINGS: Final = (
    "retry",
    "backoffPolicy",
    "backoffDelay",
    "backoffMax",
    "timeout",
    "rateLimit",
    "deadLetterSink",
)

_ALSO_READ: Final = ("format",)
"""Knative's DeliverySpec has ``format`` here; ``_settings`` moves it to its place."""

_DURATIONS: Final = ("backoffDelay", "backoffMax", "timeout")
"""Members that are durations."""

ReadDuration = Callable[[str], float]


def realize_delivery(
    faults: Faults, path: str, value: object, duration_s: ReadDuration, *, iso_alone: bool
) -> dict[str, Any]:
    """The object with every default, without ``deadLetterSink``; faults are noted.

    Durations become ISO 8601, of whatever spelling they are; with *iso_alone* other spellings are
    faults (Knative's DeliverySpec).
    """
    wanted = faults.object_at(path, value)
    if wanted is None:
        return {}
    faults.unknown_members(path, wanted, (*DELIVERY_SETTINGS, *_ALSO_READ))
    realized: dict[str, Any] = {
        "retry": wanted.get("retry", _defaults.RETRY),
        "backoffPolicy": wanted.get("backoffPolicy", _defaults.BACKOFF_POLICY),
        "backoffDelay": wanted.get("backoffDelay", _defaults.BACKOFF_DELAY),
        "backoffMax": wanted.get("backoffMax", _defaults.BACKOFF_MAX),
        "timeout": wanted.get("timeout", _defaults.TIMEOUT),
    }
    for name in _DURATIONS:
        realized[name] = _iso(faults, f"{path}.{name}", realized[name], iso_alone=iso_alone)
    _check_retry(faults, f"{path}.retry", realized["retry"])
    _check_backoff_policy(faults, f"{path}.backoffPolicy", realized["backoffPolicy"])
    _check_waits(faults, path, realized, duration_s, max_is_given="backoffMax" in wanted)
    timeout_s = _seconds(faults, f"{path}.timeout", realized["timeout"], duration_s, TIMEOUT_S_MAX)
    if timeout_s == 0.0:
        faults.add(f"{path}.timeout", "value", "a timeout is longer than zero")
    if "rateLimit" in wanted:
        realized["rateLimit"] = wanted["rateLimit"]
        _check_rate(faults, f"{path}.rateLimit", wanted["rateLimit"])
    return realized


def check_wait(faults: Faults, path: str, value: object, duration_s: ReadDuration) -> None:
    """Note where *value* is no wait of a DeliverySpec: ISO 8601, at most ``BACKOFF_S_MAX``."""
    _seconds(faults, path, _iso(faults, path, value, iso_alone=True), duration_s, BACKOFF_S_MAX)


def _iso(faults: Faults, path: str, value: object, *, iso_alone: bool) -> str | None:
    """A duration as ISO 8601; None, and a fault, where it is none."""
    spelled = str if iso_alone else (str, int, float)
    if isinstance(value, bool) or not isinstance(value, spelled):
        expected = "an ISO 8601 duration such as PT0.2S" if iso_alone else "a duration such as 30s"
        faults.wrong_type(path, expected, value)
        return None
    assert isinstance(value, str | int | float)
    if iso_alone and isinstance(value, str) and not value.startswith("P"):
        faults.add(path, "duration", f"not an ISO 8601 duration such as PT0.2S: {value!r}")
        return None
    try:
        return iso_duration(value)
    except ValueError as error:
        faults.add(path, "duration", str(error))
        return None


def _check_retry(faults: Faults, path: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        faults.wrong_type(path, "a whole number", value)
    elif not 0 <= value <= RETRY_MAX:
        faults.add(path, "value", f"expected a number from 0 to {RETRY_MAX}")


def _check_backoff_policy(faults: Faults, path: str, value: object) -> None:
    if not isinstance(value, str):
        faults.wrong_type(path, "a string", value)
    elif value not in BACKOFF_POLICIES:
        faults.add(path, "value", f"expected one of {one_of(BACKOFF_POLICIES)}")


def _check_waits(
    faults: Faults,
    path: str,
    realized: dict[str, Any],
    duration_s: ReadDuration,
    *,
    max_is_given: bool,
) -> None:
    """Both waits; a ceiling that nobody asked for never lies below the delay that was."""
    delay, ceiling = realized["backoffDelay"], realized["backoffMax"]
    delay_s = _seconds(faults, f"{path}.backoffDelay", delay, duration_s, BACKOFF_S_MAX)
    max_s = _seconds(faults, f"{path}.backoffMax", ceiling, duration_s, BACKOFF_S_MAX)
    if delay_s is None or max_s is None or delay_s <= max_s:
        return
    if max_is_given:
        faults.add(f"{path}.backoffMax", "value", "the ceiling of waits lies below backoffDelay")
    else:
        realized["backoffMax"] = delay


def _seconds(
    faults: Faults, path: str, value: str | None, duration_s: ReadDuration, seconds_max: float
) -> float | None:
    if value is None:
        return None
    seconds = duration_s(value)
    if seconds > seconds_max:
        faults.add(path, "value", f"at most {seconds_max:.0f} seconds")
        return None
    return seconds


def _check_rate(faults: Faults, path: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        faults.wrong_type(path, "a number of deliveries a second", value)
    elif not 0 < value <= RATE_PER_S_MAX:
        faults.add(path, "value", f"expected a number above 0, at most {RATE_PER_S_MAX}")
