"""Encodes and decodes MQTT control packets. Pure: no connection, no state."""

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.core.errors import Fault
from distributary.protocols.mqtt.engine import _properties
from distributary.protocols.mqtt.engine._properties import (
    PacketError,
    Properties,
    PropertyReader,
    binary,
    number,
    string,
    variable,
)

PACKET_BYTES_MAX: Final = 268_435_455
"""Bytes after the fixed header of any packet: its length has four bytes of seven bits (2.1.4)."""

KEEPALIVE_S: Final = 10
"""Keep Alive of CONNECT, unless the broker sets less. A connection pings twice within it, and is
lost after one and a half of it without a byte: half-open connections are found within two."""

CONNACK: Final = 0x20
PUBLISH: Final = 0x30
PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x62
PUBCOMP: Final = 0x70
SUBACK: Final = 0x90
PINGRESP: Final = 0xD0
DISCONNECT: Final = 0xE0
"""First bytes of the packets, with the flags that they must have (2.1.3)."""

NO_ANSWERS: Final = frozenset({PINGRESP, SUBACK})
OF_SUBSCRIPTIONS: Final = frozenset({PUBLISH, PUBREL & 0xF0})
"""Kinds of packets that answer no message of ours."""

_RETAINED_IF_NEW: Final = 0x10
"""Of the options of a subscription: Retain Handling 1 (3.8.3.1)."""

_TOO_LARGE: Final = Fault("$", "too-large", "the message is larger than what is taken")

PINGREQ: Final = b"\xc0\x00"

FAILURE: Final = 0x80
"""Reason codes from here on are failures (2.4)."""


class Version(enum.IntEnum):
    """Protocol level in CONNECT (3.1.2.2)."""

    V3 = 4
    """MQTT 3.1.1."""
    V5 = 5


def unawaited(*, kept: bool) -> frozenset[int]:
    """Returns the kinds of packets that answer nothing before there is a subscription.

    Args:
        kept: Whether the broker may have kept a session, whose messages it sends at once.
    """
    return NO_ANSWERS if kept else NO_ANSWERS | OF_SUBSCRIPTIONS


@dataclass(frozen=True, slots=True)
class MqttLogin:
    """Contents of CONNECT.

    Attributes:
        version: Version of MQTT.
        client_id: Client identifier; two connections with the same one end each other.
        username: None: none. MQTT 3 requires one if there is a password.
        password: None: none.
        clean: Discard the session that the broker may have kept for this client.
        session_s: How long the broker keeps the session after the connection; MQTT 5 only: in
            MQTT 3 the broker decides how long it keeps a session that is not clean.
        receive_max: Limit of unacknowledged messages from the broker; MQTT 5 only.
        packet_bytes_max: Largest packet that is accepted; MQTT 5 sends it to the broker.
        keepalive_s: The broker may end the connection after one and a half of this in silence.
    """

    version: Version
    client_id: str
    username: str | None = None
    password: str | None = None
    clean: bool = True
    session_s: int = 0
    receive_max: int = 65_535
    packet_bytes_max: int = PACKET_BYTES_MAX
    keepalive_s: int = KEEPALIVE_S

    def __repr__(self) -> str:  # the password must not end up in a log
        return f"Login({self.version.name}, {self.client_id!r})"


class PublishTarget(NamedTuple):
    """The constant parts of all PUBLISH packets to one destination; see ``target``.

    Attributes:
        first: First byte: packet type, QoS and retain.
        topic: Topic name with its length.
        qos: 0, 1 or 2.
        properties: Properties of every message (MQTT 5), encoded; they precede its own.
    """

    first: int
    topic: bytes
    qos: int
    properties: bytes


class Connack(NamedTuple):
    """The broker's CONNACK (section 3.2)."""

    code: int
    session_present: bool
    properties: Properties


class Publication(NamedTuple):
    """One message of the broker.

    Attributes:
        topic: Topic name.
        packet_id: Packet identifier for the acknowledgement; 0 at QoS 0.
        qos: 0, 1 or 2.
        properties: Empty in MQTT 3.
        payload: None if the message is malformed or too large.
        fault: Why there is no payload; else None.
    """

    topic: str
    packet_id: int
    qos: int
    properties: Properties
    payload: bytes | None
    fault: Fault | None = None


def connect(login: MqttLogin) -> bytes:
    """Encode CONNECT (3.1).

    Raises:
        ValueError: A string of *login* cannot be encoded; the message does not repeat it.
    """
    five = login.version is Version.V5
    flags = (
        (0x80 if login.username is not None else 0)
        | (0x40 if login.password is not None else 0)
        | (0x02 if login.clean else 0)
    )
    head = b"\x00\x04MQTT" + bytes((login.version, flags)) + login.keepalive_s.to_bytes(2, "big")
    block = _connect_properties(login) if five else b""
    body = head + block + string(login.client_id)
    if login.username is not None:
        body += string(login.username)
    if login.password is not None:
        body += binary(login.password.encode())
    return b"\x10" + variable(len(body)) + body


def _connect_properties(login: MqttLogin) -> bytes:
    block = number(_properties.RECEIVE_MAXIMUM, login.receive_max)
    block += number(_properties.MAXIMUM_PACKET_SIZE, login.packet_bytes_max)
    if login.session_s:
        block += number(_properties.SESSION_EXPIRY, login.session_s)
    return variable(len(block)) + block


def target(
    topic: str, qos: int, *, retain: bool, expiry_s: int | None, user: tuple[tuple[str, str], ...]
) -> PublishTarget:
    """Encode the constant parts of PUBLISH packets to *topic* (3.3).

    Args:
        topic: Without wildcards.
        qos: 0, 1 or 2.
        retain: Whether the broker keeps the last one.
        expiry_s: MQTT 5 only; None: never.
        user: User properties; MQTT 5 only.

    Raises:
        ValueError: One of the strings cannot be encoded.
    """
    block = b"" if expiry_s is None else number(_properties.EXPIRY, expiry_s)
    for name, value in user:
        block += bytes((_properties.USER_PROPERTY,)) + string(name) + string(value)
    return PublishTarget(PUBLISH | qos << 1 | int(retain), string(topic), qos, block)


def subscribe(version: Version, packet_id: int, topic_filter: str, qos: int) -> bytes:
    """Encode SUBSCRIBE with one topic filter (3.8).

    Requests retained messages only for a new subscription, not when it is repeated (MQTT 5; MQTT 3
    has no such option).

    Raises:
        ValueError: *topic_filter* cannot be encoded.
    """
    five = version is Version.V5
    options = qos | (_RETAINED_IF_NEW if five else 0)
    block = b"\x00" if five else b""
    body = packet_id.to_bytes(2, "big") + block + string(topic_filter) + bytes((options,))
    return b"\x82" + variable(len(body)) + body


def acknowledgement(first: int, packet_id: int) -> bytes:
    """Encode a successful PUBACK, PUBREC, PUBREL or PUBCOMP, by *first*."""
    return bytes((first, 2, packet_id >> 8, packet_id & 0xFF))


def disconnect() -> bytes:
    """Encode a normal DISCONNECT, the same in both versions (3.14)."""
    return b"\xe0\x00"


class Frame(NamedTuple):
    """Bounds of a packet in a buffer: ``buffer[start:end]`` is its body."""

    first: int
    start: int
    end: int


def frame(buffer: bytes | bytearray, at: int) -> Frame | None:
    """Parse the fixed header at *at*; None if it is incomplete.

    The body may extend beyond the end of *buffer*.

    Raises:
        PacketError: Its length is malformed.
    """
    size = len(buffer)
    length = 0
    for count in range(4):
        place = at + 1 + count
        if place >= size:
            return None
        byte = buffer[place]
        length |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return Frame(buffer[at], place + 1, place + 1 + length)
    raise PacketError("the length of a packet has more than four bytes")


def read_connack(version: Version, body: bytes) -> Connack:
    """Decode CONNACK (3.2)."""
    reader = PropertyReader(body)
    flags, code = reader.integer(1), reader.integer(1)
    # A broker of MQTT 3 refuses a client of MQTT 5 without properties.
    five = version is Version.V5 and reader.left > 0
    properties = reader.properties() if five else Properties()
    return Connack(code, bool(flags & 1), properties)


def read_acknowledgement(version: Version, body: bytes) -> tuple[int, int, str]:
    """Decode packet identifier, reason code and reason of PUBACK, PUBREC or PUBCOMP (3.4)."""
    reader = PropertyReader(body)
    packet_id = reader.integer(2)
    if version is Version.V3 or not reader.left:
        return packet_id, 0, ""
    code = reader.integer(1)
    properties = reader.properties() if reader.left else Properties()
    return packet_id, code, properties.reason


def read_suback(version: Version, body: bytes) -> tuple[int, int, str]:
    """Decode packet identifier, code of the one topic filter, and reason of SUBACK (3.9)."""
    reader = PropertyReader(body)
    packet_id = reader.integer(2)
    properties = reader.properties() if version is Version.V5 else Properties()
    return packet_id, reader.integer(1), properties.reason


def read_disconnect(body: bytes) -> tuple[int, str]:
    """Decode reason code and reason of DISCONNECT (3.14); MQTT 5 only."""
    reader = PropertyReader(body)
    code = reader.integer(1) if reader.left else 0
    properties = reader.properties() if reader.left else Properties()
    return code, properties.reason


def read_publication(
    version: Version, first: int, body: bytes, *, payload_taken: bool = True
) -> Publication:
    """Decode PUBLISH (3.3).

    Malformed properties make a fault of the message, not an error: some brokers forward a
    publisher's strings unchecked, and an error would end the connection, after which the broker
    would redeliver the same message for ever.

    Args:
        version: Version of MQTT.
        first: First byte of the packet.
        body: Its body.
        payload_taken: False if the packet is too large, and *body* is cut off.

    Raises:
        PacketError: The packet cannot even be acknowledged.
    """
    qos = first >> 1 & 3
    if qos == 3:
        raise PacketError("there is no QoS 3")
    reader = PropertyReader(body)
    topic = reader.raw(reader.integer(2)).decode(errors="replace")
    packet_id = reader.integer(2) if qos else 0
    if qos and not packet_id:
        raise PacketError("a packet identifier must not be 0")
    if not payload_taken:
        return Publication(topic, packet_id, qos, Properties(), None, _TOO_LARGE)
    try:
        properties = reader.properties() if version is Version.V5 else Properties()
    except PacketError as error:
        fault = Fault("properties", "malformed", str(error))
        return Publication(topic, packet_id, qos, Properties(), None, fault)
    return Publication(topic, packet_id, qos, properties, reader.rest())
