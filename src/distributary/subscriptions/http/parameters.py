"""Parameters of operations besides a body, as text that any protocol may carry."""

import re
from typing import Final

from distributary.subscriptions.service import PAGE_MAX
from distributary.subscriptions.store.stored import ANY_TAG, Precondition

LIMIT_EXPECTED: Final = f"expected a whole number from 1 to {PAGE_MAX}"

_TAG = re.compile(r'(W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_TAG_LIST = re.compile(rf"[ \t,]*({_TAG.pattern}[ \t]*(,[ \t]*|$))+")


def is_json(content_type: str) -> bool:
    """Whether *content_type* is JSON in UTF-8."""
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.replace('"', "").strip().lower()
    return media_type.strip().lower() == "application/json" and charset in ("", "charset=utf-8")


def parse_limit(text: str) -> int | None:
    """Parse a limit, 1 to ``PAGE_MAX``; None: *text* is not one."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        return None
    return int(text) if 1 <= int(text) <= PAGE_MAX else None


def parse_tags(text: str) -> frozenset[str] | None:
    """Parse entity tags, or ``*`` alone; None: *text* is not a list of them."""
    if text.strip() == ANY_TAG:
        return frozenset((ANY_TAG,))
    if not _TAG_LIST.fullmatch(text.strip()):
        return None
    return frozenset(match[0] for match in _TAG.finditer(text))


def precondition(
    if_match: frozenset[str] | None, if_none_match: frozenset[str] | None
) -> Precondition:
    """Make a precondition of entity tags.

    Source:
        RFC 9110, 13.1.1 (strong comparison) and 13.1.2 (weak comparison).
    """
    if if_none_match is not None:
        if_none_match = frozenset(tag.removeprefix("W/") for tag in if_none_match)
    return Precondition(if_match, if_none_match)
