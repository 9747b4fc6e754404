"""``distributary subscribe`` and ``subscriptions``: options and help. ``_subscribe`` does the work.

Callers: ``_commands``.
"""

from typing import Annotated, Literal

import typer

from distributary.cli import _credential, _http, _subscribe
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
)
from distributary.errors import SettingsError

__all__ = ["subscribe", "subscriptions"]

Protocol = Literal["HTTP", "MQTT3", "MQTT5", "AMQP", "KAFKA", "NATS"]

subscriptions = typer.Typer(no_args_is_help=True, help="List, show and delete subscriptions.")


def subscribe(
    sink: Annotated[
        str,
        typer.Option(metavar="URI", help="Where matching events are sent; several Kafka hosts."),
    ],
    *,
    url: Url = DEFAULT_URL,
    protocol: Annotated[
        Protocol, typer.Option(help="How they are sent there: the delivery protocol.")
    ] = "HTTP",
    topic: Annotated[
        Text, typer.Option(help="Topic to publish to (MQTT, KAFKA): the setting topicname.")
    ] = None,
    address: Annotated[
        Text, typer.Option(help="Node to send to (AMQP): the setting address.")
    ] = None,
    nats_subject: Annotated[
        Text, typer.Option(help="Subject to publish to (NATS): the setting subject.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Any protocol setting: text as it stands, others as JSON (qos=2).",
        ),
    ] = None,
    cacerts: Annotated[
        Text, typer.Option(metavar="PATH", help="Certificates (PEM) that the sink is trusted by.")
    ] = None,
    id_: Annotated[
        Text, typer.Option("--id", help="Id to create, or to replace if it is there.")
    ] = None,
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
        typer.Option("--format", help="Content mode of deliveries."),
    ] = None,
    retry: Annotated[int | None, typer.Option(help="Retries after the first attempt.")] = None,
    backoff_policy: Annotated[
        Literal["linear", "exponential"] | None, typer.Option(help="How waits grow.")
    ] = None,
    backoff_delay: Annotated[
        Text, typer.Option(metavar="PT0.2S", help="First wait (ISO 8601 duration).")
    ] = None,
    backoff_max: Annotated[Text, typer.Option(metavar="PT5M", help="Longest wait.")] = None,
    timeout: Annotated[Text, typer.Option(metavar="PT30S", help="Limit of one attempt.")] = None,
    rate_limit: Annotated[
        float | None, typer.Option(help="Most deliveries a second to this sink.")
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
    max_events: Annotated[int | None, typer.Option(help="How many deliveries it lasts.")] = None,
    interval: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="A timer makes an event for it so often."),
    ] = None,
    data: Annotated[Text, typer.Option(metavar="JSON", help="Data of the timer's events.")] = None,
    credential_type: Annotated[
        Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"] | None,
        typer.Option(help="How deliveries are authorized at the sink."),
    ] = None,
    identifier: Annotated[Text, typer.Option(help="Account name, for PLAIN.")] = None,
    secret_from: Annotated[
        Text, typer.Option(metavar=_credential.SOURCE_HELP, help="Where its password is.")
    ] = None,
    access_token_from: Annotated[
        Text, typer.Option(metavar=_credential.SOURCE_HELP, help="Where the access token is.")
    ] = None,
    access_token_type: Annotated[Text, typer.Option(help="Its type, such as Bearer.")] = None,
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
    """Create a subscription and print it as the server keeps it.

    Without filters every event matches. From the answer on, every accepted event is evaluated.

    [bold]Examples[/]

      distributary subscribe --sink http://127.0.0.1:9000

      distributary subscribe --sink http://127.0.0.1:9000 --type com.example.order
      --prefix subject=eu/

      distributary subscribe --sink https://example.com/hook --id orders --retry 3
      --dead-letter-sink http://127.0.0.1:9001 --filter '{"not": {"exact": {"source": "/test"}}}'

      distributary subscribe --sink http://127.0.0.1:9000 --start earliest --max-events 100

      distributary subscribe --sink http://127.0.0.1:9000 --interval 60 --data '{"wake": true}'

      distributary subscribe --sink https://example.com/hook --credential-type PLAIN
      --identifier me --secret-from env:HOOK_PASSWORD

      distributary subscribe --protocol MQTT5 --sink mqtts://broker.example.com --topic orders
      --setting qos=2 --setting 'userproperties={"tenant": "blue"}'

      distributary subscribe --protocol KAFKA --sink kafka://k1:9092,k2:9092/orders
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
        sink=sink,
        protocol=protocol,
        topic=topic,
        address=address,
        nats_subject=nats_subject,
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
        interval=interval,
        data=data,
        credential=credential,
    )
    server = _http.parse_address(url)
    try:
        body = _subscribe.body_of(wish)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    raise typer.Exit(_subscribe.subscribe(server, id_, body))


@subscriptions.command("list")
def list_all(
    *,
    url: Url = DEFAULT_URL,
    json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """List all subscriptions."""
    raise typer.Exit(_subscribe.list_all(_http.parse_address(url), as_json=json))


@subscriptions.command("get")
def get(id_: Annotated[str, typer.Argument(metavar="ID")], *, url: Url = DEFAULT_URL) -> None:
    """Print one subscription."""
    raise typer.Exit(_subscribe.get(_http.parse_address(url), id_))


@subscriptions.command("delete")
def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID...")], *, url: Url = DEFAULT_URL
) -> None:
    """Delete subscriptions; deliveries that wait are dropped."""
    raise typer.Exit(_subscribe.delete(_http.parse_address(url), tuple(ids)))
