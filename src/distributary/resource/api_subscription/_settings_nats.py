"""``protocolsettings`` of NATS.

Source:
    Subscriptions API 3.2.2.5; decision 27 (settings of brokers): ``jetstream`` is ours to add.
"""

from collections.abc import Mapping
from typing import Any, Final

from distributary.resource import patterns
from distributary.resource._broker_settings import NatsSettings
from distributary.resource._places import NATS_SUBJECT_BYTES_MAX
from distributary.resource._schema import Schema

SETTINGS: Final[dict[str, Schema]] = {
    "subject": {
        "type": "string",
        "minLength": 1,
        "maxLength": NATS_SUBJECT_BYTES_MAX,
        "pattern": patterns.NATS_SUBJECT,
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


def restore(realized: Mapping[str, Any]) -> NatsSettings:
    """See ``_protocols.ProtocolSettings``."""
    return NatsSettings(subject=realized["subject"], jetstream=realized.get("jetstream"))
