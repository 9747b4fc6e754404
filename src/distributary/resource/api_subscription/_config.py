"""``config``: how events come to be for a subscription, checked (decision 11).

A timer that makes events for this subscription alone (``interval``, ``data``, ``type``), where
in the history it begins (``start``), and when it ends by itself (``expires``, ``maxevents``).
"""

from collections.abc import Mapping
from typing import Any, Final

from distributary import event
from distributary.errors import Fault
from distributary.resource._faults import Faults
from distributary.resource._rules import Rules
from distributary.resource._times import parse_time_ms
from distributary.resource.api_subscription._shape import EARLIEST, LATEST

INTERVAL_S_MIN: Final = 1
"""Shortest interval of a timer, seconds: a timer is no source of load."""

INTERVAL_S_MAX: Final = 31_536_000
"""Longest interval of a timer, seconds: a year of 365 days."""

EVENTS_COUNT_MAX: Final = 1_000_000_000
"""Largest ``maxevents``: a day of 10,000 deliveries a second. Each is counted on disk."""

TIMER_TYPE_CHARS_MAX: Final = 1024
"""Longest event type of a timer: that of ``types``."""

TIMER_TYPE: Final = "dev.distributary.timer"
"""Type of a timer's events where the subscription names none."""

CONFIG_KEYS: Final[dict[str, dict[str, Any]]] = {
    "interval": {
        "type": "number",
        "minimum": INTERVAL_S_MIN,
        "maximum": INTERVAL_S_MAX,
        "description": (
            "A timer makes an event for this subscription alone, every so many seconds."
            " Its source is the subscription's, its type the first of types."
        ),
    },
    "data": {
        "description": "Data of the timer's events: any JSON. Absent: they have none.",
    },
    "type": {
        "type": "string",
        "minLength": 1,
        "maxLength": TIMER_TYPE_CHARS_MAX,
        "default": TIMER_TYPE,
        "description": "Type of the timer's events where types names none.",
    },
    "start": {
        "anyOf": [{"enum": [LATEST, EARLIEST]}, {"type": "string", "format": "date-time"}],
        "default": LATEST,
        "description": (
            "Where in the history a new subscription begins: with events from now on, with"
            " the oldest that is kept, or with the first of that time. Only creating one"
            " looks at it."
        ),
    },
    "expires": {
        "type": "string",
        "format": "date-time",
        "description": "When the subscription ends by itself: a time in the future.",
    },
    "maxevents": {
        "type": "integer",
        "minimum": 1,
        "maximum": EVENTS_COUNT_MAX,
        "description": "How many events are delivered before it ends by itself.",
    },
}
"""Key of ``config`` -> JSON schema of its value, with the default where there is one."""

_OF_TIMERS: Final = ("data", "type")


def read_config(faults: Faults, path: str, value: object, rules: Rules) -> dict[str, Any]:
    """The object as it stands; faults are noted. No default is filled in."""
    config = faults.object_at(path, value)
    if config is None:
        return {}
    faults.unknown_members(path, config, CONFIG_KEYS)
    if "interval" in config:
        _check_interval(faults, f"{path}.interval", config["interval"])
    else:
        for name in _OF_TIMERS:
            if name in config:
                message = "has a meaning for a timer only: there is no interval"
                faults.add(f"{path}.{name}", "not-applicable", message)
    if "type" in config:
        faults.text_at(f"{path}.type", config["type"], TIMER_TYPE_CHARS_MAX)
    if "start" in config and config["start"] not in (LATEST, EARLIEST):
        _time_ms(faults, f"{path}.start", config["start"], f"{LATEST}, {EARLIEST} or a time")
    if "expires" in config:
        expires_ms = _time_ms(faults, f"{path}.expires", config["expires"], "a time")
        if expires_ms is not None and expires_ms <= rules.wall_ms():
            faults.add(f"{path}.expires", "value", "expected a time in the future")
    if "maxevents" in config:
        _check_maxevents(faults, f"{path}.maxevents", config["maxevents"])
    return dict(config)


def check_timer(faults: Faults, realized: Mapping[str, Any]) -> None:
    """Note what would keep the timer of *realized* from making events; of a good one nothing.

    A constraint that no event can meet (a type with a line break) selects nothing; an event
    cannot be made of it.
    """
    if faults.found or "interval" not in realized.get("config", ()):
        return
    attributes = {
        "specversion": "1.0",
        "id": "1",
        "source": timer_source(realized.get("source"), "1"),
        "type": timer_type(realized.get("types", ()), realized["config"].get("type")),
    }
    type_path = "$.types[0]" if "types" in realized else "$.config.type"
    for fault in event.validate(attributes):
        path = type_path if fault.path == "$.type" else fault.path
        faults.found.append(Fault(path, fault.code, f"of the timer's events: {fault.message}"))


def timer_source(source: str | None, id_: str) -> str:
    """The ``source`` of a timer's events: the subscription's, else the path of subscription *id_*.

    Source:
        Decision 11.
    """
    return source or f"/subscriptions/{id_}"


def timer_type(types: tuple[str, ...] | list[str], chosen: str | None) -> str:
    """The ``type`` of a timer's events: the first of *types*, else *chosen*, else ``TIMER_TYPE``.

    Source:
        Decision 11.
    """
    return types[0] if types else chosen or TIMER_TYPE


def _check_interval(faults: Faults, path: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        faults.wrong_type(path, "a number of seconds", value)
    elif not INTERVAL_S_MIN <= value <= INTERVAL_S_MAX:
        message = f"expected a number of seconds from {INTERVAL_S_MIN} to {INTERVAL_S_MAX}"
        faults.add(path, "value", message)


def _check_maxevents(faults: Faults, path: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        faults.wrong_type(path, "a whole number", value)
    elif not 1 <= value <= EVENTS_COUNT_MAX:
        faults.add(path, "value", f"expected a number from 1 to {EVENTS_COUNT_MAX}")


def _time_ms(faults: Faults, path: str, value: object, expected: str) -> int | None:
    if not isinstance(value, str):
        faults.wrong_type(path, f"{expected} (RFC 3339)", value)
        return None
    try:
        return parse_time_ms(value)
    except ValueError as error:
        faults.add(path, "time", str(error))
        return None
