"""What tells the delivery protocols apart in ``protocolsettings``: one row each."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from distributary.resource._broker_settings import BrokerSettings
from distributary.resource._faults import Faults
from distributary.resource._uri import SinkUri
from distributary.resource.api_subscription import (
    _settings_amqp,
    _settings_http,
    _settings_kafka,
    _settings_mqtt,
    _settings_nats,
)
from distributary.resource.api_subscription._shape import EventFormat, HttpSettings


class ProtocolSettings(NamedTuple):
    """The settings of one protocol.

    Attributes:
        names: Members of ``protocolsettings`` that are its own.
        realize: Takes (faults, path of ``protocolsettings``, what the client wrote, the sink; None
            where that is faulty itself) and gives its own members with every default.
        restore: Makes the typed settings of what ``realize`` gave.
        formats: Content modes of its CloudEvents binding; the first is the default.
    """

    names: tuple[str, ...]
    realize: Callable[[Faults, str, Mapping[str, Any], SinkUri | None], dict[str, Any]]
    restore: Callable[[Mapping[str, Any]], HttpSettings | BrokerSettings]
    formats: tuple[EventFormat, ...] = ("binary", "structured")


PROTOCOL_SETTINGS: Final[dict[str, ProtocolSettings]] = {
    "HTTP": ProtocolSettings(_settings_http.NAMES, _settings_http.realize, _settings_http.restore),
    "MQTT3": ProtocolSettings(
        _settings_mqtt.NAMES_3,
        _settings_mqtt.realize_3,
        _settings_mqtt.restore,
        ("structured",),  # there is no place for attributes beside the data
    ),
    "MQTT5": ProtocolSettings(
        _settings_mqtt.NAMES_5, _settings_mqtt.realize_5, _settings_mqtt.restore
    ),
    "AMQP": ProtocolSettings(_settings_amqp.NAMES, _settings_amqp.realize, _settings_amqp.restore),
    "KAFKA": ProtocolSettings(
        _settings_kafka.NAMES, _settings_kafka.realize, _settings_kafka.restore
    ),
    "NATS": ProtocolSettings(_settings_nats.NAMES, _settings_nats.realize, _settings_nats.restore),
}
"""Delivery protocol -> its settings."""

SHARED_SETTINGS: Final = ("format", "cacerts", "delivery")
"""Members of ``protocolsettings`` that every protocol has."""
