"""Checks the keys of an MQTT source: a topic filter and a quality of service.

Every check returns why a value is invalid, or None. Topic filters may hold wildcards; topics to
publish to (``settings``) may not.
"""

import re
from typing import Any

from distributary.core.protocol import Reading
from distributary.protocols.mqtt.settings import TOPIC_BYTES_MAX

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def topic_filter(value: Any) -> str | None:
    """Check a topic filter: ``+`` is a whole level, ``#`` the last one."""
    if not isinstance(value, str) or not value or _CONTROL.search(value):
        return "expected a topic filter such as plant/+/events or plant/#"
    if len(value.encode()) > TOPIC_BYTES_MAX:
        return f"a topic filter has at most {TOPIC_BYTES_MAX} bytes"
    levels = value.split("/")
    if any("+" in level and level != "+" for level in levels):
        return "a + stands for a whole level: plant/+/events"
    if "#" in "/".join(levels[:-1]) or ("#" in levels[-1] and levels[-1] != "#"):
        return "a # stands for whole levels, as the last one: plant/#"
    shared = levels[0] == "$share"
    if shared and (len(levels) < 3 or not levels[1] or levels[1] == "+" or not "".join(levels[2:])):
        return "a shared subscription is $share/<group>/<filter>"
    return None


def qos(value: Any) -> str | None:
    """Check the quality of service of a subscription."""
    return None if type(value) is int and value in {0, 1, 2} else "expected 0, 1 or 2"


READING = Reading(
    "distributary.protocols.mqtt.source:make", "topicfilter", topic_filter, {"qos": qos}
)
