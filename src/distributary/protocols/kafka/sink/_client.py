"""A librdkafka client that connects on a thread and checks the addresses of its brokers."""

import asyncio
import contextlib
import functools
import json
import re
import threading
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from distributary.core.errors import TransportError
from distributary.core.policy import Answer
from distributary.net import Connector
from distributary.protocols.kafka.sink._answers import answer_of
from distributary.protocols.kafka.sink._cluster import Place, Settings, check_brokers

SLICES_S: Final = (0.25, 0.5, 1.0, 2.0, 2.0, 2.0)
"""Waits for the first response of a cluster; errors are checked after each. In total less than
``DIAL_S_MAX``."""

BROKERS_LOOK_MS: Final = 10_000
"""Interval at which the client's list of brokers is checked for new ones."""

ASKING_LOOK_MS: Final = 20
"""The same while a cluster is asked for its brokers. librdkafka leaves the bootstrap server once it
knows them, and dials one of them at the next tick of its second: the client is closed before."""

ASKING_LOOKS_MAX: Final = 390
"""Looks at a cluster that is asked for its brokers: as long as ``SLICES_S`` together."""

ASKING_PAUSE_MS: Final = 20
"""Pause before a bootstrap server is dialled again, or another one, while a cluster is asked."""

RESPONSE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest response that is read where no records are: that of a topic with 50,000 partitions has so
much. The client makes room for a response by the size that the cluster says, by default 100 MB."""

_IDLE: Final = frozenset({"INIT", "DOWN", "TRY_CONNECT"})
"""librdkafka's states of a broker that is not being connected to."""

_OF_A_BROKER: Final = re.compile(r"(?:\w+://)?(\S+:\d+)/\d+: ")
"""How librdkafka's errors begin that are of a connection to a broker of the cluster: its advertised
address, and its number. Those of bootstrap servers have no number."""


class _Connected(NamedTuple):
    """Result of an attempt to connect: where brokers are, and a client or a refusal."""

    handle: Any = None
    brokers: frozenset[Place] = frozenset()
    refusal: Answer | None = None


class KafkaClient:
    """A producer or consumer of librdkafka whose brokers' addresses are checked.

    librdkafka dials itself. Bootstrap servers are checked before; then a first client asks them for
    the brokers, and their advertised addresses are checked before a client is made that dials them;
    brokers that are added later within ``BROKERS_LOOK_MS``.

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
        me = re.escape(str(settings.get("client.id", "")))
        self._statistics_head = re.compile(rf'{{ "name": "{me}#\w+-\d+", "client_id": "{me}", ')
        self._why: Any = None  # the latest error that named a cause
        self._down = False
        self._checked: frozenset[Place] = frozenset()
        self._news: frozenset[Place] = frozenset()
        self._told = False  # the cluster has told its brokers
        self._dialling = False
        self._failed: set[Place] = set()  # of brokers, connections to which have failed
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
        refusal = await self._round(self._ask, loop)
        if refusal is not None:
            return refusal
        return await self._round(functools.partial(self._open, topic), loop)

    async def _round(
        self, connect: Callable[[], _Connected], loop: asyncio.AbstractEventLoop
    ) -> Answer | None:
        """Run *connect* on a thread, and check the brokers, whatever came of it."""
        connected: asyncio.Future[_Connected] = loop.create_future()

        def tell(made: _Connected) -> None:
            if connected.done():  # the caller was cancelled
                self.handle = made.handle
                self.forget()
            else:
                connected.set_result(made)

        def run() -> None:
            try:
                made = connect()
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

    def _ask(self) -> _Connected:
        """Have a bootstrap server tell the brokers, with a client that wants nothing of them.

        It is a plain producer: consumers look for their coordinator, and idempotent producers for
        their number, at any broker. It requests no metadata: it gets those of a new connection, and
        would repeat a request of its own at a broker.
        """
        # Costs some 30 ms and 3 MB: import it only when a connection is opened.
        import confluent_kafka  # noqa: PLC0415 - see above

        asking = {
            "enable.idempotence": False,
            "statistics.interval.ms": ASKING_LOOK_MS,
            "reconnect.backoff.ms": ASKING_PAUSE_MS,
            "receive.message.max.bytes": RESPONSE_BYTES_MAX,
        }
        try:
            handle = confluent_kafka.Producer(self._settings | asking)
        except confluent_kafka.KafkaException as error:  # certificates that cannot be read
            return _Connected(refusal=answer_of(error.args[0], dialling=True))
        for _ in range(ASKING_LOOKS_MAX):
            handle.poll(1.0)  # until the next statistics
            if self._told or self._down or self._forgotten:
                break
            if not self._dialling:  # looks for another server at once: sends nothing
                with contextlib.suppress(confluent_kafka.KafkaException):
                    handle.list_topics(timeout=0.0)
        handle.close()
        places = self._news | self._failed
        if self._told:
            self._why, self._down = None, False  # errors of servers tried before
            return _Connected(brokers=places)
        timed_out = confluent_kafka.KafkaError._TIMED_OUT  # noqa: SLF001 - its name
        why = self._why or confluent_kafka.KafkaError(timed_out)
        return _Connected(brokers=places, refusal=answer_of(why, dialling=True))

    def _open(self, topic: str) -> _Connected:
        """Make the client, and fetch metadata of *topic* with it."""
        import confluent_kafka  # noqa: PLC0415 - as above

        handle = getattr(confluent_kafka, self._kind)(self._settings)
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
                brokers = metadata.brokers.values()
                return _Connected(handle, frozenset((each.host, each.port) for each in brokers))
            if self._down or self._forgotten:
                break
        handle.close()
        refusal = answer_of(self._why or why, dialling=True)
        return _Connected(brokers=frozenset(self._failed), refusal=refusal)

    def _trouble(self, error: Any) -> None:
        """Record a ``KafkaError`` of a connection or of the client."""
        broker = _OF_A_BROKER.match(error.str())
        if broker is not None and self.handle is None:
            self._failed.add(_place(broker[1]))
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
        # librdkafka does not escape names: ours may have quotes, which stands at the head.
        head = self._statistics_head.match(statistics)
        if head is not None:
            statistics = "{" + statistics[head.end() :]
        # One that is left and asked anew stands there twice, under one name.
        whole = json.loads(statistics, object_pairs_hook=list)
        found = [fields for name, each in whole if name == "brokers" for _, fields in each]
        if len(found) != statistics.count('"nodename":'):
            # A name with quotes could hide other brokers.
            raise ValueError("the names of the brokers are garbled")
        brokers = [msgspec.convert(dict(fields), _Broker) for fields in found]
        places = [_place(broker.nodename) for broker in brokers if broker.nodename]
        self._news = frozenset(place for place in places if place[0])
        self._told = any(broker.nodeid >= 0 for broker in brokers)
        self._dialling = any(broker.state not in _IDLE for broker in brokers)

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

    async def _look_at(self, places: frozenset[Place]) -> None:
        try:
            await check_brokers(places, self._connector)
        except TransportError as error:
            self._refused = error
        else:
            self._checked |= places

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


def _place(text: str) -> Place:
    """Returns where a broker is, by how librdkafka names it."""
    host, _, port = text.rpartition(":")
    return host, int(port)


class _Broker(msgspec.Struct):
    nodename: str = ""
    nodeid: int = -1
    state: str = ""
