"""MQTT 3.1.1 and MQTT 5 on an event loop: the client's half of the protocol, by callbacks.

Called by the MQTT transport and the MQTT source. Hides packets, properties, packet identifiers,
the login, keepalive, and the difference between the two versions.

Our own and not a client library, because the publish path is hot (decision record 0026): an event
costs a tenth of what it costs there, the errors of QoS 2 are heard, and nothing here blocks, locks
or sends again by itself. The tests have a client library as the witness at the other end.

Source:
    MQTT Version 5.0 and MQTT Version 3.1.1, OASIS Standards; sections are those of 5.0.
"""

from distributary.protocols.mqtt.engine._connection import MqttConnection
from distributary.protocols.mqtt.engine._listener import (
    WRITTEN,
    End,
    Granted,
    MqttListener,
    TooLargeError,
)
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
