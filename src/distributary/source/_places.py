"""What is read at a broker: topics, filters, subjects, addresses, and the options beside them.

Called by ``_tables``. Every check answers why a value cannot be used, or None. They differ from
those of places that are published to (``resource``): these may hold wildcards. How long they may be
is the same.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from distributary.resource import (
    AMQP_ADDRESS_BYTES_MAX,
    KAFKA_TOPIC_CHARS_MAX,
    MQTT_TOPIC_BYTES_MAX,
    NATS_SUBJECT_BYTES_MAX,
)

Check: TypeAlias = Callable[[Any], str | None]
"""Says what was expected instead of a value; None: it can be used."""

GROUP_CHARS_MAX: Final = KAFKA_TOPIC_CHARS_MAX
"""Longest name of a consumer group: the broker keeps it as it keeps names of topics."""

NATS_NAME_CHARS_MAX: Final = 32
"""Longest name of a stream or durable consumer: the servers advise it, as it names folders."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_KAFKA_TOPIC = re.compile(rf"[A-Za-z0-9._-]{{1,{KAFKA_TOPIC_CHARS_MAX}}}")
_NATS_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]+")


def topic_filter(value: Any) -> str | None:
    """A filter of MQTT topics: ``+`` is a whole level, ``#`` the last one."""
    if not isinstance(value, str) or not value or _CONTROL.search(value):
        return "expected a topic filter such as plant/+/events or plant/#"
    if len(value.encode()) > MQTT_TOPIC_BYTES_MAX:
        return f"a topic filter has at most {MQTT_TOPIC_BYTES_MAX} bytes"
    levels = value.split("/")
    if any("+" in level and level != "+" for level in levels):
        return "a + stands for a whole level: plant/+/events"
    if "#" in "/".join(levels[:-1]) or ("#" in levels[-1] and levels[-1] != "#"):
        return "a # stands for whole levels, as the last one: plant/#"
    shared = levels[0] == "$share"
    if shared and (len(levels) < 3 or not levels[1] or levels[1] == "+" or not "".join(levels[2:])):
        return "a shared subscription is $share/<group>/<filter>"
    return None


def amqp_address(value: Any) -> str | None:
    """The address of an AMQP node."""
    if not isinstance(value, str) or not value or _CONTROL.search(value):
        return "expected an address such as orders or /queues/orders"
    if len(value.encode()) > AMQP_ADDRESS_BYTES_MAX:
        return f"an address has at most {AMQP_ADDRESS_BYTES_MAX} bytes"
    return None


def kafka_topic(value: Any) -> str | None:
    """The name of one Kafka topic."""
    if not isinstance(value, str) or not _KAFKA_TOPIC.fullmatch(value) or value in {".", ".."}:
        return (
            "expected the name of a topic: letters, digits, full stops, _ and -,"
            f" at most {KAFKA_TOPIC_CHARS_MAX}"
        )
    return None


def nats_subject(value: Any) -> str | None:
    """A NATS subject: ``*`` is a whole token, ``>`` the last ones."""
    if not isinstance(value, str) or not value or re.search(r"\s", value) or _CONTROL.search(value):
        return "expected a subject such as orders.*.made or orders.>"
    if len(value.encode()) > NATS_SUBJECT_BYTES_MAX:
        return f"a subject has at most {NATS_SUBJECT_BYTES_MAX} bytes"
    words = value.split(".")  # NATS calls them tokens
    if not all(words):
        return "a token between the full stops of a subject is empty"
    if any("*" in word and word != "*" for word in words):
        return "a * stands for a whole token: orders.*.made"
    if ">" in ".".join(words[:-1]) or (">" in words[-1] and words[-1] != ">"):
        return "a > stands for all that follows, as the last token: orders.>"
    return None


def qos(value: Any) -> str | None:
    """Quality of service of an MQTT subscription."""
    return None if type(value) is int and value in {0, 1, 2} else "expected 0, 1 or 2"


def group(value: Any) -> str | None:
    """A consumer group of Kafka."""
    fits = isinstance(value, str) and 0 < len(value) <= GROUP_CHARS_MAX
    if fits and not _CONTROL.search(value):
        return None
    return f"expected the name of a consumer group, at most {GROUP_CHARS_MAX} characters"


def offset_reset(value: Any) -> str | None:
    """Where a consumer group of Kafka begins."""
    if value in ("earliest", "latest"):
        return None
    return "expected earliest or latest"


def _nats_name(what: str) -> Check:
    def check(value: Any) -> str | None:
        fits = isinstance(value, str) and _NATS_NAME.fullmatch(value)
        if fits and len(value) <= NATS_NAME_CHARS_MAX:
            return None
        return (
            f"expected the name of a {what}: no spaces, full stops, wildcards or slashes,"
            f" at most {NATS_NAME_CHARS_MAX} characters"
        )

    return check


consumer = _nats_name("durable consumer")
stream = _nats_name("stream")

PLACES: Final[Mapping[str, Check]] = {
    "MQTT3": topic_filter,
    "MQTT5": topic_filter,
    "AMQP": amqp_address,
    "KAFKA": kafka_topic,
    "NATS": nats_subject,
}
"""Protocol -> what checks the place that is read."""
