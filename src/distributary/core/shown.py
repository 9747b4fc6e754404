"""What is shown to others of what people wrote: nothing that may be a secret."""

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
"""So is one that has one of these between hyphens, dots, underscores or its ends: elsewhere they
are parts of harmless words (``author``, ``bypass``, ``design``)."""

_SECRET: Final = re.compile(
    rf"{'|'.join(SECRET_WORDS)}|(?<![a-z0-9])(?:{'|'.join(SECRET_SEGMENTS)})(?![a-z0-9])",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a header, user property or link property of this *name* is taken for a secret."""
    return _SECRET.search(name) is not None


def shown_uri(uri: str) -> str:
    """*uri* as everybody but its own sink may see it: without query and fragment.

    Queries of sinks hold access tokens and signatures. Dead letters, conditions, logs and errors
    name a sink by this; the request line and the subscription object alone have all of it.
    """
    return uri.partition("#")[0].partition("?")[0]
