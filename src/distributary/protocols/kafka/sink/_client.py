"""One client of librdkafka: its beginning on a thread, what it says of its brokers, its end."""

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
"""How long the first answer of a cluster is waited for, with a look in between at what went wrong.
Together less than ``DIAL_S_MAX``."""

BROKERS_LOOK_MS: Final = 10_000
"""How often the brokers that the client knows are looked at for new ones."""


class _Connected(NamedTuple):
    """What came of an attempt to connect: a client and the hosts of its brokers, or neither."""

    handle: Any = None
    brokers: frozenset[str] = frozenset()
    refusal: Answer | None = None


class KafkaClient:
    """A producer or a consumer that answers for where its brokers are.

    The client dials by itself. What it is told to dial is checked before; where the brokers say
    that they are is checked as soon as they have said it, and before anything is sent or read;
    brokers that come later are checked within ``BROKERS_LOOK_MS``.

    Making and ending it blocks, and is done on threads: daemons, so that none keeps the process
    from ending.

    Args:
        kind: Which of the two.
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
        """Wait until a broker has answered, and check all of them.

        Args:
            topic: What is asked about, so that the answer is small; it need not exist.
            loop: The running loop.

        Returns:
            None: ``handle`` can be used. Else why not.

        Raises:
            TransportError: ``blocked-address``: a broker is where nothing must be dialled.
        """
        self._loop = loop
        if self._settings.get("enable.idempotence"):
            # Such a client asks any broker for a number, wherever that says that it is. One that
            # has nothing to send stays with the servers that were checked.
            first = self._settings | {"enable.idempotence": False}
            refusal = await self._round(topic, first, loop, keep=False)
            if refusal is not None:
                return refusal
        return await self._round(topic, self._settings, loop, keep=True)

    async def _round(
        self, topic: str, settings: Settings, loop: asyncio.AbstractEventLoop, *, keep: bool
    ) -> Answer | None:
        """Ask a client with *settings* who the brokers are, and check them; *keep*: use it then."""
        connected: asyncio.Future[_Connected] = loop.create_future()

        def tell(made: _Connected) -> None:
            if connected.done():  # nobody waits any more
                self.handle = made.handle
                self.forget()
            else:
                connected.set_result(made)

        def run() -> None:
            try:
                made = self._connect(topic, settings, keep=keep)
            except Exception as error:  # noqa: BLE001 - whatever a broker makes it stumble over
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
        # Costs some 30 ms and 3 MB: only where Kafka is spoken to.
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
                self._why, self._down = None, False  # of servers that were tried before this one
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
        """Take note of a ``KafkaError`` of a connection, or of the client as a whole."""
        if error.fatal():
            self._why, self._down = error, True
        elif error.name() == "_ALL_BROKERS_DOWN":
            self._down = True
            self._why = self._why or error
        elif error.name() == "_TRANSPORT" and self.handle is None:
            # The client dials again, and that ends too: what went wrong first says why.
            self._why = self._why or error
        else:
            self._why = error

    def poll(self) -> None:
        """Have the callbacks called that are due, those of records too. Not while it is forgotten.

        They come from here alone. Whatever they raise ends the client; see ``end``.
        """
        try:
            self.handle.poll(0)
        except Exception as error:  # noqa: BLE001 - a broker's name may be no text, or garble all
            self._refused = _stumbled(error)

    def _learn(self, statistics: str) -> None:
        """Take note of the brokers of the cluster."""
        brokers = msgspec.json.decode(statistics, type=_Statistics).brokers.values()
        if len(brokers) != statistics.count('"nodename":'):
            # librdkafka escapes nothing: a name with quotes could hide other brokers.
            raise ValueError("the names of the brokers are garbled")
        hosts = {broker.nodename.rpartition(":")[0] for broker in brokers}
        self._news = frozenset(filter(None, hosts))

    def end(self) -> Answer | None:
        """Why the client can't be used any more; None: it can. Called on the loop, after polls."""
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
        """End the client, whatever it still holds, without waiting for that.

        Args:
            ended: Called on another thread once the client has said goodbye.
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
