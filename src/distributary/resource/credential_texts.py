"""Texts that a credential is made of: which can be sent, by any protocol.

Called where subscriptions are written, and where secrets that lie elsewhere are read.
"""

from typing import Final

from distributary.resource import patterns
from distributary.resource.schema import Schema, fits

TOKEN_CHARS_MAX: Final = 8 * 1024
"""Longest token. It goes into one header field; common servers accept 8 KiB for it."""

IDENTIFIER_BYTES_MAX: Final = 1024
"""Longest account name, bytes of UTF-8: with the longest secret it comes to 6.8 KiB of Base64,
which fits into a header field of 8 KiB."""

SECRET_BYTES_MAX: Final = 4 * 1024
"""Longest password or key, bytes of UTF-8; see ``IDENTIFIER_BYTES_MAX``."""


def _account(bytes_max: int, description: str) -> Schema:
    """Half of an account, without control characters: NUL separates the two in SASL PLAIN."""
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": bytes_max,
        "pattern": patterns.PLAIN_TEXT,
        "description": description,
        "x-utf8": True,
        "x-expected": "control characters cannot stand in a credential",
    }


IDENTIFIER: Final = _account(IDENTIFIER_BYTES_MAX, "Account name; for HTTP without a colon.")
SECRET: Final = _account(SECRET_BYTES_MAX, "Password.")
TOKEN: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": TOKEN_CHARS_MAX,
    "pattern": "^[!-~](?:[ -~]*[!-~])?$",
    "x-expected": "a token is printable ASCII, and neither begins nor ends with a space",
}


def is_secret(text: str) -> bool:
    """Whether *text* can be the password of an account."""
    return fits(SECRET, text)


def is_token(text: str) -> bool:
    """Whether *text* can be an access or refresh token, in a header field."""
    return fits(TOKEN, text)
