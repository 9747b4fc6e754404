"""Places that commands read secrets from: never the command line, which a process list shows.

Callers: ``subscribe``, and every command that shows a server who asks.
"""

import os
from collections.abc import Mapping
from pathlib import Path

SOURCE_HELP = "env:NAME|file:PATH"
"""Forms of a place that a secret is read from."""

SECRET_FILE_BYTES_MAX = 64 * 1024
"""Larger than any secret that the server accepts, so that a wrong file is reported at once."""


def read_secret(flag: str, source: str, environ: Mapping[str, str] = os.environ) -> str:
    """Read the secret at *source*, without the line end that files have.

    Secrets are never values of flags: a process list shows the command line to all users.

    Args:
        flag: Named in errors.
        source: ``env:NAME`` or ``file:PATH``.
        environ: The environment.

    Raises:
        ValueError: There is no such place, or it cannot be read. The message repeats *source*
            only where it has one of these forms: other text may be the secret itself.
    """
    kind, _, name = source.partition(":")
    if kind == "env" and name:
        if name not in environ:
            raise ValueError(f"{flag}: there is no environment variable {name}")
        return environ[name]
    if kind != "file" or not name:
        raise ValueError(f"{flag}: expected {SOURCE_HELP}: others could read a secret there")
    try:
        with Path(name).expanduser().open("rb") as file:
            content = file.read(SECRET_FILE_BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise ValueError(f"{flag}: cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{flag}: {name} is not text in UTF-8") from None
    if len(content) > SECRET_FILE_BYTES_MAX:
        raise ValueError(f"{flag}: {name} is longer than any secret")
    return text.removesuffix("\n").removesuffix("\r")
