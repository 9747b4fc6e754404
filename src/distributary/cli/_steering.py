"""``subscriptions pause|resume|disable|enable|retry|replay``: what is set about deliveries.

Caller: ``_subscriptions``. Hides: the requests.
"""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape

from distributary.cli import _console
from distributary.cli._api import call, checked, path_of
from distributary.cli._http import Response
from distributary.cli._options import DEFAULT_URL, Namespace, Text, TokenFrom, Url, add_command
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
from distributary.core.tenant import DEFAULT_NAMESPACE

Id = Annotated[str, typer.Argument(metavar="ID", hidden=True)]


def _setting(name: str, done: str, text: str) -> Callable[..., None]:
    """The command that sends *name*, and prints that it is *done*."""

    def command(
        id_: Id,
        *,
        namespace: Namespace = DEFAULT_NAMESPACE,
        url: Url = DEFAULT_URL,
        token_from: TokenFrom = None,
    ) -> None:
        server = server_at(url, token_from)
        _say(call(server, "POST", f"{path_of(id_, namespace)}/{name}"), done, id_)

    command.__doc__ = text
    return command


def _say(response: Response, done: str, id_: str) -> None:
    checked(response)
    _console.output().print(f"{done} {escape(_console.fits_one_line(id_))}")


pause = _setting("pause", "paused", "Send nothing until it is resumed; what matches waits.")
resume = _setting(
    "resume",
    "resumed",
    "Go on: after a pause, or after its sink had answered 410, or ask for consent again.",
)
enable = _setting("enable", "enabled", "Go on with a subscription that was disabled.")


def disable(
    id_: Id,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for people; status shows it.")
    ] = "",
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Send nothing until it is enabled; what matches waits, and resume does not end it."""
    body = {"reason": reason} if reason else {}
    server = server_at(url, token_from)
    _say(call(server, "POST", f"{path_of(id_, namespace)}/disable", body), "disabled", id_)


def retry(
    id_: Id,
    *,
    dry: Dry = False,
    run: RunName = None,
    no_wait: NoWait = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Make the waiting retries now, instead of when they are due."""
    server = server_at(url, token_from)
    body = options_of(None, None, run, dry=dry)
    asked = checked(call(server, "POST", f"{path_of(id_, namespace)}/retry", body))
    follow(server, namespace, asked, "made due", wait=not no_wait)


def replay(
    id_: Id,
    *,
    since: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Events accepted then or later.")
    ],
    until: Annotated[
        Text, typer.Option("--to", metavar="TIME", help="Events accepted before; default: now.")
    ] = None,
    filters: Filters = None,
    rate: Rate = None,
    dry: Dry = False,
    run: RunName = None,
    no_wait: NoWait = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Send events of the log again, those that its newest filters match.

    A TIME is 2026-01-31T12:00:00Z, a day, now, or a duration before now such as 1h.
    """
    server = server_at(url, token_from)
    body = options_of(filters, rate, run, dry=dry)
    for name, text in (("from", since), ("to", until)):
        said = time_of(f"--{name}", text)
        if said is not None:
            body[name] = said
    asked = checked(call(server, "POST", f"{path_of(id_, namespace)}/replay", body))
    follow(server, namespace, asked, "sent again", wait=not no_wait)


def add_steering(app: typer.Typer) -> None:
    """Add these commands to *app*."""
    add_command(app, "pause", pause)
    add_command(app, "resume", resume)
    add_command(app, "disable", disable)
    add_command(app, "enable", enable)
    add_command(app, "retry", retry)
    add_command(app, "replay", replay)
