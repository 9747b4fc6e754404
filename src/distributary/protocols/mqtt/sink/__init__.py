"""The MQTT sink: publishes events to topics of a broker, in MQTT 3.1.1 or MQTT 5.

Called by ``partitions``; the MQTT source opens its connections here too. Hides logins, limits of
the broker, and which answers are about one event.
"""

from distributary.protocols.mqtt.sink._login import (
    VERSIONS,
    checked,
    login_names,
    open_connection,
)
from distributary.protocols.mqtt.sink._transport import make
