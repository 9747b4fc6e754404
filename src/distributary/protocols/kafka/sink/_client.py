"""A librdkafka client that connects on a thread and checks the addresses of its brokers."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from distributary.core.errors import TransportError
from distributary.core.policy import Answer
from distributary.net import Connector
from distributary.protocols.kafka.sink._answers import answer_of
from distributary.protocols.kafka.sink._cluster import Settings, check_brokers

SLICES_S: Final = (0.25, 0.5, 1.0, 2.0, 2.0, 2.0)
"""Waits for the first response of a cluster; errors are checked after each. In total less than
``DIAL_S_MAX``."""

BROKERS_LOOK_MS: Final = 10_000
"""Interval at which the client's list of brokers is checked for new ones."""


class _Connected(NamedTuple):
    """Result of an attempt to connect: a client and the hosts of its brokers, or a refusal."""

    handle: Any = None
    brokers: frozenset[str] = frozenset()
    refusal: Answer | None = None


class KafkaClient:
    """A producer or consumer of librdkafka whose brokers' addresses are checked.

    librdkafka dials itself. Bootstrap servers are checked before; advertised addresses of brokers
    as soon as the metadata is there, before anything is sent or read; brokers that are added later
    within ``BROKERS_LOOK_MS``.

    Creating and closing a client blocks, so both run on threads: daemons, which never keep the
    process alive.

    Args:
        kind: Producer or consumer.
        settings: For librdkafka.
        connector: Checks addresses.

    Attributes:
        handle: The client of ``confluent_kafka``; None until ``connect``, and after ``forget``.
    """

    def __init__(
        self, kind: Literal["Producer", "Consumer"], settings: Settings, connector: Connector
    ) -> None:
        self.handle: Any = None
        self._kind = kind
        self._connector = connector
        self._settings = settings | {
            "statistics.interval.ms": BROKERS_LOOK_MS,
            "stats_cb": self._learn,
            "error_cb": self._trouble,
        }
        self._why: Any = None  # the latest error that named a cause
        self._down = False
        self._checked: frozenset[str] = frozenset()
        self._news: frozenset[str] = frozenset()
        self._looking: asyncio.Task[None] | None = None
        self._refused: TransportError | None = None
        self._forgotten = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def connect(self, topic: str, loop: asyncio.AbstractEventLoop) -> Answer | None:
        """Connect, fetch metadata, and check the addresses of all brokers.

        Args:
            topic: Fetch metadata of this topic only, which keeps it small; it need not exist.
            loop: The running loop.

        Returns:
            None if ``handle`` is usable, else why not.

        Raises:
            TransportError: ``blocked-address``: a broker's address must not be dialled.
        """
        self._loop = loop
        if self._settings.get("enable.idempotence"):
            # An idempotent producer requests its id from any advertised broker, unchecked. A
            # plain one with nothing to send uses the bootstrap servers only: check with that first.
            first = self._settings | {"enable.idempotence": False}
            refusal = await self._round(topic, first, loop, keep=False)
            if refusal is not None:
                return refusal
        return await self._round(topic, self._settings, loop, keep=True)

    async def _round(
        self, topic: str, settings: Settings, loop: asyncio.AbstractEventLoop, *, keep: bool
    ) -> Answer | None:
        """Fetch metadata with a client of *settings*, and check the brokers; *keep* the client."""
        connected: asyncio.Future[_Connected] = loop.create_future()

        def tell(made: _Connected) -> None:
            if connected.done():  # the caller was cancelled
                self.handle = made.handle
                self.forget()
            else:
                connected.set_result(made)

        def run() -> None:
            try:
                made = self._connect(topic, settings, keep=keep)
            except Exception as error:  # noqa: BLE001 - a broker may cause any error
                made = _Connected(refusal=_stumbled(error))
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(tell, made)

        threading.Thread(target=run, name="kafka-dial", daemon=True).start()
        try:
            made = await connected
            self.handle = made.handle
            await check_brokers(made.brokers, self._connector)
        except BaseException:
            self.forget()
            raise
        self._checked = made.brokers
        return made.refusal

    def _connect(self, topic: str, settings: Settings, *, keep: bool) -> _Connected:
        # Costs some 30 ms and 3 MB: import it only when a connection is opened.
        import confluent_kafka  # noqa: PLC0415 - see above

        try:
            handle = getattr(confluent_kafka, self._kind)(settings)
        except confluent_kafka.KafkaException as error:  # certificates that cannot be read
            return _Connected(refusal=answer_of(error.args[0], dialling=True))
        why: Any = None
        for slice_s in SLICES_S:
            try:
                metadata = handle.list_topics(topic, timeout=slice_s)
            except confluent_kafka.KafkaException as error:
                why = error.args[0]
                handle.poll(0)
            else:
                handle.poll(0)
                self._why, self._down = None, False  # errors of servers tried before this one
                hosts = frozenset(broker.host for broker in metadata.brokers.values())
                if keep:
                    return _Connected(handle, hosts)
                handle.close()
                return _Connected(brokers=hosts)
            if self._down or self._forgotten:
                break
        handle.close()
        return _Connected(refusal=answer_of(self._why or why, dialling=True))

    def _trouble(self, error: Any) -> None:
        """Record a ``KafkaError`` of a connection or of the client."""
        if error.fatal():
            self._why, self._down = error, True
        elif error.name() == "_ALL_BROKERS_DOWN":
            self._down = True
            self._why = self._why or error
        elif error.name() == "_TRANSPORT" and self.handle is None:
            # librdkafka redials, and fails again: the first error has the cause.
            self._why = self._why or error
        else:
            self._why = error

    def poll(self) -> None:
        """Run due callbacks, delivery reports included. Not after ``forget``.

        Callbacks run here only. An exception in one ends the client; see ``end``.
        """
        try:
            self.handle.poll(0)
        except Exception as error:  # noqa: BLE001 - a broker's name may break UTF-8 or JSON
            self._refused = _stumbled(error)

    def _learn(self, statistics: str) -> None:
        """Record the brokers in librdkafka's statistics."""
        brokers = msgspec.json.decode(statistics, type=_Statistics).brokers.values()
        if len(brokers) != statistics.count('"nodename":'):
            # librdkafka does not escape names: one with quotes could hide other brokers.
            raise ValueError("the names of the brokers are garbled")
        hosts = {broker.nodename.rpartition(":")[0] for broker in brokers}
        self._news = frozenset(filter(None, hosts))

    def end(self) -> Answer | None:
        """Returns why the client is unusable, else None. Call it on the loop, after ``poll``."""
        if self._refused is not None:
            return self._refused
        if self._down:
            return answer_of(self._why)
        new = self._news - self._checked
        if new and (self._looking is None or self._looking.done()):
            assert self._loop is not None
            self._looking = self._loop.create_task(self._look_at(new))
        return None

    async def _look_at(self, hosts: frozenset[str]) -> None:
        try:
            await check_brokers(hosts, self._connector)
        except TransportError as error:
            self._refused = error
        else:
            self._checked |= hosts

    def forget(self, ended: Callable[[], None] = lambda: None) -> None:
        """Close the client and drop its queue, without waiting for it.

        Args:
            ended: Called on another thread once the client is closed.
        """
        self._forgotten = True
        if self._looking is not None:
            self._looking.cancel()
        handle, self.handle = self.handle, None
        if handle is not None:
            threading.Thread(
                target=_end, args=(self._kind, handle, ended), name="kafka-end", daemon=True
            ).start()


def _stumbled(error: Exception) -> TransportError:
    return TransportError("protocol", f"The client cannot go on: {type(error).__name__}")


def _end(kind: str, handle: Any, ended: Callable[[], None]) -> None:
    if kind == "Producer":
        handle.purge(in_queue=True, in_flight=True, blocking=False)
    handle.close()
    ended()


class _Broker(msgspec.Struct):
    nodename: str = ""


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker]
