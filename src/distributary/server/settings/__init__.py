"""Settings of ``distributary serve``: their sources, precedence and valid values.

Sources, the first that names a setting wins::

    flag (--port 9000) > environment (DISTRIBUTARY_PORT) > TOML file (port = 9000) > default

The TOML file is the one named by ``--config`` or ``DISTRIBUTARY_CONFIG``, else
``./distributary.toml`` if it exists. Only the file may hold tables: ``[[sources]]``, the
brokers to consume from, ``[[keys]]``, ``[[certificates]]`` and ``[[issuers]]``, who may do what.

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
from distributary.server.settings._archive import archive_faults
from distributary.server.settings._cluster import cluster_faults, log_place, own_name, store_place
from distributary.server.settings._config_file import (
    CONFIG_NAME,
    config_file,
    line_of,
    placed,
    read_toml,
)
from distributary.server.settings._environ import said_by, variable_of
from distributary.server.settings._namespaces import read_namespaces
from distributary.server.settings._once import RETENTION_AGE_S_DEFAULT, once_faults
from distributary.server.settings._secrets import read_secrets
from distributary.server.settings._shapes import SWITCH, is_host_name, parse_table
from distributary.server.settings._tables import Tables, faults_of_tables, tables_of
from distributary.server.settings._telemetry import TelemetrySettings

EVENT_BYTES_CAP = 15 * shapes.MIB
"""Upper limit of ``event_bytes_max``. A record of the log holds 16 MiB, which includes the
attributes from a request's headers."""


_setting = shapes.setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TelemetrySettings):
    """The validated settings of ``serve``; paths are as given. Plain and picklable."""

    data_dir: Path = _setting(  # noqa: RUF009 - dataclasses.field under another name
        shapes.path("the path of a folder"),
        Path("distributary-data"),
        "Folder of the log and the store; one server at a time uses it.",
    )
    host: str = _setting(
        shapes.text("an address or host name", r"[^\s/\0]+"),
        "127.0.0.1",
        "Address to listen on. While it is loopback, private sinks are allowed (private_sinks);"
        " any other address asks clients who they are (auth).",
    )
    auth: str | None = _setting(
        shapes.one_of("required", "off"),
        None,
        "Whether clients must show who they are; off: every client that reaches the server may do"
        " everything. By default off while the server listens on loopback only, else required.",
    )
    no_auth: bool = _setting(shapes.switch(), False, "Older way to say auth = off.")
    port: int = _setting(
        shapes.whole(0, 65535), 8080, "TCP port; 0 takes a free one and prints it."
    )
    health_port: int | None = _setting(
        shapes.whole(0, 65535),
        None,
        "TCP port, at the same address, for /healthz and /readyz alone, which responds whatever"
        " hangs; 0 takes a free one and prints it. Without it only the main port serves them.",
    )
    amqp_port: int | None = _setting(
        shapes.whole(0, 65535),
        None,
        "TCP port of the Subscriptions API over AMQP 1.0; 0 takes a free one and prints it; off by"
        " default. Needs the extra distributary[amqp].",
    )
    public_url: str | None = _setting(
        shapes.base_url("a URL such as https://events.example.com, without a path"),
        None,
        "URL at which others reach this server, shown as the address of Brokers and Channels."
        " Derived from the listening address by default; https with TLS.",
    )
    allowed_hosts: tuple[str, ...] = _setting(
        shapes.SettingShape(
            "host names such as events.shop.svc, without ports, separated by commas",
            shapes.parse_host_names,
        ),
        (),
        "Names by which clients reach this server, besides every address, localhost, this machine's"
        " name and that of the public URL; a request under another name is answered 421.",
    )
    partitions: int | None = _setting(
        shapes.whole(1, 64),
        None,
        "Partitions of a new log; an existing log keeps the count it has, or gets more where nodes"
        " share it. By default one for each core, from 2 to 8.",
    )
    receivers: int | None = _setting(
        shapes.whole(1, 64),
        None,
        "Processes that accept requests and append to the log, each to its part of the partitions;"
        " no more than there are partitions. By default one for each four cores, at least 1.",
    )
    event_bytes_max: int = _setting(
        shapes.size(shapes.KIB, EVENT_BYTES_CAP),
        shapes.MIB,
        "Largest request body accepted; a larger one is answered 413.",
    )
    batch_events_max: int = _setting(
        shapes.whole(1, 1000), 1000, "Most events in one batch; a larger batch is answered 400."
    )
    connections_max: int = _setting(
        shapes.whole(1, 100_000),
        2000,
        "Most connections of clients at one time; for one more the longest idle one is closed.",
    )
    connections_per_address_max: int = _setting(
        shapes.whole(0, 100_000),
        200,
        "Most connections from one address that is not loopback; 0 sets no limit.",
    )
    retention_bytes_max: int = _setting(
        shapes.size(shapes.MIB, 1024 * 1024 * shapes.GIB),
        10 * shapes.GIB,
        "Size of the log above which the oldest segments are deleted, once every route is past"
        " them.",
    )
    retention_age_max_s: float = _setting(
        shapes.duration(60, 3650 * 86400),
        RETENTION_AGE_S_DEFAULT,
        "Age above which segments are deleted, once every route is past them.",
    )
    disk_free_bytes_min: int = _setting(
        shapes.size(0, 1024 * shapes.GIB),
        256 * shapes.MIB,
        "Disk watermark: with less free space, publishing is answered 503 until there is more.",
    )
    lag_bytes_max: int = _setting(
        shapes.size(0, 1024 * 1024 * shapes.GIB),
        0,
        "Size of the log that subscriptions with a backlog may keep from deletion; beyond it their"
        " oldest matches are given up, with a warning and a count. 0 sets no limit.",
    )
    lag_age_max_s: float = _setting(
        shapes.duration(0, 3650 * 86400),
        0.0,
        "Age of events above which subscriptions with a backlog give them up, likewise. 0 sets no"
        " limit.",
    )
    dead_letter_bytes_max: int = _setting(
        shapes.size(shapes.MIB, 1024 * shapes.GIB),
        2 * shapes.GIB,
        "Total size of dead letters kept because no sink accepted them; beyond it the oldest"
        " are given up, with a warning and a count.",
    )
    dead_letter_route_bytes_max: int = _setting(
        shapes.size(shapes.MIB, 1024 * shapes.GIB),
        256 * shapes.MIB,
        "The same for one subscription. Each partition keeps its share of both.",
    )
    dead_letter_age_max_s: float = _setting(
        shapes.duration(60, 3650 * 86400),
        30 * 86400.0,
        "Age at which kept dead letters are given up, with a warning and a count.",
    )
    history: str = _setting(
        shapes.SettingShape(
            "off, a path such as /mnt/history, or the URL of a folder that Spark can write, such as"
            " s3a://bucket/history, without a password",
            shapes.parse_history,
        ),
        "",
        "Folder of the history (what became of each match), for this server alone; empty is history"
        " in the data folder, off keeps none. The options of a file system are Spark's, such as"
        " spark.hadoop.fs.s3a.endpoint in spark_conf.",
    )
    history_age_max_s: float = _setting(
        shapes.duration(3600, 3650 * 86400),
        7 * 86400.0,
        "Age above which history files are deleted.",
    )
    history_bytes_max: int = _setting(
        shapes.size(0, 1024 * 1024 * shapes.GIB),
        shapes.GIB,
        "Size of the history above which its oldest files are deleted. 0 sets no limit.",
    )
    epoch_s: float = _setting(
        shapes.duration(1, 86400),
        14400.0,
        "Length of a pipeline epoch, after which Spark reports on it; deliveries go on.",
    )
    drain_s: float = _setting(
        shapes.duration(0, 600), 10.0, "Longest wait for deliveries under way at a stop."
    )
    disable_after_s: float = _setting(
        shapes.duration(0, 365 * 86400),
        0.0,
        "Disable a subscription whose deliveries have failed for so long, and still fail: nothing"
        " is sent until somebody enables it. 0 disables none.",
    )
    subscription_metrics_max: int = _setting(
        shapes.whole(0, 10_000),
        300,
        "Most subscriptions with metrics of their own; those of the others are summed.",
    )
    allow_sinks: tuple[str, ...] = _setting(
        shapes.SettingShape(
            "networks such as 10.0.0.0/8, separated by commas", shapes.parse_networks
        ),
        (),
        "Networks that events may be sent to although their addresses are private.",
    )
    private_sinks: str = _setting(
        shapes.one_of("auto", "allow", "deny"),
        "auto",
        "Whether events may be sent to loopback and private addresses; auto: while the server"
        " listens on loopback only, without public_url, listen_unix, trusted_proxies and auth ="
        " required.",
    )
    nat64_prefixes: tuple[str, ...] = _setting(
        shapes.SettingShape(
            "IPv6 prefixes such as 2001:db8:64::/96, separated by commas", shapes.parse_nat64
        ),
        (),
        "Prefixes behind which this network's NAT64 reaches IPv4; the embedded addresses are"
        " checked too.",
    )
    own_sinks: int = _setting(
        shapes.whole(0, 7),
        0,
        "How often an event may return through subscriptions whose sink is this server; 0 refuses"
        " such sinks.",
    )
    protocols: tuple[str, ...] = _setting(
        shapes.SettingShape("names such as HTTP,MQTT5", shapes.parse_protocols),
        (),
        "Delivery protocols that subscriptions may use; otherwise all, but KAFKA where"
        " private_sinks is deny.",
    )
    cleartext_credentials: bool = _setting(
        shapes.switch(),
        False,
        "Whether credentials of subscriptions may go to other machines by schemes without TLS.",
    )
    error_data: Literal["none", "private-off", "all"] = _setting(
        shapes.one_of("none", "private-off", "all"),
        "private-off",
        "Which sinks' error responses a dead letter quotes: none, those of public addresses, or"
        " all.",
    )
    credential_key_file: Path | None = _setting(  # noqa: RUF009 - dataclasses.field, renamed
        shapes.path("the path of a file that its owner alone may read"),
        None,
        "Keys that seal sink credentials; otherwise credentials.key in the data folder, made at"
        " need. The environment variable DISTRIBUTARY_CREDENTIAL_KEY, where set, counts instead.",
    )
    credential_key_command: str | None = _setting(
        shapes.command("a command with its arguments, such as pass show distributary"),
        None,
        "Command that prints these keys, in place of a file: run once at the start, without a"
        " shell.",
    )
    credential_key_fd: int | None = _setting(
        shapes.whole(3, 65535),
        None,
        "File descriptor from which these keys are read once at the start, in place of a file.",
    )
    log_level: str = _setting(
        shapes.one_of("debug", "info", "warning", "error"), "info", "Least level that is logged."
    )
    log_format: str = _setting(
        shapes.one_of("auto", "console", "json"),
        "auto",
        "Shape of log lines; auto is console on a terminal and json elsewhere.",
    )
    log_attempts: str = _setting(
        shapes.one_of("all", "failures", "none"),
        "all",
        "Which delivery attempts get a row in the history: failures leaves out deliveries that"
        " succeed at the first attempt, none keeps no history.",
    )
    java_home: Path | None = _setting(  # noqa: RUF009 - dataclasses.field under another name
        shapes.path("the path of a Java 17 (or newer) installation"),
        None,
        "Java to run Spark on; otherwise JAVA_HOME, the PATH and the usual places are searched.",
    )
    spark_master: str = _setting(
        shapes.text(
            "auto, or a Spark master URL such as local[4]",
            r"local(-cluster)?(\[.+\])?|[a-z][a-z0-9+-]*(://\S+)?",
        ),
        "auto",
        "Where Spark runs. Each partition occupies a task slot while the pipeline runs; auto has"
        " one for each, on this machine. Slots may exceed the cores.",
    )
    spark_conf: dict[str, str] = _setting(  # noqa: RUF009 - dataclasses.field under another name
        shapes.SettingShape(
            "pairs such as spark.driver.memory=1g, separated by commas", shapes.parse_table
        ),
        {},
        "Spark properties that replace ours, at your own risk.",
    )
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
    """

    name: str
    flag: str
    variable: str
    expects: str
    default: str
    about: str


_OF_BASES = frozenset(row.name for row in fields(TelemetrySettings))
_ROWS = tuple(
    sorted(
        (row for row in fields(Settings) if "shape" in row.metadata),
        key=lambda row: row.name in _OF_BASES,  # a base class's fields come first: here last
    )
)
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
