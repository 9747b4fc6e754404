"""Flags of ``distributary subscribe``: one table for typer and for the request.

Callers: ``_subscribe``. Hides: how flags become a subscription object. The server alone validates
it; its faults are shown as they come.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import typer

from distributary.cli._options import (
    DEFAULT_URL,
    Exact,
    Namespace,
    Prefix,
    Source,
    Sql,
    Suffix,
    TokenFrom,
    Types,
    Url,
)
from distributary.cli._secrets import read_secret
from distributary.cli._times import moment, seconds
from distributary.core.errors import SettingsError
from distributary.core.named_files import SOURCE_HELP
from distributary.core.protocol import protocols
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.resource import one_of

_OWN_FLAGS = {
    "headers": "--header",
    "format": "--format",
    "cacerts": "--cacerts",
    "clientcertificate": "--client-certificate",
    "signature": "--sign",
    "delivery": "--retry and the flags beside it",
}
"""Settings with their own flags -> which."""


def parse_pair(flag: str, text: str, separator: str = "=") -> tuple[str, str]:
    """Split ``name=text``, a value of *flag*.

    Raises:
        ValueError: There is no separator, or no name before it.
    """
    name, found, rest = text.partition(separator)
    if not found or not name.strip():
        raise ValueError(f"{flag}: expected name{separator}text; got {text!r}")
    return name.strip(), rest.strip() if separator == ":" else rest


# -- reading the values of flags ----------------------------------------------------------------


def _as_said(_flag: str, value: Any) -> Any:
    return value


def _json(flag: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{flag} {text!r} is not JSON: {error}") from error


def _uri_or_object(flag: str, text: str) -> Any:
    """Read a sink of the same protocol from its URI, or any sink from a JSON object."""
    return _json(flag, text) if text.startswith("{") else text


def _content(flag: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{flag}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{flag}: {path} is not text in UTF-8") from None


def _expressions(flag: str, texts: list[str]) -> list[Any]:
    return [_json(flag, text) for text in texts]


def _of_dialect(flag: str, texts: list[str]) -> list[Any]:
    dialect = flag.removeprefix("--")
    if dialect == "sql":
        return [{dialect: text} for text in texts]
    return [{dialect: dict([parse_pair(flag, text)])} for text in texts]


def _start(flag: str, text: str) -> str:
    """Read a place in the history; the words for its two ends are the API's."""
    return text if text in ("earliest", "latest") else moment(flag, text)


def _later(flag: str, text: str) -> str:
    """Read a time; a duration without a sign counts from now."""
    return moment(flag, text, unsigned="after")


def _headers(flag: str, texts: list[str]) -> dict[str, str]:
    return dict(parse_pair(flag, text, ":") for text in texts)


# -- the flags ---------------------------------------------------------------------------------


class Flag(NamedTuple):
    """A flag.

    Attributes:
        name: Of the parameter that typer fills; ``retry`` is ``--retry``, ``id_`` is ``--id``.
        metavar: Placeholder for its value in the help.
        help: Text of the help.
        member: Member of the object that gets its value; empty: none.
        read: Converts (flag, text) to the value.
        kind: Type of what typer reads.
        default: Where the flag is omitted.
        shared: typer's declaration of a flag that other commands have as well.
    """

    name: str
    metavar: str = ""
    help: str = ""
    member: str = ""
    read: Callable[[str, Any], Any] = _as_said
    kind: Any = str
    default: Any = None
    shared: Any = None

    @property
    def text(self) -> str:
        """The flag as written on the command line."""
        return "--" + self.name.strip("_").replace("_", "-")

    @property
    def annotation(self) -> Any:
        """Its annotation for typer."""
        option = typer.Option(self.text, metavar=self.metavar or None, help=self.help)
        return (
            self.shared or Annotated[self.kind if self.kind is bool else self.kind | None, option]
        )


_FORMAT = Literal["binary", "structured"]
_POLICY = Literal["linear", "exponential"]
_SCHEME = Literal["v1", "v1a"]
_TYPE = Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"]


def _of_protocols() -> list[Flag]:
    """Flags for the protocol, and for settings of the protocols that are installed."""
    text = f"The delivery protocol: {one_of(protocols())}."
    literal: Any = Literal  # its names are known at run time only
    names = literal[tuple(protocols())]
    found: dict[tuple[str, Any], list[str]] = {}
    for name, protocol in protocols().items():
        for each in protocol.flags.items():
            found.setdefault(each, []).append(name)
    return [
        Flag("protocol", "NAME", text, "protocol", kind=names, default="HTTP"),
        *(
            Flag(
                flag.removeprefix("--").replace("-", "_"),
                "TEXT",
                f"{each.help} ({', '.join(names)}): the setting {each.setting}.",
                f"protocolsettings.{each.setting}",
            )
            for (flag, each), names in found.items()
        ),
    ]


# fmt: off
FLAGS = (
    Flag("sink", "URI", "Where matching events are sent.", "sink"),
    Flag("file", "FILE", "A whole subscription as JSON, as get prints it, in place of the other"
         " options; - is standard input."),
    Flag("namespace", default=DEFAULT_NAMESPACE, shared=Namespace),
    Flag("url", default=DEFAULT_URL, shared=Url),
    Flag("token_from", shared=TokenFrom),
    *_of_protocols(),
    Flag("setting", "NAME=VALUE",
         "Any protocol setting: as text or, for other types, as JSON (qos=2).", kind=list[str]),
    Flag("cacerts", "FILE", "Certificates (PEM) to trust the sink by.",
         "protocolsettings.cacerts", _content),
    Flag("client_certificate", "FILE", "Certificate (PEM) to show the sink by TLS.",
         "protocolsettings.clientcertificate.certificate", _content),
    Flag("client_key_from", SOURCE_HELP, "Where its private key is (PEM).",
         "protocolsettings.clientcertificate.key", read_secret),
    Flag("id_", "TEXT", "Its id; absent: assigned by the server."),
    Flag("replace", "", "Replace the subscription of that id, if it is there.",
         kind=bool, default=False),
    Flag("type_", member="types", shared=Types),
    Flag("source", member="source", shared=Source),
    Flag("filter_", "JSON", "A filter expression; all must match.", "filters", _expressions,
         list[str]),
    Flag("sql", member="filters", read=_of_dialect, shared=Sql),
    Flag("exact", member="filters", read=_of_dialect, shared=Exact),
    Flag("prefix", member="filters", read=_of_dialect, shared=Prefix),
    Flag("suffix", member="filters", read=_of_dialect, shared=Suffix),
    Flag("header", "NAME:TEXT", "A header of every delivery (HTTP).", "protocolsettings.headers",
         _headers, list[str]),
    Flag("sign", "v1|v1a", "Sign every delivery (HTTP): v1 with a secret, printed once, or v1a with"
         " a public key.", "protocolsettings.signature.scheme", kind=_SCHEME),
    Flag("format_", "binary|structured", "Content mode of deliveries.", "protocolsettings.format",
         kind=_FORMAT),
    Flag("retry", "N", "Retries after the first attempt.", "protocolsettings.delivery.retry",
         kind=int),
    Flag("backoff_policy", "linear|exponential", "How waits grow.",
         "protocolsettings.delivery.backoffPolicy", kind=_POLICY),
    Flag("backoff_delay", "DURATION", "First wait, such as 200ms.",
         "protocolsettings.delivery.backoffDelay"),
    Flag("backoff_max", "DURATION", "Longest wait, such as 5m.",
         "protocolsettings.delivery.backoffMax"),
    Flag("timeout", "DURATION", "Limit of one attempt, such as 30s.",
         "protocolsettings.delivery.timeout"),
    Flag("rate_limit", "NUMBER", "Most deliveries a second to this sink.",
         "protocolsettings.delivery.rateLimit", kind=float),
    Flag("dead_letter_sink", "URI|JSON", "Gets what cannot be delivered.",
         "protocolsettings.delivery.deadLetterSink", _uri_or_object),
    Flag("start", "latest|earliest|TIME",
         "Where in the history it starts; a TIME such as 2026-01-31T12:00:00Z, or -1h.",
         "config.start", _start),
    Flag("expires", "TIME", "When it is deleted; a duration counts from now.", "config.expires",
         _later),
    Flag("max_events", "N", "Deliveries after which it is deleted.", "config.maxevents", kind=int),
    Flag("broker", "NAME", "The Broker of its namespace whose events it gets; lifecycle: what"
         " becomes of subscriptions.", "config.broker"),
    Flag("lifecycle", "", "Tell its sink what becomes of it.", "config.lifecycle", kind=bool),
    Flag("interval", "DURATION", "Interval of a timer that makes events for it.", "config.interval",
         seconds),
    Flag("data", "JSON", "Data of the timer's events.", "config.data", _json),
    Flag("credential_type", "PLAIN|ACCESSTOKEN|REFRESHTOKEN",
         "How deliveries are authorized at the sink.", "sinkCredential.credentialType", kind=_TYPE),
    Flag("identifier", "TEXT", "Account name, for PLAIN.", "sinkCredential.identifier"),
    Flag("secret_from", SOURCE_HELP, "Where its password is.", "sinkCredential.secret",
         read_secret),
    Flag("access_token_from", SOURCE_HELP, "Where the access token is.",
         "sinkCredential.accessToken", read_secret),
    Flag("access_token_type", "TEXT", "Its type, such as Bearer.",
         "sinkCredential.accessTokenType"),
    Flag("access_token_expires", "TIME", "When it expires, such as 2026-01-31T12:00:00Z, or 8h.",
         "sinkCredential.accessTokenExpiresUtc", _later),
    Flag("refresh_token_from", SOURCE_HELP, "Where the refresh token is.",
         "sinkCredential.refreshToken", read_secret),
    Flag("refresh_token_endpoint", "URL", "Where new access tokens come from.",
         "sinkCredential.refreshTokenEndpoint"),
)
# fmt: on
"""In the order of the help. Flags never hold secrets, only the place that they are read from."""


# -- the object --------------------------------------------------------------------------------


def body_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """Build the subscription object to send; the server fills in absent members.

    Args:
        said: Name of a flag -> its value; absent, None and empty: not given.

    Raises:
        ValueError: A flag cannot be read (a filter that is not JSON, a pair without ``=``, a
            missing file), or repeats another one.
    """
    if not said.get("sink"):
        raise ValueError(
            "Name a sink: --sink URI; or a file with a whole subscription: --file FILE"
        )
    body: dict[str, Any] = {}
    for flag in FLAGS:
        value = said.get(flag.name, flag.default)
        if flag.member and value is not None and value != []:
            _put(body, flag.member, flag.read(flag.text, value))
    if pairs := said.get("setting"):
        settings = body.setdefault("protocolsettings", {})
        settings |= _settings_of(pairs, settings, text_settings(body["protocol"]))
    return body


def text_settings(protocol: str) -> frozenset[str]:
    """Settings whose ``--setting`` stays text: ``acks=1`` and ``topicname=1`` are no numbers."""
    known = protocols()[protocol].settings.items()
    return frozenset(
        name for name, schema in known if "enum" in schema or schema["type"] == "string"
    )


def _put(body: dict[str, Any], member: str, value: Any) -> None:
    """Set the dotted *member* to *value*; lists from several flags are joined."""
    *outer, name = member.split(".")
    for each in outer:
        body = body.setdefault(each, {})
    body[name] = body.get(name, []) + value if isinstance(value, list) else value


def _settings_of(
    pairs: list[str], said: Mapping[str, Any], texts: frozenset[str]
) -> dict[str, Any]:
    """Settings from ``--setting`` and from other flags (*said*); *texts* are not read as JSON."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, text = parse_pair("--setting", pair)
        if name in _OWN_FLAGS:
            raise ValueError(f"--setting {name}: say it with {_OWN_FLAGS[name]}")
        if name in said or name in settings:
            raise ValueError(f"--setting {name}: it is said twice")
        settings[name] = text if name in texts else _json_or_text(text)
    return settings


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def body_from(file: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Read the subscription object in *file*, ``-`` for standard input.

    Args:
        file: Its path.
        said: As for ``body_of``.

    Raises:
        SettingsError: It is not a JSON object, or another flag was given too.
        ValueError: It cannot be read.
    """
    alone = {"file", "namespace", "url", "token_from", "id_", "replace"}
    if any(
        said.get(each.name) not in (None, [], each.default)
        for each in FLAGS
        if each.name not in alone
    ):
        raise SettingsError(
            "--file holds the whole subscription: of the others give --id, --replace and"
            " --namespace"
        )
    text = sys.stdin.read() if file == "-" else _content("--file", file)
    try:
        body = msgspec.json.decode(text)
    except msgspec.MsgspecError as error:  # without the text: it may hold secrets
        raise SettingsError(f"--file: {file} is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise SettingsError(f"--file: {file} holds no JSON object")
    if not isinstance(body.get("id", ""), str):
        raise SettingsError(f"--file: the id in {file} is no text")
    return body
