"""Parses the tables ``[[sources]]`` of the configuration file; reports every fault with its path.

Called by ``server.settings`` at the start (faults beside those of all settings) and by the process
that runs the sources. Hides where secrets are read from: each process reads them itself, so that
none is in the file, in the arguments of a process or in ``Settings``.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from distributary.core.clock import Clock
from distributary.core.deliver.credential import Credential
from distributary.core.environment import ENV_PREFIX
from distributary.core.errors import ResourceError
from distributary.core.protocol import Check, Reading, load, protocols
from distributary.core.source import Consumer, SourceSpec
from distributary.core.tenant import LABEL, NAMESPACE_PATTERN
from distributary.net import Connector
from distributary.resource import SinkUri, broker_uri, certificates_in

SOURCES_MAX: Final = 64
"""Sources of one server: all share a process, and each keeps a connection."""

SECRET_BYTES_MAX: Final = 64 * 1024
"""Largest file with a secret: tokens of 16 KiB exist."""

CERTIFICATES_BYTES_MAX: Final = 1024 * 1024
"""Largest file of certificates: a system's whole trust store has 200 to 300 KiB."""

_TO = re.compile(
    rf"/events|/namespaces/{NAMESPACE_PATTERN}/events"
    r"|/(brokers|channels)/[a-z0-9][a-z0-9.-]{0,252}/[a-z0-9][a-z0-9.-]{0,252}"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMON: Final = ("name", "protocol", "uri", "to")
_SECRETS: Final = ("identifier", "secret_file", "secret_env", "token_file", "token_env")
_TRUST: Final = ("cacerts_file",)
_IN_PLAIN: Final = frozenset({"secret", "password", "token", "accesstoken", "access_token"})


def readings() -> Mapping[str, Reading]:
    """Protocols that sources can read, with their own keys."""
    return {name: each.reading for name, each in protocols().items() if each.reading is not None}


def make_consumer(spec: SourceSpec, connector: Connector, clock: Clock) -> Consumer:
    """Returns a consumer for *spec*, which was checked.

    Args:
        spec: The source.
        connector: Dials; decides which addresses are allowed.
        clock: For deadlines.

    Raises:
        ImportError: The client library is not installed.
    """
    return cast("Consumer", load(readings()[spec.protocol].consumer)(spec, connector, clock))


def read_tables(
    tables: Sequence[Mapping[str, Any]], environ: Mapping[str, str]
) -> tuple[tuple[SourceSpec, ...], list[str]]:
    """Parse *tables*; returns the sources, and a line for each fault.

    Reads the files and variables of secrets and certificates that the tables name. No line repeats
    a value that may be a secret.

    Args:
        tables: From the configuration file.
        environ: The environment.

    Returns:
        The sources, empty if there is a fault; the faults, each starting with its path
        (``sources[1].topicfilter``), counted from 0.
    """
    faults: list[str] = []
    if len(tables) > SOURCES_MAX:
        faults.append(f"sources (configuration file): there are at most {SOURCES_MAX}")
        return (), faults
    specs: list[SourceSpec] = []
    names: set[str] = set()
    for index, table in enumerate(tables):
        reading = _Reading(table, f"sources[{index}]", environ, faults)
        spec = reading.spec()
        if spec is None:
            continue
        if spec.name in names:
            reading.fault("name", f"another source has the name {spec.name}")
        names.add(spec.name)
        specs.append(spec)
    return (() if faults else tuple(specs)), faults


def secret_variables(tables: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Environment variables with secrets of *tables*; withheld from all other processes."""
    named = (table.get(key) for table in tables for key in ("secret_env", "token_env"))
    return tuple(name for name in named if isinstance(name, str))


class _Reading:
    """Parser of one table, with its faults."""

    def __init__(
        self, table: Mapping[str, Any], path: str, environ: Mapping[str, str], faults: list[str]
    ) -> None:
        self._table = table
        self._path = path
        self._environ = environ
        self._faults = faults

    def fault(self, key: str, message: str) -> None:
        """Note a fault of the value of *key*."""
        self._faults.append(f"{self._path}.{key} (configuration file): {message}")

    def spec(self) -> SourceSpec | None:
        """Returns the source, or None with the faults noted."""
        count_before = len(self._faults)
        name = self._matching("name", LABEL, "a DNS label: a-z, 0-9 and -, at most 63 characters")
        protocol = self._protocol()
        to = "/events"
        if "to" in self._table:
            to = self._matching("to", _TO, "/events, /brokers/<namespace>/<name> or /channels/...")
        credential = self._credential()
        ca_certs = self._certificates()
        if protocol is None:  # the other keys depend on it
            return None
        reading = readings()[protocol]
        self._check_keys((*_COMMON, reading.place, *reading.options, *_SECRETS, *_TRUST))
        uri = self._uri(protocol)
        place = self._place(reading, uri)
        options = {
            key: self._checked(key, check)
            for key, check in reading.options.items()
            if key in self._table
        }
        if len(self._faults) > count_before:
            return None
        assert uri is not None
        return SourceSpec(name, protocol, uri.text, place, to, options, credential, ca_certs)

    # -- keys -----------------------------------------------------------------------------------

    def _text(self, key: str) -> str | None:
        """The value of *key* if it is text and not empty; else None and a fault."""
        value = self._table.get(key)
        if isinstance(value, str) and value:
            return value
        missing = key not in self._table
        self.fault(key, "is required" if missing else "expected text that is not empty")
        return None

    def _matching(self, key: str, pattern: re.Pattern[str], expects: str) -> str:
        text = self._text(key)
        if text is not None and not pattern.fullmatch(text):
            self.fault(key, f"expected {expects}")
        return text or ""

    def _protocol(self) -> str | None:
        text = self._text("protocol")
        if text is None:
            return None
        if text not in readings():
            self.fault("protocol", f"expected one of {', '.join(readings())}, in capitals")
            return None
        absent = protocols()[text].absent
        if absent is not None:
            self.fault("protocol", f"{text} {absent}")
        return text

    def _check_keys(self, known: Sequence[str]) -> None:
        for key in self._table:
            if key in known:
                continue
            message = "there is no such key"
            near = difflib.get_close_matches(key, known, n=1)
            if key.lower() in _IN_PLAIN:
                message = (
                    "secrets must not be in this file: name a file (secret_file, token_file)"
                    " or a variable of the environment (secret_env, token_env)"
                )
            elif near:
                message += f"; did you mean {near[0]}?"
            self.fault(key if _VARIABLE.fullmatch(key) else repr(key[:60]), message)

    def _checked(self, key: str, check: Check) -> Any:
        value = self._table[key]
        wrong = check(value)
        if wrong is not None:
            self.fault(key, wrong)
        return value

    # -- the broker and what is read there ------------------------------------------------------

    def _uri(self, protocol: str) -> SinkUri | None:
        text = self._text("uri")
        if text is None:
            return None
        try:
            return broker_uri(text, protocol)
        except ResourceError as error:
            for fault in error.faults:
                self.fault("uri", fault.message)
            return None

    def _place(self, reading: Reading, uri: SinkUri | None) -> str:
        key = reading.place
        in_uri = None if uri is None else uri.place
        if key not in self._table and in_uri is not None:
            wrong = reading.check(in_uri)
            if wrong is not None:
                self.fault("uri", f"its path names what is read: {wrong}")
            return in_uri
        text = self._text(key)
        if text is None:
            return ""
        wrong = reading.check(text)
        if wrong is not None:
            self.fault(key, wrong)
        elif uri is not None and not uri.agrees_with(text):
            self.fault(key, "the path of the URI names another; one of the two is enough")
        return text

    # -- credentials ----------------------------------------------------------------------------

    def _credential(self) -> Credential | None:
        kinds = [key for key in _SECRETS[1:] if key in self._table]
        identifier = self._text("identifier") if "identifier" in self._table else None
        if len(kinds) > 1:
            self.fault(kinds[1], f"conflicts with {kinds[0]}: give only one of them")
        if not kinds:
            if identifier is not None:
                self.fault("identifier", "there is no secret_file and no secret_env beside it")
            return None
        secret = self._secret(kinds[0])
        if kinds[0].startswith("token"):
            return Credential("ACCESSTOKEN", identifier=identifier, access_token=secret)
        if identifier is None:
            if "identifier" not in self._table:
                self.fault("identifier", f"is required beside {kinds[0]}")
            return None
        return Credential("PLAIN", identifier=identifier, secret=secret)

    def _secret(self, key: str) -> str | None:
        if key.endswith("_file"):
            return self._file(key, SECRET_BYTES_MAX, "secret")
        name = self._text(key)
        if name is None:
            return None
        if not _VARIABLE.fullmatch(name) or name.startswith(ENV_PREFIX):
            message = "expected the name of a variable of the environment, such as ORDERS_PASSWORD,"
            self.fault(key, f"{message} that does not begin with {ENV_PREFIX}")
            return None
        secret = self._environ.get(name)
        if not secret:
            self.fault(key, f"the environment has no {name}, or an empty one")
        return secret

    def _file(self, key: str, bytes_max: int, what: str) -> str | None:
        """What the file under *key* holds, without the end of its last line."""
        named = self._text(key)
        if named is None:
            return None
        try:
            with Path(named).expanduser().open("rb") as file:
                raw = file.read(bytes_max + 1)
            text = raw.decode("utf-8").rstrip("\r\n")
        except (OSError, ValueError, RuntimeError) as error:  # a NUL; a ~ of no user
            why = error.strerror if isinstance(error, OSError) else "not a file of UTF-8 text"
            self.fault(key, f"the {what} cannot be read: {why}")
            return None
        if not text or len(raw) > bytes_max:
            size = "empty" if not text else f"larger than {bytes_max:,} bytes"
            self.fault(key, f"the {what} cannot be read: the file is {size}")
            return None
        return text

    def _certificates(self) -> str | None:
        if "cacerts_file" not in self._table:
            return None
        text = self._file("cacerts_file", CERTIFICATES_BYTES_MAX, "certificates")
        if text is None:
            return None
        certificates = certificates_in(text)
        if certificates is None:
            self.fault("cacerts_file", "the certificates cannot be read: expected PEM")
        return certificates
