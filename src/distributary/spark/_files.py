"""Files and secrets that options name: read where Spark's driver runs, never an option themselves.

Called by the parsers of options. Options stand in plans, in the UI and in the catalog.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

SECRET_FILE_BYTES_MAX: Final = 64 * 1024
"""Larger than any token that a server takes: a wrong file is noticed."""

_SECRETS: Final = frozenset(
    {"token", "key", "apikey", "password", "secret", "logpassword", "storepassword"}
)


def looks_secret(name: str) -> bool:
    """Whether whoever gives an option *name* gives a secret."""
    return name.lower().replace("_", "") in _SECRETS


def secret_in(text: str, environ: Mapping[str, str]) -> str:
    """Returns the secret that *text* names: ``env:NAME``, or ``file:PATH`` without its line's end.

    Raises:
        ValueError: There is none; the message repeats nothing of it.
    """
    kind, _, name = text.partition(":")
    if kind == "env" and name:
        secret = environ.get(name)
        if secret is None:
            raise ValueError(f"there is no environment variable {name} where Spark's driver runs")
        return secret
    if kind == "file" and name:
        return content_of(name, SECRET_FILE_BYTES_MAX).removesuffix("\n").removesuffix("\r")
    raise ValueError("expected env:NAME or file:PATH")


def content_of(name: str, bytes_max: int) -> str:
    """Returns the text of the file *name*, of at most *bytes_max* bytes.

    Raises:
        ValueError: It cannot be read, is larger, or is no text.
    """
    try:
        with Path(name).expanduser().open("rb") as file:
            content = file.read(bytes_max + 1)
        text = content.decode()
    except OSError as error:
        raise ValueError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not text in UTF-8") from None
    if len(content) > bytes_max:
        raise ValueError(f"{name} has more than {bytes_max} bytes")
    return text
