"""Options that say where the tables lie: a data directory, or what nodes share.

Called by ``_options``, where Spark's driver runs. Hides: the settings file of a node, whose names
are those of the options in another spelling, and where passwords come from. They go to the tasks
inside the pickled reader: they stand in no option, plan or page.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from distributary.core.cluster import SASL_MECHANISMS, KafkaPlace, PostgresPlace, log_servers
from distributary.core.database import database_url
from distributary.core.environment import LOG_PASSWORD_VARIABLE, STORE_PASSWORD_VARIABLE
from distributary.core.errors import SettingsError
from distributary.core.named_files import content_of, secret_in
from distributary.datadir import DataDir

PLACE_NAMES: Final = (
    "path",
    "settings",
    "log",
    "logTls",
    "logCaFile",
    "logCertFile",
    "logKeyFile",
    "logSasl",
    "logUser",
    "logPasswordFrom",
    "store",
    "storePasswordFrom",
    "history",
)
"""Names of these options."""

SETTINGS_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A file with a thousand namespaces, keys and sources has a quarter of it."""

_OF_LOG: Final = PLACE_NAMES[3:10]
_OF_FILE: Final = ("log_password_file", "store_password_file")
_COMMANDS: Final = ("log_password_command", "store_password_command")
_VARIABLES: Final = {"log": LOG_PASSWORD_VARIABLE, "store": STORE_PASSWORD_VARIABLE}
_WHAT: Final = {
    "events": ("log", "give the data directory of a server, or the log that nodes share"),
    "dead_letters": ("store", "give the data directory of a server, or the store of nodes"),
    "subscriptions": ("store", "give the data directory of a server, or the store of nodes"),
    "outcomes": ("history", "give the data directory of a server, or the folder of the history"),
    "attempts": ("history", "give the data directory of a server, or the folder of the history"),
}
"""Table -> what it is read from where there is no data directory, and what to do without."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the tables of a server lie. Pickled to the tasks; ``repr`` shows no password.

    Attributes:
        data_dir: The folder that ``distributary serve --data-dir`` uses; None: the server is one of
            several nodes.
        log: The log that they share; None: it is not known.
        store: Their store; None: it is not known.
        history: Path or URL of the history, as it was given; empty: that of the data directory.
    """

    data_dir: Path | None = None
    log: KafkaPlace | None = None
    store: PostgresPlace | None = None
    history: str = ""

    def lack(self, table: str) -> str:
        """Returns why *table* cannot be read there, beginning with an option; empty: it can."""
        if table in {"outcomes", "attempts"} and self.history:
            if self.history == "off":
                return "history: the server keeps none"
            if _is_url(self.history) and set("?#") & set(self.history):
                return "history: expected a path, or a URL such as s3a://bucket/history"
            return ""
        what, cure = _WHAT[table]
        if self.data_dir is not None or getattr(self, what):
            return ""
        return f"{what if self.log or self.store or self.history else 'path'}: missing; {cure}"

    @property
    def history_folder(self) -> str:
        """Absolute path, or URL, of the history; there is one: see ``lack``."""
        if _is_url(self.history):
            return self.history
        if self.history:
            return str(_path(self.history).expanduser().absolute())
        assert self.data_dir is not None
        return str(DataDir(self.data_dir).history.absolute())


def parse_places(
    options: Mapping[str, str], environ: Mapping[str, str], faults: list[str]
) -> Places:
    """Parse those of *options* that say where tables lie; adds what is wrong to *faults*.

    Args:
        options: All of a read, with names in any case.
        environ: The environment of the driver.
        faults: What is wrong, each with the name of an option.
    """
    lower = {name.lower(): value for name, value in options.items()}
    given = {name: lower[name.lower()] for name in PLACE_NAMES if lower.get(name.lower())}
    shared = [name for name in PLACE_NAMES[1:-1] if name in given]
    if "path" in given and shared:
        faults.append(f"path and {', '.join(shared)} exclude one another")
    if "settings" in given:
        given = _of_file(given["settings"], given, faults) | given
    return Places(
        data_dir=_path(given["path"]) if "path" in given else None,
        log=_log(given, environ, faults),
        store=_store(given, environ, faults),
        history=given.get("history", ""),
    )


def _of_file(name: str, given: Mapping[str, str], faults: list[str]) -> dict[str, str]:
    """The options that the settings file *name* of a node stands for."""
    try:
        read = tomllib.loads(content_of(name, SETTINGS_FILE_BYTES_MAX))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        faults.append(f"settings: {name} is no TOML: {error}")
        return {}
    except ValueError as error:
        faults.append(f"settings: {error}")
        return {}
    found: dict[str, str] = {}
    for option in PLACE_NAMES[2:]:
        setting = "".join(f"_{each.lower()}" if each.isupper() else each for each in option)
        value: Any = read.get(setting)
        if isinstance(value, bool | str):
            found[option] = str(value).lower() if isinstance(value, bool) else value
    for setting in _OF_FILE:
        if isinstance(read.get(setting), str):
            found[f"{setting.partition('_')[0]}PasswordFrom"] = f"file:{read[setting]}"
    faults += [
        f"{option}: give it, since {name} has {setting}, which is not run here"
        for setting in _COMMANDS
        if read.get(setting) and (option := f"{setting.partition('_')[0]}PasswordFrom") not in given
    ]
    return found


def _log(
    given: Mapping[str, str], environ: Mapping[str, str], faults: list[str]
) -> KafkaPlace | None:
    if "log" not in given:
        faults += [f"{name}: needs log" for name in _OF_LOG if name in given]
        return None
    servers: tuple[str, ...] = ()
    prefix = ""
    try:
        servers, prefix = log_servers(given["log"])
    except ValueError:
        faults.append("log: expected kafka://host:port,host:port/prefix, without a password")
    tls = given.get("logTls", "false").lower()
    if tls not in {"true", "false"}:
        faults.append("logTls: expected true or false")
    if tls == "false":
        faults += [f"{name}: needs logTls" for name in _OF_LOG[1:4] if name in given]
    if ("logCertFile" in given) != ("logKeyFile" in given):
        faults.append("logCertFile and logKeyFile: one needs the other")
    mechanism = given.get("logSasl", "")
    if mechanism and mechanism not in SASL_MECHANISMS:
        faults.append(f"logSasl: expected one of {', '.join(SASL_MECHANISMS)}")
    if not mechanism:
        faults += [f"{name}: needs logSasl" for name in _OF_LOG[5:] if name in given]
    elif "logUser" not in given:
        faults.append("logUser: needed with logSasl")
    return KafkaPlace(
        servers=servers,
        prefix=prefix,
        tls=tls == "true",
        ca_file=given.get("logCaFile", ""),
        certificate_file=given.get("logCertFile", ""),
        key_file=given.get("logKeyFile", ""),
        sasl_mechanism=mechanism,
        user=given.get("logUser", ""),
        password=_password("log", given, environ, faults, needed=True) if mechanism else "",
    )


def _store(
    given: Mapping[str, str], environ: Mapping[str, str], faults: list[str]
) -> PostgresPlace | None:
    if "store" not in given:
        if "storePasswordFrom" in given:
            faults.append("storePasswordFrom: needs store")
        return None
    password = _password("store", given, environ, faults, needed=False)
    place = PostgresPlace(url=given["store"], password=password)
    try:
        database_url(place)
    except (SettingsError, ValueError) as error:
        faults.append(f"store: {error}")
    return place


def _password(
    which: str,
    given: Mapping[str, str],
    environ: Mapping[str, str],
    faults: list[str],
    *,
    needed: bool,
) -> str:
    name, variable = f"{which}PasswordFrom", _VARIABLES[which]
    text = given.get(name) or (f"env:{variable}" if environ.get(variable) else "")
    if not text:
        if needed:
            faults.append(f"{name}: missing; give env:NAME or file:PATH, or set {variable}")
        return ""
    try:
        return secret_in(text, environ).partition("\n")[0].removesuffix("\r")
    except ValueError as error:
        faults.append(f"{name}: {error}")
        return ""


def _is_url(text: str) -> bool:
    """Whether *text* names another file system than this machine's."""
    return ":/" in text.removeprefix("file:")


def _path(text: str) -> Path:
    """A path, or the URL that catalogs make of one."""
    text = text.removeprefix("file:")
    return Path("/" + text.lstrip("/") if text.startswith("//") else text)
