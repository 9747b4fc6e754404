"""``distributary key``, ``whoami`` and ``can``: API keys, and what the caller may do.

Callers: ``_commands``. Hides: the requests, and keys that are made without a server.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import msgspec
import typer
from rich.markup import escape

from distributary.cli import _console
from distributary.cli._api import call, checked, print_json
from distributary.cli._http import Address
from distributary.cli._options import DEFAULT_URL, AsJson, Text, TokenFrom, Url, add_command
from distributary.cli._server import server_at, server_of
from distributary.cli._times import moment
from distributary.server.settings.new_key import make_configured_key

key = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")

OfDataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Ask the server that runs on this data folder, as who runs it.",
    ),
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Where; several; * is all. Default: default."
    ),
]


def create(
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the key.")],
    may: Annotated[
        list[str],
        typer.Option("--may", metavar="VERB", help="publish, read, write, observe or admin."),
    ],
    namespace: Namespaces = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--names", metavar="TARGET", help="Publish only to these, such as brokers/default."
        ),
    ] = None,
    expires: Annotated[
        Text,
        typer.Option(metavar="WHEN", help="A duration such as 90d, a day, or a time with offset."),
    ] = None,
    printed: Annotated[
        bool,
        typer.Option("--print", help="Ask no server: print a table for distributary.toml."),
    ] = False,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    data_dir: OfDataDir = None,
    json: Annotated[bool, typer.Option("--json", help="All of the answer, as JSON.")] = False,
) -> None:
    r"""Make an API key, and print it: nothing shows it again.

    Whoever makes a key needs admin in its namespaces, and gives no more than they have. The first
    key is made by who runs the server, with --data-dir.

    For example:

      distributary key create --data-dir distributary-data \
        --name admin --may admin --namespace '*'

      distributary key create --name till --may publish --namespace shop \
        --names brokers/default --expires 90d > till.key

      distributary key create --print --name first --may admin \
        --namespace '*' >> distributary.toml
    """
    proposal: dict[str, Any] = {"name": name, "may": _words(may)}
    proposal |= {"namespaces": _words(namespace) or ["default"]}
    if names:
        proposal["names"] = _words(names)
    if expires is not None:
        proposal["expires"] = moment("--expires", expires, unsigned="after")
    if printed:
        _print_table(proposal, as_json=json)
        return
    made = checked(call(_server(url, token_from, data_dir), "POST", "/keys", proposal))
    if json:
        print_json(made)
        return
    _explain(made)
    print(made["key"])


def _words(values: list[str] | None) -> list[str]:
    """All words of an option that may be repeated, or hold several with commas."""
    return [word for value in values or () for word in value.split(",") if word]


def _server(url: str, token_from: str | None, data_dir: Path | None) -> Address:
    return server_at(url, token_from) if data_dir is None else server_of(data_dir)


def _explain(made: Mapping[str, Any]) -> None:
    console = _console.errors()
    until = f", until {made['expires']}" if "expires" in made else ""
    console.print(f"created the key {escape(made['name'])}: {escape(_allowed(made))}{until}")
    console.print("  It follows on standard output, and nothing shows it again. Clients send it as")
    console.print("  Authorization: Bearer KEY; these commands read it from DISTRIBUTARY_TOKEN.")


def _allowed(found: Mapping[str, Any]) -> str:
    """What a grant allows, for people."""
    to = f" to {', '.join(found['names'])}" if found.get("names") else ""
    return f"{', '.join(found['may'])}{to} in {', '.join(found['namespaces'])}"


def _print_table(proposal: Mapping[str, Any], *, as_json: bool) -> None:
    """Make a key without a server, and print its table for the configuration file."""
    made = make_configured_key(proposal)
    if as_json:
        print(msgspec.json.encode({"key": made.text, "table": made.table}).decode())
        return
    console = _console.errors()
    console.print("Add the table to distributary.toml, and send SIGHUP to a running server.")
    console.print("The key, which nothing shows again:")
    console.print(made.text)
    print(made.table, end="")


def list_all(
    *,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    data_dir: OfDataDir = None,
    json: AsJson = False,
) -> None:
    """List the API keys of the namespaces that you administer; times are UTC."""
    columns = {
        "name": lambda row: row["name"],
        "allows": _allowed,
        "expires": lambda row: _minute(row.get("expires")),
        "last used": lambda row: _minute(row.get("lastused")),
    }
    rows = checked(call(_server(url, token_from, data_dir), "GET", "/keys"), list)
    none = "no keys; make one with: distributary key create"
    _console.show_rows(rows, columns, as_json=json, none=none)


def _minute(time_text: str | None) -> str:
    """A time of the server, which is UTC, to the minute."""
    return "never" if time_text is None else time_text[:16].replace("T", " ")


def revoke(
    key_: Annotated[str, typer.Argument(metavar="NAME|ID", hidden=True)],
    *,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    data_dir: OfDataDir = None,
) -> None:
    """Revoke an API key, by its name or its id: it is refused within a second."""
    server = _server(url, token_from, data_dir)
    rows = checked(call(server, "GET", "/keys"), list)
    found = [row for row in rows if key_ in (row["id"], row["name"])]
    shown = _console.fits_one_line(key_)
    if not found:
        _console.fail(
            f"there is no key {shown} in the namespaces that you administer",
            "Look at them with: distributary key list",
            _console.FAILED,
        )
    if len(found) > 1:
        ids = ", ".join(row["id"] for row in found)
        _console.fail(f"several keys have the name {shown}", f"Say the id: {ids}", _console.FAILED)
    checked(call(server, "DELETE", "/keys/" + quote(found[0]["id"], safe="")))
    _console.output().print(f"revoked {escape(shown)}")


def whoami(
    *,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    data_dir: OfDataDir = None,
    json: Annotated[bool, typer.Option("--json", help="All of the answer, as JSON.")] = False,
) -> None:
    """Say who you are for the server, and what you may do."""
    found = checked(call(_server(url, token_from, data_dir), "GET", "/whoami"))
    if json:
        print_json(found)
        return
    console = _console.output()
    until = f", until {found['until']}" if "until" in found else ""
    how = "this server asks nobody who they are" if found["how"] == "none" else found["how"]
    console.print(escape(_console.fits_one_line(f"{found['name']} ({how}){until}")))
    for grant in found["grants"]:
        console.print(f"  {escape(_console.fits_one_line(_allowed(grant)))}")


def can(
    verb: Annotated[str, typer.Argument(metavar="VERB", hidden=True)],
    resource: Annotated[str, typer.Argument(metavar="RESOURCE", hidden=True)],
    *,
    namespace: Annotated[
        Text,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="Where, if RESOURCE does not say; * is all."
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    data_dir: OfDataDir = None,
) -> None:
    """Say whether you may do something; exit code 0: yes, 1: no.

    VERB is publish, read, write, observe or admin. RESOURCE is a Broker or Channel such as
    brokers/shop/default, or one of subscriptions, dead-letters, brokers, channels, triggers,
    events, history, keys and metrics.

    For example:

      distributary can publish brokers/shop/default

      distributary can read subscriptions --namespace shop
    """
    question = {"verb": verb, "resource": resource}
    question |= {} if namespace is None else {"namespace": namespace}
    server = _server(url, token_from, data_dir)
    found = checked(call(server, "GET", "/can?" + urlencode(question)))
    if not found["allowed"]:
        why = found.get("reason") or f"{found['name']} may not {found['missing']}"
        _console.output().print(f"no: {escape(_console.fits_one_line(why).removesuffix('.'))}")
        raise typer.Exit(_console.FAILED)
    only = ", ".join(map(_console.fits_one_line, found.get("filteredby", ())))
    _console.output().print(f"yes, what passes the filters of {escape(only)}" if only else "yes")


add_command(key, "create", create)
add_command(key, "list", list_all)
add_command(key, "revoke", revoke)
