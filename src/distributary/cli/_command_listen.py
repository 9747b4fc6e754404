"""``distributary listen``: its options and its help. ``_listen`` does the work.

Callers: ``_commands``.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from distributary.cli import _behaviour, _listen
from distributary.cli._options import Text, seconds
from distributary.core.errors import SettingsError

__all__ = ["listen"]

Statuses = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE[:P]", help="Answer with it (P: probability; else 200)."),
]
Reset = Annotated[
    Literal["connect", "request", "status", "body"] | None,
    typer.Option(metavar="connect|request|status|body", help="Reset the connection at this point."),
]


def listen(
    *,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0: a free one.")
    ] = 9000,
    path: Annotated[
        Text, typer.Option(metavar="PATH", help="Take this path only; others answer 404.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Show events as JSON lines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but counts.")] = False,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append every arrival, as JSON lines.")
    ] = None,
    status: Statuses = None,
    delay: Annotated[str, typer.Option(metavar="DURATION", help="Wait before each answer.")] = "0s",
    fail_first: Annotated[
        int, typer.Option(metavar="N", min=0, help="Answer 503 to the first N.")
    ] = 0,
    retry_after: Annotated[
        str, typer.Option(metavar="TEXT", help="Retry-After of answers not 2xx.")
    ] = "",
    hang: Annotated[bool, typer.Option("--hang", help="Never answer.")] = False,
    reset: Reset = None,
    slow_head: Annotated[bool, typer.Option("--slow-head", help="Head at 1 byte/s.")] = False,
    slow_body: Annotated[bool, typer.Option("--slow-body", help="Body at 1 byte/s.")] = False,
    endless_body: Annotated[
        bool, typer.Option("--endless-body", help="A body without end.")
    ] = False,
) -> None:
    """Be a sink: show what arrives; misbehave on request.

    Behaviour can be changed while it runs: PUT a JSON object to /__behaviour (members
    delay_s, statuses, fail_first, fail_status, hang, reset, slow, endless_body, retry_after).
    GET /__stats answers counts.

    For example:

      distributary listen --port 9000

      distributary listen --json | jq .attributes.type

      distributary listen --status 503:0.3 --status 429:0.1 --retry-after 2

      curl -X PUT -d '{"hang": true}' http://127.0.0.1:9000/__behaviour
    """
    behaviour = _behaviour.Behaviour(
        delay_s=seconds("--delay", delay),
        statuses=_statuses(status or []),
        fail_first=fail_first,
        hang=hang,
        reset=reset or "",
        slow="head" if slow_head else "body" if slow_body else "",
        endless_body=endless_body,
        retry_after=retry_after,
    )
    faults = _behaviour.check(behaviour)
    if faults:
        raise SettingsError("; ".join(f"{fault.path[2:]}: {fault.message}" for fault in faults))
    show = "nothing" if quiet else "json" if json else "lines"
    watch = _listen.Watch(
        host=host, port=port, path=path, behaviour=behaviour, show=show, ledger=ledger
    )
    raise typer.Exit(_listen.run(watch))


def _statuses(texts: list[str]) -> tuple[_behaviour.StatusChance, ...]:
    try:
        return tuple(_behaviour.parse_status(text) for text in texts)
    except ValueError as error:
        raise SettingsError(f"--status: {error}") from error
