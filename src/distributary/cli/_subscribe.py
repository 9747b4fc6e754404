"""``distributary subscribe`` and ``subscriptions``: the Subscriptions API from the command line.

Callers: ``_commands``. Hides: how flags become a subscription object. What is right or wrong
with it the server alone decides; its faults are shown as they come.
"""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from rich.json import JSON
from rich.markup import escape

from distributary.cli import _console
from distributary.cli._http import Address, Client, Headers, Response
from distributary.core.errors import TransportError
from distributary.core.protocol import protocols

__all__ = [
    "Wish",
    "body_from",
    "body_of",
    "call",
    "checked",
    "delete",
    "get",
    "list_all",
    "parse_pair",
    "path_of",
    "print_json",
    "subscribe",
    "text_settings",
]

CREATED = 201
PRECONDITION_FAILED = 412

DIALECTS_OF_PAIRS = ("exact", "prefix", "suffix")

_FLAGS = {
    "headers": "--header",
    "format": "--format",
    "cacerts": "--cacerts",
    "delivery": "--retry and the flags beside it",
}
"""Settings that have flags of their own -> which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the flags of ``subscribe`` said; empty and None: not said.

    Attributes:
        places: Setting -> what a flag of the protocol said.
    """

    sink: str
    protocol: str = "HTTP"
    places: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = field(default=(), repr=False)
    cacerts: str | None = None
    types: tuple[str, ...] = ()
    source: str | None = None
    filters: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    suffix: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    format: str | None = None
    retry: int | None = None
    backoff_policy: str | None = None
    backoff_delay: str | None = None
    backoff_max: str | None = None
    timeout: str | None = None
    rate_limit: float | None = None
    dead_letter_sink: str | None = None
    start: str | None = None
    expires: str | None = None
    max_events: int | None = None
    interval: float | None = None
    data: str | None = None
    credential: dict[str, Any] | None = field(default=None, repr=False)


def parse_pair(text: str, separator: str = "=") -> tuple[str, str]:
    """``name=text`` split in two.

    Raises:
        ValueError: There is no separator, or no name before it.
    """
    name, found, rest = text.partition(separator)
    if not found or not name.strip():
        raise ValueError(f"expected name{separator}text; got {text!r}")
    return name.strip(), rest.strip() if separator == ":" else rest


def text_settings(protocol: str) -> frozenset[str]:
    """Settings that ``--setting`` takes as they stand: ``acks=1`` and ``topicname=1`` are texts."""
    known = protocols()[protocol].settings.items()
    return frozenset(
        name for name, schema in known if "enum" in schema or schema["type"] == "string"
    )


def body_of(wish: Wish) -> dict[str, Any]:
    """The subscription object to send; absent members take the server's defaults.

    Raises:
        ValueError: A flag cannot be read (a filter that is no JSON, a pair without ``=``, a file
            that is not there), or says what another one says.
    """
    if not wish.sink:
        raise ValueError(
            "Name a sink: --sink URI; or a file with a whole subscription: --file FILE"
        )
    body: dict[str, Any] = {"sink": wish.sink, "protocol": wish.protocol}
    if wish.types:
        body["types"] = list(wish.types)
    if wish.source is not None:
        body["source"] = wish.source
    filters = [_parse_json("--filter", text) for text in wish.filters]
    filters += [{"sql": expression} for expression in wish.sql]
    for dialect in DIALECTS_OF_PAIRS:
        filters += [{dialect: dict([parse_pair(text)])} for text in getattr(wish, dialect)]
    if filters:
        body["filters"] = filters
    if wish.credential is not None:
        body["sinkCredential"] = wish.credential
    config = _config_of(wish)
    if config:
        body["config"] = config
    protocol_settings = _settings_of(wish)
    if protocol_settings:
        body["protocolsettings"] = protocol_settings
    return body


def body_from(file: str, wish: Wish) -> dict[str, Any]:
    """The subscription object in *file*, ``-`` for standard input.

    Args:
        file: Its path.
        wish: What the other flags said.

    Raises:
        ValueError: It cannot be read, is no JSON object, or another flag said something too.
    """
    if wish != Wish(sink=""):
        raise ValueError(
            "--file holds the whole subscription: of the others give --id and --replace"
        )
    text = sys.stdin.read() if file == "-" else _read_text("--file", file)
    try:
        body = msgspec.json.decode(text)
    except msgspec.MsgspecError as error:  # not the text: it may hold secrets
        raise ValueError(f"--file: {file} is not JSON: {error}") from error
    if not isinstance(body, dict):
        message = f"--file: {file} holds no JSON object"
        raise ValueError(message)  # noqa: TRY004 - of a text, not of a type
    if not isinstance(body.get("id", ""), str):
        message = f"--file: the id in {file} is no text"
        raise ValueError(message)  # noqa: TRY004 - as above
    return body


def _parse_json(flag: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{flag} {text!r} is not JSON: {error}") from error


def _config_of(wish: Wish) -> dict[str, Any]:
    said = {
        "start": wish.start,
        "expires": wish.expires,
        "maxevents": wish.max_events,
        "interval": wish.interval,
    }
    config: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if wish.data is not None:  # its value may be null, too
        config["data"] = _parse_json("--data", wish.data)
    return config


def _settings_of(wish: Wish) -> dict[str, Any]:
    delivery = {
        "retry": wish.retry,
        "backoffPolicy": wish.backoff_policy,
        "backoffDelay": wish.backoff_delay,
        "backoffMax": wish.backoff_max,
        "timeout": wish.timeout,
        "rateLimit": wish.rate_limit,
        "deadLetterSink": _uri_or_object("--dead-letter-sink", wish.dead_letter_sink),
    }
    chosen: dict[str, Any] = {
        "headers": dict(parse_pair(text, ":") for text in wish.headers),
        "format": wish.format,
        "delivery": {name: value for name, value in delivery.items() if value is not None},
    }
    return _own_settings_of(wish) | {name: value for name, value in chosen.items() if value}


def _own_settings_of(wish: Wish) -> dict[str, Any]:
    """The settings that the protocol has alone, from their own flags and from ``--setting``."""
    settings: dict[str, Any] = dict(wish.places)
    if wish.cacerts is not None:
        settings["cacerts"] = _read_text("--cacerts", wish.cacerts)
    texts = text_settings(wish.protocol)
    for pair in wish.settings:
        name, text = parse_pair(pair)
        if name in settings:
            raise ValueError(f"--setting {name}: it is said twice")
        if name in _FLAGS:
            raise ValueError(f"--setting {name}: say it with {_FLAGS[name]}")
        settings[name] = text if name in texts else _json_or_text(text)
    return settings


def _uri_or_object(flag: str, text: str | None) -> Any:
    """A sink of the same protocol by its URI, or any as a JSON object."""
    return _parse_json(flag, text) if text is not None and text.startswith("{") else text


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def _read_text(flag: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{flag}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{flag}: {path} is not text in UTF-8") from None


def call(
    address: Address, method: str, path: str, body: object = None, headers: Headers = ()
) -> Response:
    """One request to the API; ends the command where no server answers."""
    content = b"" if body is None else msgspec.json.encode(body)
    if content:
        headers = (("content-type", "application/json"), *headers)

    async def once() -> Response:
        client = Client(address)
        try:
            return await client.request(method, path, headers, content)
        finally:
            client.close()

    try:
        return asyncio.run(once())
    except TransportError as error:
        where = f"{address.host}:{address.port}"
        hint = "Start it with: distributary serve"
        _console.fail(f"no server answered at {where}: {error}", hint, _console.UNREACHABLE)


def checked(response: Response) -> Any:
    """What a good answer holds; ends the command with what a refusal says."""
    if not 200 <= response.status < 300:
        _console.refuse(response)
    return response.json()


def subscribe(address: Address, id_: str | None, body: dict[str, Any], *, replace: bool) -> int:
    """Create, or with *replace* create or replace, and print the realized subscription.

    The server decides whether the id is taken, so no other client can come in between.
    """
    if id_ is None:
        response = call(address, "POST", "/subscriptions", body)
    else:
        unless_there = () if replace else (("if-none-match", "*"),)
        response = call(address, "PUT", path_of(id_), body, unless_there)
    shown = _console.fits_one_line(id_ or "")
    if response.status == PRECONDITION_FAILED and not replace:
        _console.fail(
            f"there is a subscription {shown} already; nothing was changed",
            "Replace it as a whole with --replace, or look at it with:"
            f" distributary subscriptions get {shown}",
            _console.FAILED,
        )
    realized = checked(response)
    if isinstance(realized, dict):
        shown = _console.fits_one_line(realized.get("id", shown))
    done = "created" if response.status == CREATED else "replaced"
    _console.errors().print(f"{done} {escape(shown)}")
    print_json(realized)
    return _console.OK


def get(address: Address, identifier: str) -> int:
    """Print one subscription."""
    print_json(checked(call(address, "GET", path_of(identifier))))
    return _console.OK


def delete(address: Address, identifiers: tuple[str, ...]) -> int:
    """Delete subscriptions, one after another; one that cannot be deleted is named."""
    code = _console.OK
    for identifier in identifiers:
        response = call(address, "DELETE", path_of(identifier))
        shown = _console.fits_one_line(identifier)
        if 200 <= response.status < 300:
            _console.output().print(f"deleted {escape(shown)}")
        else:
            code = _console.FAILED
            _console.show_refusal(response, f"{shown} is not deleted")
    return code


def list_all(address: Address, *, as_json: bool) -> int:
    """Print all subscriptions: a table for people, or JSON lines."""
    rows = checked(call(address, "GET", "/subscriptions")) or []
    console = _console.output()
    if as_json:
        for row in rows:
            print(msgspec.json.encode(row).decode())
        return _console.OK
    ids = (str(row.get("id", "")) for row in rows)
    table = _console.folding_table(ids, "protocol", "sink", "source", "types", "filters")
    for row in rows:
        cells = (
            row.get("id", ""),
            row.get("protocol", ""),
            row.get("sink", ""),
            row.get("source", ""),
            ", ".join(row.get("types") or ()),
            msgspec.json.encode(row["filters"]).decode() if row.get("filters") else "",
        )
        table.add_row(*(escape(_console.fits_one_line(cell)) for cell in cells))
    console.print(table if rows else "no subscriptions; create one with: distributary subscribe")
    return _console.OK


def path_of(identifier: str) -> str:
    """Path of the subscription with this id."""
    return "/subscriptions/" + quote(identifier, safe="")


def print_json(value: object) -> None:
    """Print *value* for people, or as it is where nobody looks."""
    console = _console.output()
    text = msgspec.json.encode(value).decode()
    if console.is_terminal:
        console.print(JSON(text))
    else:
        print(msgspec.json.format(text))
