"""``distributary import``: copies objects of a Kubernetes cluster to this server, one by one.

Callers: ``_commands``. Hides: reading YAML, server-side apply, and the report on each object.
``knative.kinds.export`` decides what is taken, changed or left; the server validates.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import quote

import msgspec
import typer
from rich.markup import escape
from rich.progress import track

from distributary.cli import _console
from distributary.cli._http import Address, Client, Response
from distributary.cli._options import DEFAULT_URL, TokenFrom, Url
from distributary.cli._server import server_at
from distributary.cli._yaml import documents
from distributary.core.errors import TransportError
from distributary.knative.kinds import BROKER
from distributary.knative.kinds.export import Converted, converted

MANAGER = "distributary-import"
"""Field manager: a second run changes what the first has written, and no fields of others."""

DEFAULT_BROKER = ("default", "default")
"""Namespace and name of the Broker that every server has, behind ``POST /events``."""

_APPLY = (("content-type", "application/apply-patch+yaml"), ("accept", "application/json"))


class _Outcome(NamedTuple):
    """The result for one object.

    Attributes:
        word: ``taken``, ``changed``, ``left`` or ``refused``.
        remarks: What people should know, one text a line.
    """

    word: str
    remarks: tuple[str, ...]


def import_(
    files: Annotated[list[str], typer.Argument(metavar="FILE", hidden=True)],
    *,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything at the server; write nothing.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take over fields that others have set here.")
    ] = False,
) -> None:
    """Take over Brokers, Triggers, Channels and Subscriptions from a Kubernetes cluster.

    FILE holds YAML or JSON; - is standard input.

    Reads what kubectl get -o yaml prints, leaves out what belongs to the old cluster
    (status, versions, finalizers, owners), and reports for every object whether it was taken,
    changed, left or refused. A second run changes nothing.

    For example:

      kubectl get brokers,triggers,channels,subscriptions -A -o yaml > all.yaml

      distributary import --dry-run all.yaml

      distributary import all.yaml
    """
    raise typer.Exit(run(server_at(url, token_from), files, dry_run=dry_run, replace=replace))


def run(address: Address, files: Sequence[str], *, dry_run: bool, replace: bool) -> int:
    """Import *files* and show the result for each object; returns the exit code.

    Raises:
        SettingsError: A file cannot be read, or is not YAML. Nothing was sent then.
    """
    objects = converted(document for name in files for document in documents(name))
    outcomes: list[_Outcome] = []
    try:
        asyncio.run(_apply_all(address, objects, outcomes, dry_run=dry_run, replace=replace))
    except TransportError as error:
        hint = "Is the server running?"
        if outcomes:
            _show(objects[: len(outcomes)], outcomes, dry_run=dry_run)
            hint = "The others were not sent. Run it again: what is taken already stays as it is."
        _console.fail(f"no answer: {error}", hint, _console.UNREACHABLE)
    _show(objects, outcomes, dry_run=dry_run)
    return _console.FAILED if any(each.word == "refused" for each in outcomes) else _console.OK


async def _apply_all(
    address: Address,
    objects: Sequence[Converted],
    outcomes: list[_Outcome],
    *,
    dry_run: bool,
    replace: bool,
) -> None:
    """Apply *objects* in order; fills *outcomes* even where the server stops responding."""
    client = Client(address)
    query = f"fieldManager={MANAGER}&fieldValidation=Warn&force={str(replace).lower()}"
    query += "&dryRun=All" if dry_run else ""
    shown = track(objects, "importing", console=_console.errors(), transient=True)
    try:
        for each in shown:
            outcomes.append(await _apply(client, each, query))  # noqa: PERF401 - kept if it ends
    finally:
        client.close()


async def _apply(client: Client, each: Converted, query: str) -> _Outcome:
    if each.kind is None:
        return _Outcome("left", (each.left,))
    metadata, kind = each.obj["metadata"], each.kind
    group = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    place = f"namespaces/{quote(str(metadata['namespace']), safe='')}"
    path = f"{group}/{place}/{kind.plural}/{quote(metadata['name'], safe='')}?{query}"
    body = msgspec.json.encode(each.obj)  # JSON is YAML
    answer = await client.request("PATCH", path, _APPLY, body)
    if answer.status == 409 and _is_default_broker(each):
        there = (await client.request("GET", path.partition("?")[0])).json()
        if isinstance(there, dict) and there.get("metadata", {}).get("generation") == 1:
            path = path.replace("force=false", "force=true")
            answer = await client.request("PATCH", path, _APPLY, body)
    if answer.status >= 300:
        return _Outcome("refused", (*_faults(answer), *each.changes))
    warning = answer.headers.get("warning")
    remarks = (*each.changes, *((_warned(warning),) if warning else ()))
    return _Outcome("changed" if remarks else "taken", remarks)


def _is_default_broker(each: Converted) -> bool:
    """Whether it is the Broker that a server creates, which has no owner until it is edited."""
    metadata = each.obj["metadata"]
    return each.kind is BROKER and (metadata["namespace"], metadata["name"]) == DEFAULT_BROKER


def _warned(header: str) -> str:
    """Texts of ``Warning`` headers, without code and agent (RFC 7234 5.5)."""
    texts = re.findall(r'"((?:[^"\\]|\\.)*)"', header)
    return "; ".join(text.replace('\\"', '"') for text in texts) or header


def _faults(answer: Response) -> tuple[str, ...]:
    status = answer.json()
    status = status if isinstance(status, dict) else {}
    causes = (status.get("details") or {}).get("causes")
    if isinstance(causes, list) and causes:
        return tuple(f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in causes)
    message = str(status.get("message") or f"the server answered {answer.status}")
    if answer.status == 409:
        message += " (--replace takes the fields over)"
    return (message,)


_COLOURS = {"taken": "green", "changed": "yellow", "left": "dim", "refused": "bold red"}


def _show(objects: Sequence[Converted], outcomes: Sequence[_Outcome], *, dry_run: bool) -> None:
    console = _console.output()
    width = max(map(len, _COLOURS))
    for each, outcome in zip(objects, outcomes, strict=True):
        word = f"[{_COLOURS[outcome.word]}]{outcome.word:<{width}}[/]"
        console.print(f"{word}  {escape(_console.fits_one_line(each.label))}")
        for remark in outcome.remarks:
            console.print(f"{'':<{width}}    {escape(_console.fits_one_line(remark))}")
    counts = ", ".join(f"{sum(each.word == word for each in outcomes)} {word}" for word in _COLOURS)
    console.print(f"{counts}{'; nothing was written (--dry-run)' if dry_run else ''}")
