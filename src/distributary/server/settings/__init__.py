"""Settings of ``distributary serve``: their sources, precedence and valid values.

Sources, the first that names a setting wins::

    flag (--port 9000) > environment (DISTRIBUTARY_PORT) > TOML file (port = 9000) > default

The TOML file is the one named by ``--config`` or ``DISTRIBUTARY_CONFIG``, else
``./distributary.toml`` if it exists. Only the file may hold ``[[sources]]``, tables of the brokers
to consume from.

Callers: ``cli`` (loads), ``server`` (reads ``Settings``), the reference page of the documentation
(``settings_table``). Hides: parsing of sizes, durations and addresses. One error lists every fault
of every source.
"""

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from distributary.core.environment import CREDENTIAL_KEY_VARIABLE, ENV_PREFIX
from distributary.core.errors import SettingsError
from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import SWITCH, is_host_name

CONFIG_NAME = "distributary.toml"
"""Read from the working folder when no other file is named."""

_ENV_OF_OTHERS = frozenset({"DISTRIBUTARY_CONFIG", "DISTRIBUTARY_URL", CREDENTIAL_KEY_VARIABLE})
"""Variables that are no settings of ``serve``: file name, the client commands' server, the keys."""

EVENT_BYTES_CAP = 15 * shapes.MIB
"""Upper limit of ``event_bytes_max``. A record of the log holds 16 MiB, which includes the
attributes from a request's headers."""


def _setting(shape: shapes.SettingShape, default: Any, about: str) -> Any:
    """A field of ``Settings``; *about* is one sentence for ``--help`` and the reference page."""
    metadata = {"shape": shape, "about": about}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
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
        " any other address needs no_auth.",
    )
    no_auth: bool = _setting(
        shapes.switch(),
        False,
        "Allow an address that is not loopback, without authentication: every client that reaches"
        " it may publish, and read and change every subscription.",
    )
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
        " Derived from the listening address by default.",
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
        "Partitions of a new log; an existing log keeps the count it has. By default one for each"
        " core, from 2 to 8.",
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
        7 * 86400.0,
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
        " listens on loopback only and has no public_url.",
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
    sources: tuple[Mapping[str, Any], ...] = ()
    """Tables ``[[sources]]`` of the TOML file, unchanged: the package ``sources`` interprets and
    validates them. They hold no secrets, only references to them."""


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


_ROWS = tuple(row for row in fields(Settings) if row.name != "sources")
_SHAPES: dict[str, shapes.SettingShape] = {row.name: row.metadata["shape"] for row in _ROWS}


def settings_table() -> tuple[SettingsRow, ...]:
    """Returns every setting but ``sources``, in reading order."""
    return tuple(
        SettingsRow(
            row.name,
            _flag(row.name),
            _variable(row.name),
            _SHAPES[row.name].expects,
            _default_text(row.name, None if row.default is MISSING else row.default),
            row.metadata["about"],
        )
        for row in _ROWS
    )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _variable(name: str) -> str:
    return ENV_PREFIX + name.upper()


def _default_text(name: str, default: Any) -> str:
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


Tables = Sequence[Mapping[str, Any]]
"""Tables ``[[sources]]``, in the order of the file."""


def load(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    toml_text: str | None,
    source_faults: Callable[[Tables], Sequence[str]] = lambda _tables: (),
) -> Settings:
    """Returns the settings from their sources; a pure function of its arguments.

    Args:
        flags: Values of the command line by setting name (``data_dir``); None: not given.
        environ: The environment; names without the prefix ``DISTRIBUTARY_`` are ignored.
        toml_text: Text of the TOML file; None: no file.
        source_faults: Checks ``[[sources]]``; returns a line for each fault.

    Returns:
        Settings with valid values.

    Raises:
        SettingsError: A value is invalid. The message has a line for each fault of every source:
            unknown names with the nearest known one, wrong types, values out of range. Overridden
            values are checked as well.
    """
    faults: list[str] = []
    toml = _from_toml(toml_text, faults)
    tables = _source_tables(toml.pop("sources", ()), faults)
    sources = (
        _Source({key: raw for key, raw in flags.items() if raw is not None}, _flag),
        _Source(_from_environ(environ), _variable),
        _Source(toml, lambda name: f"{name} (configuration file)"),
    )
    chosen: dict[str, Any] = {}
    for source in sources:
        for name, raw in source.raw.items():
            if name not in _SHAPES:
                faults.append(_unknown(source, name))
                continue
            try:
                parsed = _SHAPES[name].parse(raw)
            except (ValueError, OverflowError):
                expects = _SHAPES[name].expects
                faults.append(f"{source.spelling(name)}: expected {expects}; got {raw!r}")
            else:
                chosen.setdefault(name, parsed)
    faults += source_faults(tables)
    if faults:
        raise SettingsError("\n".join(("These settings cannot be used:", *faults)))
    return Settings(**chosen, sources=tables)


def faults_of_sources(tables: Tables) -> list[str]:
    """Returns a line for each fault of ``[[sources]]``; reads the environment, for secrets."""
    if not tables:
        return []
    # Loading the modules of sources takes a quarter of a second; most servers have no source.
    from distributary import sources  # noqa: PLC0415 - see above

    return sources.read_tables(tables, os.environ)[1]


def _source_tables(raw: Any, faults: list[str]) -> tuple[Mapping[str, Any], ...]:
    """Tables of the file; errors never quote their content: people put passwords anywhere."""
    if isinstance(raw, (list, tuple)) and all(isinstance(table, dict) for table in raw):
        return tuple(raw)
    faults.append("sources (configuration file): expected tables, each begun with [[sources]]")
    return ()


def _from_environ(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        variable[len(ENV_PREFIX) :].lower(): raw
        for variable, raw in sorted(environ.items())
        if variable.startswith(ENV_PREFIX) and variable not in _ENV_OF_OTHERS
    }


def _from_toml(toml_text: str | None, faults: list[str]) -> dict[str, Any]:
    if toml_text is None:
        return {}
    try:
        return tomllib.loads(toml_text)
    except tomllib.TOMLDecodeError as error:
        faults.append(f"configuration file: not TOML: {error}")
        return {}


def _unknown(source: _Source, name: str) -> str:
    if name == "sources":
        return f"{source.spelling(name)}: sources belong in the configuration file alone"
    near = difflib.get_close_matches(name.replace("-", "_"), _SHAPES, n=1)
    hint = f"; did you mean {source.spelling(near[0])}?" if near else ""
    return f"{source.spelling(name)}: there is no such setting{hint}"


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
