"""The Kafka source: consumes a topic as a member of a consumer group.

A thread polls the client and commits offsets; messages are handed over and settled on the loop. A
partition's commit is the offset of its first unsettled message: after a crash that message is read
again, and settled ones after it twice.
"""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from distributary.core.clock import Clock
from distributary.core.errors import EventError, Fault, TransportError
from distributary.core.policy import Answer, Reply
from distributary.core.source import Consumer, Message, Settlement, SourceSpec
from distributary.net import Connector
from distributary.protocols.kafka import binding as kafka
from distributary.protocols.kafka._partition import ConsumedPartition
from distributary.protocols.kafka.sink import Cluster, KafkaClient, answer_of

SESSION_MS: Final = 6_000
"""Session timeout, the least that brokers allow: the partitions of a killed server move to other
members after so long."""

HEARTBEAT_MS: Final = SESSION_MS // 3
"""Heartbeat interval; responses announce rebalances."""

COMMIT_S: Final = 0.5
"""Commit interval: what was settled in it may be read twice after a crash."""

POLL_S: Final = 0.1
"""How long the thread waits for messages before it checks for a stop."""

FULL_S: Final = 1.0
"""How long polling may stop at the limit of unsettled messages; then the partitions are paused and
polling continues, which keeps the membership."""

GOODBYE_S: Final = 2.0
"""Longest wait for the last commit and for leaving the group, which moves its partitions at once.
With the drain (3 s) it is less than the process has to stop (6 s)."""

ANSWER_S: Final = 5.0
"""Longest wait for the commits of a group, or for the end of a partition. The run then fails, and
is tried again."""

FETCHED_KIB_MAX: Final = 8 * 1024
"""Prefetch of librdkafka: several times the limit of unsettled messages, at 1 KB each."""


def make(spec: SourceSpec, connector: Connector, clock: Clock) -> Consumer:
    """Returns the consumer for *spec*, whose place is a topic.

    Args:
        spec: Options: ``group`` (default: the source's name), ``offsetreset`` (default:
            ``earliest``, else ``latest``): where a group without commits begins.
        connector: Checks every address before it is dialled.
        clock: For tokens.
    """
    return _KafkaConsumer(spec, connector, clock)


class _KafkaConsumer:
    def __init__(self, spec: SourceSpec, connector: Connector, clock: Clock) -> None:
        self._spec = spec
        self._connector = connector
        self._clock = clock

    async def run(self, take: Callable[[Message], None], unsettled_max: int) -> None:
        """Read until cancelled or disconnected; see ``Consumer``."""
        loop = asyncio.get_running_loop()
        spec = self._spec
        cluster = Cluster.of(spec.uri, spec.credential, spec.ca_certs)
        settings = await cluster.settings(self._connector, self._clock) | _settings(spec)
        client = KafkaClient("Consumer", settings, self._connector)
        refusal = await client.connect(spec.place, loop)
        if refusal is not None:
            raise _error(refusal)
        reading = _Reading(
            client,
            spec.place,
            take,
            unsettled_max,
            self._clock,
            from_end=settings["auto.offset.reset"] == "latest",
        )
        try:
            await reading.ended
        finally:
            await reading.stop()


def _settings(spec: SourceSpec) -> dict[str, Any]:
    return {
        "client.id": spec.name,
        "group.id": spec.options.get("group", spec.name),
        "auto.offset.reset": spec.options.get("offsetreset", "earliest"),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "queued.max.messages.kbytes": FETCHED_KIB_MAX,
        "allow.auto.create.topics": False,
    }


class _Reading:
    """One consumer, polled on its thread, and closed after the thread has ended.

    Attributes:
        ended: Fails with the cause of the end.
    """

    def __init__(
        self,
        client: KafkaClient,
        topic: str,
        take: Callable[[Message], None],
        unsettled_max: int,
        clock: Clock,
        *,
        from_end: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._client = client
        self._consumer = client.handle
        self._topic = topic
        self._take = take
        self._unsettled_max = unsettled_max
        self._loop = loop
        self._clock = clock
        self._from_end = from_end
        self._partitions: dict[int, ConsumedPartition] = {}
        self._committed: dict[int, int] = {}
        self._commit_due_s = 0.0
        self._lock = threading.Lock()  # guards ``_partitions``
        self._room = threading.Event()  # set whenever a message is settled
        self._paused = False
        self._stopping = False
        self._gone = asyncio.Event()
        threading.Thread(target=self._run, name="kafka-source", daemon=True).start()

    async def stop(self) -> None:
        """Commit settled offsets, and leave the group; waits ``GOODBYE_S`` at most."""
        self._stopping = True
        self._room.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_S):
                await self._gone.wait()
        if self.ended.done() and not self.ended.cancelled():
            self.ended.exception()  # retrieved: already raised, or not needed

    # -- on the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - see _client

        error = TransportError("closed", "The source was stopped")
        try:
            self._consumer.subscribe(
                [self._topic],
                on_assign=self._on_assigned,
                on_revoke=self._on_revoked,
                on_lost=self._on_lost,
            )
            while not self._stopping:
                self._read_some()
            self._commit()
        except KafkaException as refused:
            error = _error(answer_of(refused.args[0]))
        except TransportError as ended:
            error = ended
        except Exception as bug:  # noqa: BLE001 - ours or the client's: ends this run
            error = TransportError("protocol", f"The client cannot go on: {type(bug).__name__}")
        self._call_soon(self._finished, error)

    def _call_soon(self, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule *call* on the loop, unless that is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    def _read_some(self) -> None:
        """Poll up to the limit of unsettled messages, and commit what was settled."""
        room = self._unsettled_max - self._unsettled()
        if room <= 0 and not self._paused:
            self._room.clear()
            if self._unsettled() >= self._unsettled_max and not self._room.wait(FULL_S):
                self._pause(on=True)
        elif self._paused and room > self._unsettled_max // 2:
            self._pause(on=False)
        if room > 0 or self._paused:
            records = self._poll(max(1, room))
            if records:
                self._call_soon(self._hand_over, records)
        if self._clock.monotonic_s() >= self._commit_due_s:
            self._commit()
            self._commit_due_s = self._clock.monotonic_s() + COMMIT_S
            self._call_soon(self._look)

    def _poll(self, count: int) -> list[tuple[ConsumedPartition, Any]]:
        """Returns up to *count* records, as soon as there is one."""
        records: list[tuple[ConsumedPartition, Any]] = []
        record = self._consumer.poll(POLL_S)
        while record is not None:
            error = record.error()
            if error is not None:
                raise _error(answer_of(error))
            with self._lock:
                number = record.partition()
                partition = self._partitions.setdefault(number, ConsumedPartition(number))
                partition.take(record.offset())
            records.append((partition, record))
            record = self._consumer.poll(0) if len(records) < count else None
        return records

    def _unsettled(self) -> int:
        with self._lock:
            return sum(partition.unsettled for partition in self._partitions.values())

    def _pause(self, *, on: bool) -> None:
        assigned = self._consumer.assignment()
        (self._consumer.pause if on else self._consumer.resume)(assigned)
        self._paused = on

    def _commit(self) -> None:
        """Commit what was settled since the last commit."""
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415 - see _client

        with self._lock:
            due = {
                number: partition.done
                for number, partition in self._partitions.items()
                if partition.done is not None and partition.done != self._committed.get(number)
            }
        if not due:
            return
        offsets = [TopicPartition(self._topic, number, done) for number, done in due.items()]
        # A failed commit is repeated; if none can succeed, polling raises the cause.
        with contextlib.suppress(KafkaException):
            self._consumer.commit(offsets=offsets, asynchronous=False)
            self._committed |= due

    def _on_assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        if self._from_end:
            partitions = _begun(consumer, partitions)
        consumer.incremental_assign(partitions)
        if self._paused:
            consumer.pause(partitions)  # like those assigned before

    def _on_revoked(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        self._commit()
        self._forget([each.partition for each in partitions])

    def _on_lost(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        self._forget([each.partition for each in partitions])

    def _forget(self, numbers: Sequence[int]) -> None:
        with self._lock:
            for number in numbers:
                self._committed.pop(number, None)
                partition = self._partitions.pop(number, None)
                if partition is not None:
                    partition.ours = False
        self._room.set()

    # -- on the loop --------------------------------------------------------------------------

    def _hand_over(self, records: list[tuple[ConsumedPartition, Any]]) -> None:
        for partition, record in records:
            if partition.ours and not self._stopping:
                self._take(self._message(partition, record))

    def _look(self) -> None:
        """Check whether the client has lost its brokers."""
        why = self._client.end()
        if why is not None:
            self._end(_error(why))

    def _message(self, partition: ConsumedPartition, record: Any) -> Message:
        offset = record.offset()

        def settle(_settlement: Settlement) -> None:
            with self._lock:
                partition.settle(offset)
            self._room.set()

        event, fault = None, None
        try:
            event = kafka.decode(_headers(record), record.value())
        except EventError as error:
            fault = error
        return Message(event, fault, f"{self._topic}[{partition.number}]@{offset}", settle)

    def _finished(self, error: TransportError) -> None:
        # The client is closed only now: until here the thread used it.
        if self.ended.cancelled():  # at a stop, wait until it has left the group
            self._client.forget(functools.partial(self._call_soon, self._gone.set))
        else:
            self._client.forget()  # an unreachable group must not delay the next run
            self._gone.set()
        self._end(error)

    def _end(self, error: TransportError) -> None:
        self._stopping = True
        if not self.ended.done():
            self.ended.set_exception(error)


def _begun(consumer: Any, partitions: Sequence[Any]) -> list[Any]:
    """Returns *partitions*; those of which the group has no commit begin at their ends.

    Each of these ends is committed: the next run would begin at a later one, and pass over what
    came meanwhile.

    Raises:
        KafkaException: The cluster does not answer, or refuses the commit. Nothing was read.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415 - see _client

    places = consumer.committed(list(partitions), timeout=ANSWER_S)
    begun = []
    for each in places:
        if each.error is not None:
            raise KafkaException(each.error)
        if each.offset < 0:
            bounds = consumer.get_watermark_offsets(each, timeout=ANSWER_S)
            if bounds is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - its name
            each.offset = bounds[1]
            begun.append(each)
    if begun:
        for each in consumer.commit(offsets=begun, asynchronous=False):
            if each.error is not None:
                raise KafkaException(each.error)
    return list(places)


def _headers(record: Any) -> Sequence[tuple[str, bytes | None]]:
    try:
        return record.headers() or ()
    except UnicodeDecodeError as error:
        fault = Fault("headers", "encoding", f"a header's name is not UTF-8: {error.reason}")
        raise EventError([fault]) from error


def _error(answer: Answer) -> TransportError:
    """Returns *answer* as the ``TransportError`` that a consumer raises."""
    if isinstance(answer, TransportError):
        return answer
    assert not isinstance(answer, Reply)
    return TransportError("refused", f"Kafka: {answer.code}: {answer.text}")
