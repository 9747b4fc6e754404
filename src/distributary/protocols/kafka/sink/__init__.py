"""The Kafka sink: publishes events to topics through ``confluent-kafka``.

Called by ``partitions`` (the transport) and the source (connections). Hides librdkafka: its
settings, threads and errors. Imports it when the first connection is opened, not before.
"""

import asyncio

from distributary.core.clock import Clock
from distributary.core.deliver import Destination, Transport
from distributary.core.policy import Answer
from distributary.net import Connector
from distributary.net.link import BrokerSession, BrokerTransport, Lost
from distributary.protocols.kafka.sink import _session
from distributary.protocols.kafka.sink._answers import answer_of
from distributary.protocols.kafka.sink._client import KafkaClient
from distributary.protocols.kafka.sink._cluster import Cluster
from distributary.resource import Reach


def make(
    connector: Connector,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    _reach: Reach | None = None,
) -> Transport:
    """See ``core.protocol.Protocol``."""

    async def open_session(destination: Destination, lost: Lost) -> BrokerSession | Answer:
        dials = connector.staying_here() if destination.stays_here else connector
        settings = await _session.cluster_of(destination).settings(dials, clock)
        settings |= _session.producer_settings(destination)
        client = KafkaClient("Producer", settings, dials)
        refusal = await client.connect(_session.settings_of(destination).topicname, loop)
        return refusal or _session.ProducerSession(client, lost, loop, clock)

    return BrokerTransport(open_session, _session.key_of, clock, loop)
