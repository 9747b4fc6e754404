"""Tables ``[[secrets]]``: files with secrets that sink credentials may name.

Called by the package and the processes. Hides how the tables are written. Reads no such file.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from distributary.core.protocol import schemes
from distributary.core.tenant import DEFAULT_NAMESPACE, NAME_EXPECTED, is_namespace
from distributary.resource import SecretFile

SECRETS_MAX: Final = 256
"""Most tables: each process that delivers reads all of their files once a second."""

SECRET_SINKS_MAX: Final = 64
"""Most origins of one table: they are compared one by one."""

_KEYS: Final = ("namespace", "name", "file", "sinks", "cacerts_file")


def read_secrets(
    tables: Sequence[Mapping[str, Any]],
) -> tuple[tuple[SecretFile, ...], list[str]]:
    """Reads the tables.

    Returns:
        The files, and a line for each fault; with a fault the files are not to be used. No line
        repeats a value: people put secrets anywhere.
    """
    if len(tables) > SECRETS_MAX:
        return (), [f"secrets (configuration file): at most {SECRETS_MAX} tables"]
    faults: list[str] = []
    found: dict[tuple[str, str], SecretFile] = {}
    for index, table in enumerate(tables):
        wrong = dict(_wrong(table))
        if not wrong:
            namespace = table.get("namespace", DEFAULT_NAMESPACE)
            name, path, sinks = (table[key] for key in ("name", "file", "sinks"))
            file = SecretFile(namespace, name, path, tuple(sinks), table.get("cacerts_file"))
            if (namespace, file.name) in found:
                wrong["name"] = "the namespace has a table of this name already"
            found[namespace, file.name] = file
        faults += (
            f"secrets[{index}].{key} (configuration file): {expected}"
            for key, expected in wrong.items()
        )
    return tuple(found.values()) if not faults else (), faults


def _wrong(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each faulty key of *table*, and what is expected of it."""
    for key in table:
        if key not in _KEYS:
            yield key, f"unknown; known: {', '.join(_KEYS)}"
    names = {"namespace": table.get("namespace", DEFAULT_NAMESPACE), "name": table.get("name")}
    for key, name in names.items():
        if not isinstance(name, str) or not is_namespace(name):
            yield key, NAME_EXPECTED
    file, sinks = table.get("file"), table.get("sinks")
    if not _is_path(file):
        yield "file", "expected the absolute path of a file that holds the secret alone"
    if "cacerts_file" in table and not _is_path(table["cacerts_file"]):
        yield "cacerts_file", "expected the absolute path of a file of certificates in PEM"
    if not isinstance(sinks, list) or not 0 < len(sinks) <= SECRET_SINKS_MAX:
        yield "sinks", f"expected 1 to {SECRET_SINKS_MAX} origins such as https://example.com"
    elif not all(map(_is_origin, sinks)):
        yield "sinks", "expected origins alone, such as https://example.com:8443"


def _is_path(text: object) -> bool:
    return isinstance(text, str) and "\0" not in text and PurePath(text).is_absolute()


def _is_origin(text: object) -> bool:
    """Whether *text* is a scheme of ours, a host and at most a port."""
    if not isinstance(text, str) or not text.isascii() or not text.isprintable():
        return False
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises where it is none
    except ValueError:
        return False
    rest = parts.path or parts.query or parts.fragment or parts.username or parts.password
    return parts.scheme.lower() in schemes() and bool(parts.hostname) and not rest
