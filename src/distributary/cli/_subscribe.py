"""``distributary subscribe`` and ``subscriptions``: the Subscriptions API from the command line.

Callers: ``_command_subscribe``. Hides: the requests, and how answers are shown.
"""

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec
from rich.json import JSON
from rich.markup import escape

from distributary.cli import _console
from distributary.cli._http import Address, Client, Headers, Response
from distributary.core.errors import TransportError

__all__ = [
    "call",
    "checked",
    "delete",
    "get",
    "list_all",
    "path_of",
    "print_json",
    "subscribe",
]

CREATED = 201
PRECONDITION_FAILED = 412


def call(
    address: Address, method: str, path: str, body: object = None, headers: Headers = ()
) -> Response:
    """One request to the API; ends the command where no server answers."""
    content = b"" if body is None else msgspec.json.encode(body)
    if content:
        headers = (("content-type", "application/json"), *headers)

    async def once() -> Response:
        client = Client(address)
        try:
            return await client.request(method, path, headers, content)
        finally:
            client.close()

    try:
        return asyncio.run(once())
    except TransportError as error:
        where = f"{address.host}:{address.port}"
        hint = "Start it with: distributary serve"
        _console.fail(f"no server answered at {where}: {error}", hint, _console.UNREACHABLE)


def checked(response: Response) -> Any:
    """What a good answer holds; ends the command with what a refusal says."""
    if not 200 <= response.status < 300:
        _console.refuse(response)
    return response.json()


def subscribe(address: Address, id_: str | None, body: dict[str, Any], *, replace: bool) -> int:
    """Create, or with *replace* create or replace, and print the realized subscription.

    The server decides whether the id is taken, so no other client can come in between.
    """
    if id_ is None:
        response = call(address, "POST", "/subscriptions", body)
    else:
        unless_there = () if replace else (("if-none-match", "*"),)
        response = call(address, "PUT", path_of(id_), body, unless_there)
    shown = _console.fits_one_line(id_ or "")
    if response.status == PRECONDITION_FAILED and not replace:
        _console.fail(
            f"there is a subscription {shown} already; nothing was changed",
            "Replace it as a whole with --replace, or look at it with:"
            f" distributary subscriptions get {shown}",
            _console.FAILED,
        )
    realized = checked(response)
    if isinstance(realized, dict):
        shown = _console.fits_one_line(realized.get("id", shown))
    done = "created" if response.status == CREATED else "replaced"
    _console.errors().print(f"{done} {escape(shown)}")
    print_json(realized)
    return _console.OK


def get(address: Address, identifier: str) -> int:
    """Print one subscription."""
    print_json(checked(call(address, "GET", path_of(identifier))))
    return _console.OK


def delete(address: Address, identifiers: tuple[str, ...]) -> int:
    """Delete subscriptions, one after another; one that cannot be deleted is named."""
    code = _console.OK
    for identifier in identifiers:
        response = call(address, "DELETE", path_of(identifier))
        shown = _console.fits_one_line(identifier)
        if 200 <= response.status < 300:
            _console.output().print(f"deleted {escape(shown)}")
        else:
            code = _console.FAILED
            _console.show_refusal(response, f"{shown} is not deleted")
    return code


def list_all(address: Address, *, as_json: bool) -> int:
    """Print all subscriptions: a table for people, or JSON lines."""
    rows = checked(call(address, "GET", "/subscriptions")) or []
    console = _console.output()
    if as_json:
        for row in rows:
            print(msgspec.json.encode(row).decode())
        return _console.OK
    ids = (str(row.get("id", "")) for row in rows)
    table = _console.folding_table(ids, "protocol", "sink", "source", "types", "filters")
    for row in rows:
        cells = (
            row.get("id", ""),
            row.get("protocol", ""),
            row.get("sink", ""),
            row.get("source", ""),
            ", ".join(row.get("types") or ()),
            msgspec.json.encode(row["filters"]).decode() if row.get("filters") else "",
        )
        table.add_row(*(escape(_console.fits_one_line(cell)) for cell in cells))
    console.print(table if rows else "no subscriptions; create one with: distributary subscribe")
    return _console.OK


def path_of(identifier: str) -> str:
    """Path of the subscription with this id."""
    return "/subscriptions/" + quote(identifier, safe="")


def print_json(value: object) -> None:
    """Print *value* for people, or as it is where nobody looks."""
    console = _console.output()
    text = msgspec.json.encode(value).decode()
    if console.is_terminal:
        console.print(JSON(text))
    else:
        print(msgspec.json.format(text))
