"""Encodes and decodes AMQP 1.0 values: the type system of part 1 of the standard.

Called by ``_message``, ``_login``, ``_frames`` and ``_proton``. Pure. Hides format codes.

The decoder returns a value or raises ``AmqpError`` for any bytes, in time and memory proportional
to them.
"""

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

DEPTH_MAX: Final = 32
"""Nesting of lists, maps and described values: events have two levels, proton's deepest messages
five."""

OTHER_KEYS_MAX: Final = 64
"""Keys of one map that are neither text nor bytes; the standard's maps hardly ever have them. A
hostile peer can choose such keys (UUIDs, numbers, described values) with equal hashes in Python,
which makes decoding quadratic: minutes for a mebibyte."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class AmqpError(ValueError):
    """Bytes that are not AMQP, or a value without an AMQP type."""


class Symbol(str):
    """An AMQP symbol: an ASCII name from a defined set."""

    __slots__ = ()


class ULong(int):
    """An AMQP ``ulong``; other integers are written as ``long``."""

    __slots__ = ()


class UInt(int):
    """An AMQP ``uint``; other integers are written as ``long``."""

    __slots__ = ()


class UByte(int):
    """An AMQP ``ubyte``; other integers are written as ``long``."""

    __slots__ = ()


class Symbols(tuple[Symbol, ...]):
    """An array of symbols; none is longer than 255 bytes."""

    __slots__ = ()


class Described(NamedTuple):
    """A described value.

    Attributes:
        descriptor: A ``ULong`` or a ``Symbol`` in all types of the standard.
        value: The value.
    """

    descriptor: object
    value: Any


# -- writing ---------------------------------------------------------------------------------


def encode(value: object) -> bytes:
    """Encode *value*.

    ``bool``, ``int`` (long), ``ULong``, ``UInt``, ``float`` (double), ``str``, ``Symbol``,
    ``bytes``, ``datetime`` (timestamp, milliseconds), ``UUID``, ``list``, ``dict`` (map),
    ``Described`` and None.

    Raises:
        AmqpError: It has another type, or is too large for its type.
    """
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise AmqpError(f"AMQP has no type for {type(value).__name__}")
    return writer(value)


def encode_string(value: str) -> bytes:
    """Encode a string (``str8-utf8`` or ``str32-utf8``).

    Raises:
        AmqpError: It holds lone surrogates.
    """
    try:
        raw = value.encode()
    except UnicodeEncodeError as error:
        raise AmqpError(f"a string is not Unicode text: {error.reason}") from None
    return _sized(0xA1, raw)


def encode_symbol(value: str) -> bytes:
    """Encode a symbol.

    Raises:
        AmqpError: It is not ASCII.
    """
    if not value.isascii():
        raise AmqpError("a symbol is ASCII")
    return _sized(0xA3, value.encode())


def encode_binary(value: bytes) -> bytes:
    """Encode bytes (``vbin8`` or ``vbin32``)."""
    return _sized(0xA0, value)


def encode_long(value: int) -> bytes:
    """Encode a 64-bit signed integer.

    Raises:
        AmqpError: It has more bits.
    """
    if -128 <= value <= 127:
        return struct.pack(">Bb", 0x55, value)
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise AmqpError("an integer has at most 64 bits")
    return struct.pack(">Bq", 0x81, value)


def encode_items(parts: list[bytes], *, is_map: bool = False) -> bytes:
    """Encode a list, or a map as alternating keys and values, of encoded parts."""
    body = b"".join(parts)
    small, large = (0xC1, 0xD1) if is_map else (0xC0, 0xD0)
    count = len(parts)
    if not count and not is_map:
        return b"\x45"
    if len(body) < 255 and count < 256:
        return struct.pack(">BBB", small, len(body) + 1, count) + body
    return struct.pack(">BII", large, len(body) + 4, count) + body


def _sized(small: int, raw: bytes) -> bytes:
    size = len(raw)
    if size < 256:
        return bytes((small, size)) + raw
    return struct.pack(">BI", small + 0x10, size) + raw


def _encode_ulong(value: int) -> bytes:
    if not 0 <= value < 2**64:
        raise AmqpError("a ulong has 64 bits and no sign")
    if value < 256:
        return b"\x44" if value == 0 else bytes((0x53, value))
    return struct.pack(">BQ", 0x80, value)


def _encode_uint(value: int) -> bytes:
    if not 0 <= value < 2**32:
        raise AmqpError("a uint has 32 bits and no sign")
    if value < 256:
        return b"\x43" if value == 0 else bytes((0x52, value))
    return struct.pack(">BI", 0x70, value)


def _encode_time(value: dt.datetime) -> bytes:
    if value.tzinfo is None:
        raise AmqpError("a timestamp needs its offset from UTC")
    return struct.pack(">Bq", 0x83, (value - _EPOCH) // dt.timedelta(milliseconds=1))


def _encode_map(value: dict[object, object]) -> bytes:
    parts = [encode(each) for pair in value.items() for each in pair]
    return encode_items(parts, is_map=True)


def _encode_symbols(value: Symbols) -> bytes:
    """An array (1.6.24) of ``sym8``."""
    items = b"".join(bytes([len(each)]) + each.encode("ascii") for each in value)
    return struct.pack(">BBBB", 0xE0, len(items) + 2, len(value), 0xA3) + items


_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: b"\x40",
    bool: lambda value: b"\x41" if value else b"\x42",
    int: encode_long,
    ULong: _encode_ulong,
    UInt: _encode_uint,
    UByte: lambda value: struct.pack(">BB", 0x50, value),
    Symbols: _encode_symbols,
    float: lambda value: struct.pack(">Bd", 0x82, value),
    str: encode_string,
    Symbol: encode_symbol,
    bytes: encode_binary,
    dt.datetime: _encode_time,
    uuid.UUID: lambda value: b"\x98" + value.bytes,
    list: lambda value: encode_items([encode(each) for each in value]),
    dict: _encode_map,
    Described: lambda value: b"\x00" + encode(value.descriptor) + encode(value.value),
}


# -- reading ---------------------------------------------------------------------------------


def decode(raw: bytes, start: int = 0) -> tuple[Any, int]:
    """Decode the value at *start*; returns it and the offset after it.

    Integers become ``int`` (or ``ULong``, ``UInt``), ``float`` and ``double`` ``float``, arrays
    ``list``, timestamps ``datetime``; decimals stay bytes.

    Raises:
        AmqpError: There is no valid value.
    """
    try:
        return _read(raw, start, DEPTH_MAX)
    except (struct.error, IndexError):
        raise AmqpError("the bytes end inside a value") from None


def _read(raw: bytes, start: int, depth: int) -> tuple[Any, int]:
    code = raw[start]
    if code == 0x00:
        if depth <= 0:
            _refuse("values are nested too deeply")
        descriptor, end = _read(raw, start + 1, depth - 1)
        value, end = _read(raw, end, depth - 1)
        return Described(descriptor, value), end
    return _read_plain(code, raw, start + 1, depth)


def _read_plain(code: int, raw: bytes, start: int, depth: int) -> tuple[Any, int]:
    """Decode the value of format *code* with its bytes at *start*."""
    fixed = _FIXED.get(code)
    if fixed is not None:
        layout, make = fixed
        (number,) = layout.unpack_from(raw, start)
        return (number if make is None else make(number)), start + layout.size
    if code in _CONSTANTS:
        constant = _CONSTANTS[code]
        return (list(constant) if isinstance(constant, list) else constant), start
    kind = code >> 4
    if kind in {0xA, 0xB}:
        return _read_variable(code, raw, start)
    if kind in {0xC, 0xD, 0xE, 0xF}:
        if depth <= 0:
            _refuse("values are nested too deeply")
        return _read_compound(code, raw, start, depth - 1)
    return _refuse(f"no type has the format code 0x{code:02x}")


def _read_variable(code: int, raw: bytes, start: int) -> tuple[Any, int]:
    if code < 0xB0:
        size, start = raw[start], start + 1
    else:
        (size,) = _UINT32.unpack_from(raw, start)
        start += 4
    end = start + size
    if end > len(raw):
        _refuse("the bytes end inside a value")
    piece = raw[start:end]
    kind = code & 0x0F
    try:
        if kind == 0:
            return bytes(piece), end
        if kind == 1:
            return str(piece, "utf-8"), end
        if kind == 3:
            return Symbol(str(piece, "ascii")), end
    except UnicodeDecodeError as error:
        raise AmqpError(f"a text does not have the encoding of its type: {error.reason}") from None
    return _refuse(f"no type has the format code 0x{code:02x}")


def _read_compound(code: int, raw: bytes, start: int, depth: int) -> tuple[Any, int]:
    small = code in {0xC0, 0xC1, 0xE0}
    if not small and code not in {0xD0, 0xD1, 0xF0}:
        _refuse(f"no type has the format code 0x{code:02x}")
    if small:
        size, count, at = raw[start], raw[start + 1], start + 2
        end = start + 1 + size
    else:
        size, count = _TWO_UINT32.unpack_from(raw, start)
        at = start + 8
        end = start + 4 + size
    if end > len(raw) or at > end:
        _refuse("the bytes end inside a value")
    if code in {0xE0, 0xF0}:
        return _read_array(raw, at, end, count, depth), end
    if count > end - at:  # each element has a byte at least
        _refuse("a list or map claims more elements than it has bytes")
    values: list[Any] = []
    for _ in range(count):
        value, at = _read(raw, at, depth)
        values.append(value)
    if at != end:
        _refuse("a list or map has another size than it claims")
    if code in {0xC0, 0xD0}:
        return values, end
    return _as_map(values), end


def _read_array(raw: bytes, at: int, end: int, count: int, depth: int) -> list[Any]:
    descriptor: object = None
    code = raw[at]
    described = code == 0x00
    if described:
        descriptor, at = _read(raw, at + 1, depth)
        code = raw[at]
        if code == 0x00:
            _refuse("the elements of an array are described twice")
    at += 1
    # Elements may have no bytes (null, true, an empty list), so a short array could claim four
    # thousand million of them. Such arrays have no use.
    if count > end - at:
        _refuse("an array claims more elements than it has bytes")
    values: list[Any] = []
    for _ in range(count):
        value, at = _read_plain(code, raw, at, depth)
        values.append(Described(descriptor, value) if described else value)
    if at != end:
        _refuse("an array has another size than it claims")
    return values


def _as_map(values: list[Any]) -> dict[Any, Any]:
    if len(values) % 2:
        _refuse("a map has a key without a value")
    found: dict[Any, Any] = {}
    others = 0
    for key, value in zip(values[::2], values[1::2], strict=True):
        if not isinstance(key, str | bytes):
            others += 1
            if others > OTHER_KEYS_MAX:
                _refuse("a map has too many keys that are not text")
        try:
            known = key in found
        except TypeError:
            _refuse("a map has a list or a map as a key")
        if known:
            _refuse("a map has a key twice")
        found[key] = value
    return found


def _time(milliseconds: int) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise AmqpError("a timestamp lies outside the years 1 to 9999") from None


def _character(code: int) -> str:
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        _refuse("a character is none of Unicode")
    return chr(code)


def _truth(byte: int) -> bool:
    if byte > 1:
        _refuse("a boolean is neither true nor false")
    return bool(byte)


def _refuse(why: str) -> NoReturn:
    raise AmqpError(why)


_UINT32: Final = struct.Struct(">I")
_TWO_UINT32: Final = struct.Struct(">II")

_CONSTANTS: Final[dict[int, Any]] = {
    0x40: None,
    0x41: True,
    0x42: False,
    0x43: UInt(0),
    0x44: ULong(0),
    0x45: [],
}

_FIXED: Final[dict[int, tuple[struct.Struct, Callable[[Any], Any] | None]]] = {
    0x50: (struct.Struct(">B"), None),
    0x51: (struct.Struct(">b"), None),
    0x52: (struct.Struct(">B"), UInt),
    0x53: (struct.Struct(">B"), ULong),
    0x54: (struct.Struct(">b"), None),
    0x55: (struct.Struct(">b"), None),
    0x56: (struct.Struct(">B"), _truth),
    0x60: (struct.Struct(">H"), None),
    0x61: (struct.Struct(">h"), None),
    0x70: (_UINT32, UInt),
    0x71: (struct.Struct(">i"), None),
    0x72: (struct.Struct(">f"), None),
    0x73: (_UINT32, _character),
    0x74: (struct.Struct(">4s"), None),
    0x80: (struct.Struct(">Q"), ULong),
    0x81: (struct.Struct(">q"), None),
    0x82: (struct.Struct(">d"), None),
    0x83: (struct.Struct(">q"), _time),
    0x84: (struct.Struct(">8s"), None),
    0x94: (struct.Struct(">16s"), None),
    0x98: (struct.Struct(">16s"), lambda raw: uuid.UUID(bytes=raw)),
}
"""Format code -> layout, and a conversion of the unpacked number; None: no conversion."""
