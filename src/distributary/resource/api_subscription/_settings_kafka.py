"""``protocolsettings`` of Apache Kafka.

Source:
    Subscriptions API 3.2.2.4; decisions 19 and 27: the topic stands in the settings, or in the
    path of the sink URI, or in both alike; without an extractor records have no key.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from distributary import event
from distributary.resource._broker_settings import KafkaSettings
from distributary.resource._faults import Faults, one_of
from distributary.resource._places import check_kafka_topic
from distributary.resource._uri import SinkUri
from distributary.resource.api_subscription import _defaults

NAMES: Final = ("topicname", "partitionkeyextractor", "clientid", "acks")

ACKS: Final = ("all", "-1", "1", "0")
"""Accepted texts of ``acks``; ``-1`` is Kafka's other name for ``all``."""

CLIENT_ID_CHARS_MAX: Final = 249
"""Longest ``clientid``: as names of topics, since brokers keep metrics and quotas under it."""

CLIENT_ID: Final = "[!-~](?:[ -~]*[!-~])?"
"""Pattern of a ``clientid``: printable ASCII that neither begins nor ends with a space."""

_CLIENT_ID = re.compile(CLIENT_ID)


def realize(
    faults: Faults, path: str, written: Mapping[str, Any], sink: SinkUri | None
) -> dict[str, Any]:
    """See ``_protocols.ProtocolSettings``."""
    realized: dict[str, Any] = {"topicname": _topic(faults, f"{path}.topicname", written, sink)}
    if "partitionkeyextractor" in written:
        realized["partitionkeyextractor"] = written["partitionkeyextractor"]
        _check_extractor(faults, f"{path}.partitionkeyextractor", written["partitionkeyextractor"])
    client_id = written.get("clientid", _defaults.CLIENT_ID)
    realized["clientid"] = client_id
    text = faults.text_at(f"{path}.clientid", client_id, CLIENT_ID_CHARS_MAX)
    if text is not None and not _CLIENT_ID.fullmatch(text):
        message = "a client id is printable ASCII, and neither begins nor ends with a space"
        faults.add(f"{path}.clientid", "value", message)
    realized["acks"] = _acks(faults, f"{path}.acks", written.get("acks", _defaults.ACKS))
    return realized


def restore(realized: Mapping[str, Any]) -> KafkaSettings:
    """See ``_protocols.ProtocolSettings``."""
    return KafkaSettings(
        topicname=realized["topicname"],
        partitionkeyextractor=realized.get("partitionkeyextractor"),
        clientid=realized["clientid"],
        acks=realized["acks"],
    )


def _topic(
    faults: Faults, path: str, written: Mapping[str, Any], sink: SinkUri | None
) -> str | None:
    named = None if sink is None else sink.place
    if "topicname" in written:
        topic = check_kafka_topic(faults, path, written["topicname"])
        if topic is not None and sink is not None and not sink.agrees_with(topic):
            faults.add(path, "conflict", "differs from what the path of the sink names")
        return topic
    if named is None and sink is not None:
        message = "required where the path of the sink does not name the topic"
        faults.add(path, "missing", message)
    return named


def _check_extractor(faults: Faults, path: str, value: object) -> None:
    text = faults.text_at(path, value, event.NAME_CHARS_MAX)
    if text is not None and (not event.is_name(text) or text in event.RESERVED_NAMES):
        message = "expected the name of a CloudEvents attribute: lower-case letters and digits"
        faults.add(path, "value", message)


def _acks(faults: Faults, path: str, value: object) -> object:
    if not isinstance(value, str):
        faults.wrong_type(path, "a string", value)
    elif value not in ACKS:
        faults.add(path, "value", f"expected one of {one_of(ACKS)}")
    return "all" if value == "-1" else value
