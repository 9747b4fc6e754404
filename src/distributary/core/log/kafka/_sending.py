"""Sends messages to one topic, in order and each once, for callers that may wait.

Called by ``copying`` and ``recalled_topic``. Hides librdkafka's producer: its queue, and how it
fails.
"""

from typing import Any, Final

from distributary.core.cluster import KafkaPlace
from distributary.core.log.kafka._client import (
    RECORD_BYTES_MAX,
    Settings,
    library,
    log_error,
    settings_of,
)

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Messages under way, bytes, before a caller waits: some copy a whole log."""

PENDING_COUNT_MAX: Final = 65_536
"""The same for their number."""


class Sending:
    """A producer to the partitions of *topic*. Close it.

    Args:
        place: The cluster.
        topic: Name of the topic; it exists.
        doing: What fails where something is refused, for people: ``copy to the topic``.
        settings: Of librdkafka, beyond those of every client.

    Raises:
        LogUnavailableError: librdkafka does not take the settings of *place*.
    """

    def __init__(self, place: KafkaPlace, topic: str, doing: str, settings: Settings) -> None:
        self._topic = topic
        self._doing = doing
        self._failed: Any = None
        self._pending_bytes = 0
        kafka = library()
        self._raised: type[Exception] = kafka.KafkaException
        try:
            self._handle = kafka.Producer(
                settings_of(place)
                | {
                    "linger.ms": 20,
                    "compression.type": "none",
                    "message.max.bytes": RECORD_BYTES_MAX,
                    "queue.buffering.max.messages": PENDING_COUNT_MAX,
                    "queue.buffering.max.kbytes": 2 * PENDING_BYTES_MAX // 1024,
                    **settings,
                }
            )
        except kafka.KafkaException as error:
            raise log_error(error.args[0], doing) from error

    def send(self, partition: int, value: bytes, time_ms: int = 0, headers: Any = None) -> None:
        """Append a message, waiting while the queue is full; ``flush`` tells whether it came.

        Args:
            partition: Its number.
            value: Its value.
            time_ms: Its time, milliseconds; 0: now.
            headers: Its headers, as librdkafka takes them.

        Raises:
            LogUnavailableError: It was refused, or one before it.
        """
        size = len(value)

        def done(error: Any, _message: Any) -> None:
            self._pending_bytes -= size
            if error is not None and self._failed is None:
                self._failed = error

        while True:
            self._check()
            try:
                self._handle.produce(
                    self._topic, value, None, partition, done, None, time_ms, headers
                )
            except BufferError:
                self._handle.poll(0.1)
            except self._raised as error:
                raise log_error(error.args[0], self._doing) from error
            else:
                break
        self._pending_bytes += size
        self._handle.poll(0 if self._pending_bytes < PENDING_BYTES_MAX else 0.1)

    def flush(self) -> None:
        """Wait until everything that was sent is acknowledged.

        Raises:
            LogUnavailableError: Something was refused.
        """
        while self._handle.flush(1.0):
            self._check()
        self._check()

    def _check(self) -> None:
        if self._failed is not None:
            raise log_error(self._failed, self._doing)

    def close(self) -> None:
        """End the connections."""
        self._handle.purge()
        self._handle.poll(0)
        self._handle.close()
