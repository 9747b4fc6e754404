"""``distributary dead-letters``: lists, shows, redrives and purges kept dead letters."""

from collections.abc import Callable
from typing import Annotated
from urllib.parse import quote

import typer

from distributary.cli import _console
from distributary.cli._api import call, checked, in_namespace, items_of, print_json, with_query
from distributary.cli._options import (
    DEFAULT_URL,
    Namespace,
    Text,
    TokenFrom,
    Url,
    add_command,
)
from distributary.cli._runs import (
    Dry,
    Filters,
    NoWait,
    Rate,
    RunName,
    follow,
    options_of,
)
from distributary.cli._server import server_at
from distributary.cli._times import time_of
from distributary.core.errors import SettingsError
from distributary.core.tenant import DEFAULT_NAMESPACE

dead_letters = typer.Typer(no_args_is_help=True, help="List, redrive and delete dead letters.")

Subscription = Annotated[
    Text, typer.Option("--subscription", metavar="ID", help="Those of this subscription.")
]
Route = Annotated[
    Text, typer.Option("--route", metavar="UID", help="Those of this route: of a Trigger, say.")
]
All = Annotated[bool, typer.Option("--all", help="All of them.")]
Since = Annotated[
    Text, typer.Option("--since", metavar="TIME", help="Kept then or later; 1h: an hour ago.")
]
Until = Annotated[Text, typer.Option("--until", metavar="TIME", help="Kept before.")]


def list_all(
    *,
    subscription: Subscription = None,
    route: Route = None,
    since: Since = None,
    until: Until = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, with the events.")] = False,
) -> None:
    """List kept dead letters, the oldest of each partition first."""
    columns = {
        "id": lambda dead_letter: dead_letter["id"],
        "kept": lambda dead_letter: dead_letter["kept"],
        "subscription": lambda dead_letter: (
            dead_letter.get("subscription") or dead_letter.get("object") or dead_letter["route"]
        ),
        "event": lambda dead_letter: dead_letter.get("event", {"id": "(damaged)"}).get("id", ""),
        "type": lambda dead_letter: dead_letter.get("event", {}).get("type", ""),
        "reason": lambda dead_letter: dead_letter["reason"],
        "sink": lambda dead_letter: dead_letter["sink"],
    }
    said = {
        "limit": 100,
        "subscription": subscription,
        "route": route,
        "since": time_of("--since", since),
        "until": time_of("--until", until),
    }
    path = with_query(in_namespace(namespace, "/dead-letters"), said)
    dead_letters = items_of(server_at(url, token_from), path)
    _console.show_rows(dead_letters, columns, as_json=json, none="no dead letters are kept")


def show(
    id_: Annotated[str, typer.Argument(metavar="ID", hidden=True)],
    *,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Print one kept dead letter, with its event."""
    path = in_namespace(namespace, f"/dead-letters/{quote(id_, safe='')}")
    print_json(checked(call(server_at(url, token_from), "GET", path)))


def _running(kind: str, done: str, text: str) -> Callable[..., None]:
    """The command that starts a run of *kind*, and prints how many are *done*."""

    def command(
        ids: Annotated[list[str] | None, typer.Argument(metavar="ID", hidden=True)] = None,
        *,
        subscription: Subscription = None,
        route: Route = None,
        every: All = False,
        filters: Filters = None,
        since: Since = None,
        until: Until = None,
        rate: Rate = None,
        dry: Dry = False,
        run: RunName = None,
        no_wait: NoWait = False,
        namespace: Namespace = DEFAULT_NAMESPACE,
        url: Url = DEFAULT_URL,
        token_from: TokenFrom = None,
    ) -> None:
        which = {"subscription": subscription, "route": route, "all": every or None, "ids": ids}
        selection = {name: value for name, value in which.items() if value}
        if len(selection) != 1:
            raise SettingsError("Say one of --subscription ID, --route UID, --all, or ids")
        times = {"since": time_of("--since", since), "until": time_of("--until", until)}
        body = selection | {name: value for name, value in times.items() if value}
        body |= options_of(filters, rate, run, dry=dry)
        server = server_at(url, token_from)
        path = in_namespace(namespace, f"/dead-letters/{kind}")
        follow(server, namespace, checked(call(server, "POST", path, body)), done, wait=not no_wait)

    command.__doc__ = text
    return command


add_command(dead_letters, "list", list_all)
add_command(dead_letters, "show", show)
add_command(
    dead_letters,
    "redrive",
    _running(
        "redrive",
        "sent again",
        """Send kept dead letters again, and wait until all are under way.

        They go to the current sinks, if the current filters match them. Failures are kept again.
        """,
    ),
)
add_command(
    dead_letters,
    "purge",
    _running("purge", "deleted", "Delete kept dead letters, and wait until that is done."),
)
