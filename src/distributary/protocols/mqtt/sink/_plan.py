"""Precomputed parts of the messages to one destination."""

from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.policy import Acknowledgement
from distributary.protocols.mqtt import binding
from distributary.protocols.mqtt import engine as mqtt
from distributary.protocols.mqtt.engine import PublishTarget, Version
from distributary.protocols.mqtt.settings import MqttSettings


class PublishPlan:
    """Encoder and constant parts of the messages to one destination.

    Args:
        destination: The destination.
        version: Version of MQTT.

    Attributes:
        encode: Encodes an event to properties and payload. MQTT 3 has structured mode only.
        target: Constant parts of every message.
        retain: Whether the broker should keep the last one.
        refusal: Answer to every message if the broker cannot accept any; else None.

    Raises:
        TransportError: ``protocol``, not retryable: the settings cannot be encoded.
    """

    __slots__ = ("_names", "_settings", "encode", "refusal", "retain", "target")

    def __init__(self, destination: Destination, version: Version) -> None:
        settings = destination.settings
        assert isinstance(settings, MqttSettings), "settings are made with the protocol"
        self._settings = settings
        five = version is Version.V5
        binary = five and destination.format == "binary"
        self.encode = binding.encode_binary if binary else binding.encode_structured
        user = settings.userproperties if five else ()
        self._names = frozenset(name for name, _ in user)
        self.target = _target(settings, settings.expiry if five else None, user)
        self.retain = settings.retain
        self.refusal: Acknowledgement | None = None

    def target_of(self, event: Event) -> PublishTarget:
        """Returns the constant parts of the message of *event*.

        Leaves out user properties of the subscription that are named like an attribute of *event*:
        a receiver could not tell which of the two values is the event's.
        """
        if not self._names or self._names.isdisjoint(event.attributes):
            return self.target
        user = tuple(
            pair for pair in self._settings.userproperties if pair[0] not in event.attributes
        )
        return _target(self._settings, self._settings.expiry, user)


def _target(
    settings: MqttSettings, expiry_s: int | None, user: tuple[tuple[str, str], ...]
) -> PublishTarget:
    topic, qos, retain = settings.topicname, settings.qos, settings.retain
    try:
        return mqtt.target(topic, qos, retain=retain, expiry_s=expiry_s, user=user)
    except ValueError as error:
        text = f"The settings cannot be written in MQTT: {error}"
        raise TransportError("protocol", text, retryable=False) from error
