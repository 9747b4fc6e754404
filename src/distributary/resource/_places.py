"""Places at brokers: MQTT topics, AMQP addresses, Kafka topics and NATS subjects, to publish to.

Called by ``_uri`` (the path of a sink URI may name one) and by the settings of each protocol.
"""

import re
from collections.abc import Callable
from typing import Final

from distributary.resource._faults import Faults

MQTT_TOPIC_BYTES_MAX: Final = 65_535
"""Longest MQTT topic in UTF-8: what its two bytes of length can say (MQTT 5, section 1.5.4)."""

AMQP_ADDRESS_BYTES_MAX: Final = 1024
"""Longest AMQP address in UTF-8. Brokers keep names of at most 255 bytes; some address forms have
two of them and a prefix."""

KAFKA_TOPIC_CHARS_MAX: Final = 249
"""Longest name of a Kafka topic: Kafka's own limit."""

NATS_SUBJECT_BYTES_MAX: Final = 2048
"""Longest NATS subject in UTF-8: with a reply subject it fits into the 4 KiB that servers take for
one line of their protocol."""

NATS_RESERVED: Final = ("$SYS", "$JS")
"""First tokens of subjects that are the server's own: messages there are orders to it."""

KAFKA_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]+")

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Control characters: none belongs in a name, and each can end a line of some protocol."""

_NO_MQTT_TEXT = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\ufdd0-\ufdef"
    + "".join(
        f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
    )
    + "]"
)
_NATS_FORBIDDEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f*>]")


def check_mqtt_text(faults: Faults, path: str, value: object, bytes_max: int) -> str | None:
    """*value* where it is text that MQTT takes and brokers do not close the connection for.

    Source:
        MQTT 5, section 1.5.4: no NUL; control characters and non-characters may be refused.
    """
    text = faults.utf8_at(path, value, bytes_max)
    if text is None:
        return None
    if _NO_MQTT_TEXT.search(text):
        message = "control characters and non-characters cannot stand in a text of MQTT"
        faults.add(path, "value", message)
        return None
    return text


def check_mqtt_topic(faults: Faults, path: str, value: object) -> str | None:
    """*value* where an MQTT message can be published to it; else None and a fault."""
    text = check_mqtt_text(faults, path, value, MQTT_TOPIC_BYTES_MAX)
    if text is None:
        return None
    if "+" in text or "#" in text:
        faults.add(path, "value", "+ and # are wildcards: a message is published to one topic")
    elif text == "$SYS" or text.startswith("$SYS/"):
        faults.add(path, "value", "the topics under $SYS are the broker's own")
    else:
        return text
    return None


def check_amqp_address(faults: Faults, path: str, value: object) -> str | None:
    """*value* where it can be the address of an AMQP node; else None and a fault."""
    text = faults.utf8_at(path, value, AMQP_ADDRESS_BYTES_MAX)
    if text is not None and CONTROL.search(text):
        faults.add(path, "value", "control characters cannot stand in an address")
        return None
    return text


def check_kafka_topic(faults: Faults, path: str, value: object) -> str | None:
    """*value* where it is a legal name of a Kafka topic; else None and a fault."""
    text = faults.text_at(path, value, KAFKA_TOPIC_CHARS_MAX)
    if text is None:
        return None
    if not KAFKA_TOPIC.fullmatch(text):
        message = "the name of a Kafka topic has letters, digits, full stops, _ and - alone"
        faults.add(path, "value", message)
    elif text in {".", ".."}:
        faults.add(path, "value", "no Kafka topic has the name . or ..")
    else:
        return text
    return None


def check_nats_subject(faults: Faults, path: str, value: object) -> str | None:
    """*value* where a NATS message can be published to it; else None and a fault."""
    text = faults.utf8_at(path, value, NATS_SUBJECT_BYTES_MAX)
    if text is None:
        return None
    tokens = text.split(".")
    if _NATS_FORBIDDEN.search(text):
        message = "no spaces, control characters or wildcards (* and >) in a subject to publish to"
        faults.add(path, "value", message)
    elif not all(tokens):
        faults.add(path, "value", "a token between the full stops of a subject is empty")
    elif tokens[0] in NATS_RESERVED:
        faults.add(path, "value", f"the subjects under {tokens[0]} are the server's own")
    else:
        return text
    return None


PLACE_CHECKS: Final[dict[str, Callable[[Faults, str, object], str | None]]] = {
    "MQTT3": check_mqtt_topic,
    "MQTT5": check_mqtt_topic,
    "AMQP": check_amqp_address,
    "KAFKA": check_kafka_topic,
    "NATS": check_nats_subject,
}
"""Delivery protocol -> what checks the name of a place that messages are published to."""
