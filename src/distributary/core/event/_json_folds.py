"""JSON that a recursive parser could not read: deep nesting, and lone surrogates.

Called by ``json_format``. Data are carried unread, so their depth is not limited: what nests beyond
``JSON_DEPTH_MAX`` is replaced by placeholders before the document is parsed, and restored in the
data that are cut out of it. Its grammar is checked without recursion.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from distributary.core.event._json_text import JSON_DEPTH_MAX, JsonTextError, check_text

DEEP_TOKENS_MAX: Final = 50_000
"""Most brackets, names, values and punctuation of a document that nests deeper than
``JSON_DEPTH_MAX``: they are scanned one by one, some 40 ms for so many, during which all publishing
waits."""

# Short escapes, and between them those of four digits. Without alternatives: see ``_syntax``.
_CHARACTERS = r'[^"\\\x00-\x1f]*+'
_SHORT = rf'{_CHARACTERS}(?:\\["\\/bfnrt]{_CHARACTERS})*+'
_STRING = rf'"{_SHORT}(?:\\u{"[0-9A-Fa-f]" * 4}{_SHORT})*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_TOKEN: Final = re.compile(
    rf"[ \t\n\r]*+(?:([\[{{])|([\]}}])|(,)|(:)|({_STRING})|({_NUMBER}|true|false|null))".encode()
)
_OPEN, _CLOSE, _COMMA, _COLON, _TEXT, _OTHER = range(1, 7)
"""Groups of ``_TOKEN``."""

_BLANK: Final = b" \t\n\r"
_PAIRS: Final = {b"[": b"]", b"{": b"}"}

_VALUE, _VALUE_OR_END, _NAME, _NAME_OR_END, _COLON_NEXT, _COMMA_OR_END = range(6)
"""What the grammar allows next."""

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    rb"|.)",
    re.DOTALL,
)
_UNICODE_ESCAPE: Final = re.compile(rb"\\u([0-9a-fA-F]{4})")
_PRIVATE_USE: Final = range(0xE000, 0xF900)


class Folded(NamedTuple):
    """A document in which placeholders replace what nested too deeply.

    Attributes:
        text: Nests no deeper than ``JSON_DEPTH_MAX``.
        mark: Beginning of each placeholder string; empty: there are none.
        folds: The replaced texts, in order.
    """

    text: bytes
    mark: bytes = b""
    folds: tuple[bytes, ...] = ()

    def unfolded(self, part: bytes) -> bytes:
        """Restore *part* of ``text``."""
        if not self.mark or self.mark not in part:
            return part
        pattern = rb'"%b([0-9]+)"' % re.escape(self.mark)
        return re.sub(pattern, lambda found: self.folds[int(found[1])], part)


def folded(text: bytes) -> Folded:
    """Replace what nests too deeply in *text*, of any depth.

    Raises:
        JsonTextError: It is not UTF-8; or it nests too deeply and is no JSON, or too large.
    """
    try:
        check_text(text)
    except JsonTextError as error:
        if error.code != "depth":
            raise
        return _fold(text)
    return Folded(text)


def _fold(text: bytes) -> Folded:
    # No text holds its own digest, so a sender cannot forge a mark.
    mark = b"fold-%b-" % hashlib.sha256(text).hexdigest().encode()
    pieces: list[bytes] = []
    folds: list[bytes] = []
    kept_from = 0
    for start, end in _deep(text):
        pieces += (text[kept_from:start], b'"%b%d"' % (mark, len(folds)))
        folds.append(text[start:end])
        kept_from = end
    pieces.append(text[kept_from:])
    return Folded(b"".join(pieces), mark, tuple(folds))


def _deep(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield the range of each array or object that nests too deeply; checks the whole *text*."""
    closers = bytearray()  # of what is open
    begun = at = 0
    due = _VALUE
    for number, token in enumerate(_TOKEN.finditer(text)):
        if number == DEEP_TOKENS_MAX:
            message = (
                f"arrays and objects nest deeper than {JSON_DEPTH_MAX} in a document of more than"
                f" {DEEP_TOKENS_MAX} tokens: send the event in binary mode"
            )
            raise JsonTextError("depth", message)
        kind = token.lastindex
        if token.start() != at:
            break
        at = token.end()
        if kind == _OPEN and due in {_VALUE, _VALUE_OR_END}:
            if len(closers) == JSON_DEPTH_MAX:
                begun = token.start(_OPEN)
            bracket = token[_OPEN]
            closers += _PAIRS[bracket]
            due = _VALUE_OR_END if bracket == b"[" else _NAME_OR_END
            continue
        if kind == _CLOSE and closers[-1:] == token[_CLOSE] and _may_end(due, token[_CLOSE]):
            closers.pop()
            if len(closers) == JSON_DEPTH_MAX:
                yield begun, at
            due = _COMMA_OR_END
            continue
        following = _after(due, kind, in_object=closers[-1:] == b"}")
        if following is None or not closers:
            break
        due = following
    else:
        if not closers and due == _COMMA_OR_END and not text[at:].strip(_BLANK):
            return
    raise JsonTextError("syntax", f"no JSON before byte {at}")


def _may_end(due: int, closer: bytes) -> bool:
    empty = _VALUE_OR_END if closer == b"]" else _NAME_OR_END
    return due in {_COMMA_OR_END, empty}


def _after(due: int, kind: int | None, *, in_object: bool) -> int | None:
    """Return what may follow a token of *kind*; None: *due* does not permit that token."""
    if kind == _TEXT and due in {_NAME, _NAME_OR_END}:
        return _COLON_NEXT
    if kind in {_TEXT, _OTHER} and due in {_VALUE, _VALUE_OR_END}:
        return _COMMA_OR_END
    if kind == _COLON and due == _COLON_NEXT:
        return _VALUE
    if kind == _COMMA and due == _COMMA_OR_END:
        return _NAME if in_object else _VALUE
    return None


class Marked(NamedTuple):
    """A document in which a mark replaces each lone surrogate.

    Attributes:
        text: With the marks.
        escape: The mark, as an escape.
        character: The mark, as a character.
    """

    text: bytes
    escape: bytes
    character: str

    def undone(self, part: bytes) -> bytes:
        """Restore *part* of ``text``, with a lone surrogate (any one) for each mark."""
        return part.replace(self.escape, b"\\ud800")


def marked(text: bytes) -> Marked | None:
    r"""Mark each lone surrogate (``\ud83d``) in *text*; None: there is none.

    RFC 8259 permits them and leaves their meaning open (section 8.2); most parsers reject them.
    """
    used = {int(found[1], 16) for found in _UNICODE_ESCAPE.finditer(text)}
    used.update(map(ord, set(text.decode())))
    code = next((code for code in _PRIVATE_USE if code not in used), None)
    if code is None:
        return None
    escape = b"\\u%04x" % code
    mended = _ESCAPE.sub(lambda found: escape if found[1] else found[0], text)
    return None if mended == text else Marked(mended, escape, chr(code))
