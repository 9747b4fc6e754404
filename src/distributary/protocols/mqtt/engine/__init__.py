"""An asyncio client for MQTT 3.1.1 and MQTT 5, with callbacks.

Called by the MQTT sink and the MQTT source. Hides packets, properties, packet identifiers, login,
keepalive, and the difference between the two versions.

Not a client library, because the publish path is hot (decision record 0026): an event costs a
tenth as much, errors of QoS 2 are reported, and nothing here blocks, locks or retransmits. The
tests use a client library at the other end.

Source:
    MQTT Version 5.0 and MQTT Version 3.1.1, OASIS Standards; sections are those of 5.0.
"""

from distributary.protocols.mqtt.engine._connection import MqttConnection
from distributary.protocols.mqtt.engine._listener import WRITTEN, End, Granted, TooLargeError
from distributary.protocols.mqtt.engine._packets import (
    FAILURE,
    PACKET_BYTES_MAX,
    Connack,
    MqttLogin,
    Publication,
    PublishTarget,
    Version,
    connect,
    target,
)
from distributary.protocols.mqtt.engine._properties import (
    CONTENT_TYPE,
    MAXIMUM_QOS,
    RECEIVE_MAXIMUM,
    RETAIN_AVAILABLE,
    PacketError,
    Properties,
)
