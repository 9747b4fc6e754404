"""What JSON text says about itself before anything is built from it: UTF-8, depth, members.

Called by ``json_format`` alone. Hides the JSON library: its faults become ours here, and what it
does not tell (duplicate members, nesting) is found by counting bytes, never by recursion.
"""

import re
from collections.abc import Mapping
from itertools import accumulate

import msgspec

JSON_DEPTH_MAX = 64
"""Nested arrays and objects of a document that a parser is asked to read, here or behind us: far
above what events hold, far below what exhausts its stack. Deeper data are carried unread."""

# A string, or what is left of one that never ends (else the search would be quadratic).
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


class JsonTextError(Exception):
    """The text is not what it should be. Private to this room: becomes a ``Fault``.

    Attributes:
        code: Code of the fault.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def check_text(text: bytes, depth_max: int = JSON_DEPTH_MAX) -> None:
    """Refuse text that is not UTF-8 or nests deeper than *depth_max*.

    After this check no decoder recurses further than the limit.
    """
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise JsonTextError("encoding", f"not UTF-8 at byte {error.start}") from None
    if text.count(b"{") + text.count(b"[") > depth_max and _depth(text) > depth_max:
        raise JsonTextError("depth", f"arrays and objects nest deeper than {depth_max}")


def members(text: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of the object that *text* is, each with its own text, in their order.

    Of duplicate members the last one stands: see ``has_duplicates``.
    """
    try:
        return _members.decode(text)
    except msgspec.ValidationError:
        raise JsonTextError("type", "must be a JSON object") from None
    except msgspec.DecodeError as error:
        raise JsonTextError("syntax", str(error)) from None


def elements(text: bytes) -> list[msgspec.Raw]:
    """The elements of the array that *text* is, each as its own text."""
    try:
        return _elements.decode(text)
    except msgspec.ValidationError:
        raise JsonTextError("type", "must be a JSON array of events") from None
    except msgspec.DecodeError as error:
        raise JsonTextError("syntax", str(error)) from None


def has_duplicates(text: bytes, kept: Mapping[str, bytes]) -> bool:
    """Whether *text* holds more members than *kept*, which came out of it.

    Counts quotes: each member brings two of its name and those of its value, so a member that
    another one displaced leaves quotes over. Costs no second reading. Where a name holds a quote
    it does not look: such a name is a fault by itself.

    Args:
        text: A well-formed object.
        kept: Its members by name, each value with its own text.
    """
    if '"' in "".join(kept):
        return False
    quotes = 2 * len(kept) + sum([value.count(b'"') for value in kept.values()])
    return text.count(b'"') != quotes


def is_embeddable(text: bytes, depth_max: int) -> bool:
    """Whether *text* is one JSON value in UTF-8, no deeper than *depth_max*."""
    try:
        check_text(text, depth_max)
        _value.decode(text)
    except (JsonTextError, msgspec.DecodeError):
        return False
    return True


def _depth(text: bytes) -> int:
    """The deepest nesting in *text*, which need not be well-formed. Linear in its length."""
    # Without escapes every second piece between quotes is a string.
    outside = _STRING.sub(b"", text) if b"\\" in text else b"".join(text.split(b'"')[::2])
    brackets = outside.translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)
