"""Redaction: what logs, errors and API objects show of names and URIs that may hold secrets."""

import re
from typing import Final

SECRET_WORDS: Final = (
    "authorization",
    "cookie",
    "credential",
    "jwt",
    "key",
    "passw",
    "pwd",
    "secret",
    "signature",
    "token",
)
"""A header, user property or link property whose name has one of these, in any case, is secret."""

SECRET_SEGMENTS: Final = ("auth", "pass", "sig")
"""Secret too is a name with one of these between hyphens, dots, underscores or its ends; elsewhere
they are parts of harmless words (``author``, ``bypass``, ``design``)."""

_SECRET: Final = re.compile(
    rf"{'|'.join(SECRET_WORDS)}|(?<![a-z0-9])(?:{'|'.join(SECRET_SEGMENTS)})(?![a-z0-9])",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a header, user property or link property of this *name* is treated as a secret."""
    return _SECRET.search(name) is not None


def shown_uri(uri: str) -> str:
    """Return *uri* without query and fragment, for everybody but its own sink.

    Queries of sinks hold access tokens and signatures. Dead letters, conditions, logs and errors
    use this form; only the request line and the subscription object have the whole URI.
    """
    return uri.partition("#")[0].partition("?")[0]
