"""Settings of ``distributary serve``: their sources, precedence and valid values.

Sources, the first that names a setting wins::

    flag (--port 9000) > environment (DISTRIBUTARY_PORT) > TOML file (port = 9000) > default

The TOML file is the one named by ``--config`` or ``DISTRIBUTARY_CONFIG``, else
``./distributary.toml`` if it exists. Only the file may hold tables: ``[[sources]]``, the
brokers to consume from; ``[[keys]]``, ``[[certificates]]`` and ``[[issuers]]``, who may do what;
``[[namespaces]]``, the quotas of tenants; ``[[secrets]]``, files that credentials may name.

A setting is a field of a class in a module beside this one, and that is all: the field says its
valid values, its default, its meaning, and whether a reload applies it.

Callers: ``cli`` (loads), ``server`` (reads ``Settings``), the reference page of the documentation
(``settings_table``). Hides: parsing of sizes, durations and addresses. One error lists every fault
of every source.
"""

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from distributary.core.errors import SettingsError
from distributary.server.settings import _shapes as shapes
from distributary.server.settings._archive import ArchiveSettings, archive_faults
from distributary.server.settings._cluster import (
    ClusterSettings,
    cluster_faults,
    log_place,
    own_name,
    store_place,
)
from distributary.server.settings._config_file import config_file, line_of, placed, read_toml
from distributary.server.settings._consent import ConsentSettings
from distributary.server.settings._environ import said_by, variable_of
from distributary.server.settings._keeping import KeepingSettings
from distributary.server.settings._namespaces import read_namespaces
from distributary.server.settings._network import NetworkSettings
from distributary.server.settings._once import OnceSettings, once_faults
from distributary.server.settings._receiving import EVENT_BYTES_CAP, ReceivingSettings
from distributary.server.settings._running import RunningSettings
from distributary.server.settings._secrets import read_secrets
from distributary.server.settings._shapes import SWITCH, Reload, is_host_name, parse_table
from distributary.server.settings._sinks import SinkSettings
from distributary.server.settings._tables import Tables, faults_of_tables, tables_of
from distributary.server.settings._telemetry import TelemetrySettings


@dataclass(frozen=True, kw_only=True)
class Settings(
    # The last one's fields come first, here and wherever all settings are listed.
    TelemetrySettings,
    ConsentSettings,
    OnceSettings,
    ArchiveSettings,
    NetworkSettings,
    ClusterSettings,
    RunningSettings,
    SinkSettings,
    KeepingSettings,
    ReceivingSettings,
):
    """The validated settings of ``serve``; paths are as given. Plain and picklable."""

    keys: tuple[Mapping[str, Any], ...] = ()
    """Tables ``[[keys]]`` of the TOML file, unchanged: API keys by their hashes. ``access``
    interprets and validates these and the next."""
    certificates: tuple[Mapping[str, Any], ...] = ()
    """Tables ``[[certificates]]``: whose TLS certificates are accepted."""
    issuers: tuple[Mapping[str, Any], ...] = ()
    """Tables ``[[issuers]]``: whose tokens are accepted. ``server.issuers`` validates them."""
    namespaces: tuple[Mapping[str, Any], ...] = ()
    """Tables ``[[namespaces]]``: what a tenant may use. ``read_namespaces`` validates them."""
    secrets: tuple[Mapping[str, Any], ...] = ()
    """Tables ``[[secrets]]``: files that sink credentials may name. ``read_secrets`` validates
    them."""
    sources: tuple[Mapping[str, Any], ...] = ()
    """Tables ``[[sources]]``: the package ``sources`` interprets and validates them. They hold no
    secrets, only references to them."""


class SettingsRow(NamedTuple):
    """One setting, for ``--help`` and the reference page.

    Attributes:
        name: Key in the TOML file, such as ``data_dir``.
        flag: Option on the command line.
        variable: Environment variable.
        expects: Valid values, for people.
        default: Default as people would write it; empty: none.
        about: Meaning of the setting.
        reload: Whether a reload applies it.
    """

    name: str
    flag: str
    variable: str
    expects: str
    default: str
    about: str
    reload: Reload


_ROWS = tuple(row for row in fields(Settings) if "shape" in row.metadata)
TABLES = tuple(row.name for row in fields(Settings) if "shape" not in row.metadata)
"""Names of the tables of the file."""
_SHAPES: dict[str, shapes.SettingShape] = {row.name: row.metadata["shape"] for row in _ROWS}


def settings_table() -> tuple[SettingsRow, ...]:
    """Returns every setting but those of tables, in reading order."""
    return tuple(
        SettingsRow(
            row.name,
            _flag(row.name),
            variable_of(row.name),
            _SHAPES[row.name].expects,
            written(row.name, None if row.default is MISSING else row.default),
            row.metadata["about"],
            row.metadata["reload"],
        )
        for row in _ROWS
    )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def written(name: str, default: Any) -> str:
    """Returns a value as people write it in the file; empty: there is none."""
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if "bytes" in name:
        return shapes.size_text(default)
    if name.endswith("_s"):
        return shapes.duration_text(default)
    return f"{default:.12g}" if isinstance(default, float) else str(default)


class _Source(NamedTuple):
    """Raw values of one source by setting, and how the source spells a setting's name."""

    raw: Mapping[str, Any]
    spelling: Callable[[str], str]


def load(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    toml_text: str | None,
    table_faults: Callable[[Mapping[str, Tables]], Sequence[str]] = lambda _tables: (),
) -> Settings:
    """Returns the settings from their sources; a pure function of its arguments.

    Args:
        flags: Values of the command line by setting name (``data_dir``); None: not given.
        environ: The environment; names without the prefix ``DISTRIBUTARY_`` are ignored.
        toml_text: Text of the TOML file; None: no file.
        table_faults: Checks the tables by their name; returns a line for each fault.

    Returns:
        Settings with valid values.

    Raises:
        SettingsError: A value is invalid. The message has a line for each fault of every source:
            unknown names with the nearest known one, wrong types, values out of range. Overridden
            values are checked as well.
    """
    gathered = _gather(flags, environ, toml_text)
    chosen = {name: value for name, (value, _) in gathered.chosen.items()}
    faults = [*gathered.faults, *table_faults(gathered.tables)]
    if chosen.get("no_auth") and chosen.get("auth") == "required":
        faults.append("no_auth: auth is required; leave one of them out")
    faults += cluster_faults(chosen, environ)
    faults += once_faults(chosen)
    faults += archive_faults(chosen)
    if faults:
        raise SettingsError("\n".join(("These settings cannot be used:", *faults)))
    return Settings(**chosen, **gathered.tables)


def origins(
    flags: Mapping[str, Any], environ: Mapping[str, str], toml_text: str | None
) -> dict[str, str]:
    """Returns where each setting that is not a default comes from, as ``load`` decides it.

    Its flag, its variable, or ``name (configuration file)``; see ``load`` for the arguments.
    """
    chosen = _gather(flags, environ, toml_text).chosen
    return {name: spelling for name, (_, spelling) in chosen.items()}


class _Gathered(NamedTuple):
    """What the sources say: name -> value and how its source spells it; tables; faults."""

    chosen: dict[str, tuple[Any, str]]
    tables: dict[str, Any]
    faults: list[str]


def _gather(
    flags: Mapping[str, Any], environ: Mapping[str, str], toml_text: str | None
) -> _Gathered:
    faults: list[str] = []
    toml = read_toml(toml_text, faults)
    tables: dict[str, Any] = {name: tables_of(name, toml.pop(name, ()), faults) for name in TABLES}
    sources = (
        _Source({key: raw for key, raw in flags.items() if raw is not None}, _flag),
        _Source(said_by(environ), variable_of),
        _Source(toml, lambda name: f"{name} (configuration file)"),
    )
    chosen: dict[str, tuple[Any, str]] = {}
    for source in sources:
        for name, raw in source.raw.items():
            if name not in _SHAPES:
                faults.append(_unknown(source, name))
                continue
            try:
                parsed = _SHAPES[name].parse(raw)
            except (ValueError, OverflowError):
                shape = _SHAPES[name]
                got = f"; got {raw!r}" if shape.quoted else ""
                faults.append(f"{source.spelling(name)}: expected {shape.expects}{got}")
            else:
                chosen.setdefault(name, (parsed, source.spelling(name)))
    return _Gathered(chosen, tables, faults)


def _unknown(source: _Source, name: str) -> str:
    if name in TABLES:
        return f"{source.spelling(name)}: {name} belong in the configuration file alone"
    near = difflib.get_close_matches(name.replace("-", "_"), _SHAPES, n=1)
    hint = f"; did you mean {source.spelling(near[0])}?" if near else ""
    return f"{source.spelling(name)}: there is no such setting{hint}"
