"""``distributary subscribe`` and ``subscriptions``: options and help. ``_subscribe`` does the work.

Callers: ``_commands``.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import typer

from distributary.cli import _credential, _deliveries, _http, _subscribe
from distributary.cli._options import (
    DEFAULT_URL,
    Exact,
    Prefix,
    Source,
    Sql,
    Suffix,
    Text,
    Types,
    Url,
    add_command,
    seconds,
)
from distributary.core.errors import SettingsError
from distributary.core.protocol import Flag, protocols
from distributary.resource import one_of

__all__ = ["subscribe", "subscriptions"]

subscriptions = typer.Typer(
    no_args_is_help=True, help="List, show, resume and delete subscriptions."
)


def _protocol_option() -> Any:
    text = f"The delivery protocol: {one_of(protocols())}."
    names = Literal[tuple(protocols())]  # type: ignore[valid-type]
    return Annotated[names, typer.Option(metavar="NAME", help=text)]


def _with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """*command* with the protocols that there are, and their flags in place of ``places``."""
    flags: dict[str, tuple[Flag, list[str]]] = {}
    for name, protocol in protocols().items():
        for flag, each in protocol.flags.items():
            flags.setdefault(flag, (each, []))[1].append(name)
    settings: dict[str, str] = {}
    options: list[inspect.Parameter] = []
    for flag, (each, names) in flags.items():
        text = f"{each.help} ({', '.join(names)}): the setting {each.setting}."
        option = Annotated[Text, typer.Option(flag, metavar="TEXT", help=text)]
        key = flag.removeprefix("--").replace("-", "_")
        settings[key] = each.setting
        kind = inspect.Parameter.KEYWORD_ONLY
        options.append(inspect.Parameter(key, kind, default=None, annotation=option))

    @functools.wraps(command)
    def with_flags(**said: Any) -> None:
        texts = {setting: said.pop(key) for key, setting in settings.items()}
        places = {setting: text for setting, text in texts.items() if text is not None}
        command(**said, places=places)

    signature = inspect.signature(command)
    shown: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        shown += options if parameter.name == "places" else [parameter]
        if parameter.name == "protocol":
            shown[-1] = parameter.replace(annotation=_protocol_option())
    with_flags.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    with_flags.__annotations__ = {each.name: each.annotation for each in shown}
    return with_flags


@_with_flags
def subscribe(
    *,
    sink: Annotated[
        Text,
        typer.Option(metavar="URI", help="Where matching events are sent."),
    ] = None,
    file: Annotated[
        Text,
        typer.Option(
            metavar="FILE",
            help="A whole subscription as JSON, as get prints it, in place of the other options;"
            " - is standard input.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    protocol: str = "HTTP",
    places: Mapping[str, str],
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Any protocol setting: text as it stands, others as JSON (qos=2).",
        ),
    ] = None,
    cacerts: Annotated[
        Text, typer.Option(metavar="FILE", help="Certificates (PEM) that the sink is trusted by.")
    ] = None,
    id_: Annotated[
        Text,
        typer.Option("--id", metavar="TEXT", help="Its id; absent: one that the server makes."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the subscription of that id, if it is there.")
    ] = False,
    type_: Types = None,
    source: Source = None,
    filter_: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="JSON", help="A filter expression; all must hold."),
    ] = None,
    sql: Sql = None,
    exact: Exact = None,
    prefix: Prefix = None,
    suffix: Suffix = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:TEXT", help="A header of every delivery (HTTP)."),
    ] = None,
    format_: Annotated[
        Literal["binary", "structured"] | None,
        typer.Option("--format", metavar="binary|structured", help="Content mode of deliveries."),
    ] = None,
    retry: Annotated[
        int | None, typer.Option(metavar="N", help="Retries after the first attempt.")
    ] = None,
    backoff_policy: Annotated[
        Literal["linear", "exponential"] | None,
        typer.Option(metavar="linear|exponential", help="How waits grow."),
    ] = None,
    backoff_delay: Annotated[
        Text, typer.Option(metavar="DURATION", help="First wait, such as 200ms.")
    ] = None,
    backoff_max: Annotated[
        Text, typer.Option(metavar="DURATION", help="Longest wait, such as 5m.")
    ] = None,
    timeout: Annotated[
        Text, typer.Option(metavar="DURATION", help="Limit of one attempt, such as 30s.")
    ] = None,
    rate_limit: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Most deliveries a second to this sink.")
    ] = None,
    dead_letter_sink: Annotated[
        Text, typer.Option(metavar="URI|JSON", help="Gets what cannot be delivered.")
    ] = None,
    start: Annotated[
        Text,
        typer.Option(
            metavar="latest|earliest|TIME",
            help="Where in the history it begins; a TIME such as 2026-01-31T12:00:00Z.",
        ),
    ] = None,
    expires: Annotated[Text, typer.Option(metavar="TIME", help="When it ends by itself.")] = None,
    max_events: Annotated[
        int | None, typer.Option(metavar="N", help="How many deliveries it lasts.")
    ] = None,
    interval: Annotated[
        Text, typer.Option(metavar="DURATION", help="A timer makes an event for it so often.")
    ] = None,
    data: Annotated[Text, typer.Option(metavar="JSON", help="Data of the timer's events.")] = None,
    credential_type: Annotated[
        Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"] | None,
        typer.Option(
            metavar="PLAIN|ACCESSTOKEN|REFRESHTOKEN",
            help="How deliveries are authorized at the sink.",
        ),
    ] = None,
    identifier: Annotated[
        Text, typer.Option(metavar="TEXT", help="Account name, for PLAIN.")
    ] = None,
    secret_from: Annotated[
        Text, typer.Option(metavar=_credential.SOURCE_HELP, help="Where its password is.")
    ] = None,
    access_token_from: Annotated[
        Text, typer.Option(metavar=_credential.SOURCE_HELP, help="Where the access token is.")
    ] = None,
    access_token_type: Annotated[
        Text, typer.Option(metavar="TEXT", help="Its type, such as Bearer.")
    ] = None,
    access_token_expires: Annotated[
        Text, typer.Option(metavar="TIME", help="When it expires, such as 2026-01-31T12:00:00Z.")
    ] = None,
    refresh_token_from: Annotated[
        Text, typer.Option(metavar=_credential.SOURCE_HELP, help="Where the refresh token is.")
    ] = None,
    refresh_token_endpoint: Annotated[
        Text, typer.Option(metavar="URL", help="Trades it for new access tokens.")
    ] = None,
) -> None:
    r"""Create a subscription and print it as the server keeps it.

    Without filters every event matches. From the answer on, every accepted event is evaluated. An
    id that is taken is refused; with --replace, the subscription that has it is replaced whole.

    For example:

      distributary subscribe --sink http://127.0.0.1:9000

      distributary subscribe --sink http://127.0.0.1:9000 \
        --type com.example.order --prefix subject=eu/

      distributary subscribe --sink https://example.com/hook --id orders \
        --retry 3 --dead-letter-sink http://127.0.0.1:9001 \
        --filter '{"not": {"exact": {"source": "/test"}}}'

      distributary subscriptions get orders > orders.json
      distributary subscribe --file orders.json --replace

      distributary subscribe --sink http://127.0.0.1:9000 \
        --start earliest --max-events 100

      distributary subscribe --sink http://127.0.0.1:9000 \
        --interval 1m --data '{"wake": true}'

      distributary subscribe --sink https://example.com/hook \
        --credential-type PLAIN --identifier me --secret-from env:HOOK_PASSWORD

      distributary subscribe --protocol MQTT5 --sink mqtts://broker.example.com \
        --topic orders --setting qos=2 \
        --setting 'userproperties={"tenant": "blue"}'

      distributary subscribe --protocol KAFKA \
        --sink kafka://k1:9092,k2:9092/orders \
        --setting partitionkeyextractor=partitionkey
    """
    try:
        credential = _credential.credential_of(
            {
                "credentialType": credential_type,
                "identifier": identifier,
                "accessTokenType": access_token_type,
                "accessTokenExpiresUtc": access_token_expires,
                "refreshTokenEndpoint": refresh_token_endpoint,
            },
            {
                "secret": ("--secret-from", secret_from),
                "accessToken": ("--access-token-from", access_token_from),
                "refreshToken": ("--refresh-token-from", refresh_token_from),
            },
        )
    except ValueError as error:
        raise SettingsError(str(error)) from error
    wish = _subscribe.Wish(
        sink=sink or "",
        protocol=protocol,
        places=places,
        settings=tuple(setting or ()),
        cacerts=cacerts,
        types=tuple(type_ or ()),
        source=source,
        filters=tuple(filter_ or ()),
        sql=tuple(sql or ()),
        exact=tuple(exact or ()),
        prefix=tuple(prefix or ()),
        suffix=tuple(suffix or ()),
        headers=tuple(header or ()),
        format=format_,
        retry=retry,
        backoff_policy=backoff_policy,
        backoff_delay=backoff_delay,
        backoff_max=backoff_max,
        timeout=timeout,
        rate_limit=rate_limit,
        dead_letter_sink=dead_letter_sink,
        start=start,
        expires=expires,
        max_events=max_events,
        interval=None if interval is None else seconds("--interval", interval),
        data=data,
        credential=credential,
    )
    server = _http.parse_address(url)
    try:
        body = _subscribe.body_of(wish) if file is None else _subscribe.body_from(file, wish)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    id_ = body.pop("id", None) if id_ is None else id_
    if replace and id_ is None:
        raise SettingsError("--replace: say which one, with --id TEXT or the id in the file")
    raise typer.Exit(_subscribe.subscribe(server, id_, body, replace=replace))


def list_all(
    *,
    url: Url = DEFAULT_URL,
    json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """List all subscriptions."""
    raise typer.Exit(_subscribe.list_all(_http.parse_address(url), as_json=json))


def get(
    id_: Annotated[str, typer.Argument(metavar="ID", hidden=True)], *, url: Url = DEFAULT_URL
) -> None:
    """Print one subscription."""
    raise typer.Exit(_subscribe.get(_http.parse_address(url), id_))


def status(
    id_: Annotated[str | None, typer.Argument(metavar="ID", hidden=True)] = None,
    *,
    url: Url = DEFAULT_URL,
    json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """Say how the deliveries of a subscription stand; without an ID: of all of them."""
    raise typer.Exit(_deliveries.status(_http.parse_address(url), id_, as_json=json))


def resume(
    id_: Annotated[str, typer.Argument(metavar="ID", hidden=True)], *, url: Url = DEFAULT_URL
) -> None:
    """Send to a parked subscription again: its sink had answered 410 (gone)."""
    raise typer.Exit(_deliveries.resume(_http.parse_address(url), id_))


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID", hidden=True)], *, url: Url = DEFAULT_URL
) -> None:
    """Delete subscriptions; deliveries that wait are dropped.

    One that cannot be deleted is named, and the others are deleted all the same; the exit code is
    then 1.
    """
    raise typer.Exit(_subscribe.delete(_http.parse_address(url), tuple(ids)))


add_command(subscriptions, "list", list_all)
add_command(subscriptions, "get", get)
add_command(subscriptions, "status", status)
add_command(subscriptions, "resume", resume)
add_command(subscriptions, "delete", delete)
