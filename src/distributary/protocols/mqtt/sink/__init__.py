"""MQTT 3.1.1 and MQTT 5: events to the topics of a broker.

Called by ``partitions``; the MQTT source opens its connections here as well. Hides logins, limits
of the broker, and what of an answer is about one event.
"""

from distributary.protocols.mqtt.sink._login import (
    VERSIONS,
    checked,
    login_names,
    open_connection,
)
from distributary.protocols.mqtt.sink._transport import make
