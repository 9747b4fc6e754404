"""``distributary subscribe`` and ``subscriptions``: options and help. ``_subscribe`` does the work.

Callers: ``_commands``.
"""

from typing import Annotated, Any

import typer

from distributary.cli import _deliveries, _http, _subscribe
from distributary.cli._options import DEFAULT_URL, Url, add_command, with_options
from distributary.cli._subscribe_flags import FLAGS, body_from, body_of
from distributary.core.errors import SettingsError

__all__ = ["subscribe", "subscriptions"]

subscriptions = typer.Typer(
    no_args_is_help=True, help="List, show, resume and delete subscriptions."
)


def _subscribe_as(**said: Any) -> None:
    server = _http.parse_address(said["url"])
    file, id_ = said["file"], said["id_"]
    try:
        body = body_of(said) if file is None else body_from(file, said)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    id_ = body.pop("id", None) if id_ is None else id_
    if said["replace"] and id_ is None:
        raise SettingsError("--replace: say which one, with --id TEXT or the id in the file")
    raise typer.Exit(_subscribe.subscribe(server, id_, body, replace=said["replace"]))


_HELP = r"""Create a subscription and print it as the server keeps it.

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


subscribe = with_options(
    _subscribe_as, ((flag.name, flag.annotation, flag.default) for flag in FLAGS), _HELP
)


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
