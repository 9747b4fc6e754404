"""The NATS source: a stream by a durable pull consumer, or a subject of core NATS.

Called by ``Source``. Hides which of the two it is. A stream redelivers unacknowledged messages (at
least once). Without a stream for the subject, the source subscribes to core NATS in a queue group
of its name, where nothing is acknowledged: messages that are published while no member listens, or
are unsettled when the process ends, are lost (at most once).
"""

from collections.abc import Callable
from typing import Any, Final

import structlog

from distributary.core.clock import Clock
from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.core.policy import Acknowledgement
from distributary.core.source import Consumer, Message, SourceSpec
from distributary.net import Connector
from distributary.protocols.nats import sink as transport
from distributary.protocols.nats.source._core import CoreReading
from distributary.protocols.nats.source._stream import StreamReading
from distributary.protocols.nats.source._talk import Talk

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest message accepted: nats-server allows no larger ``max_payload``."""


def make(spec: SourceSpec, connector: Connector, clock: Clock) -> Consumer:
    """Returns the consumer of a source with the protocol ``NATS``.

    Args:
        spec: What to read. ``place`` is the subject; of ``options``, ``stream`` names the stream
            that holds it (default: looked up) and ``durable`` the consumer there (default: the
            name of the source). An existing durable consumer is used unchanged.
        connector: Dials.
        clock: For heartbeats.
    """
    return _NatsConsumer(spec, connector, clock)


class _NatsConsumer:
    """See ``make`` and ``Consumer``."""

    def __init__(self, spec: SourceSpec, connector: Connector, clock: Clock) -> None:
        self._spec = spec
        self._connector = connector
        self._clock = clock
        self._log: Any = structlog.get_logger().bind(source=spec.name)
        self._part = ""  # of the subject, that a narrower consumer reads

    def _reads(self, durable: str, part: str) -> None:
        """Tell of a consumer that reads a part of the subject; once, however often it connects."""
        if part and part != self._part:
            place = self._spec.place
            self._log.warning("source-reads-part", durable=durable, reads=part, subject=place)
        self._part = part

    async def run(self, take: Callable[[Message], None], unsettled_max: int) -> None:
        spec = self._spec
        destination = Destination(
            spec.uri, protocol=spec.protocol, credential=spec.credential, ca_certs=spec.ca_certs
        )
        talk = Talk()
        connection = await transport.connect(self._connector, destination, talk, MESSAGE_BYTES_MAX)
        if isinstance(connection, Acknowledgement):
            raise TransportError("refused", f"The server refused the login: {connection.text}")
        try:
            talk.start(connection)
            stream = str(spec.options.get("stream", "")) or await talk.stream_of(spec.place)
            if stream:
                reading = StreamReading(
                    talk,
                    spec,
                    stream,
                    take,
                    unsettled_max=unsettled_max,
                    clock=self._clock,
                    reads=self._reads,
                )
                await reading.read()
            else:
                await CoreReading(talk, spec, take, unsettled_max).read()
        finally:
            talk.end()
            await connection.close()
