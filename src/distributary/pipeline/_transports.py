"""The transports of an owner, one for each delivery protocol.

Their client libraries are imported when the first connection is opened: an owner that delivers
by HTTP alone holds none of them.
"""

import asyncio

from distributary.clock import SystemClock
from distributary.deliver import (
    AddressRule,
    CachingResolver,
    Connector,
    SystemResolver,
    Transport,
)
from distributary.protocols.amqp import sink as amqp
from distributary.protocols.http.sink import HttpTransport
from distributary.protocols.kafka import sink as kafka
from distributary.protocols.mqtt import sink as mqtt
from distributary.protocols.nats import sink as nats
from distributary.resource import Reach


def make_transports(loop: asyncio.AbstractEventLoop, reach: Reach) -> dict[str, Transport]:
    """Transports by delivery protocol, all behind one connector with the address rule.

    Args:
        loop: Runs them.
        reach: Where events may go (decision 22).
    """
    clock = SystemClock()
    connector = Connector(AddressRule.of(reach), CachingResolver(SystemResolver(), clock))
    by_mqtt = mqtt.make(connector, clock, loop)  # of either version: the destination says which
    return {
        "HTTP": HttpTransport(connector, clock, loop, error_data=reach.error_data),
        "MQTT3": by_mqtt,
        "MQTT5": by_mqtt,
        "AMQP": amqp.make(connector, clock, loop),
        "KAFKA": kafka.make(connector, clock, loop),
        "NATS": nats.make(connector, clock, loop),
    }
