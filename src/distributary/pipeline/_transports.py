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
    parse_networks,
)
from distributary.deliver.transports import amqp, kafka, mqtt, nats
from distributary.deliver.transports.http import HttpTransport


def make_transports(
    loop: asyncio.AbstractEventLoop, *, loopback_only: bool, allow_sinks: tuple[str, ...]
) -> dict[str, Transport]:
    """Transports by delivery protocol, all behind one connector with the address rule.

    Args:
        loop: Runs them.
        loopback_only: The server listens on loopback (decision 22).
        allow_sinks: CIDRs that the operator allows.
    """
    clock = SystemClock()
    rule = AddressRule(parse_networks(allow_sinks), loopback_allowed=loopback_only)
    connector = Connector(rule, CachingResolver(SystemResolver(), clock))
    by_mqtt = mqtt.make(connector, clock, loop)  # of either version: the destination says which
    return {
        "HTTP": HttpTransport(connector, clock, loop),
        "MQTT3": by_mqtt,
        "MQTT5": by_mqtt,
        "AMQP": amqp.make(connector, clock, loop),
        "KAFKA": kafka.make(connector, clock, loop),
        "NATS": nats.make(connector, clock, loop),
    }
