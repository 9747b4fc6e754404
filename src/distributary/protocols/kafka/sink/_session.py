"""The ``Session`` of a ``BrokerTransport`` over one Kafka producer.

``produce`` only appends a record to librdkafka's queue; its threads, which do not hold the GIL,
send it. A timer on the loop polls delivery reports, not a Python thread: that would wait up to
5 ms for the GIL, for each report.
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
from distributary.protocols.kafka.sink._client import RESPONSE_BYTES_MAX, KafkaClient
from distributary.protocols.kafka.sink._cluster import Cluster, Settings

WINDOW: Final = 2_000
"""Records in flight. Reports arrive some 15 ms after ``produce`` (linger, broker, our timer), so
this allows 100,000 a second, and 30,000 to a broker that is 50 ms away."""

QUEUE_KIB_MAX: Final = 64 * 1024
"""KiB in flight: a window of the largest events would be 2 GB. Records beyond wait in ``_held``."""

LINGER_MS: Final = 5
"""librdkafka's wait for a batch to fill: a request for each record would cost the broker more than
the record."""

BATCH_BYTES: Final = 64 * 1024
"""Largest batch of several records. A broker applies a topic's limit to the batch, so this is the
lowest limit of a topic at which batches pass."""

RECORD_BYTES_MAX: Final = 1_000_000_000
"""librdkafka's maximum: the broker decides how large a record may be."""

RETRIES_MAX: Final = 3
"""Retries of a request inside one attempt, only with ``acks=all``: there the producer is
idempotent, so records are neither duplicated nor reordered, and a partition that moves to another
broker costs no attempt. Beyond, the attempt gets the broker's answer."""

ANSWER_MS_MAX: Final = 10_000
"""How long a broker waits for its replicas before it answers ``REQUEST_TIMED_OUT``."""

UNKNOWN_TOPIC_MS: Final = 1_000
"""Time for a new topic to reach all brokers."""

TOPICS_LOOK_MS: Final = 5_000
"""Refresh interval of topic metadata: the longest time to find a topic created meanwhile."""

POLL_S: Final = 0.002
"""Poll interval while delivery reports are due."""

POLL_IDLE_S: Final = 1.0
"""Poll interval otherwise: for lost connections and new brokers."""

CLIENT_ID: Final = "distributary"

_TOO_LARGE: Final = ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
"""Answers of a broker to a record, or a batch of several, above its limit."""

_OVERDUE: Final = TransportError("timeout", "The client had no room within the time of one attempt")
_NEVER_FITS: Final = Acknowledgement(
    "KAFKA",
    _TOO_LARGE[0],
    f"The record is larger than the {QUEUE_KIB_MAX} KiB that may be in flight",
)


def key_of(destination: Destination) -> Hashable:
    """Returns the parts of *destination* that select a connection; see ``BrokerTransport``.

    Raises:
        TransportError: ``blocked-address``: its URI is invalid.
    """
    settings = settings_of(destination)
    return cluster_of(destination), settings.clientid, settings.acks, _patience_s(destination)


def producer_settings(destination: Destination) -> Settings:
    """Returns the producer settings of librdkafka, without those to connect."""
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
        "receive.message.max.bytes": RESPONSE_BYTES_MAX,
        "batch.size": BATCH_BYTES,
        "linger.ms": LINGER_MS,
        "queue.buffering.max.messages": WINDOW + 1,
        "queue.buffering.max.kbytes": QUEUE_KIB_MAX,
        "partitioner": "murmur2_random",  # that of the Java client: equal keys meet
    }


def _patience_s(destination: Destination) -> int:
    """Returns ``message.timeout.ms`` in seconds: an attempt, rounded up to a power of two.

    Rounded, so that subscriptions with different timeouts share few connections.
    """
    return 1 << max(0, math.ceil(math.log2(destination.policy.timeout_s)))


def cluster_of(destination: Destination) -> Cluster:
    """Returns the cluster of *destination*."""
    trust = destination.ca_certs, destination.client_certificate
    return Cluster.of(destination.uri, destination.credential, *trust, destination.tenant)


def settings_of(destination: Destination) -> KafkaSettings:
    """Returns the protocol settings of *destination*."""
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
        """Append the record to librdkafka's queue; see ``Session``."""
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
            flight.sent_s = 0.0  # not sent yet: its timeout does not count against the connection
            self._held.append((flight, produce))
        if not self._quick:
            self._poll_in(POLL_S)

    def _produced(self, flight: Flight, produce: Callable[[], None]) -> bool:
        """Call *produce*. False: the queue is full; True: the record is queued or refused."""
        try:
            produce()
        except BufferError:
            if self._in_flight:
                return False
            flight.answer(_NEVER_FITS)  # the queue is empty, and still too small
            return True
        except self._refusal as error:  # a topic known not to exist, an invalid name
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
        """Poll delivery reports and errors, and answer."""
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
        """Produce held records until the queue is full."""
        while self._held:
            flight, produce = self._held[0]
            if flight.answered:  # timed out; this frees its place
                flight.answer(_OVERDUE)
            else:
                flight.sent_s = self._clock.monotonic_s()
                if not self._produced(flight, produce):
                    flight.sent_s = 0.0
                    return
            self._held.popleft()

    async def close(self) -> None:
        """Close the producer and drop its queue; see ``Session``."""
        self._timer.cancel()
        self._held.clear()
        self._producer = None
        self._client.forget()


def _judged(flight: Flight, error: Any) -> Answer:
    """Returns the answer to one record; tells whether its batch or itself was too large."""
    answer = answer_of(error)
    if isinstance(answer, Acknowledgement) and answer.code in _TOO_LARGE:
        alone = flight.event.data_bytes() >= BATCH_BYTES
        return Acknowledgement("KAFKA", _TOO_LARGE[not alone], answer.text)
    return answer
