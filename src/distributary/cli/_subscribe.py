"""``distributary subscribe`` and ``subscriptions``: a command-line client of the Subscriptions API.

Callers: ``_commands``; ``_dead_letters`` uses ``call``. Hides: the requests, and how responses
are shown.
"""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.json import JSON
from rich.markup import escape

from distributary.cli import _console
from distributary.cli._http import Address, Client, Headers, Response, parse_address
from distributary.cli._options import DEFAULT_URL, AsJson, Url, add_command, with_options
from distributary.cli._subscribe_flags import FLAGS, body_from, body_of
from distributary.core.errors import SettingsError, TransportError

CREATED = 201
GONE = 404
PRECONDITION_FAILED = 412

subscriptions = typer.Typer(
    no_args_is_help=True, help="List, show, resume and delete subscriptions."
)
Id = Annotated[str, typer.Argument(metavar="ID", hidden=True)]


def call(
    address: Address, method: str, path: str, body: object = None, headers: Headers = ()
) -> Response:
    """Send one request to the API; exits where no server responds."""
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
    """Return the body of a 2xx response; shows any other and exits."""
    if not response.good:
        _console.show_refusal(response)
        raise typer.Exit(_console.FAILED)
    return response.json()


def _path_of(identifier: str) -> str:
    return "/subscriptions/" + quote(identifier, safe="")


def _print_json(value: object) -> None:
    """Print *value*, indented on a terminal and plain elsewhere."""
    console = _console.output()
    text = msgspec.json.encode(value).decode()
    if console.is_terminal:
        console.print(JSON(text))
    else:
        print(msgspec.json.format(text))


def _subscribe(**said: Any) -> None:
    server = parse_address(said["url"])
    file, id_, replace = said["file"], said["id_"], said["replace"]
    try:
        body = body_of(said) if file is None else body_from(file, said)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    id_ = body.pop("id", None) if id_ is None else id_
    if replace and id_ is None:
        raise SettingsError("--replace: say which one, with --id TEXT or the id in the file")
    if id_ is None:
        response = call(server, "POST", "/subscriptions", body)
    else:
        # The server checks whether the id exists, so no other client can come in between.
        unless_there = () if replace else (("if-none-match", "*"),)
        response = call(server, "PUT", _path_of(id_), body, unless_there)
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
    _print_json(realized)


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
    _subscribe, ((flag.name, flag.annotation, flag.default) for flag in FLAGS), _HELP
)


def list_all(*, url: Url = DEFAULT_URL, json: AsJson = False) -> None:
    """List all subscriptions."""
    columns = {
        "id": lambda row: row.get("id", ""),
        "protocol": lambda row: row.get("protocol", ""),
        "sink": lambda row: row.get("sink", ""),
        "source": lambda row: row.get("source", ""),
        "types": lambda row: ", ".join(row.get("types") or ()),
        "filters": lambda row: (
            msgspec.json.encode(row["filters"]).decode() if row.get("filters") else ""
        ),
    }
    rows = checked(call(parse_address(url), "GET", "/subscriptions")) or []
    none = "no subscriptions; create one with: distributary subscribe"
    _console.show_rows(rows, columns, as_json=json, none=none)


def get(id_: Id, *, url: Url = DEFAULT_URL) -> None:
    """Print one subscription."""
    _print_json(checked(call(parse_address(url), "GET", _path_of(id_))))


def status(
    id_: Annotated[str | None, typer.Argument(metavar="ID", hidden=True)] = None,
    *,
    url: Url = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show the delivery status of a subscription; without an ID, of all."""
    address = parse_address(url)
    if id_ is not None:
        _print_json(checked(call(address, "GET", _path_of(id_) + "/status")))
        return
    columns = {
        "id": lambda row: row["id"],
        "state": lambda row: row["state"],
        "waiting": lambda row: row["waiting"],
        "kept": lambda row: row["kept"]["count"],
        "last error": _last_error,
    }
    _console.show_rows(_states(address), columns, as_json=json, none="no subscriptions")


def _states(address: Address) -> Iterator[dict[str, Any]]:
    for row in checked(call(address, "GET", "/subscriptions")) or []:
        response = call(address, "GET", _path_of(row["id"]) + "/status")
        if response.status != GONE:  # deleted since the list was read
            yield checked(response)


def _last_error(row: dict[str, Any]) -> str:
    error = row.get("lastError") or row.get("parked") or {}
    return " at ".join(str(error[name]) for name in ("reason", "sink") if name in error)


def resume(id_: Id, *, url: Url = DEFAULT_URL) -> None:
    """Send to a parked subscription again: its sink had answered 410 (gone)."""
    checked(call(parse_address(url), "POST", _path_of(id_) + "/resume"))
    _console.output().print(f"resumed {escape(_console.fits_one_line(id_))}")


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID", hidden=True)], *, url: Url = DEFAULT_URL
) -> None:
    """Delete subscriptions, with their waiting deliveries and kept dead letters.

    Prints about how many: those that come or go meanwhile are not counted. If one cannot be
    deleted, it is named, the others are still deleted, and the exit code is 1.
    """
    address = parse_address(url)
    code = _console.OK
    for identifier in ids:
        state = call(address, "GET", _path_of(identifier) + "/status").json()
        response = call(address, "DELETE", _path_of(identifier))
        shown = _console.fits_one_line(identifier)
        if response.good:
            _console.output().print(f"deleted {escape(shown)}{_dropped(state)}")
        else:
            code = _console.FAILED
            _console.show_refusal(response, f"{shown} is not deleted")
    raise typer.Exit(code)


def _dropped(state: Any) -> str:
    """What deleting a subscription of this status drops; empty: nothing, or unknown."""
    if not isinstance(state, dict) or "kept" not in state:
        return ""
    counts = {"waiting events": state["waiting"], "kept dead letters": state["kept"]["count"]}
    parts = [f"about {count:,} {what}" for what, count in counts.items() if count]
    parts += ["events that it had still to read"] if state["lagging"] else []
    return f"; dropped with it: {', '.join(parts)}" if parts else ""


add_command(subscriptions, "list", list_all)
add_command(subscriptions, "get", get)
add_command(subscriptions, "status", status)
add_command(subscriptions, "resume", resume)
add_command(subscriptions, "delete", delete)
