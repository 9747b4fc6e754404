"""``distributary dead-letters``: its names and options."""

from typing import Annotated

import typer

from distributary.cli import _dead_letters, _http
from distributary.cli._options import DEFAULT_URL, Url, add_command
from distributary.core.errors import SettingsError

__all__ = ["dead_letters"]

dead_letters = typer.Typer(
    no_args_is_help=True, help="List, send again and delete dead letters that no sink took."
)

Subscription = Annotated[
    str | None,
    typer.Option("--subscription", metavar="ID", help="Those of this subscription."),
]
Route = Annotated[
    str | None,
    typer.Option("--route", metavar="UID", help="Those of this route: of a Trigger, say."),
]
All = Annotated[bool, typer.Option("--all", help="All of them.")]


def list_all(
    *,
    subscription: Subscription = None,
    route: Route = None,
    url: Url = DEFAULT_URL,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, with the events.")] = False,
) -> None:
    """List kept dead letters, the oldest of each partition first."""
    server = _http.parse_address(url)
    raise typer.Exit(_dead_letters.list_all(server, subscription, route, as_json=json))


def redrive(
    *,
    subscription: Subscription = None,
    route: Route = None,
    every: All = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Send kept dead letters again, and wait until all have been taken up.

    They go to the sinks of today, if the filters of today match them. What fails is kept again.
    """
    selection = _selection(subscription, route, every=every)
    raise typer.Exit(_dead_letters.ask(_http.parse_address(url), "redrive", selection))


def purge(
    *,
    subscription: Subscription = None,
    route: Route = None,
    every: All = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete kept dead letters, and wait until they are gone."""
    selection = _selection(subscription, route, every=every)
    raise typer.Exit(_dead_letters.ask(_http.parse_address(url), "purge", selection))


def _selection(
    subscription: str | None, route: str | None, *, every: bool
) -> dict[str, str | bool]:
    said: dict[str, str | bool | None] = {
        "subscription": subscription,
        "route": route,
        "all": every or None,
    }
    selection = {name: value for name, value in said.items() if value is not None}
    if len(selection) != 1:
        raise SettingsError("Say one of --subscription ID, --route UID and --all")
    return selection


add_command(dead_letters, "list", list_all)
add_command(dead_letters, "redrive", redrive)
add_command(dead_letters, "purge", purge)
