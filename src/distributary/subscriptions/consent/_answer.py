"""Reads a target's answer to the question for consent. Pure.

Called by ``ConsentKeeper`` and for callbacks. The target is foreign, and may not even know that it
is one: any header fields give a permission or the reason for none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

ALLOWED_ORIGIN: Final = b"webhook-allowed-origin"
ALLOWED_RATE: Final = b"webhook-allowed-rate"

RATE_PER_MIN_MAX: Final = 1_000_000_000
"""Larger allowed rates count as this one, requests a minute: no machine sends as many."""

_POSITIVE: Final = re.compile(rb"0*[1-9][0-9]*")
_DIGITS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Allowed:
    """The target consents.

    Attributes:
        rate_per_min: Requests a minute that it allows; None: any number.
    """

    rate_per_min: int | None


@dataclass(frozen=True, slots=True)
class Withheld:
    """The target has answered, and does not consent.

    Attributes:
        reason: For people; quotes nothing of the answer.
        silent: The answer says nothing of consent: the target may still consent by callback, and
            consent that it gave by callback stays.
    """

    reason: str
    silent: bool = False


def read_answer(
    status: int, fields: Iterable[tuple[bytes, bytes]], origin: str
) -> Allowed | Withheld:
    """Return what the answer to ``OPTIONS`` means.

    Args:
        status: Its HTTP status.
        fields: Its header fields, names in lower case.
        origin: Name of ours that was asked for.

    Source:
        http-webhook 1.0, section 4.2: permission is given by the header alone, whatever the status;
        but a redirect speaks for another resource, and 410 says that this one is gone.
    """
    fields = list(fields)
    refusal = _refusal(status, [value for name, value in fields if name == ALLOWED_ORIGIN], origin)
    if refusal is not None:
        return refusal
    try:
        return Allowed(read_rate(value for name, value in fields if name == ALLOWED_RATE))
    except ValueError as error:
        return Withheld(str(error))


def _refusal(status: int, allowed: list[bytes], origin: str) -> Withheld | None:
    """Why an answer that *allowed* these origins is no consent; None: it is."""
    if status == 410:
        return Withheld("the target is gone (410)")
    if 300 <= status < 400:
        return Withheld(f"it redirects (status {status}), which is not followed", silent=True)
    origins = {value.lower().rstrip(b".") for value in allowed}
    if not origins:
        return Withheld(f"status {status} without WebHook-Allowed-Origin", silent=True)
    if len(origins) > 1:
        return Withheld("it answered several values of WebHook-Allowed-Origin")
    if not origins <= {b"*", origin.lower().encode()}:
        return Withheld("it allows another origin")
    return None


def read_rate(values: Iterable[bytes]) -> int | None:
    """The rate that the values of ``WebHook-Allowed-Rate`` allow, requests a minute; None: any.

    Where the field occurs more than once, the lowest counts.

    Raises:
        ValueError: One is neither ``*`` nor a whole number above 0. The message is for people.
    """
    rates: list[int] = []
    for value in values:
        if value == b"*":
            continue
        if not _POSITIVE.fullmatch(value):
            raise ValueError("its WebHook-Allowed-Rate is neither * nor a whole number above 0")
        digits = value.lstrip(b"0")
        rates.append(RATE_PER_MIN_MAX if len(digits) >= _DIGITS_MAX else int(digits))
    return min(rates, default=None)
