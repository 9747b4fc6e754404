"""``protocolsettings`` of NATS.

Source:
    Subscriptions API 3.2.2.5; decision 27 (settings of brokers): ``jetstream`` is an addition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from distributary.core.deliver.broker_settings import BrokerSettings
from distributary.resource import Schema

SUBJECT_BYTES_MAX: Final = 2048
"""Longest NATS subject in UTF-8: with a reply subject it fits into 4 KiB, the servers' limit for a
line of the protocol."""

_CHAR: Final = "[^\\s\\u0000-\\u001f\\u007f-\\u009f*>.]"

SUBJECT: Final = f"^{_CHAR}+(?:\\.{_CHAR}+)*$"
"""A subject to publish to: no wildcards, no spaces, no empty token."""

SETTINGS: Final[dict[str, Schema]] = {
    "subject": {
        "type": "string",
        "minLength": 1,
        "maxLength": SUBJECT_BYTES_MAX,
        "pattern": SUBJECT,
        "not": {
            "pattern": "^(?:\\$SYS|\\$JS)(?:\\.|$)",
            "x-expected": "the subjects under $SYS and $JS are the server's own: orders to it",
        },
        "description": "The subject to publish to, without wildcards.",
        "x-utf8": True,
        "x-expected": (
            "a subject to publish to has no spaces, control characters or wildcards (* and >), and"
            " no token between its full stops is empty"
        ),
    },
    "jetstream": {
        "type": "boolean",
        "description": (
            "true: only a stream's acknowledgement counts; false: core publish, without"
            " acknowledgement, so that events can be lost; absent: by JetStream where a stream"
            " holds the subject, by core publish where none does."
        ),
    },
}
"""Setting -> its schema, in the order of realized objects."""


@dataclass(frozen=True, slots=True)
class NatsSettings(BrokerSettings):
    """Protocol settings of NATS.

    Attributes:
        subject: Subject to publish to; no wildcards.
        jetstream: True: only an acknowledgement of a stream counts; without a stream for the
            subject the event is not delivered. None: JetStream if a stream holds the subject, else
            core publish (decision 27, settings of brokers). False: core publish.
    """

    subject: str
    jetstream: bool | None = None

    @property
    def place(self) -> str:
        """The subject, which identifies a sink at the server."""
        return self.subject


def restore(realized: Mapping[str, Any]) -> NatsSettings:
    """See ``core.protocol.Protocol``."""
    return NatsSettings(subject=realized["subject"], jetstream=realized.get("jetstream"))
