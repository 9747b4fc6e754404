"""Checks the keys of a NATS source: a subject, a stream and a durable consumer.

Every check returns why a value is invalid, or None. Subjects to read may hold wildcards; subjects
to publish to (``settings``) may not.
"""

import re
from typing import Any, Final

from distributary.core.protocol import Check, Reading
from distributary.protocols.nats.settings import SUBJECT_BYTES_MAX

NAME_CHARS_MAX: Final = 32
"""Longest name of a stream or durable consumer: NATS recommends it, since it names folders."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]+")


def subject(value: Any) -> str | None:
    """Check a subject: ``*`` is a whole token, ``>`` the last ones."""
    if not isinstance(value, str) or not value or re.search(r"\s", value) or _CONTROL.search(value):
        return "expected a subject such as orders.*.made or orders.>"
    if len(value.encode()) > SUBJECT_BYTES_MAX:
        return f"a subject has at most {SUBJECT_BYTES_MAX} bytes"
    words = value.split(".")  # NATS calls them tokens
    if not all(words):
        return "a token between the full stops of a subject is empty"
    if any("*" in word and word != "*" for word in words):
        return "a * stands for a whole token: orders.*.made"
    if ">" in ".".join(words[:-1]) or (">" in words[-1] and words[-1] != ">"):
        return "a > stands for all that follows, as the last token: orders.>"
    return None


def _name(what: str) -> Check:
    def check(value: Any) -> str | None:
        fits = isinstance(value, str) and _NAME.fullmatch(value)
        if fits and len(value) <= NAME_CHARS_MAX:
            return None
        return (
            f"expected the name of a {what}: no spaces, full stops, wildcards or slashes,"
            f" at most {NAME_CHARS_MAX} characters"
        )

    return check


READING = Reading(
    "distributary.protocols.nats.source:make",
    "subject",
    subject,
    {"durable": _name("durable consumer"), "stream": _name("stream")},
)
