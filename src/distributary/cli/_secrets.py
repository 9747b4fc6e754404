"""Secrets of flags: never their values, which a process list shows.

Callers: ``subscribe``, and every command that shows a server who asks.
"""

import os
from collections.abc import Mapping

from distributary.core.named_files import secret_in


def read_secret(flag: str, source: str, environ: Mapping[str, str] = os.environ) -> str:
    """Read the secret at *source*, as ``secret_in``.

    Args:
        flag: Named in errors.
        source: ``env:NAME`` or ``file:PATH``.
        environ: The environment.

    Raises:
        ValueError: There is no such place, or it cannot be read.
    """
    try:
        return secret_in(source, environ)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from error
