"""The settings in force, for people: each with where it comes from, and without secrets."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from distributary.core.environment import (
    CREDENTIAL_KEY_VARIABLE,
    ENV_PREFIX,
    LOG_PASSWORD_VARIABLE,
    STORE_PASSWORD_VARIABLE,
)
from distributary.server import settings as _settings

HIDDEN: Final = "***"
"""In place of a secret."""

DEFAULT: Final = "default"

_SECRET_VARIABLES: Final = (
    CREDENTIAL_KEY_VARIABLE,
    LOG_PASSWORD_VARIABLE,
    STORE_PASSWORD_VARIABLE,
)

_SECRET: Final = re.compile(
    r"(?i)secret|passw|passphrase|token|credential|(access|account|shared)[._-]?key"
    r"|signature|\bsas\b|sha256"
)
"""Names of Spark's properties (those of its own ``spark.redaction.regex``, and keys of the stores
of clouds, which that omits) and of members of tables whose values are not shown."""


class ShownSetting(NamedTuple):
    """A setting in force.

    Attributes:
        name: Of the setting, or of the tables.
        value: As people write it; empty: there is none.
        origin: ``default``, a flag, a variable, or file and line.
    """

    name: str
    value: str
    origin: str


def shown_settings(
    flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None, toml_text: str | None
) -> list[ShownSetting]:
    """Returns all settings in reading order, then the tables of the file.

    Args:
        flags: See ``load``.
        environ: See ``load``.
        file: The configuration file, for its name.
        toml_text: See ``load``.

    Raises:
        SettingsError: They cannot be used; see ``load``.
    """
    chosen = _settings.load(flags, environ, toml_text, _settings.faults_of_tables)
    origins = _settings.origins(flags, environ, toml_text)
    text = toml_text or ""
    rows = []
    for row in _settings.settings_table():
        origin = origins.get(row.name, DEFAULT)
        if origin.endswith("(configuration file)"):
            origin = f"{file}:{_settings.line_of(text, row.name)}"
        value = getattr(chosen, row.name)
        shown = row.default if origin == DEFAULT else _text(row.name, value)
        rows.append(ShownSetting(row.name, shown, origin))
    for variable in _SECRET_VARIABLES:
        if environ.get(variable):
            name = variable.removeprefix(ENV_PREFIX).lower()
            rows.append(ShownSetting(name, HIDDEN, variable))
    for name in _settings.TABLES:
        for index, table in enumerate(getattr(chosen, name)):
            where = f"{file}:{_settings.line_of(text, name, index)}"
            rows.append(ShownSetting(f"{name}[{index}]", _text(name, table), where))
    return rows


def _text(name: str, value: Any) -> str:
    if name.endswith("_command"):
        program, _, arguments = str(value).partition(" ")
        return f"{program} {HIDDEN}" if arguments else program
    if isinstance(value, Mapping):
        pairs = ((key, HIDDEN if _SECRET.search(key) else each) for key, each in value.items())
        return ", ".join(f"{key}={_text(name, each)}" for key, each in pairs)
    if isinstance(value, (tuple, list)):
        return ", ".join(_text(name, each) for each in value)
    return _settings.written(name, value)
