"""The ``Session`` of a ``BrokerTransport`` over one MQTT connection."""

import asyncio
from collections.abc import Callable
from typing import Final

from distributary.core.deliver import Destination
from distributary.core.policy import Acknowledgement, Answer
from distributary.core.policy.acknowledgements import TEXT_CHARS_MAX
from distributary.net.link import SLOW_START_S, Flight, Lost
from distributary.protocols.mqtt import engine as mqtt
from distributary.protocols.mqtt.engine import Connack, End, MqttConnection, Publication, Version
from distributary.protocols.mqtt.sink._plan import PublishPlan

WINDOW: Final = 256
"""Messages in flight; fewer if the broker's Receive Maximum is smaller. Packet identifiers would
allow 65,535, but all in flight are repeated when a connection ends; 256 make 5,000 a second to a
broker that is 50 ms away."""

PLANS_MAX: Final = 10_000
"""Cached plans of one connection: as many destinations as the transport caches."""

_TOPIC_INVALID: Final = 0x90
_TOO_LARGE: Final = 0x95
_PAYLOAD_INVALID: Final = 0x99
_RETAIN_NOT_SUPPORTED: Final = 0x9A
_QOS_NOT_SUPPORTED: Final = 0x9B

_YES: Final = {Version.V3: "accepted", Version.V5: "0x00"}

_JUDGES_A_MESSAGE: Final = frozenset(
    {_TOPIC_INVALID, _TOO_LARGE, _PAYLOAD_INVALID, _RETAIN_NOT_SUPPORTED, _QOS_NOT_SUPPORTED}
)
"""Codes of DISCONNECT that can only refer to a published message."""


class MqttSession:
    """Publishes events on one connection; see ``net.link.Session``.

    Args:
        protocol: ``MQTT3`` or ``MQTT5``, for answers.
        login: Contents of CONNECT, in that version.
        lost: Called when the connection is lost.
        note: Called with whether the next connection needs a slow start.

    Attributes:
        version: Version of MQTT.
        connection: The connection; the caller opens it.
        window: See ``net.link.Session``.
        qos_max: Highest QoS that the broker accepts.
        retains: Whether it retains messages.
    """

    def __init__(
        self,
        protocol: str,
        login: mqtt.MqttLogin,
        lost: Lost,
        note: Callable[[bool], None],
    ) -> None:
        self.version = login.version
        self.connection: MqttConnection[Flight] = MqttConnection(login, self)
        self.window = 1
        self.qos_max = 2
        self.retains = True
        self._protocol = protocol
        self._lost = lost
        self._note = note
        self._unanswerable = False  # something was sent at QoS 0
        self._plans: dict[Destination, PublishPlan] = {}
        self._loop = asyncio.get_running_loop()
        self._since_s = self._loop.time()
        self._widening: asyncio.TimerHandle | None = None  # at the end of the slow start
        self._yes = Acknowledgement(protocol, _YES[login.version])
        self._written = Acknowledgement(protocol, "written")

    def accept(self, connack: Connack, *, slow_start: bool) -> None:
        """Apply the broker's limits in CONNACK (MQTT 5, 3.2.2.3).

        Args:
            connack: The broker's CONNACK.
            slow_start: Send one message at a time for ``SLOW_START_S``.
        """
        numbers = connack.properties.numbers
        window = min(WINDOW, numbers.get(mqtt.RECEIVE_MAXIMUM, WINDOW))
        self.window = 1 if slow_start else window
        if slow_start:
            self._widening = self._loop.call_later(SLOW_START_S, self._widen, window)
        self.qos_max = numbers.get(mqtt.MAXIMUM_QOS, 2)
        self.retains = numbers.get(mqtt.RETAIN_AVAILABLE, 1) == 1

    def _widen(self, window: int) -> None:
        self._widening = None
        self.window = window
        self._note(False)

    def publish(self, flight: Flight) -> None:
        """Send one event; see ``net.link.Session``."""
        destination = flight.destination
        plan = self._plans.get(destination) or self._plan(destination)
        if plan.refusal is not None:
            self._answer_soon(flight, plan.refusal)
            return
        event = flight.event
        properties, payload = plan.encode(event)
        try:
            self.connection.publish(plan.target_of(event), properties, payload, flight)
        except mqtt.TooLargeError as error:
            self._answer_soon(flight, self._acknowledgement(_TOO_LARGE, f"Not sent: {error}"))

    def _plan(self, destination: Destination) -> PublishPlan:
        plan = PublishPlan(destination, self.version)
        if plan.target.qos == 0:
            self._unanswerable = True
        if plan.target.qos > self.qos_max:
            text = f"Not sent: the broker takes QoS {self.qos_max} at most"
            plan.refusal = self._acknowledgement(_QOS_NOT_SUPPORTED, text)
        elif plan.retain and not self.retains:
            text = "Not sent: the broker retains nothing"
            plan.refusal = self._acknowledgement(_RETAIN_NOT_SUPPORTED, text)
        if len(self._plans) >= PLANS_MAX:
            self._plans.clear()
        self._plans[destination] = plan
        return plan

    def _acknowledgement(self, code: int, text: str) -> Acknowledgement:
        return Acknowledgement(self._protocol, f"0x{code:02X}", text)

    def _answer_soon(self, flight: Flight, answer: Answer) -> None:
        """Answer from the loop: answering here would recurse through the queue of messages."""
        self._loop.call_soon(flight.answer, answer)

    def settled(self, token: Flight, code: int, text: str) -> None:
        """Answer a message; see ``MqttListener``."""
        if code == 0:
            token.answer(self._yes)
        elif code == mqtt.WRITTEN:
            token.answer(self._written)
        else:
            token.answer(self._acknowledgement(code, text))

    def received(self, publication: Publication) -> None:
        """Ignored: the sink subscribes to nothing; see ``MqttListener``."""

    def ended(self, end: End) -> None:
        """Answer messages in flight when the connection was lost; see ``MqttListener``.

        A broker may end the connection over one message. If several were in flight, the culprit is
        unknown: all are retried, and the next connection starts with a window of 1, where the
        culprit alone gets the broker's answer. So does the one after a slow start that was ended
        too: one culprit may follow the other. After a message at QoS 0 the culprit stays unknown,
        as that is not in flight any more.
        """
        in_flight = self.connection.in_flight
        young = self._loop.time() - self._since_s < SLOW_START_S
        judged = end.code in _JUDGES_A_MESSAGE
        is_its_answer = judged and in_flight == 1 and not self._unanswerable
        answer: Answer = end.error()
        if end.code is not None:
            code = f"0x{end.code:02X}"
            if not is_its_answer:
                code = f"DISCONNECT {code}"
            answer = Acknowledgement(self._protocol, code, end.text[:TEXT_CHARS_MAX])
        slow_start = in_flight > 0 and self._widening is not None
        self._note(slow_start or (in_flight > 1 and (judged or young)))
        self._lost(answer)

    async def close(self) -> None:
        """Disconnect; see ``net.link.Session``."""
        if self._widening is not None:
            self._widening.cancel()
        await self.connection.close()
