r"""The pattern of LIKE: ``%``, ``_``, and ``\%`` and ``\_`` for the two characters themselves.

A pattern is split at its ``%`` into segments of fixed length, and each is searched once, from left
to right, without backtracking. So the cost is linear in the text, whatever the pattern. A floating
segment with ``_`` is searched with bit sets of positions, which divides the cost of its length by
the width of a machine word.

Source:
    CESQL 1.0, 3.4.3. Any other backslash is an ordinary character.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

_TOKEN: Final = re.compile(r"%+|_+|(?:\\[%_]|[^%_])+", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([%_])")
_CHARS_A_STEP: Final = 16
"""Characters of a floating segment with ``_`` that cost about as much as one comparison."""
_STEPS_A_CHAR: Final = 4
"""Cost of a further distinct character in such a segment: one more set of positions."""
_WINDOW_CHARS: Final = 256
"""First window of a search, doubled each time: a near match is found without reading a long text to
its end, and a long text is read about once."""

Matches = Callable[[str], bool]
_Find = Callable[[str, int], int]
"""Returns the first match of a segment at or after an offset; -1: none."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A compiled pattern.

    Attributes:
        exact: The only matching text, without wildcards; else None.
        prefix: Prefix of every match; may be empty.
        suffix: Suffix of every match; may be empty.
        whole: Whether prefix and suffix (of a text not shorter than both), or ``exact``, are
            sufficient.
        steps: Cost of a match, in comparisons.
        searches: Most searches through the whole text.
        matches: Tests whether a text matches.
    """

    exact: str | None
    prefix: str
    suffix: str
    whole: bool
    steps: int
    searches: int
    matches: Matches


def pieces(text: str) -> list[str]:
    """Splits a pattern into wildcards (adjacent ones are one piece) and the texts between."""
    return _TOKEN.findall(text)


def compile_pattern(text: str) -> Pattern:
    """Compiles *text*; every text is a pattern."""
    segments = _segments(text)
    first, last = segments[0], segments[-1]
    prefix, suffix = _before(first), _after(last)
    if len(segments) == 1:
        if not first.wild:
            return Pattern(first.text, prefix, suffix, True, 1, 0, first.text.__eq__)
        return Pattern(None, prefix, suffix, False, _runs(first), 0, _alone(first))
    middle = [segment for segment in segments[1:-1] if segment.text]
    whole = not (middle or first.wild or last.wild)
    matches = _ends(first.text, last.text) if whole else _general(first, middle, last)
    searches = sum(map(_steps, middle))
    steps = 1 + searches + sum(_runs(end) for end in (first, last) if end.wild)
    return Pattern(None, prefix, suffix, whole, steps, searches, matches)


@dataclass(slots=True)
class _Segment:
    """The part between two ``%``: its characters, and which of them are wildcards."""

    text: str = ""
    wild: set[int] = field(default_factory=set)


def _segments(text: str) -> list[_Segment]:
    segments = [_Segment()]
    for token in pieces(text):
        current = segments[-1]
        if token[0] == "%":
            segments.append(_Segment())
        elif token[0] == "_":
            length = len(current.text)
            current.wild.update(range(length, length + len(token)))
            current.text += token
        else:
            current.text += _ESCAPED.sub(r"\1", token)
    return segments


def _before(segment: _Segment) -> str:
    """Returns the characters before the first wildcard."""
    return segment.text[: min(segment.wild, default=len(segment.text))]


def _after(segment: _Segment) -> str:
    """Returns the characters after the last wildcard."""
    return segment.text[max(segment.wild, default=-1) + 1 :]


def _runs(segment: _Segment) -> int:
    """Returns the cost of testing a segment at an offset, in comparisons."""
    return 1 + sum(place + 1 not in segment.wild for place in segment.wild)


def _steps(segment: _Segment) -> int:
    if not segment.wild:
        return 1
    return len(segment.text) // _CHARS_A_STEP + _STEPS_A_CHAR * len(_places(segment)) + 1


def _ends(prefix: str, suffix: str) -> Matches:
    """Match by both ends; one of the two may be empty."""
    if not suffix:
        return lambda text: text.startswith(prefix)
    if not prefix:
        return lambda text: text.endswith(suffix)
    length = len(prefix) + len(suffix)
    return lambda text: len(text) >= length and text.startswith(prefix) and text.endswith(suffix)


def _alone(segment: _Segment) -> Matches:
    length, stands = len(segment.text), _stands(segment)
    return lambda text: len(text) == length and stands(text, 0)


def _general(first: _Segment, middle: list[_Segment], last: _Segment) -> Matches:
    if len(middle) == 1 and not (first.text or last.text or middle[0].wild):
        infix = middle[0].text
        return lambda text: infix in text
    first_stands, last_stands = _stands(first), _stands(last)
    first_length, last_length = len(first.text), len(last.text)
    finds = [(_find(segment), len(segment.text)) for segment in middle]

    def matches(text: str) -> bool:
        end = len(text) - last_length
        if end < first_length or not first_stands(text, 0) or not last_stands(text, end):
            return False
        at = first_length
        for find, length in finds:
            # the leftmost place leaves the most room for those that follow
            at = find(text, at)
            if at < 0:
                return False
            at += length
        return at <= end

    return matches


def _stands(segment: _Segment) -> Callable[[str, int], bool]:
    """Returns a test whether a segment matches at an offset; the text must be long enough."""
    runs: list[tuple[int, str]] = []
    start = 0
    for stop in [*sorted(segment.wild), len(segment.text)]:
        if stop > start:
            runs.append((start, segment.text[start:stop]))
        start = stop + 1
    if not runs:
        return lambda _text, _at: True
    return lambda text, at: all(text.startswith(run, at + offset) for offset, run in runs)


def _find(segment: _Segment) -> _Find:
    if not segment.wild:
        return lambda text, at: text.find(segment.text, at)
    length = len(segment.text)
    if len(segment.wild) == length:
        return lambda text, at: at if at + length <= len(text) else -1
    return _find_by_bits(length, _places(segment))


def _places(segment: _Segment) -> dict[str, list[int]]:
    """Returns the offsets in the segment by literal character."""
    places: dict[str, list[int]] = {}
    for offset, char in enumerate(segment.text):
        if offset not in segment.wild:
            places.setdefault(char, []).append(offset)
    return places


def _find_by_bits(length: int, places: dict[str, list[int]]) -> _Find:
    """Search all offsets at once: bit *i* of a set represents offset *i* of the text."""

    def find(text: str, at: int) -> int:
        width = max(_WINDOW_CHARS, 2 * length)
        while at + length <= len(text):
            window = text[at : at + width]
            found = (1 << (len(window) - length + 1)) - 1
            places_of = _positions(window)
            for char, offsets in places.items():
                here = places_of(char)
                for offset in offsets:
                    found &= here >> offset
            if found:
                return at + (found & -found).bit_length() - 1
            at += len(window) - length + 1
            width *= 2
        return -1

    return find


def _positions(text: str) -> Callable[[str], int]:
    """Returns a function that gives the offsets of a character in *text*, as a bit set."""
    if text.isascii():
        plain = text.encode("ascii")[::-1]
        return lambda char: _bits(plain, ord(char)) if char.isascii() else 0
    # the code points backwards: their lowest bytes, their middle ones, their highest
    codes = text.encode("utf-32-be", "surrogatepass")[::-1]
    planes = codes[0::4], codes[1::4], codes[2::4]

    @cache
    def having(plane: int, byte: int) -> int:
        # many characters of a script share all but the lowest byte
        return _bits(planes[plane], byte)

    def places_of(char: str) -> int:
        code = ord(char)
        return having(0, code & 0xFF) & having(1, code >> 8 & 0xFF) & having(2, code >> 16)

    return places_of


def _bits(codes: bytes, wanted: int) -> int:
    """Returns the positions of *wanted* in *codes* as a bit set; the last byte is bit 0."""
    # a base that is a power of two is read in linear time
    return int(codes.translate(_is_byte(wanted)), 2)


@lru_cache(maxsize=256)
def _is_byte(wanted: int) -> bytes:
    """For ``bytes.translate``: the digit 1 for *wanted*, else 0."""
    return bytes(ord("1") if byte == wanted else ord("0") for byte in range(256))
