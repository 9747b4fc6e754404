"""The configuration file: which one is read, and where in it a setting stands."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from distributary.core.errors import SettingsError

CONFIG_NAME: Final = "distributary.toml"
"""Read from the working folder when no other file is named."""

_TOLD: Final = re.compile(r"(\w+)(?:\[(\d+)\])?(?:\.([\w.\[\]]+))? \(configuration file\): ")
_HEADER: Final = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?")
_NO_TOML: Final = re.compile(r"configuration file: not TOML: .*\(at line (\d+), column \d+\)")


def config_file(flag: str | None, environ: Mapping[str, str], folder: Path) -> Path | None:
    """Returns the path of the TOML file to read; None: there is none.

    Args:
        flag: Value of ``--config``; None: not given.
        environ: The environment.
        folder: The working folder.

    Raises:
        SettingsError: A named file does not exist.
    """
    named = flag or environ.get("DISTRIBUTARY_CONFIG")
    path = folder / (named or CONFIG_NAME)
    if path.is_file():
        return path
    if named:
        raise SettingsError(f"There is no configuration file {path}. Create it, or name another.")
    return None


def read_toml(toml_text: str | None, faults: list[str]) -> dict[str, Any]:
    """What the file says; adds to *faults* where it is no TOML."""
    if toml_text is None:
        return {}
    try:
        return tomllib.loads(toml_text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        faults.append(f"configuration file: not TOML: {error}")
        return {}


def placed(fault: str, file: Path | None, toml_text: str) -> str:
    """*fault* with its file and line, where it is of the file.

    Args:
        fault: A line of what ``load`` raises.
        file: The file.
        toml_text: Its text.
    """
    if file is None:
        return fault
    syntax = _NO_TOML.fullmatch(fault)
    if syntax is not None:
        return f"{file}:{syntax[1]}: {fault.removeprefix('configuration file: ')}"
    told = _TOLD.match(fault)
    if told is None:
        return fault
    name, index, member = told.groups()
    line = line_of(toml_text, name, None if index is None else int(index), member or "")
    path = name + (f"[{index}]" if index is not None else "") + (f".{member}" if member else "")
    said = fault[told.end() :].replace(" (configuration file)", "")
    return f"{file}:{line}: {path}: {said}"


def line_of(toml_text: str, name: str, index: int | None = None, member: str = "") -> int:
    """Line, from 1, of a setting or of a member of a table; 1 where it is in no plain form.

    Args:
        toml_text: Text of the file.
        name: The setting, or the name of the tables.
        index: Of the table; None: the first place of *name*.
        member: Path in the table; a missing one stands at the table's head.
    """
    key = re.compile(rf"\s*{re.escape(name)}\s*[.=]")
    first = re.split(r"[.\[]", member, maxsplit=1)[0]
    inner = re.compile(rf"\s*{re.escape(first)}\s*[.=]")
    found, table, top, here = 0, -1, True, False
    for number, line in enumerate(toml_text.splitlines(), 1):
        header = _HEADER.match(line)
        if header is not None:
            table += header[1] == name
            top, here = False, header[1] == name and table == (index or 0)
            found = number if here else found
        elif (top and key.match(line)) or (here and first and inner.match(line)):
            return number
    return found or 1
