"""Reads a topic filter of an MQTT broker.

The session outlives the connection under the name of the source: what comes while nobody is
connected waits at the broker (at QoS 1 and 2), and what was not acknowledged comes again. MQTT has
no way to refuse a message, so one that is no event is acknowledged like any other. Brokers give
again when a session is resumed, no sooner.

Source:
    MQTT Version 5.0, sections 3.1.2, 3.3.4, 4.3 and 4.6.
"""

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from distributary.core.clock import Clock
from distributary.core.deliver import Destination
from distributary.core.errors import EventError, TransportError
from distributary.core.event import Event
from distributary.core.source import Consumer, Message, Settlement, SourceSpec
from distributary.net import Connector
from distributary.protocols.mqtt import binding
from distributary.protocols.mqtt import engine as mqtt
from distributary.protocols.mqtt.engine import End, Granted, MqttConnection, MqttLogin, Publication
from distributary.protocols.mqtt.sink import VERSIONS, checked, login_names, open_connection

SESSION_S: Final = 86_400
"""How long an MQTT 5 broker keeps what came while nobody was connected: a day bridges a night
without the server, and a source that was given up does not fill the broker for ever."""

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest message that is taken, far above what the receiver takes by default. An MQTT 5 broker is
told and leaves larger ones out; one of MQTT 3 is let go piece by piece, and counts as no event."""

QOS: Final = 1
"""Where the source does not say: a message waits until it is acknowledged."""

DIAL_S_MAX: Final = 10.0
"""Longest time to connect, log in and subscribe; as deliveries have to connect."""

GOODBYE_S_MAX: Final = 1.0
"""Longest time for a goodbye: a broker that does not take it is left without one."""

UNSETTLED_MAX: Final = 65_535
"""Packet identifiers allow no more."""


def make(spec: SourceSpec, connector: Connector, clock: Clock) -> Consumer:
    """A consumer of ``spec.place``, a topic filter; ``$share/<group>/<filter>`` shares it.

    Args:
        spec: The source; its option ``qos`` is 0, 1 or 2.
        connector: Dials.
        clock: Not used: MQTT's own timers are those of the loop.
    """
    del clock
    return MqttConsumer(spec, connector)


class MqttConsumer:
    """See ``core.source.Consumer``."""

    def __init__(self, spec: SourceSpec, connector: Connector) -> None:
        self._spec = spec
        self._connector = connector

    async def run(self, take: Callable[[Message], None], unsettled_max: int) -> None:
        """Connect and read; see ``core.source.Consumer``."""
        unsettled_max = min(unsettled_max, UNSETTLED_MAX)
        reading = _Reading(self._login(unsettled_max), take, unsettled_max)
        try:
            try:
                async with asyncio.timeout(DIAL_S_MAX):
                    await self._begin(reading.connection)
            except TimeoutError:
                text = f"No subscription within {DIAL_S_MAX:g} s"
                raise TransportError("timeout", text) from None
            await reading.ended_by()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S_MAX):
                    await reading.connection.close()

    async def _begin(self, connection: MqttConnection[None]) -> None:
        """Connect, log in and subscribe.

        Raises:
            TransportError: One of them was refused.
        """
        spec = self._spec
        destination = Destination(spec.uri, protocol=spec.protocol, ca_certs=spec.ca_certs)
        endpoint = self._connector.endpoint_of(destination)
        connack = await open_connection(self._connector, endpoint, connection)
        if connack.code:
            why = f"The broker refused the login: {connack.code:#04x} {connack.properties.reason}"
            raise TransportError("refused", why.rstrip())
        granted = await _subscribed(connection, spec.place, int(spec.options.get("qos", QOS)))
        if granted.code >= mqtt.FAILURE:
            why = f"The broker refused {spec.place}: {granted.code:#04x} {granted.text}"
            raise TransportError("refused", why.rstrip())

    def _login(self, unsettled_max: int) -> MqttLogin:
        spec = self._spec
        version = VERSIONS[spec.protocol]
        user, password = login_names(spec.credential, version)
        return checked(
            MqttLogin(
                version,
                spec.name,
                user,
                password,
                clean=False,
                session_s=SESSION_S,
                receive_max=unsettled_max,
                packet_bytes_max=MESSAGE_BYTES_MAX,
            )
        )


async def _subscribed(connection: MqttConnection[None], topic_filter: str, qos: int) -> Granted:
    try:
        return await connection.subscribe(topic_filter, qos)
    except ValueError as error:
        text = f"The topic filter cannot be written: {error}"
        raise TransportError("protocol", text, retryable=False) from error


@dataclass(slots=True, eq=False)
class _Taken:
    """A message that was taken and not acknowledged yet."""

    publication: Publication
    done: bool = False


class _Reading:
    """One connection: what was taken, and what waits to be. Listens to the connection."""

    def __init__(
        self, login: MqttLogin, take: Callable[[Message], None], unsettled_max: int
    ) -> None:
        self.connection: MqttConnection[None] = MqttConnection(login, self)
        self._take = take
        self._unsettled_max = unsettled_max
        self._unsettled = 0
        self._waiting: deque[Publication] = deque()  # one block of the network at most
        self._taken: deque[_Taken] = deque()
        self._pumping = False
        self._over = asyncio.get_running_loop().create_future()

    async def ended_by(self) -> None:
        """Wait for the end.

        Raises:
            TransportError: Why it has ended; always.
        """
        error: TransportError = await self._over
        raise error

    def settled(self, token: None, code: int, text: str) -> None:
        """Nothing is published here; see ``mqtt.Listener``."""

    def ended(self, end: End) -> None:
        """The connection has ended; see ``mqtt.Listener``."""
        self._finish(end.error())

    def _finish(self, error: TransportError) -> None:
        if not self._over.done():
            self._over.set_result(error)

    def received(self, publication: Publication) -> None:
        """Take a message, or have it wait; see ``mqtt.Listener``."""
        self._waiting.append(publication)
        self._pump()

    def _pump(self) -> None:
        if self._pumping:
            return  # a message was settled as it was taken: the loop below goes on
        self._pumping = True
        try:
            while self._waiting and self._unsettled < self._unsettled_max and not self._over.done():
                self._hand_over(self._waiting.popleft())
        finally:
            self._pumping = False
        if self._waiting:
            self.connection.pause_reading()
        else:
            self.connection.resume_reading()

    def _hand_over(self, publication: Publication) -> None:
        taken = _Taken(publication)
        self._taken.append(taken)
        self._unsettled += 1
        event, fault = self._decoded(publication)
        where = publication.topic
        self._take(Message(event, fault, where, functools.partial(self._settle, taken)))

    def _decoded(self, publication: Publication) -> tuple[Event | None, EventError | None]:
        payload = publication.payload
        if payload is None:
            assert publication.fault is not None
            return None, EventError([publication.fault])
        properties = publication.properties
        content_type = properties.texts.get(mqtt.CONTENT_TYPE)
        try:
            return binding.decode(content_type, properties.user, payload), None
        except EventError as error:
            return None, error

    def _settle(self, taken: _Taken, _settlement: Settlement) -> None:
        self._unsettled -= 1
        taken.done = True
        if self._over.done():
            return
        # In the order in which they came, as the broker has a right to (4.6).
        while self._taken and self._taken[0].done:
            self.connection.acknowledge(self._taken.popleft().publication)
        self._pump()
