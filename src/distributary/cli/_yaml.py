"""Files of objects that people hand over: YAML, of which JSON is a part.

Callers: ``import`` and ``subscriptions apply``. Hides: the loader.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from distributary.cli import _console
from distributary.core.errors import SettingsError

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Largest file, bytes: an export of 10,000 objects has 30 MiB; decoded it takes 20 times that."""


def documents(name: str) -> Iterator[Any]:
    """The documents in the file *name*, YAML or JSON; ``-`` is standard input.

    Raises:
        OSError: It cannot be read.
        SettingsError: It is not YAML, or too large.
    """
    if name == "-":
        text = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    else:
        with Path(name).open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise SettingsError(f"{name}: larger than {FILE_BYTES_MAX // 2**20} MiB; split the export")
    try:
        yield from yaml.load_all(text, Loader=_Loader)
    # A number of thousands of digits is a ValueError, and so is a text that is no UTF-8.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = " ".join(_told(error).split())
        raise SettingsError(f"{name}: this is no YAML: {_console.fits_one_line(told)}") from error


def _told(error: Exception) -> str:
    """What is wrong, and where; without the lines of the text, which do not fit on one."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error)
    problem = getattr(error, "problem", None) or "it ends too early"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


class _Loader(yaml.SafeLoader):
    """Loads YAML as the API server does: times stay text, and keys become text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct the mapping, with the keys that JSON allows."""
        found = super().construct_mapping(node, deep=deep)
        return {self._key(name, node): value for name, value in found.items()}

    def _key(self, name: object, node: yaml.MappingNode) -> str:
        if isinstance(name, bool):
            return str(name).lower()
        if isinstance(name, str | int | float):
            return str(name)
        raise yaml.constructor.ConstructorError(None, None, "a key is no text", node.start_mark)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
