"""Patterns in which ``*`` stands for any characters, for subjects and claims. Pure.

Called by ``issuers`` for every rule of an issuer, with a text that a token brought.
"""

from typing import Final

PATTERN_CHARS_MAX: Final = 1_024
"""Longest pattern, characters: as long as a subject may be."""


def matches(pattern: str, text: str) -> bool:
    """Whether the whole of *text* fits *pattern*.

    ``*`` stands for any characters, also none and also ``:`` and ``/``; nothing else is special.
    Linear in *text* for each part of the pattern: no text makes it slow.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    last = rest.pop()
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in rest:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
