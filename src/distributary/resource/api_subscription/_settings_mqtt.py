"""``protocolsettings`` of MQTT 3 and MQTT 5.

Source:
    Subscriptions API 3.2.2.2; decision 27: ``expiry`` and ``userproperties`` are MQTT 5's alone.
"""

from collections.abc import Mapping
from typing import Any, Final

from distributary.resource._broker_settings import MqttSettings
from distributary.resource._faults import Faults, member
from distributary.resource._places import check_mqtt_text, check_mqtt_topic
from distributary.resource._uri import SinkUri
from distributary.resource.api_subscription import _defaults
from distributary.resource.api_subscription._maps import ENTRIES_BYTES_MAX, bounded_map

NAMES_3: Final = ("topicname", "qos", "retain")
NAMES_5: Final = (*NAMES_3, "expiry", "userproperties")

QOS_MAX: Final = 2
"""Highest quality of service: exactly once, between the broker and us."""

EXPIRY_S_MAX: Final = 0xFFFF_FFFF
"""Longest ``expiry``, seconds: what the four bytes of the property can say."""

OWN_PROPERTIES: Final = (
    "specversion",
    "id",
    "source",
    "type",
    "datacontenttype",
    "dataschema",
    "subject",
    "time",
)
"""User properties that a delivery writes itself: the attributes of CloudEvents 1.0."""


def realize_3(
    faults: Faults, path: str, written: Mapping[str, Any], _sink: SinkUri | None
) -> dict[str, Any]:
    """See ``_protocols.ProtocolSettings``."""
    realized: dict[str, Any] = {
        "topicname": written.get("topicname"),
        "qos": written.get("qos", _defaults.QOS),
        "retain": written.get("retain", _defaults.RETAIN),
    }
    if "topicname" in written:
        check_mqtt_topic(faults, f"{path}.topicname", written["topicname"])
    else:
        faults.add(f"{path}.topicname", "missing", "the topic to publish to is required")
    _check_whole(faults, f"{path}.qos", realized["qos"], QOS_MAX)
    if not isinstance(realized["retain"], bool):
        faults.wrong_type(f"{path}.retain", "a boolean", realized["retain"])
    return realized


def realize_5(
    faults: Faults, path: str, written: Mapping[str, Any], sink: SinkUri | None
) -> dict[str, Any]:
    """See ``_protocols.ProtocolSettings``."""
    realized = realize_3(faults, path, written, sink)
    if "expiry" in written:
        realized["expiry"] = written["expiry"]
        _check_whole(faults, f"{path}.expiry", written["expiry"], EXPIRY_S_MAX)
    properties = written.get("userproperties", {})
    realized["userproperties"] = _properties(faults, f"{path}.userproperties", properties)
    return realized


def restore(realized: Mapping[str, Any]) -> MqttSettings:
    """See ``_protocols.ProtocolSettings``."""
    return MqttSettings(
        topicname=realized["topicname"],
        qos=realized["qos"],
        retain=realized["retain"],
        expiry=realized.get("expiry"),
        userproperties=tuple(realized.get("userproperties", {}).items()),
    )


def _check_whole(faults: Faults, path: str, value: object, value_max: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        faults.wrong_type(path, "a whole number", value)
    elif not 0 <= value <= value_max:
        faults.add(path, "value", f"expected a number from 0 to {value_max}")


def _properties(faults: Faults, path: str, value: object) -> dict[str, str]:
    """No message repeats a value: it may be a secret between the subscriber and its consumers."""
    properties = bounded_map(faults, path, value, "user properties")
    if properties is None:
        return {}
    for name, text in properties.items():
        where = member(path, name)
        check_mqtt_text(faults, where, name, ENTRIES_BYTES_MAX)
        if name in OWN_PROPERTIES:
            message = "this property is an attribute of the event, which the delivery writes"
            faults.add(where, "reserved", message)
        if text != "":
            check_mqtt_text(faults, where, text, ENTRIES_BYTES_MAX)
    return dict(properties)
