"""Checks of JSON text before parsing: UTF-8, depth, duplicate members.

Called only by ``json_format``. Hides the JSON library: its errors become faults, and what it does
not detect (duplicate members, nesting) is found by counting bytes, never by recursion.
"""

import re
from collections.abc import Mapping
from itertools import accumulate

import msgspec

JSON_DEPTH_MAX = 64
"""Deepest nesting of a document that is parsed, here or downstream: far above what events hold, far
below what exhausts a parser's stack. Deeper data are carried unread."""

# A string, or the rest of an unterminated one (else the search would be quadratic).
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


class JsonTextError(Exception):
    """The text is not valid. Private to this package: becomes a ``Fault``.

    Attributes:
        code: Code of the fault.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def check_text(text: bytes, depth_max: int = JSON_DEPTH_MAX) -> None:
    """Raise if the text is not UTF-8 or nests deeper than *depth_max*.

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
    """Return the members of the object *text*, each as its own text, in order.

    Of duplicate members the last one counts: see ``has_duplicates``.
    """
    try:
        return _members.decode(text)
    except msgspec.ValidationError:
        raise JsonTextError("type", "must be a JSON object") from None
    except msgspec.DecodeError as error:
        raise JsonTextError("syntax", str(error)) from None


def elements(text: bytes) -> list[msgspec.Raw]:
    """Return the elements of the array *text*, each as its own text."""
    try:
        return _elements.decode(text)
    except msgspec.ValidationError:
        raise JsonTextError("type", "must be a JSON array of events") from None
    except msgspec.DecodeError as error:
        raise JsonTextError("syntax", str(error)) from None


def has_duplicates(text: bytes, kept: Mapping[str, bytes]) -> bool:
    """Whether *text* holds more members than *kept*, which was parsed from it.

    Counts quotes: each member has two for its name and those of its value, so a displaced duplicate
    leaves quotes over. Needs no second parse. Does not check names that hold a quote: those are
    faults anyway.

    Args:
        text: A well-formed object.
        kept: Its members by name, each value as its own text.
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
    """Return the deepest nesting in *text*, which need not be well-formed. Linear in its length."""
    # Without escapes every second piece between quotes is a string.
    outside = _STRING.sub(b"", text) if b"\\" in text else b"".join(text.split(b'"')[::2])
    brackets = outside.translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)
