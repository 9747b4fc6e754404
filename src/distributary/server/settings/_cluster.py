"""Settings of several nodes: where the shared log and the shared store lie. Part of ``Settings``.

Passwords are no settings: they stand in files, are printed by commands or are variables of the
environment. ``server.processes`` reads them.
"""

# ruff: noqa: RUF009 - ``setting`` is dataclasses.field under another name

import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from distributary.core.cluster import (
    HOST,
    HOSTS_MAX,
    OPTIONS,
    SASL_MECHANISMS,
    UNUSED_OPTIONS,
    KafkaPlace,
    PostgresPlace,
    log_servers,
)
from distributary.core.environment import LOG_PASSWORD_VARIABLE, STORE_PASSWORD_VARIABLE
from distributary.core.uri_parts import split_uri
from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import setting

_ADDRESS: Final = re.compile(rf"({HOST}):([0-9]{{1,5}})")
_ADDRESS_OR_HOST: Final = re.compile(rf"{HOST}(?::([0-9]{{1,5}}))?")
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,62})")
_PEM: Final = "the path of a file in PEM form"
_LOG: Final = "kafka://host:port,host:port/prefix"
_STORE: Final = "postgresql://user@host:port,host:port/database"


def _log(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError  # noqa: TRY004 - what a shape expects
    log_servers(raw)
    return raw


def _store(raw: Any) -> str:
    if not isinstance(raw, str) or not raw.isascii() or not raw.isprintable():
        raise ValueError
    url = split_uri(raw)
    user, at, servers = url.netloc.rpartition("@")
    addresses = [_ADDRESS_OR_HOST.fullmatch(each) for each in servers.split(",")]
    if url.scheme != "postgresql" or url.fragment or len(addresses) > HOSTS_MAX:
        raise ValueError
    if not at or not user or ":" in user or ":" in unquote(user):
        raise ValueError
    if not all(found and 0 < int(found[1] or 5432) <= 65535 for found in addresses):
        raise ValueError
    database = url.path.removeprefix("/")
    if not database or "/" in database:
        raise ValueError
    options = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query))
    if not {name for name, _ in options} <= OPTIONS | UNUSED_OPTIONS:
        raise ValueError
    return raw


def _address(raw: Any) -> str:
    found = _ADDRESS.fullmatch(raw) if isinstance(raw, str) else None
    if found is None or not 0 < int(found[2]) <= 65535:
        raise ValueError
    return found[0]


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Where log and state lie that several nodes share. Plain and picklable."""

    log: str | None = setting(
        shapes.SettingShape(f"{_LOG}, without a password", _log, quoted=False),
        None,
        "Kafka cluster that holds the log: brokers to begin with, and what the names of the topics"
        " begin with. Needs store. By default the log is in the data folder.",
    )
    log_tls: bool = setting(
        shapes.switch(), False, "Whether connections to the log's brokers use TLS."
    )
    log_ca_file: Path | None = setting(
        shapes.path(_PEM),
        None,
        "The authorities that sign the brokers' certificates; by default the system's. Needs"
        " log_tls.",
    )
    log_cert_file: Path | None = setting(
        shapes.path(_PEM), None, "This server's certificate for the brokers. Needs log_key_file."
    )
    log_key_file: Path | None = setting(
        shapes.path(_PEM), None, "The certificate's private key, without a password."
    )
    log_sasl: str | None = setting(
        shapes.one_of(*SASL_MECHANISMS),
        None,
        "How this server shows the brokers who it is. Needs log_user and a password.",
    )
    log_user: str | None = setting(
        shapes.text("a name", r"[^\0\r\n]{1,256}"), None, "The user's name for log_sasl."
    )
    log_password_file: Path | None = setting(
        shapes.path("the path of a file that its owner alone may read"),
        None,
        f"The user's password: the file's first line. The variable {LOG_PASSWORD_VARIABLE} may"
        " hold it instead.",
    )
    log_password_command: str | None = setting(
        shapes.command("a command with its arguments, such as pass show brokers"),
        None,
        "Command that prints this password: run once at the start, without a shell.",
    )
    store: str | None = setting(
        shapes.SettingShape(
            f"{_STORE}, without a password, with options of libpq such as ?sslmode=verify-full"
            "&sslrootcert=/path",
            _store,
            quoted=False,
        ),
        None,
        "PostgreSQL database that holds the state. Needs log. By default the state is in the data"
        " folder.",
    )
    store_password_file: Path | None = setting(
        shapes.path("the path of a file that its owner alone may read"),
        None,
        "The database user's password: the file's first line. The variable"
        f" {STORE_PASSWORD_VARIABLE} may hold it instead.",
    )
    store_password_command: str | None = setting(
        shapes.command("a command with its arguments, such as pass show database"),
        None,
        "Command that prints this password: run once at the start, without a shell.",
    )
    node_name: str | None = setting(
        shapes.text("a name such as node-1, in lower case", _NAME.pattern),
        None,
        "Name of this node among those that share log and store; by default this machine's name.",
    )
    node_address: str | None = setting(
        shapes.SettingShape("an address such as node-1.example.com:9418", _address),
        None,
        "Where other nodes reach this one: a port for nodes alone, which prove to each other who"
        " they are. Needed with log and store.",
    )
    node_listen: str | None = setting(
        shapes.SettingShape("an address such as 10.0.0.5:9418", _address),
        None,
        "Where this node listens for other nodes, where that is not what they dial: behind a"
        " translation of addresses or a proxy. By default node_address.",
    )
    standby: str = setting(
        shapes.one_of("cold", "warm"),
        "cold",
        "What a node that does not lead keeps ready: warm has Spark and its executors started, so"
        " that it delivers some seconds after the leader is gone. That takes half a gigabyte here,"
        " and on the Spark cluster as many task slots as there are partitions, once more for each"
        " such node.",
    )


def own_name(settings: ClusterSettings) -> str:
    """The name of this node."""
    return settings.node_name or socket.gethostname().lower()


_OF_LOG: Final = tuple(f"log_{each}" for each in ("tls", "ca_file", "cert_file", "key_file"))
_OF_SASL: Final = ("log_user", "log_password_file", "log_password_command")
_OF_STORE: Final = ("store_password_file", "store_password_command")
_OF_NODE: Final = ("node_name", "node_address", "node_listen")


def cluster_faults(chosen: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    """A line for each fault of these settings together.

    Args:
        chosen: Valid values by setting; one that is not there has its default.
        environ: The environment.
    """
    log, store = chosen.get("log"), chosen.get("store")
    if log and not store:
        yield "store: needed with log, since a state on one machine would bind all nodes to it"
    if store and not log:
        yield "log: needed with store, since a log on one machine would bind all nodes to it"
    if log and store and not chosen.get("node_address"):
        yield "node_address: needed with log and store"
    for needed, names in ((log, (*_OF_LOG, "log_sasl", *_OF_SASL)), (store, _OF_STORE)):
        if not needed:
            yield from (
                f"{name}: needs {name.partition('_')[0]}" for name in names if chosen.get(name)
            )
    if not log and not store:
        yield from (f"{name}: needs log and store" for name in _OF_NODE if chosen.get(name))
        if chosen.get("standby") == "warm":
            yield "standby: needs log and store"
    if log:
        yield from _faults_of_log(chosen, environ)
    yield from _two_places(chosen, environ, "log", LOG_PASSWORD_VARIABLE)
    yield from _two_places(chosen, environ, "store", STORE_PASSWORD_VARIABLE)


def _faults_of_log(chosen: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    if not chosen.get("log_tls"):
        yield from (f"{name}: needs log_tls" for name in _OF_LOG[1:] if chosen.get(name))
    if bool(chosen.get("log_cert_file")) != bool(chosen.get("log_key_file")):
        yield "log_cert_file and log_key_file: one needs the other"
    if not chosen.get("log_sasl"):
        yield from (f"{name}: needs log_sasl" for name in _OF_SASL if chosen.get(name))
        return
    if not chosen.get("log_user"):
        yield "log_user: needed with log_sasl"
    if not _places(chosen, environ, "log", LOG_PASSWORD_VARIABLE):
        yield (
            "log_sasl: needs a password: log_password_file, log_password_command or"
            f" {LOG_PASSWORD_VARIABLE}"
        )


def _places(
    chosen: Mapping[str, Any], environ: Mapping[str, str], which: str, variable: str
) -> list[str]:
    """Where a password may come from, as *chosen* and *environ* say."""
    named = [f"{which}_password_file", f"{which}_password_command"]
    found = [name for name in named if chosen.get(name)]
    return [*found, variable] if environ.get(variable) else found


def _two_places(
    chosen: Mapping[str, Any], environ: Mapping[str, str], which: str, variable: str
) -> Iterator[str]:
    found = _places(chosen, environ, which, variable)
    if len(found) > 1:
        yield f"{' and '.join(found)}: one password comes from one place; leave all but one out"


def log_place(settings: ClusterSettings, password: str) -> KafkaPlace:
    """The log's place; *settings* name one.

    Args:
        settings: Valid settings.
        password: For SASL; empty: none.
    """
    assert settings.log is not None
    servers, prefix = log_servers(settings.log)

    def path(file: Path | None) -> str:
        return "" if file is None else str(file.absolute())

    return KafkaPlace(
        servers=servers,
        prefix=prefix,
        tls=settings.log_tls,
        ca_file=path(settings.log_ca_file),
        certificate_file=path(settings.log_cert_file),
        key_file=path(settings.log_key_file),
        sasl_mechanism=settings.log_sasl or "",
        user=settings.log_user or "",
        password=password,
    )


def store_place(settings: ClusterSettings, password: str) -> PostgresPlace:
    """The store's place; *settings* name one. See ``log_place``."""
    assert settings.store is not None
    return PostgresPlace(url=settings.store, password=password)
