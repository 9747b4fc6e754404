"""One producer: a connection to a cluster that events are published by.

``produce`` only puts a record into the client's queue, and its own threads, which never touch the
interpreter, do the rest. Delivery reports are collected by a timer on the loop, not by a thread of
Python: a thread would wait up to 5 ms for the interpreter's lock, for each report.
"""

import asyncio
import functools
import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final

from distributary.core.clock import Clock
from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.core.policy import Acknowledgement, Answer
from distributary.net.link import Flight, Lost
from distributary.protocols.kafka import binding as kafka
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.protocols.kafka.sink._answers import ACCEPTED, answer_of
from distributary.protocols.kafka.sink._client import KafkaClient
from distributary.protocols.kafka.sink._cluster import Cluster, Settings

WINDOW: Final = 2_000
"""Records in flight. Reports come some 15 ms after ``produce`` (the linger, a broker, our timer),
so this carries 100,000 a second, and over a long wire (50 ms) 30,000."""

QUEUE_KIB_MAX: Final = 64 * 1024
"""Bytes in flight: a window full of the largest events would be 2 GB. Records beyond wait here."""

LINGER_MS: Final = 5
"""How long the client waits for a batch to fill: a request for each record would cost the broker
more than the record."""

BATCH_BYTES: Final = 64 * 1024
"""Most bytes in a batch of several records. A broker judges the size of the batch by the limit for
a record: with small batches the limit of a topic may be as low as this."""

RECORD_BYTES_MAX: Final = 1_000_000_000
"""The most that the client lets be set: how large a record may be is for the broker to say."""

RETRIES_MAX: Final = 3
"""Repetitions of a request inside one attempt, with ``acks=all`` alone: there the broker knows
records that it has by their number, so they come neither twice nor out of order, and a partition
that moves to another broker costs no attempt. Beyond, the broker's own answer is told."""

ANSWER_MS_MAX: Final = 10_000
"""How long a broker waits for its replicas before it says that they were too slow."""

UNKNOWN_TOPIC_MS: Final = 1_000
"""A topic that was just made is known to all brokers after so long."""

TOPICS_LOOK_MS: Final = 5_000
"""How often the client asks about the topics that it writes to: one that did not exist is found
again so soon."""

POLL_S: Final = 0.002
"""How often delivery reports are collected while any is due."""

POLL_IDLE_S: Final = 1.0
"""How often news is collected otherwise: of connections that ended, of brokers that are new."""

CLIENT_ID: Final = "distributary"

_TOO_LARGE: Final = ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
"""What a broker says where a record, or a batch of several, is larger than it takes."""

_OVERDUE: Final = TransportError("timeout", "The client had no room within the time of one attempt")
_NEVER_FITS: Final = Acknowledgement(
    "KAFKA",
    _TOO_LARGE[0],
    f"The record is larger than the {QUEUE_KIB_MAX} KiB that may be in flight",
)


def key_of(destination: Destination) -> Hashable:
    """What of *destination* belongs to its connection; see ``BrokerTransport``.

    Raises:
        TransportError: ``blocked-address``: its URI cannot be used.
    """
    settings = settings_of(destination)
    return cluster_of(destination), settings.clientid, settings.acks, _patience_s(destination)


def producer_settings(destination: Destination) -> Settings:
    """What librdkafka must know beyond how to connect."""
    settings = settings_of(destination)
    certain = settings.acks == "all"
    return {
        "client.id": settings.clientid or CLIENT_ID,
        "acks": settings.acks,
        "enable.idempotence": certain,
        "retries": RETRIES_MAX if certain else 0,
        "message.timeout.ms": _patience_s(destination) * 1_000,
        "request.timeout.ms": ANSWER_MS_MAX,
        "topic.metadata.propagation.max.ms": UNKNOWN_TOPIC_MS,
        "topic.metadata.refresh.interval.ms": TOPICS_LOOK_MS,
        "allow.auto.create.topics": False,
        "message.max.bytes": RECORD_BYTES_MAX,
        "batch.size": BATCH_BYTES,
        "linger.ms": LINGER_MS,
        "queue.buffering.max.messages": WINDOW + 1,
        "queue.buffering.max.kbytes": QUEUE_KIB_MAX,
        "partitioner": "murmur2_random",  # that of the Java client: equal keys meet
    }


def _patience_s(destination: Destination) -> int:
    """How long the client tries one record: an attempt, rounded up to a power of two seconds.

    Rounded, so that subscriptions with different timeouts share few connections.
    """
    return 1 << max(0, math.ceil(math.log2(destination.policy.timeout_s)))


def cluster_of(destination: Destination) -> Cluster:
    """The cluster that *destination* names."""
    return Cluster.of(destination.uri, destination.credential, destination.ca_certs)


def settings_of(destination: Destination) -> KafkaSettings:
    """The settings of *destination*, made with its protocol."""
    assert isinstance(destination.settings, KafkaSettings)
    return destination.settings


class ProducerSession:
    """A ``Session`` over a producer.

    Attributes:
        window: See ``Session``.
    """

    def __init__(
        self,
        client: KafkaClient,
        lost: Lost,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
    ) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - as the producer

        self.window = WINDOW
        self._refusal = KafkaException
        self._client = client
        self._producer = client.handle
        self._lost = lost
        self._loop = loop
        self._clock = clock
        self._in_flight = 0
        self._held: deque[tuple[Flight, Callable[[], None]]] = deque()
        self._reports: list[tuple[Flight, Any]] = []
        self._timer = loop.call_later(POLL_IDLE_S, self._poll)
        self._quick = False

    def publish(self, flight: Flight) -> None:
        """Put the record into the client's queue; see ``Session``."""
        settings = settings_of(flight.destination)
        event = flight.event
        encode = (
            kafka.encode_structured
            if flight.destination.format == "structured"
            else kafka.encode_binary
        )
        headers, value = encode(event)
        attribute = settings.partitionkeyextractor
        key = None if attribute is None else kafka.key_of(event, attribute)
        produce = functools.partial(
            self._producer.produce,
            settings.topicname,
            value=value,
            key=key,
            headers=headers,
            on_delivery=functools.partial(self._reported, flight),
        )
        if self._held or not self._produced(flight, produce):
            flight.sent_s = 0.0  # that nothing answers it says nothing about the connection
            self._held.append((flight, produce))
        if not self._quick:
            self._poll_in(POLL_S)

    def _produced(self, flight: Flight, produce: Callable[[], None]) -> bool:
        """Whether the client took the record, or refused it for good; False: it has no room."""
        try:
            produce()
        except BufferError:
            if self._in_flight:
                return False
            flight.answer(_NEVER_FITS)  # there is as much room as there will ever be
            return True
        except self._refusal as error:  # a topic that it knows not to exist, a name that is none
            flight.answer(answer_of(error.args[0]))
            return True
        self._in_flight += 1
        return True

    def _reported(self, flight: Flight, error: Any, _message: Any) -> None:
        self._reports.append((flight, error))

    def _poll_in(self, wait_s: float) -> None:
        self._timer.cancel()
        self._quick = wait_s == POLL_S
        self._timer = self._loop.call_later(wait_s, self._poll)

    def _poll(self) -> None:
        """Collect what the client has to say, and pass it on."""
        self._client.poll()
        reports, self._reports = self._reports, []
        self._in_flight -= len(reports)
        for flight, error in reports:
            flight.answer(ACCEPTED if error is None else _judged(flight, error))
        self._go_on()
        self._poll_in(POLL_S if self._in_flight else POLL_IDLE_S)
        end = self._client.end()
        if end is not None:
            self._lost(end)

    def _go_on(self) -> None:
        """Hand over what waits, as far as there is room."""
        while self._held:
            flight, produce = self._held[0]
            if flight.answered:  # its time is over; this frees its place
                flight.answer(_OVERDUE)
            else:
                flight.sent_s = self._clock.monotonic_s()
                if not self._produced(flight, produce):
                    flight.sent_s = 0.0
                    return
            self._held.popleft()

    async def close(self) -> None:
        """Let go of the producer with all it holds; see ``Session``."""
        self._timer.cancel()
        self._held.clear()
        self._producer = None
        self._client.forget()


def _judged(flight: Flight, error: Any) -> Answer:
    """The answer to one record; a refusal of its batch for its size is told from one of its own."""
    answer = answer_of(error)
    if isinstance(answer, Acknowledgement) and answer.code in _TOO_LARGE:
        alone = len(flight.event.data or b"") >= BATCH_BYTES
        return Acknowledgement("KAFKA", _TOO_LARGE[not alone], answer.text)
    return answer
