"""What tells the delivery protocols apart in ``protocolsettings``: one row each."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from distributary.resource._broker_settings import BrokerSettings, HttpSettings
from distributary.resource._schema import Schema
from distributary.resource.api_subscription import (
    _settings_amqp,
    _settings_http,
    _settings_kafka,
    _settings_mqtt,
    _settings_nats,
)

EventFormat = Literal["binary", "structured"]


class ProtocolSettings(NamedTuple):
    """The settings of one protocol.

    Attributes:
        settings: Member of ``protocolsettings`` that is its own -> its schema, with the default
            where there is one, in the order of realized objects.
        restore: Makes the typed settings of realized ones.
        required: Settings that it cannot do without.
        placed: Setting that the path of a sink URI can stand for; the typed settings have an
            attribute of this name, and realized objects have it in any case.
        masked: Setting that is a map whose entries may be secret; the typed settings have an
            attribute of this name.
        formats: Content modes of its CloudEvents binding; the first is the default.
    """

    settings: Mapping[str, Schema]
    restore: Callable[[Mapping[str, Any]], HttpSettings | BrokerSettings]
    required: tuple[str, ...] = ()
    placed: str | None = None
    masked: str | None = None
    formats: tuple[EventFormat, ...] = ("binary", "structured")


PROTOCOL_SETTINGS: Final[dict[str, ProtocolSettings]] = {
    "HTTP": ProtocolSettings(_settings_http.SETTINGS, _settings_http.restore, masked="headers"),
    "MQTT3": ProtocolSettings(
        _settings_mqtt.SETTINGS_3,
        _settings_mqtt.restore,
        required=("topicname",),
        formats=("structured",),  # there is no place for attributes beside the data
    ),
    "MQTT5": ProtocolSettings(
        _settings_mqtt.SETTINGS_5,
        _settings_mqtt.restore,
        required=("topicname",),
        masked="userproperties",
    ),
    "AMQP": ProtocolSettings(
        _settings_amqp.SETTINGS,
        _settings_amqp.restore,
        placed="address",
        masked="linkproperties",
    ),
    "KAFKA": ProtocolSettings(
        _settings_kafka.SETTINGS, _settings_kafka.restore, placed="topicname"
    ),
    "NATS": ProtocolSettings(
        _settings_nats.SETTINGS, _settings_nats.restore, required=("subject",)
    ),
}
"""Delivery protocol -> its settings."""

PROTOCOLS: Final = tuple(PROTOCOL_SETTINGS)
"""The delivery protocols with a CloudEvents binding; compared case-sensitively (decision 20, names
of protocols)."""
