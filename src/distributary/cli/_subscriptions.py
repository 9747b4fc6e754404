"""``distributary subscriptions``: list, show, change, steer and delete subscriptions.

Callers: ``_commands``. Hides: the requests, and what is printed of the answers.
"""

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from distributary.cli import _console
from distributary.cli._api import (
    NOT_FOUND,
    call,
    checked,
    in_namespace,
    path_of,
    print_json,
    with_query,
)
from distributary.cli._apply import apply, edit
from distributary.cli._http import Address
from distributary.cli._options import (
    DEFAULT_URL,
    AsJson,
    Namespace,
    TokenFrom,
    Url,
    add_command,
)
from distributary.cli._server import server_at
from distributary.cli._steering import add_steering
from distributary.cli._subscription_rows import LISTED, STATES, detail
from distributary.cli._times import seconds
from distributary.core.errors import SettingsError
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.resource.durations import format_duration

subscriptions = typer.Typer(
    no_args_is_help=True, help="List, show, change, steer and delete subscriptions."
)
State = Annotated[
    str | None,
    typer.Option("--state", metavar="STATE", help="Those in this state, such as failing."),
]
Id = Annotated[str, typer.Argument(metavar="ID", hidden=True)]


def list_all(
    *,
    state: State = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    json: AsJson = False,
) -> None:
    """List all subscriptions of a namespace, with their states."""
    rows = _listed(server_at(url, token_from), namespace, state)
    hint = "" if state else "; create one with: distributary subscribe"
    none = f"no subscriptions{hint}"
    _console.show_rows(rows, LISTED, as_json=json, none=none)


def _listed(address: Address, namespace: str, state: str | None) -> list[dict[str, Any]]:
    """The subscriptions of *namespace*; where *state* is not None, those in it."""
    path = with_query(in_namespace(namespace, "/subscriptions"), {"state": state})
    rows: list[dict[str, Any]] = checked(call(address, "GET", path), list)
    return rows


def get(
    id_: Id,
    *,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Print one subscription."""
    print_json(checked(call(server_at(url, token_from), "GET", path_of(id_, namespace))))


def status(
    id_: Annotated[str | None, typer.Argument(metavar="ID", hidden=True)] = None,
    *,
    state: State = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    json: AsJson = False,
) -> None:
    """Show how deliveries to a subscription go; without an ID, to all in the namespace.

    The column dead counts dead letters.
    """
    address = server_at(url, token_from)
    if id_ is None:
        rows = _states(address, _listed(address, namespace, state), namespace, whole=json)
        _console.show_rows(rows, STATES, as_json=json, none="no subscriptions")
        return
    if state is not None:
        raise SettingsError("--state chooses among all: leave the ID out")
    found = checked(call(address, "GET", path_of(id_, namespace) + "/status"))
    if json:
        print_json(found)
        return
    lines = list(detail(found))
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        line = f"{name:{width}}  {_console.fits_one_line(text)}"
        _console.output().print(line, markup=False)


def _states(
    address: Address, rows: list[dict[str, Any]], namespace: str, *, whole: bool
) -> Iterator[dict[str, Any]]:
    """Statuses: in short from *rows*, if they have them; *whole* ones are asked for one by one."""
    for row in rows:
        if isinstance(row.get("status"), dict) and not whole:
            yield {"id": row["id"], **row["status"]}
            continue
        response = call(address, "GET", path_of(row["id"], namespace) + "/status")
        if response.status != NOT_FOUND:  # deleted since the list was read
            yield checked(response)


def rotate(
    id_: Id,
    *,
    overlap: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long the replaced key signs too, such as 24h."),
    ] = "24h",
    scheme: Annotated[
        Literal["v1", "v1a"] | None,
        typer.Option(metavar="v1|v1a", help="Of the new key; absent: unchanged."),
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Replace the key that signs deliveries; prints a new secret this once."""
    body = {"overlap": format_duration(seconds("--overlap", overlap))}
    if scheme is not None:
        body["scheme"] = scheme
    path = path_of(id_, namespace) + "/signature/rotate"
    print_json(checked(call(server_at(url, token_from), "POST", path, body)))


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID", hidden=True)],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, even where something waits.")
    ] = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Delete subscriptions, with their waiting deliveries and kept dead letters.

    Prints about how many: those that come or go meanwhile are not counted. On a terminal it asks
    first where there are any. If one cannot be deleted, it is named, the others are still
    deleted, and the exit code is 1.
    """
    address = server_at(url, token_from)
    asks = not yes and sys.stdin.isatty()
    code = _console.OK
    for identifier in ids:
        state = call(address, "GET", path_of(identifier, namespace) + "/status").json()
        shown, dropped = _console.fits_one_line(identifier), _dropped(state)
        if dropped and asks and not typer.confirm(f"Delete {shown}, and drop {dropped}?", err=True):
            code = _console.FAILED
            _console.errors().print(f"{escape(shown)} is not deleted")
            continue
        response = call(address, "DELETE", path_of(identifier, namespace))
        if response.good:
            checked(response)
            end = f"; dropped with it: {dropped}" if dropped else ""
            _console.output().print(f"deleted {escape(shown)}{end}")
        else:
            code = _console.FAILED
            _console.show_refusal(response, f"{shown} is not deleted")
    raise typer.Exit(code)


def _dropped(state: Any) -> str:
    """What deleting a subscription of this status drops; empty: nothing, or unknown."""
    if not isinstance(state, dict) or "kept" not in state:
        return ""
    counts = {"waiting event": state["waiting"], "kept dead letter": state["kept"]["count"]}
    parts = [f"about {_console.counted(count, one)}" for one, count in counts.items() if count]
    parts += ["events that it had still to read"] if state["lagging"] else []
    return ", ".join(parts)


add_command(subscriptions, "list", list_all)
add_command(subscriptions, "get", get)
add_command(subscriptions, "status", status)
add_command(subscriptions, "edit", edit)
add_command(subscriptions, "apply", apply)
add_steering(subscriptions)
add_command(subscriptions, "rotate", rotate)
add_command(subscriptions, "delete", delete)
