"""Parses the options of a write; reports every fault at once.

Caller: ``writer``, on the driver. Hides: names in any case, and where secrets are read from.
"""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from distributary.core.errors import SettingsError
from distributary.core.event import BATCH_EVENTS_MAX
from distributary.core.named_files import content_of, secret_in
from distributary.spark._reading_options import OptionReader
from distributary.spark._secret_names import looks_secret

BATCH_EVENTS_DEFAULT: Final = 500
"""Half of what a server takes by default: a response costs little against 500 events."""

BATCH_BYTES_DEFAULT: Final = 512 * 1024
"""Half of the largest body that a server takes by default."""

BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""A task holds one batch, as events and as text."""

RETRIES_DEFAULT: Final = 10
"""Repeated requests of one batch: with the waits between them, some four minutes."""

RETRIES_MAX: Final = 1_000
"""With waits of a minute, 16 hours: whoever waits longer sees more of a task that fails."""

TIMEOUT_S_DEFAULT: Final = 30
"""As an attempt of a delivery: a server answers within milliseconds, and seconds when busy."""
TIMEOUT_S_MAX: Final = 600
"""Longest wait for one response, seconds."""

CA_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The authorities of a whole system take a quarter of it."""

TEXT_CHARS_MAX: Final = 256
"""Most characters of ``run``: it goes into the id of each row as a hash."""

_NAMES: Final = (
    "url",
    "broker",
    "channel",
    "namespace",
    "tokenFrom",
    "caFile",
    "run",
    "source",
    "type",
    "datacontenttype",
    "batchEvents",
    "batchBytes",
    "retries",
    "timeoutSeconds",
    "rejected",
)
_LOWER: Final = {name.lower(): name for name in _NAMES}
_SPARKS: Final = frozenset({"checkpointlocation", "querytimeoutms"})
"""Options of the query itself, which Spark passes on."""
_ATTRIBUTES: Final = frozenset({"source", "type", "datacontenttype"})
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ENVIRON: Final = "DISTRIBUTARY_TOKEN"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Parsed options of a write; pickled to the tasks.

    Attributes:
        secure: Whether to use TLS.
        host: Host of the server.
        port: Its port.
        path: Where events go: the default broker, that of a namespace, a Broker or a Channel.
        token: Shows who publishes; empty: nobody does. Not in ``repr``.
        authorities: Authorities that sign the server's certificate, in PEM; empty: the system's.
        run: Name of the run of a batch that has no column ``id``; empty: none was given.
        batch_events_max: Most events in one request.
        batch_bytes_max: Most bytes of one request, one larger event excepted.
        retries: Repeated requests of one batch, after the first.
        timeout_s: Longest wait for one response, seconds.
        skips_rejected: Whether rows that are refused are left out with a warning; otherwise they
            fail the write.
    """

    secure: bool
    host: str
    port: int
    path: str
    token: str = field(repr=False)
    authorities: str = field(repr=False)
    run: str
    batch_events_max: int
    batch_bytes_max: int
    retries: int
    timeout_s: int
    skips_rejected: bool


class _Server(NamedTuple):
    """What a URL says; *prefix* precedes all paths."""

    secure: bool
    host: str
    port: int
    prefix: str


def parse_write_options(
    options: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> WriteOptions:
    """Parse *options*, with names in any case, and read the files that they name.

    Raises:
        SettingsError: Unknown names, invalid values, files that cannot be read, options that
            exclude one another: all of them in one message, which repeats no secret.
    """
    reader = OptionReader(options, frozenset({*_LOWER, *_SPARKS}), _unknown)
    given, faults, read = reader.given, reader.faults, reader.read

    if "url" not in given:
        faults.append("url: missing; the server, such as http://127.0.0.1:8080")
    places = [name for name in ("broker", "channel", "namespace") if name in given]
    if len(places) > 1:
        faults.append(f"{', '.join(places)} exclude one another")
    server = read("url", _server, _Server(secure=False, host="", port=0, prefix=""))
    path = read("broker", lambda text: _address("brokers", text), "/events")
    path = read("channel", lambda text: _address("channels", text), path)
    path = read("namespace", _namespace, path)
    token_from = f"env:{_ENVIRON}" if environ.get(_ENVIRON) else None
    if token_from is not None:
        given.setdefault("tokenfrom", token_from)
    parsed = WriteOptions(
        secure=server.secure,
        host=server.host,
        port=server.port,
        path=server.prefix + path,
        token=read("tokenFrom", lambda text: _secret(text, environ), ""),
        authorities=read("caFile", _authorities, ""),
        run=read("run", _run, ""),
        batch_events_max=read("batchEvents", _between(1, BATCH_EVENTS_MAX), BATCH_EVENTS_DEFAULT),
        batch_bytes_max=read("batchBytes", _between(1, BATCH_BYTES_MAX), BATCH_BYTES_DEFAULT),
        retries=read("retries", _between(0, RETRIES_MAX), RETRIES_DEFAULT),
        timeout_s=read("timeoutSeconds", _between(1, TIMEOUT_S_MAX), TIMEOUT_S_DEFAULT),
        skips_rejected=read("rejected", _skips, default=False),
    )
    if faults:
        raise SettingsError("options of a write to distributary: " + "; ".join(faults))
    return parsed


def attributes_of(options: Mapping[str, str]) -> dict[str, str]:
    """The attributes that *options* give to rows without such a column."""
    return {name.lower(): text for name, text in options.items() if name.lower() in _ATTRIBUTES}


def _unknown(name: str) -> str:
    if looks_secret(name):
        return (
            f"{name}: options stand in plans and logs; give tokenFrom = env:NAME or file:PATH "
            "instead, and replace this secret"
        )
    near = difflib.get_close_matches(name.lower(), _LOWER, n=1)
    hint = f"did you mean {_LOWER[near[0]]}?" if near else f"known: {', '.join(_NAMES)}"
    return f"{name}: unknown; {hint}"


def _server(text: str) -> _Server:
    wanted = "expected a URL such as https://events.example.com, without user, query and fragment"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(wanted) from None
    usable = parts.scheme in {"http", "https"} and parts.hostname and port != 0
    if not usable or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(wanted)
    assert parts.hostname is not None
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(wanted)
    secure = parts.scheme == "https"
    port = port or (443 if secure else 80)
    return _Server(secure, parts.hostname, port, parts.path.rstrip("/"))


def _address(kind: str, text: str) -> str:
    namespace, _, name = text.partition("/")
    if not _NAME.fullmatch(namespace) or not _NAME.fullmatch(name):
        raise ValueError("expected namespace/name")
    return f"/{kind}/{namespace}/{name}"


def _namespace(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("expected the name of a namespace")
    return f"/namespaces/{text}/events"


def _secret(text: str, environ: Mapping[str, str]) -> str:
    secret = secret_in(text, environ)
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("what is there is no token: visible ASCII without spaces was expected")
    return secret


def _authorities(name: str) -> str:
    text = content_of(name, CA_FILE_BYTES_MAX)
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise ValueError("holds no certificate in PEM")
    return text


def _run(text: str) -> str:
    if not 1 <= len(text) <= TEXT_CHARS_MAX:
        raise ValueError(f"expected 1 to {TEXT_CHARS_MAX} characters")
    return text


def _between(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise ValueError(f"expected a number from {least} to {most}")
        return int(text)

    return parse


def _skips(text: str) -> bool:
    if text.lower() not in {"fail", "skip"}:
        raise ValueError("expected fail or skip")
    return text.lower() == "skip"
