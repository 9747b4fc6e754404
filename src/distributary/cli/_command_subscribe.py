"""``distributary subscribe`` and ``subscriptions``: options and help. ``_subscribe`` does the work.

Callers: ``_commands``.
"""

from typing import Annotated, Literal

import typer

from distributary.cli import _http, _subscribe
from distributary.cli._options import DEFAULT_URL, Text, Url
from distributary.errors import SettingsError

__all__ = ["subscribe", "subscriptions"]

subscriptions = typer.Typer(no_args_is_help=True, help="List, show and delete subscriptions.")


def subscribe(
    sink: Annotated[str, typer.Option(help="URL that matching events are posted to.")],
    *,
    url: Url = DEFAULT_URL,
    id_: Annotated[
        Text, typer.Option("--id", help="Id to create, or to replace if it is there.")
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="An event type; several: any of them.")
    ] = None,
    source: Annotated[Text, typer.Option(help="Exact event source.")] = None,
    filter_: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="JSON", help="A filter expression; all must hold."),
    ] = None,
    exact: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Attribute equals text.")
    ] = None,
    prefix: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Attribute begins with text.")
    ] = None,
    suffix: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Attribute ends with text.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME:TEXT", help="A header of every delivery.")
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
        Text, typer.Option(metavar="URL", help="Gets what cannot be delivered.")
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
    """
    wish = _subscribe.Wish(
        sink=sink,
        id=id_,
        types=tuple(type_ or ()),
        source=source,
        filters=tuple(filter_ or ()),
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
    )
    address = _http.parse_address(url)
    try:
        _subscribe.body_of(wish)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    raise typer.Exit(_subscribe.subscribe(address, wish))


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
