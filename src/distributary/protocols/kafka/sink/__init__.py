"""Kafka: events to topics, and what a source needs to read them, through ``confluent-kafka``.

Called by ``pipeline`` (the transport) and ``source`` (connections). Hides librdkafka: its settings,
its threads, its errors. It is imported when the first connection is opened, not before.
"""

import asyncio

from distributary.clock import Clock
from distributary.deliver import BrokerTransport, Connector, Transport
from distributary.protocols.kafka.sink import _session
from distributary.protocols.kafka.sink._answers import answer_of
from distributary.protocols.kafka.sink._client import Client
from distributary.protocols.kafka.sink._cluster import Cluster

__all__ = ["Client", "Cluster", "answer_of", "make"]


def make(connector: Connector, clock: Clock, loop: asyncio.AbstractEventLoop) -> Transport:
    """The transport for ``KAFKA``.

    Args:
        connector: Checks every address before it is dialled.
        clock: For deadlines, and for tokens.
        loop: Runs everything.
    """
    opener = _session.Opener(connector, clock, loop)
    return BrokerTransport(opener.open, _session.key_of, clock, loop)
