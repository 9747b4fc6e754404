"""Requests to the API of a server, as commands send them: their paths, bodies and answers.

Callers: the modules of the commands. Hides: the connection, and how what is refused is shown.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn
from urllib.parse import quote, urlencode

import msgspec
import typer
from rich.json import JSON

from distributary.cli import _console
from distributary.cli._http import Address, Client, Headers, Response, advice
from distributary.cli._options import checked_namespace
from distributary.core.errors import TransportError
from distributary.core.tenant import path_in

CREATED: Final = 201
NO_CONTENT: Final = 204
NOT_FOUND: Final = 404
PRECONDITION_FAILED: Final = 412
_NEXT: Final = re.compile(r'<([^>]+)>; rel="next"')


def call(
    address: Address, method: str, path: str, body: object = None, headers: Headers = ()
) -> Response:
    """Send one request to the API; exits where no server responds, and says what to do."""
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
        text = f"no server answered at {address.place}: {error}"
        if error.reason == "tls":
            text = f"no connection to {address.place}: {error}"
        _console.fail(text, advice(address, error), _console.UNREACHABLE)


def checked(response: Response, kind: type[dict[Any, Any] | list[Any]] = dict) -> Any:
    """Return the body of a 2xx response, of *kind*: an object, or a list of objects.

    Shows any other response and exits: what is refused, and the answer of another program. The
    page of a proxy to sign in has status 200, and must not pass for "done".
    """
    if not response.good:
        _console.show_refusal(response)
        raise typer.Exit(_console.FAILED)
    body: Any = {} if response.status == NO_CONTENT else response.json()
    if not isinstance(body, kind):
        _other_program(f"{response.brings}, with status {response.status}")
    if kind is dict:
        return _Members(body)
    if not all(isinstance(item, dict) for item in body):
        _other_program("the answer is a list of something else")
    return [_Members(item) for item in body]


class _Members(dict[str, Any]):
    """An object of an answer. One without a member that a command needs is another program's."""

    def __missing__(self, name: str) -> NoReturn:
        _other_program(f"the answer has no member {name!r}")


def _other_program(why: str) -> NoReturn:
    _console.fail(
        f"no distributary server answered: {why}", _console.OTHER_PROGRAM, _console.UNREACHABLE
    )


def parts_of(address: Address, path: str) -> Iterator[tuple[list[dict[str, Any]], Response]]:
    """The parts of a list: the items of each, and the answer that had them."""
    wanted: str | None = path
    while wanted is not None:
        response = call(address, "GET", wanted)
        yield checked(response, list), response
        found = _NEXT.search(response.headers.get("link", ""))
        wanted = None if found is None else found[1]


def items_of(address: Address, path: str) -> Iterator[dict[str, Any]]:
    """The items of a list that comes in parts."""
    for items, _ in parts_of(address, path):
        yield from items


def with_query(path: str, said: Mapping[str, object]) -> str:
    """*path* with the parameters of *said* that are not None."""
    given = {name: value for name, value in said.items() if value is not None}
    chosen = urlencode(given, quote_via=quote)
    return f"{path}?{chosen}" if chosen else path


def in_namespace(namespace: str, path: str) -> str:
    """*path* in *namespace*, as it was typed; exits where that is no name of a namespace."""
    return path_in(checked_namespace(namespace), path)


def path_of(identifier: str, namespace: str) -> str:
    """Path of the subscription *identifier* of *namespace*."""
    return in_namespace(namespace, f"/subscriptions/{quote(identifier, safe='')}")


def print_json(value: object) -> None:
    """Print *value*, indented on a terminal and plain elsewhere."""
    console = _console.output()
    text = msgspec.json.encode(value).decode()
    if console.is_terminal:
        console.print(JSON(text))
    else:
        print(msgspec.json.format(text))
