"""Secrets and files that people name: ``env:NAME`` or ``file:PATH``, and never the secret itself.

Command lines stand in process lists, options of Spark in plans and catalogs.

Callers: commands, and options of Spark's format.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOURCE_HELP: Final = "env:NAME|file:PATH"
"""Forms of a place that a secret is read from."""

SECRET_FILE_BYTES_MAX: Final = 64 * 1024
"""Larger than any secret that a server takes: a wrong file is noticed."""


def secret_in(source: str, environ: Mapping[str, str]) -> str:
    """Read the secret at *source*, without the end of the line that files have.

    Args:
        source: ``env:NAME`` or ``file:PATH``.
        environ: The environment.

    Raises:
        ValueError: There is none. The message repeats *source* only where it has one of these
            forms: other text may be the secret itself.
    """
    kind, _, name = source.partition(":")
    if kind == "env" and name:
        if name not in environ:
            raise ValueError(f"there is no environment variable {name} here")
        return environ[name]
    if kind != "file" or not name:
        raise ValueError(f"expected {SOURCE_HELP}: others could read a secret there")
    return content_of(name, SECRET_FILE_BYTES_MAX).removesuffix("\n").removesuffix("\r")


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
