"""Secrets for the flags of ``subscribe``: they never stand in the flags themselves.

Callers: ``_subscribe_flags``. Hides: where a secret comes from. A process list shows the command
line to everybody on the machine, so a flag only names the place.
"""

import os
from collections.abc import Mapping
from pathlib import Path

SOURCE_HELP = "env:NAME|file:PATH"
"""Places that a secret is read from."""

SECRET_FILE_BYTES_MAX = 64 * 1024
"""More than the server takes for any secret: a wrong file is told at once."""


def read_secret(flag: str, source: str, environ: Mapping[str, str] = os.environ) -> str:
    """The secret at the place that *source* names, without the line end that files have.

    Args:
        flag: Named in errors.
        source: ``env:NAME`` or ``file:PATH``.
        environ: The environment.

    Raises:
        ValueError: There is no such place, or it cannot be read. The message repeats *source*
            only where it names a place: what does not may be the secret itself.
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
