"""``config``: timer, Broker, start and end of a subscription (decision 11, timers and ends).

A timer that makes events for this subscription alone (``interval``, ``data``, ``type``), the point
in history where it starts (``start``), when it ends (``expires``, ``maxevents``), the Broker that
it listens to (``broker``), and whether it is told of itself (``lifecycle``).
"""

from collections.abc import Mapping
from typing import Any, Final

from distributary.core import event
from distributary.core.errors import Fault
from distributary.core.tenant import BROKER_NAME, DEFAULT_NAMESPACE, LIFECYCLE_BROKER, path_in
from distributary.resource.faults import Faults
from distributary.resource.rules import ResourceRules
from distributary.resource.schema import Schema, checked, closed
from distributary.resource.times import parse_time_ms
from distributary.subscriptions.resource._shape import EARLIEST, LATEST

INTERVAL_S_MIN: Final = 1
"""Shortest interval of a timer, seconds: timers are not load generators."""

INTERVAL_S_MAX: Final = 31_536_000
"""Longest interval of a timer, seconds: a year of 365 days."""

EVENTS_COUNT_MAX: Final = 1_000_000_000
"""Largest ``maxevents``: a day of 10,000 deliveries a second. Each is counted on disk."""

TIMER_TYPE_CHARS_MAX: Final = 1024
"""Longest event type of a timer, as in ``types``."""

TIMER_TYPE: Final = "dev.distributary.timer"
"""Default type of a timer's events."""

BROKER_NAME_CHARS_MAX: Final = 253
"""Longest name of a Broker, as of any object of Kubernetes."""

BROKER_NAME_PATTERN: Final = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
"""Characters of the name of a Broker."""

CONFIG_KEYS: Final[dict[str, Schema]] = {
    "interval": {
        "type": "number",
        "minimum": INTERVAL_S_MIN,
        "maximum": INTERVAL_S_MAX,
        "description": (
            "Interval in seconds of a timer that makes events for this subscription alone."
            " Their source is the subscription's, their type the first of types."
        ),
    },
    "data": {
        "description": "Data of the timer's events: any JSON. Absent: none.",
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
            "Where in the history a new subscription starts: with new events, with"
            " the oldest that is kept, or with the first of that time. Used on create only."
        ),
    },
    "expires": {
        "type": "string",
        "format": "date-time",
        "description": "When the subscription is deleted: a time in the future.",
    },
    "maxevents": {
        "type": "integer",
        "minimum": 1,
        "maximum": EVENTS_COUNT_MAX,
        "description": "Deliveries after which the subscription is deleted.",
    },
    "broker": {
        "type": "string",
        "minLength": 1,
        "maxLength": BROKER_NAME_CHARS_MAX,
        "pattern": BROKER_NAME_PATTERN,
        "default": BROKER_NAME,
        "description": (
            "Name of the Broker, in the namespace of the subscription, whose events it gets."
            f" {LIFECYCLE_BROKER}: what becomes of the subscriptions of this namespace, told by"
            " the server."
        ),
    },
    "lifecycle": {
        "type": "boolean",
        "default": False,
        "description": (
            "Whether the sink gets events about the subscription itself: that it was started,"
            " updated, paused, disabled and so on, whatever its filters are."
        ),
    },
}
"""Key of ``config`` -> JSON schema of its value, with the meaning of its absence if it has one."""

CONFIG: Final[Schema] = closed(CONFIG_KEYS) | {
    "dependentRequired": {"data": ["interval"], "type": ["interval"]},
    "description": "Timer, Broker, start and end of the subscription.",
}


def read_config(faults: Faults, path: str, value: object, rules: ResourceRules) -> dict[str, Any]:
    """Return the object unchanged, without defaults; faults are noted."""
    config: dict[str, Any] = checked(faults, path, CONFIG, value) or {}
    expires = config.get("expires")
    if expires is not None and parse_time_ms(expires) <= rules.wall_ms():
        faults.add(f"{path}.expires", "value", "expected a time in the future")
    return config


def check_timer(faults: Faults, realized: Mapping[str, Any]) -> None:
    """Note whatever would keep the timer of *realized* from making valid events.

    A constraint that no event meets (a type with a line break) is harmless in a filter, but a
    timer event needs a valid attribute.
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


def timer_source(source: str | None, id_: str, namespace: str = DEFAULT_NAMESPACE) -> str:
    """The ``source`` of a timer's events: the subscription's, else its path.

    Source:
        Decision 11, timers and ends.
    """
    return source or path_in(namespace, f"/subscriptions/{id_}")


def timer_type(types: tuple[str, ...] | list[str], chosen: str | None) -> str:
    """The ``type`` of a timer's events: the first of *types*, else *chosen*, else ``TIMER_TYPE``.

    Source:
        Decision 11, timers and ends.
    """
    return types[0] if types else chosen or TIMER_TYPE
