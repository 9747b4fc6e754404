r"""Whole publishing requests in plain form: from bytes to a record in one pass.

Called by ``server.ingest`` before the parser of HTTP. Most requests of a publisher differ from the
one before in few lines, and arrive in one piece. So their heads are not parsed: each line is looked
up, and the lines that are known make the shape of the head, which says what is in the others.

What is not in plain form is left to the parser: nothing is refused here. A request in plain form
has the meaning that ``net.http1`` and ``receive`` give it, as property tests check:

- a known request line (POST, HTTP/1.1), then at most 64 lines ``name: value`` of visible
  ASCII, with single CRLFs; no folded line, no blank before the colon;
- one Host, one Content-Length in digits, as long as what follows the head;
- no field that changes framing, connection or authority;
- one event of version 1.0 in binary mode, without a hop limit. A value that was not seen before
  holds nothing that is escaped.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from distributary.core.event import (
    ATTRIBUTES_MAX,
    REQUIRED,
    binary,
    carried,
    is_timestamp,
    is_valid,
    takes_any_text,
)
from distributary.core.flow import TTL_ATTRIBUTE
from distributary.protocols.http.receive import PLAIN_BYTES, attribute_line, content_type_line

_HEAD_BYTES_MAX: Final = 7 * 1024
"""Longest head in plain form: below every limit of ``net.http1`` and of carried lines."""

_LINES_MAX: Final = ATTRIBUTES_MAX
"""Most header fields in plain form: as many as attributes, and fewer than HTTP may have."""

_LENGTH_DIGITS_MAX: Final = 9
"""Longest Content-Length in plain form: a gigabyte."""

_KNOWN_LINES_MAX: Final = 4_096
"""Lines remembered: those of some hundred publishers; then the memo begins anew."""

_KNOWN_BYTES_MAX: Final = 256
"""Longer lines are checked each time: they rarely repeat, and fill memory."""

_SHAPES_MAX: Final = 512
"""Shapes remembered: one or two a publisher, at most a few times the bytes of its head."""

LEARNED_MAX: Final = 1_000
"""Heads looked at between two calls of ``renew``: publishers without a shape cost no more than a
hundredth of a processor."""

_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?([!-~](?:[\t -~]*[!-~])?)")
_VISIBLE: Final = bytes([0x09, *range(0x20, 0x7F)])

# Fields with a meaning to the parser. A request that has one is not in plain form.
_OF_THE_PARSER: Final = frozenset(
    {
        b"content-encoding",
        b"expect",
        b"origin",
        b"proxy-connection",
        b"sec-fetch-site",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"webhook-request-origin",
    }
)
# Fields without a meaning here whose lines repeat. Others may hold credentials: never remembered.
_REPEATED: Final = frozenset(
    {b"accept", b"accept-encoding", b"accept-language", b"cache-control", b"user-agent"}
)


class _Known:
    """A line that is remembered. Shapes tell known lines apart by identity."""

    __slots__ = ()


class _Varying(NamedTuple):
    """A line that differs from request to request.

    Attributes:
        at: Its index in the head.
        prefix: What it begins with.
        size: Length of that.
        allowed: Bytes that the rest may hold.
        place: Index of its value in ``_Shape.parts``; 0: the field is dropped.
        check: Whether a value is valid; None: every one is.
    """

    at: int
    prefix: bytes
    size: int
    allowed: bytes
    place: int
    check: Callable[[str], bool] | None


class _Shape:
    """Heads that have the same known lines, at the same places.

    Attributes:
        parts: The lines of the record, then the carried lines, in pieces: each varying value is a
            piece of its own.
        varying: The lines that are not known.
        length_at: Index of Content-Length.
        length_prefix: What that line begins with.
        host: Value of Host.
        carried_at: Index of the first piece of carried lines; None: there are none.
        event_type: The attribute ``type``; a number: the index of its piece.
        source: Likewise.
        key: Likewise the attribute ``partitionkey``; None: there is none.
        told: These three, if no piece is needed.
        authorization: Index of the line ``Authorization``; 0: there is none.
        authorization_start: The name in it, as it is sent, and the colon.
    """

    __slots__ = (
        "authorization",
        "authorization_start",
        "carried_at",
        "event_type",
        "host",
        "key",
        "length_at",
        "length_prefix",
        "parts",
        "source",
        "told",
        "varying",
    )

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.varying: tuple[_Varying, ...] = ()
        self.length_at = 0
        self.length_prefix = b""
        self.host = b""
        self.authorization = 0
        self.authorization_start = b""
        self.carried_at: int | None = None
        self.event_type: str | int = ""
        self.source: str | int = ""
        self.key: str | int | None = None
        self.told: _Told | None = None

    def told_by(self, parts: list[bytes]) -> "_Told":
        """Type, source and key of the event whose pieces are *parts*."""
        key = None if self.key is None else _text(parts, self.key)
        return _text(parts, self.event_type), _text(parts, self.source), key

    def filled(self, lines: list[bytes], body_bytes: int) -> list[bytes] | None:
        """``parts`` with the values of *lines*; None: not of this shape, or not in plain form."""
        line = lines[self.length_at]
        digits = line[len(self.length_prefix) :]
        if (
            not line.startswith(self.length_prefix)
            or not digits.isdigit()
            or len(digits) > _LENGTH_DIGITS_MAX
            or int(digits) != body_bytes
        ):
            return None
        parts = self.parts.copy()
        for at, prefix, size, allowed, place, check in self.varying:
            line = lines[at]
            value = line[size:]
            if not line.startswith(prefix) or value.translate(None, allowed):
                return None
            if place:
                if not value or (check is not None and not check(value.decode("ascii"))):
                    return None
                parts[place] = value
        return parts


Plain: TypeAlias = tuple[str, bytes, str, str, str | None, bytes, bytes, bytes | None]
"""Address, Host, type, source, partition key, the record of the event, carried lines, and the
value of Authorization: None where there is none, ``TAKEN_OUT`` where it is the line that was given.
The bytes of that value alone are not checked: it must be one that a parsed request had, or else be
checked by ``is_visible``."""

TAKEN_OUT: Final = b""
"""Stands for the value in the line that ``read`` was given: no other value is empty."""

_Told: TypeAlias = tuple[str, str, str | None]
_Marks: TypeAlias = tuple[_Known | None, ...]


def _text(parts: list[bytes], of: str | int) -> str:
    return parts[of].decode("ascii") if isinstance(of, int) else of


def is_visible(value: bytes) -> bool:
    """Whether *value* may stand in a head in plain form."""
    return not value.translate(None, _VISIBLE)


class PlainRequests:
    """Reads requests in plain form. For one thread.

    Args:
        left: Attributes with a meaning to somebody: a request with one is left to the parser.
    """

    __slots__ = ("_known", "_left", "_left_out", "_missed", "_shapes")

    def __init__(self, left: frozenset[str] = frozenset()) -> None:
        self._left_out = frozenset((TTL_ATTRIBUTE, *left))
        self._known: dict[bytes, _Known] = {}
        self._shapes: dict[_Marks, _Shape] = {}
        self._missed: set[_Marks] = set()
        self._left = LEARNED_MAX

    def renew(self) -> None:
        """Allow ``LEARNED_MAX`` further heads to be looked at. Call it every second."""
        self._left = LEARNED_MAX

    def read(
        self,
        request: bytes,
        addresses: Mapping[bytes, str],
        body_bytes_max: int,
        line: bytes = b"",
        line_at: int = 0,
    ) -> Plain | None:
        """The event of *request*; None: it is not, or not known to be, one request in plain form.

        Args:
            request: All bytes that have been received and not read.
            addresses: Address by request line.
            body_bytes_max: Largest body.
            line: A line ``Authorization`` with the line breaks around it, which an earlier request
                had. Where this one has it at the same place it is not read again, but taken out.
            line_at: Where it begins.
        """
        taken = line and request.startswith(line, line_at)
        behind = line_at + len(line) - 2 if taken else 0
        head_end = request.find(b"\r\n\r\n", behind, behind + _HEAD_BYTES_MAX)
        if head_end < 0:
            return None
        if taken:
            # A head that ends before the line has an empty line, which no shape has.
            lines = (request[:line_at] + request[behind:head_end]).split(b"\r\n")
        else:
            lines = request[:head_end].split(b"\r\n")
        address = addresses.get(lines[0])
        if address is None or len(request) - head_end > body_bytes_max + 4:
            return None
        marks = tuple(map(self._known.get, lines))
        shape = self._shapes.get(marks)
        body = request[head_end + 4 :]
        parts = None if shape is None else shape.filled(lines, len(body))
        if shape is None or parts is None:
            self._learn(lines, marks)
            return None
        event_type, source, key = shape.told or shape.told_by(parts)
        carried_lines = b""
        if shape.carried_at is not None:
            carried_lines = b"".join(parts[shape.carried_at :])
            del parts[shape.carried_at :]
        record = binary.encode(parts, body)
        authorization = None
        if shape.authorization:
            line = lines[shape.authorization]
            if not line.startswith(shape.authorization_start):
                return None
            authorization = line[len(shape.authorization_start) :].strip(b" \t")
            if taken or not authorization:
                return None  # there are two, or an empty one
        elif taken:
            authorization = TAKEN_OUT
        host = shape.host
        return address, host, event_type, source, key, record, carried_lines, authorization

    def _learn(self, lines: list[bytes], marks: _Marks) -> None:
        """Remember the lines of a head, and its shape if *marks* were seen before.

        Lines that are unknown then vary: what repeats is known since the first time.
        """
        if self._left <= 0:
            return
        self._left -= 1
        draft = _draft(lines, marks, self._left_out)
        if draft is None:
            return
        if len(self._known) + _LINES_MAX > _KNOWN_LINES_MAX:
            self._known.clear()
            self._shapes.clear()
            self._missed.clear()
            return
        for line in draft.repeated:
            if line not in self._known:
                self._known[line] = _Known()
        if marks not in self._missed:
            if len(self._missed) >= _KNOWN_LINES_MAX:
                self._missed.clear()
            self._missed.add(marks)
        elif draft.may_vary:
            if len(self._shapes) >= _SHAPES_MAX:
                self._shapes.clear()
            self._shapes[marks] = draft.shape()


class _Draft:
    """The shape of a head in the making.

    Attributes:
        repeated: Lines to remember.
        may_vary: Whether all lines are known that a shape must know.
    """

    def __init__(self, left_out: frozenset[str]) -> None:
        self._left_out = left_out
        self.repeated: list[bytes] = []
        self.may_vary = True
        self._shape = _Shape()
        self._names: dict[str, str | int] = {}
        self._varying: list[_Varying] = []
        self._fixed = b""  # of the record, since the last varying value
        self._content_type = b""
        self._carried: list[tuple[int, bytes, bytes]] = []  # index, what precedes the value, name
        self._hosts = self._lengths = 0

    def add(self, at: int, line: bytes, *, known: bool) -> bool:
        """Add the line at index *at*; False: the head is not in plain form."""
        found = _LINE.fullmatch(line)
        if found is None:
            return False
        name, value = found[1].lower(), found[2]
        prefix = line[: found.start(2)]
        if name.startswith(b"ce-"):
            return self._add_attribute(at, line, (name, value), prefix, known=known)
        if name == b"content-length":
            self._lengths += 1
            self._shape.length_at, self._shape.length_prefix = at, prefix
            return value.isdigit()
        if carried.pick([(name, value)]):
            self._carried.append((at, prefix, name))
            return len(self._carried) <= carried.CARRIED_COUNT_MAX
        if name in (b"host", b"content-type", b"connection"):
            self.repeated.append(line)
            self.may_vary = self.may_vary and known
            return self._add_fixed(name, value)
        return name not in _OF_THE_PARSER and self._add_dropped(at, line, found[1], known=known)

    def _add_dropped(self, at: int, line: bytes, name: bytes, *, known: bool) -> bool:
        if name.lower() == b"authorization":
            if self._shape.authorization:
                return False
            self._shape.authorization = at
            self._shape.authorization_start = name + b":"
            return True
        if name.lower() in _REPEATED and len(line) <= _KNOWN_BYTES_MAX:
            self.repeated.append(line)
        if not known:
            start = name + b":"
            self._varying.append(_Varying(at, start, len(start), _VISIBLE, 0, None))
        return True

    def _add_fixed(self, name: bytes, value: bytes) -> bool:
        if name == b"connection":
            return value.lower() == b"keep-alive"
        if name == b"host":
            self._hosts += 1
            self._shape.host = value
            return True
        content_type = content_type_line((name, value))
        if content_type is None or self._content_type:
            return False
        self._content_type = content_type[2]
        return True

    def _add_attribute(
        self, at: int, line: bytes, field: tuple[bytes, bytes], prefix: bytes, *, known: bool
    ) -> bool:
        found = attribute_line(field)
        if found is None or found[0] in self._left_out or found[0] in self._names:
            return False
        name, text, written = found
        if name not in ("id", "time") and len(line) <= _KNOWN_BYTES_MAX:
            self.repeated.append(line)
        if known:
            self._fixed += written
            self._names[name] = text
            return True
        if written != b"%b: %b\r\n" % field:
            self.may_vary = False
        self.may_vary = self.may_vary and name != "specversion"
        parts = self._shape.parts
        parts += (self._fixed + field[0] + b": ", b"")
        place = len(parts) - 1
        varying = _Varying(at, prefix, len(prefix), PLAIN_BYTES, place, _check(name))
        self._varying.append(varying)
        self._names[name] = place
        self._fixed = b"\r\n"
        return True

    @property
    def complete(self) -> bool:
        """Whether it is the head of one event."""
        one_of_each = self._hosts == 1 and self._lengths == 1
        return one_of_each and all(name in self._names for name in REQUIRED)

    def shape(self) -> _Shape:
        """The shape."""
        shape, names = self._shape, self._names
        shape.parts.append(self._fixed + self._content_type)
        if self._carried:
            shape.carried_at = len(shape.parts)
        for at, prefix, name in self._carried:
            place = len(shape.parts) + 1
            shape.parts += (name + b": ", b"", b"\r\n")
            varying = _Varying(at, prefix, len(prefix), _VISIBLE, place, _is_trimmed)
            self._varying.append(varying)
        shape.varying = tuple(self._varying)
        shape.event_type, shape.source = names["type"], names["source"]
        shape.key = names.get("partitionkey")
        if not any(isinstance(each, int) for each in (shape.event_type, shape.source, shape.key)):
            shape.told = shape.told_by([])
        return shape


def _draft(lines: list[bytes], marks: _Marks, left_out: frozenset[str]) -> _Draft | None:
    """The draft of a head's shape; None: it is not in plain form."""
    if len(lines) > _LINES_MAX + 1:
        return None
    draft = _Draft(left_out)
    for at in range(1, len(lines)):
        if not draft.add(at, lines[at], known=marks[at] is not None):
            return None
    return draft if draft.complete else None


def _check(name: str) -> Callable[[str], bool] | None:
    """What checks a value in visible ASCII of the attribute *name*; None: all are valid."""
    if takes_any_text(name):
        return None
    return is_timestamp if name == "time" else partial(is_valid, name)


def _is_trimmed(value: str) -> bool:
    return value == value.strip(" \t")
