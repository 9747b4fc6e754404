"""A strict parser of MQTT 5 properties, and encoders of field types (section 2.2.2)."""

from dataclasses import dataclass, field
from typing import Final

STRING_BYTES_MAX: Final = 65_535
"""Bytes of a string or of binary data: their length is written in two bytes (1.5.4)."""

EXPIRY: Final = 0x02
CONTENT_TYPE: Final = 0x03
SESSION_EXPIRY: Final = 0x11
SERVER_KEEPALIVE: Final = 0x13
REASON: Final = 0x1F
RECEIVE_MAXIMUM: Final = 0x21
MAXIMUM_QOS: Final = 0x24
RETAIN_AVAILABLE: Final = 0x25
USER_PROPERTY: Final = 0x26
MAXIMUM_PACKET_SIZE: Final = 0x27
"""Identifiers of the properties in use here (2.2.2.2)."""

_BYTES_BY_ID: Final = {
    0x01: 1,
    EXPIRY: 4,
    SESSION_EXPIRY: 4,
    SERVER_KEEPALIVE: 2,
    0x17: 1,
    0x18: 4,
    0x19: 1,
    RECEIVE_MAXIMUM: 2,
    0x22: 2,
    0x23: 2,
    MAXIMUM_QOS: 1,
    RETAIN_AVAILABLE: 1,
    MAXIMUM_PACKET_SIZE: 4,
    0x28: 1,
    0x29: 1,
    0x2A: 1,
}
"""Numeric properties -> their size in bytes."""

_TEXTS: Final = frozenset({CONTENT_TYPE, 0x08, 0x12, 0x15, 0x1A, 0x1C, REASON})
_BINARIES: Final = frozenset({0x09, 0x16})
_SUBSCRIPTION_ID: Final = 0x0B

PROPERTIES_MAX: Final = 1_024
"""Limit of properties in one packet: an event has 64 attributes at most. A packet of some
megabytes could hold millions, which take seconds and hundreds of megabytes to parse."""

REASON_CHARS_MAX: Final = 256
"""Characters kept of a broker's reason string."""

_NOT_ZERO: Final = frozenset({RECEIVE_MAXIMUM, MAXIMUM_PACKET_SIZE})


class PacketError(ValueError):
    """Bytes that are not a valid MQTT packet; the message says what is wrong."""


@dataclass(slots=True)
class Properties:
    """The properties of one packet.

    Attributes:
        numbers: By identifier.
        texts: By identifier.
        user: User properties in their order; names may repeat.
    """

    numbers: dict[int, int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    user: list[tuple[str, str]] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """The reason string, cut at ``REASON_CHARS_MAX``."""
        return self.texts.get(REASON, "")[:REASON_CHARS_MAX]


def string(text: str) -> bytes:
    """Encode *text* as a UTF-8 Encoded String: two bytes of length, and the bytes (1.5.4).

    Raises:
        ValueError: It is longer than ``STRING_BYTES_MAX``, or holds U+0000 or a lone surrogate.
    """
    if "\0" in text:
        raise ValueError("a string of MQTT must not hold U+0000")
    return binary(text.encode())


def binary(raw: bytes) -> bytes:
    """Encode *raw* as Binary Data (1.5.6).

    Raises:
        ValueError: It is longer than ``STRING_BYTES_MAX``.
    """
    if len(raw) > STRING_BYTES_MAX:
        raise ValueError(f"a string of MQTT has at most {STRING_BYTES_MAX} bytes")
    return len(raw).to_bytes(2, "big") + raw


def number(identifier: int, value: int) -> bytes:
    """Encode the numeric property *identifier* with *value*."""
    return bytes((identifier,)) + value.to_bytes(_BYTES_BY_ID[identifier], "big")


def variable(value: int) -> bytes:
    """Encode *value* as a Variable Byte Integer, up to 268,435,455 (1.5.5)."""
    if value < 0x80:
        return bytes((value,))
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    return bytes(raw)


class PropertyReader:
    """Sequential reader of the fields of one packet.

    Args:
        body: The packet without its fixed header.
    """

    __slots__ = ("_at", "_body")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._body) - self._at

    def raw(self, count: int) -> bytes:
        """Read *count* bytes.

        Raises:
            PacketError: There are fewer.
        """
        at = self._at
        if count > len(self._body) - at:
            raise PacketError("a packet ends before its last field")
        self._at = at + count
        return self._body[at : self._at]

    def integer(self, count: int) -> int:
        """Read *count* bytes as a number."""
        return int.from_bytes(self.raw(count), "big")

    def variable(self) -> int:
        """Read a Variable Byte Integer."""
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.integer(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise PacketError("a variable byte integer has more than four bytes")

    def text(self) -> str:
        """Read a UTF-8 Encoded String."""
        raw = self.raw(self.integer(2))
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise PacketError("a string is not UTF-8") from error
        if "\0" in text:
            raise PacketError("a string holds U+0000")
        return text

    def rest(self) -> bytes:
        """Read all remaining bytes."""
        return self.raw(self.left)

    def properties(self) -> Properties:
        """Read properties, with their length prefix.

        Raises:
            PacketError: One is unknown, repeated, or cut off; or there are more than
                ``PROPERTIES_MAX``.
        """
        found = Properties()
        inner = PropertyReader(self.raw(self.variable()))
        for _ in range(PROPERTIES_MAX):
            if not inner.left:
                return found
            _read_one(inner, found)
        if inner.left:
            raise PacketError(f"more than {PROPERTIES_MAX:,} properties")
        return found


def _read_one(reader: PropertyReader, found: Properties) -> None:
    identifier = reader.variable()
    if identifier == USER_PROPERTY:
        found.user.append((reader.text(), reader.text()))
    elif identifier == _SUBSCRIPTION_ID:
        reader.variable()  # ignored; repeated where subscriptions overlap
    elif identifier in found.numbers or identifier in found.texts:
        raise PacketError(f"the property 0x{identifier:02X} occurs twice")
    elif identifier in _BYTES_BY_ID:
        value = reader.integer(_BYTES_BY_ID[identifier])
        if value == 0 and identifier in _NOT_ZERO:
            raise PacketError(f"the property 0x{identifier:02X} must not be 0")
        found.numbers[identifier] = value
    elif identifier in _TEXTS:
        found.texts[identifier] = reader.text()
    elif identifier in _BINARIES:
        reader.raw(reader.integer(2))
    else:
        raise PacketError(f"there is no property 0x{identifier:02X}")
