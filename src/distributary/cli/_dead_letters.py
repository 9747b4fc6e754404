"""``distributary dead-letters``: lists, redrives and purges kept dead letters."""

import re
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from distributary.cli import _console
from distributary.cli._http import Address, parse_address
from distributary.cli._options import DEFAULT_URL, Text, Url, add_command
from distributary.cli._subscribe import call, checked
from distributary.core.errors import SettingsError

LOOK_EVERY_S: Final = 0.2
"""Interval of polling for the end of a run, seconds."""
_NEXT = re.compile(r'<([^>]+)>; rel="next"')

dead_letters = typer.Typer(
    no_args_is_help=True, help="List, send again and delete dead letters that no sink took."
)

Subscription = Annotated[
    Text, typer.Option("--subscription", metavar="ID", help="Those of this subscription.")
]
Route = Annotated[
    Text, typer.Option("--route", metavar="UID", help="Those of this route: of a Trigger, say.")
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
    columns = {
        "kept": lambda dead_letter: dead_letter["kept"],
        "subscription": lambda dead_letter: (
            dead_letter.get("subscription") or dead_letter.get("object") or dead_letter["route"]
        ),
        "event": lambda dead_letter: dead_letter.get("event", {"id": "(damaged)"}).get("id", ""),
        "type": lambda dead_letter: dead_letter.get("event", {}).get("type", ""),
        "reason": lambda dead_letter: dead_letter["reason"],
        "sink": lambda dead_letter: dead_letter["sink"],
    }
    said = {"subscription": subscription, "route": route}
    chosen = [f"{name}={quote(value, safe='')}" for name, value in said.items() if value]
    dead_letters = _dead_letters(
        parse_address(url), "/dead-letters?" + "&".join(["limit=100", *chosen])
    )
    _console.show_rows(dead_letters, columns, as_json=json, none="no dead letters are kept")


def _dead_letters(address: Address, path: str | None) -> Iterator[dict[str, Any]]:
    while path is not None:
        response = call(address, "GET", path)
        yield from checked(response) or []
        found = _NEXT.search(response.headers.get("link", ""))
        path = None if found is None else found[1]


def redrive(
    *,
    subscription: Subscription = None,
    route: Route = None,
    every: All = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Send kept dead letters again, and wait until all are under way.

    They go to the current sinks, if the current filters match them. Failures are kept again.
    """
    _run(url, "redrive", "sent again", subscription=subscription, route=route, all=every or None)


def purge(
    *,
    subscription: Subscription = None,
    route: Route = None,
    every: All = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete kept dead letters, and wait until that is done."""
    _run(url, "purge", "deleted", subscription=subscription, route=route, all=every or None)


def _run(url: str, kind: str, done: str, **said: str | bool | None) -> None:
    """Start a run, wait for its end, and print its result."""
    selection = {name: value for name, value in said.items() if value is not None}
    if len(selection) != 1:
        raise SettingsError("Say one of --subscription ID, --route UID and --all")
    address = parse_address(url)
    asked = checked(call(address, "POST", f"/dead-letters/{kind}", selection))
    while True:
        state = checked(call(address, "GET", f"/dead-letters/runs/{asked['run']}"))
        if state["state"] == "done":
            break
        time.sleep(LOOK_EVERY_S)
    left = f", {state['passed']} left: filters do not match them" if state["passed"] else ""
    _console.output().print(f"{done}: {state['handled']}{left} (run {state['run']})")


add_command(dead_letters, "list", list_all)
add_command(dead_letters, "redrive", redrive)
add_command(dead_letters, "purge", purge)
