"""Checks the keys of a Kafka source: a topic, a consumer group and its offset reset.

Every check returns why a value is invalid, or None.
"""

import re
from typing import Any, Final

from distributary.core.protocol import Reading
from distributary.protocols.kafka.settings import TOPIC_CHARS_MAX

GROUP_CHARS_MAX: Final = TOPIC_CHARS_MAX
"""Longest name of a consumer group: the same as for a topic."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_TOPIC = re.compile(rf"[A-Za-z0-9._-]{{1,{TOPIC_CHARS_MAX}}}")


def topic(value: Any) -> str | None:
    """Check the name of a topic."""
    if not isinstance(value, str) or not _TOPIC.fullmatch(value) or value in {".", ".."}:
        return (
            "expected the name of a topic: letters, digits, full stops, _ and -,"
            f" at most {TOPIC_CHARS_MAX}"
        )
    return None


def group(value: Any) -> str | None:
    """Check the name of a consumer group."""
    fits = isinstance(value, str) and 0 < len(value) <= GROUP_CHARS_MAX
    if fits and not _CONTROL.search(value):
        return None
    return f"expected the name of a consumer group, at most {GROUP_CHARS_MAX} characters"


def offset_reset(value: Any) -> str | None:
    """Check where a consumer group without commits begins."""
    if value in ("earliest", "latest"):
        return None
    return "expected earliest or latest"


READING = Reading(
    "distributary.protocols.kafka.source:make",
    "topicname",
    topic,
    {"group": group, "offsetreset": offset_reset},
)
