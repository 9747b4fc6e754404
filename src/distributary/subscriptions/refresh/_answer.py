"""Reads a token endpoint's response: a new access token, or the reason for none. Pure.

Called by ``Refresher``. The endpoint is foreign: any bytes give one of the two, and no reason
quotes the response (which may repeat the refresh token).
"""

import math
import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from distributary.resource import is_token

LIFETIME_S_DEFAULT: Final = 3600.0
"""Default where the response omits ``expires_in``: what most endpoints give, seconds."""

LIFETIME_S_MAX: Final = 30 * 86_400.0
"""A token with a longer lifetime is still renewed after 30 days, seconds."""

_ERRORS: Final = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    }
)
"""Codes of RFC 6749, section 5.2; others are not repeated."""

INVALID_GRANT: Final = "invalid_grant"
"""The refresh token is no longer valid: a client must send another one."""

_DIGITS: Final = re.compile(r"[0-9]{1,10}")


class TokenReply(NamedTuple):
    """The HTTP response of a token endpoint.

    Attributes:
        status: HTTP status.
        body: Complete.
    """

    status: int
    body: bytes

    def __repr__(self) -> str:
        return f"TokenReply({self.status})"  # the body holds tokens


class Token(NamedTuple):
    """A new access token.

    Attributes:
        access_token: The token; fits into a header.
        lifetime_s: From the request on, seconds; above 0, at most ``LIFETIME_S_MAX``.
        refresh_token: Replaces the one that was used; None: that one stays valid.
    """

    access_token: str
    lifetime_s: float
    refresh_token: str | None

    def __repr__(self) -> str:
        return f"Token(lifetime_s={self.lifetime_s})"


@dataclass(frozen=True, slots=True)
class Refused:
    """No new token.

    Attributes:
        reason: For people and counts; quotes nothing from the endpoint.
        for_good: A retry is of little use: the refresh token is no longer accepted.
    """

    reason: str
    for_good: bool = False


def read_answer(reply: TokenReply) -> Token | Refused:
    """Read the token in *reply*.

    Source:
        RFC 6749, sections 5.1, 5.2 and 6. Ignores ``token_type`` and ``scope``: the subscription
        names the scheme that the sink expects (``accessTokenType``).
    """
    fields = _object(reply.body)
    if reply.status != 200:
        error = fields.get("error") if fields else None
        known = error if isinstance(error, str) and error in _ERRORS else None
        reason = f"status {reply.status}" + (f", {known}" if known else "")
        return Refused(reason, for_good=reply.status == 400 and known == INVALID_GRANT)
    if fields is None:
        return Refused("the answer is no JSON object")
    access_token = fields.get("access_token")
    if not isinstance(access_token, str) or not is_token(access_token):
        return Refused("the answer has no access token that can be sent")
    lifetime_s = _lifetime_s(fields.get("expires_in", LIFETIME_S_DEFAULT))
    if lifetime_s is None:
        return Refused("expires_in is not a number of seconds above 0")
    refresh_token = fields.get("refresh_token")
    if refresh_token is not None and not (
        isinstance(refresh_token, str) and is_token(refresh_token)
    ):
        return Refused("the new refresh token is no token")
    return Token(access_token, lifetime_s, refresh_token)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _lifetime_s(value: object) -> float | None:
    """Read seconds, also from a text of digits, which some endpoints send."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or value <= 0:
        return None
    return min(float(value), LIFETIME_S_MAX)
