"""``distributary runs``: lists, shows and ends runs; and waits for one, with a bar on a terminal.

Callers: ``_commands``, and the commands that start runs. Hides: polling.
"""

import time
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from distributary.cli import _console
from distributary.cli._api import call, checked, in_namespace, items_of, print_json, with_query
from distributary.cli._http import Address
from distributary.cli._options import (
    DEFAULT_URL,
    AsJson,
    Namespace,
    Text,
    TokenFrom,
    Url,
    add_command,
)
from distributary.cli._server import server_at
from distributary.core.errors import SettingsError
from distributary.core.tenant import DEFAULT_NAMESPACE

LOOK_EVERY_S: Final = 0.2
"""Interval of polling for the end of a run, seconds."""
_ENDED: Final = ("done", "cancelled", "ended-early")

runs = typer.Typer(no_args_is_help=True, help="List, show and cancel runs, such as a replay.")

Name = Annotated[str, typer.Argument(metavar="RUN", hidden=True)]
Filters = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="JSON", help="Only events that this filter chooses."),
]
Rate = Annotated[
    float | None, typer.Option("--rate", metavar="N", help="Most events a second, all in all.")
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Only count; change nothing.")]
RunName = Annotated[
    Text,
    typer.Option(
        "--run", metavar="ID", help="Id of the run: the same command again starts nothing new."
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Print the id of the run, and end.")]


def options_of(
    filters: list[str] | None, rate: float | None, run: str | None, *, dry: bool
) -> dict[str, Any]:
    """The members of a request for a run that its flags give.

    Raises:
        SettingsError: A filter is not JSON.
    """
    found: dict[str, Any] = {}
    if filters:
        try:
            found["filters"] = [msgspec.json.decode(each) for each in filters]
        except msgspec.MsgspecError as error:
            raise SettingsError(f"--filter: not JSON: {error}") from error
    if rate is not None:
        found["rateLimit"] = rate
    if dry:
        found["dryRun"] = True
    if run is not None:
        found["run"] = run
    return found


def follow(
    address: Address, namespace: str, asked: dict[str, Any], done: str, *, wait: bool
) -> None:
    """Wait for the end of the run that was *asked* for, and print what came of it."""
    name = asked["run"]
    if not wait:
        _console.output().print(name, markup=False)
        return
    try:
        state = _ended(address, _path(name, namespace))
    except BaseException:
        _console.errors().print(f"The run {name} goes on: see distributary runs", markup=False)
        raise
    parts = [f"{done}: {state['handled']}"]
    if state.get("dryRun"):
        parts = [f"would be {done}: {state['handled']}"]
    if state["passed"]:
        parts.append(f"{state['passed']} left: filtered, paused, or waiting already")
    if state.get("oldest"):
        parts.append(f"the log begins at {state['oldest']}: what came before is gone")
    parts += [
        f"missing of partition {each['partition']}, between {each['from']} and"
        f" {each['to'] - 1}: {_console.counted(each['records'], 'record')}"
        for each in state.get("missing", ())
    ]
    if state["state"] == "cancelled":
        parts.append("cancelled")
    if state["state"] == "ended-early":
        parts.append(f"ended early: {state['reason']}")
    ids = set(state.get("ids", ()))
    absent = max(0, len(ids) - state["looked"]) if ids and state["state"] == "done" else 0
    if absent:
        parts.append(f"no kept dead letter has {absent} of {_console.counted(len(ids), 'id')}")
    _console.output().print(f"{', '.join(parts)} (run {name})", markup=False)
    if state["state"] == "ended-early" or absent:
        raise typer.Exit(_console.FAILED)


def _path(run: str, namespace: str) -> str:
    return in_namespace(namespace, f"/runs/{quote(run, safe='')}")


def _ended(address: Address, path: str) -> dict[str, Any]:
    """Poll until the run at *path* is over; a terminal shows how far it is."""
    state: dict[str, Any] = checked(call(address, "GET", path))
    console = _console.errors()
    said = ""
    if state["state"] in _ENDED or not console.is_terminal:
        while state["state"] not in _ENDED:
            said = _say_what_it_waits_for(state, said)
            time.sleep(LOOK_EVERY_S)
            state = checked(call(address, "GET", path))
        return state
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(state["kind"], total=None)
        while state["state"] not in _ENDED:
            total = state.get("total") or None
            progress.update(task, total=total, completed=state.get("looked", 0))
            said = _say_what_it_waits_for(state, said)
            time.sleep(LOOK_EVERY_S)
            state = checked(call(address, "GET", path))
    return state


def _say_what_it_waits_for(state: dict[str, Any], said: str) -> str:
    """Say it when it changes; returns what was said last."""
    waits_for = str(state.get("waitsFor", ""))
    if waits_for not in {"", said}:
        _console.errors().print(f"waits: {waits_for}", markup=False)
        return waits_for
    return said


def list_all(
    *,
    subscription: Annotated[
        Text, typer.Option("--subscription", metavar="ID", help="Those of this subscription.")
    ] = None,
    kind: Annotated[
        Text, typer.Option("--kind", metavar="KIND", help="redrive, purge, replay or retry.")
    ] = None,
    state: Annotated[
        Text,
        typer.Option(
            "--state", metavar="STATE", help="running, cancelling, cancelled, ended-early or done."
        ),
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    json: AsJson = False,
) -> None:
    """List the runs of the last week, the newest first."""
    said = {"limit": 100, "subscription": subscription, "kind": kind, "state": state}
    path = with_query(in_namespace(namespace, "/runs"), said)
    columns = {
        "run": lambda run: run["run"],
        "kind": lambda run: run["kind"] + (" (dry)" if run["dryRun"] else ""),
        "of": _concerns,
        "state": lambda run: run["state"] + (", waits" if run.get("waitsFor") else ""),
        "handled": lambda run: str(run["handled"]),
        "passed": lambda run: str(run["passed"]),
        "asked": lambda run: run["asked"],
        "by": lambda run: run["by"],
    }
    rows = items_of(server_at(url, token_from), path)
    _console.show_rows(rows, columns, as_json=json, none="no runs")


def _concerns(run: dict[str, Any]) -> str:
    """What a run is about: a subscription, an object, some dead letters, or all."""
    one = run.get("subscription") or run.get("object") or run.get("route")
    if one or "ids" not in run:
        return one or "all"
    return _console.counted(len(run["ids"]), "id")


def show(
    run: Name,
    *,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Print one run: what was asked, and how far it is."""
    print_json(checked(call(server_at(url, token_from), "GET", _path(run, namespace))))


def cancel(
    run: Name,
    *,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """End a run where it is; what it has sent already stays sent."""
    path = f"{_path(run, namespace)}/cancel"
    state = checked(call(server_at(url, token_from), "POST", path))
    _console.output().print(f"{state['state']}: {state['run']}", markup=False)


add_command(runs, "list", list_all)
add_command(runs, "show", show)
add_command(runs, "cancel", cancel)
