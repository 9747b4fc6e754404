"""The MQTT source: subscribes to a topic filter of a broker.

Uses a persistent session with the source's name as client id: the broker queues messages at QoS 1
and 2 while the source is disconnected, and redelivers unacknowledged ones when the session is
resumed, no sooner. MQTT cannot reject a message, so one that is not an event is acknowledged too.

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
"""Session Expiry at an MQTT 5 broker: a day bridges a night without the server, and an abandoned
source does not fill the broker for ever."""

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest message accepted, far above the receiver's default limit. An MQTT 5 broker gets it as
Maximum Packet Size and drops larger ones; in MQTT 3 a larger one is skipped while it is read, and
refused."""

QOS: Final = 1
"""Default QoS: the broker keeps a message until it is acknowledged."""

DIAL_S_MAX: Final = 10.0
"""Longest time to connect, log in and subscribe; the same as for the dial of a delivery."""

GOODBYE_S_MAX: Final = 1.0
"""Longest wait for an orderly close; then the connection is aborted."""

UNSETTLED_MAX: Final = 65_535
"""Limit of unsettled messages: the number of packet identifiers."""


def make(spec: SourceSpec, connector: Connector, clock: Clock) -> Consumer:
    """Returns a consumer of ``spec.place``, a topic filter; ``$share/<group>/<filter>`` shares it.

    Args:
        spec: The source; its option ``qos`` is 0, 1 or 2.
        connector: Dials.
        clock: Not used: MQTT's timers are those of the loop.
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
    """A message handed over and not acknowledged yet."""

    publication: Publication
    done: bool = False


class _Reading:
    """One connection of the source: its queue, and acknowledgement in order."""

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
        """Wait until the connection is lost.

        Raises:
            TransportError: The cause; always raised.
        """
        error: TransportError = await self._over
        raise error

    def settled(self, token: None, code: int, text: str) -> None:
        """Ignored: the source publishes nothing; see ``MqttListener``."""

    def ended(self, end: End) -> None:
        """Called when the connection was lost; see ``MqttListener``."""
        self._finish(end.error())

    def _finish(self, error: TransportError) -> None:
        if not self._over.done():
            self._over.set_result(error)

    def received(self, publication: Publication) -> None:
        """Queue a message, and hand over up to the limit; see ``MqttListener``."""
        self._waiting.append(publication)
        self._pump()

    def _pump(self) -> None:
        if self._pumping:
            return  # re-entered: a message was settled inside ``take``
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
        # In the order of arrival, as 4.6 requires.
        while self._taken and self._taken[0].done:
            self.connection.acknowledge(self._taken.popleft().publication)
        self._pump()
