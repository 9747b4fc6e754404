"""An independent MQTT subscriber (paho) that collects what it receives."""

import contextlib
import threading
from types import TracebackType
from typing import Any, NamedTuple, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from distributary.core.event import Event
from distributary.protocols.mqtt import binding
from kit.servers import PASSWORD, USER

READY_S_MAX = 60.0
"""Longest time until the broker has taken the subscription."""
END_S_MAX = 30.0
"""Longest wait for the end of a connection whose broker is gone, on a busy machine."""


class Seen(NamedTuple):
    """A message as paho read it.

    Attributes:
        topic: Its topic.
        payload: Its payload.
        qos: QoS of the delivery to the checker: the lower of publication and subscription.
        retain: Whether it is a retained message.
        properties: By their names in the standard without blanks; empty in MQTT 3.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[str, Any]

    def event(self) -> Event:
        """The event that it holds."""
        user = self.properties.get("UserProperty", [])
        return binding.decode(self.properties.get("ContentType"), user, self.payload)


class MqttChecker:
    """The subscriber; a context manager that is subscribed on entry.

    Args:
        port: Plain listener of the broker on loopback.
        topic_filter: Its topic filter.
        version: 5 or 3.
        qos: QoS of the subscription.
        client_id: Uses a persistent session, so that nothing is missed while either side is away;
            None: a clean session.

    Attributes:
        seen: Messages so far, in the broker's order.
    """

    def __init__(
        self,
        port: int,
        topic_filter: str,
        *,
        version: int = 5,
        qos: int = 2,
        client_id: str | None = None,
    ) -> None:
        self.seen: list[Seen] = []
        self._filter = topic_filter
        self._qos = qos
        self._port = port
        self._keeps = client_id is not None
        self._ready = threading.Event()
        self._lost = threading.Event()
        self._properties: Properties | None = None
        five = version == 5
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id or "",
            clean_session=None if five else client_id is None,
            protocol=paho.MQTTv5 if five else paho.MQTTv311,
        )
        if five:
            # paho has no types there
            self._properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            if self._keeps:
                self._properties.SessionExpiryInterval = 3_600
        self._five = five
        self._client.username_pw_set(USER, PASSWORD)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = self._connected
        self._client.on_subscribe = self._subscribed
        self._client.on_message = self._received
        self._client.on_disconnect = lambda *_: self._lost.set()

    def _connected(self, *_: object) -> None:
        self._client.subscribe(self._filter, self._qos)

    def _subscribed(
        self, _client: object, _data: object, _mid: int, codes: list[ReasonCode], *_: object
    ) -> None:
        assert not codes[0].is_failure, codes
        self._ready.set()

    def _received(self, _client: object, _data: object, message: paho.MQTTMessage) -> None:
        properties = {} if message.properties is None else vars(message.properties)
        named = {name: value for name, value in properties.items() if name[0].isupper()}
        self.seen.append(
            Seen(message.topic, bytes(message.payload), message.qos, message.retain, named)
        )

    def read_on(self) -> None:
        """Wait for the end of the connection to a broker that was killed: all it sent is read."""
        assert self._lost.wait(END_S_MAX), "the connection to the broker has not ended"

    def events(self) -> list[Event]:
        """The events that came, in the broker's order."""
        return [seen.event() for seen in list(self.seen)]

    def __enter__(self) -> Self:
        """Connect and subscribe."""
        if self._five:
            self._client.connect(
                "127.0.0.1",
                self._port,
                clean_start=not self._keeps,
                properties=self._properties,
            )
        else:
            self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        if not self._ready.wait(READY_S_MAX):
            self._client.loop_stop()
            raise RuntimeError("The broker did not take the witness's subscription")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave."""
        self._client.disconnect()
        # paho looks twice whether its thread is there, which may end in between.
        with contextlib.suppress(AttributeError):
            self._client.loop_stop()
