"""``distributary send``: its options and its help. ``_send`` does the work.

Callers: ``_commands``.
"""

import uuid
from pathlib import Path
from typing import Annotated, Literal

import typer

from distributary.cli import _http, _outgoing, _send
from distributary.cli._options import DEFAULT_URL, Text, Url, seconds
from distributary.core.errors import SettingsError

__all__ = ["send"]

TIMEOUT_S_MIN = 0.1
"""Shortest wait for an answer that can be asked for: less would give up before any server."""


def send(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            hidden=True,  # the text explains it, without the type that typer would show
        ),
    ] = None,
    *,
    url: Url = DEFAULT_URL,
    path: Annotated[str, typer.Option(metavar="PATH", help="Path to publish to.")] = "/events",
    type_: Annotated[
        str, typer.Option("--type", metavar="TEXT", help="Attribute type.")
    ] = "dev.distributary.example",
    source: Annotated[
        str, typer.Option(metavar="TEXT", help="Attribute source.")
    ] = "/distributary/send",
    id_: Annotated[
        Text, typer.Option("--id", metavar="TEXT", help="Attribute id; absent: a new one.")
    ] = None,
    subject: Annotated[Text, typer.Option(metavar="TEXT", help="Attribute subject.")] = None,
    time: Annotated[Text, typer.Option(metavar="TIME", help="Attribute time (RFC 3339).")] = None,
    extension: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="An extension attribute.")
    ] = None,
    content_type: Annotated[
        Text, typer.Option(metavar="TEXT", help="Content type of the data.")
    ] = None,
    data: Annotated[Text, typer.Option(metavar="TEXT", help="Payload.")] = None,
    data_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File whose bytes are the payload.")
    ] = None,
    mode: Annotated[
        Literal["binary", "structured", "batch"],
        typer.Option(metavar="binary|structured|batch", help="Content mode."),
    ] = "binary",
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Events a batch.")
    ] = 100,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, help="Send each event N times, as id-1 to id-N.")
    ] = 1,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Requests under way at one time.")
    ] = 8,
    rate: Annotated[
        float,
        typer.Option(metavar="NUMBER", min=0, help="Events a second; 0: as fast as answers come."),
    ] = 0,
    retry_for: Annotated[
        str, typer.Option(metavar="DURATION", help="Repeat a failing request for so long.")
    ] = "30s",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Longest wait for one answer.")
    ] = "30s",
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append what became of each event, as JSON lines."),
    ] = None,
) -> None:
    """Publish events, and say what became of each.

    One event from options, or many from files: FILE holds structured events, as JSON lines or as a
    JSON array; - is standard input. A request without an answer, or answered 429,
    502, 503 or 504, is repeated: an event may be stored twice, but none is lost in silence.

    For example:

      distributary send --type com.example.order --data '{"total": 12}'

      distributary send events.jsonl --mode batch --concurrency 4

      tail -f orders.jsonl | distributary send -

      distributary send --repeat 100000 --rate 5000 --ledger sent.jsonl

    Exit code 1 if any event was not acknowledged; 3 if no server answered.
    """
    address = _http.parse_address(url)
    event = None
    if not files:
        attributes = {
            "id": str(uuid.uuid4()) if id_ is None else id_,
            "source": source,
            "type": type_,
            "subject": subject,
            "time": time,
            "datacontenttype": content_type,
        }
        payload = _payload(data, data_file)
        event = _outgoing.one_event(attributes, extension or (), payload)
    plan = _send.Plan(
        address=address,
        path=path,
        event=event,
        files=tuple(files or ()),
        repeat=repeat,
        mode=mode,
        batch_events=batch_size,
        concurrency=concurrency if files or repeat > 1 else 1,
        rate_per_s=rate,
        give_up_s=seconds("--retry-for", retry_for),
        timeout_s=seconds("--timeout", timeout, TIMEOUT_S_MIN),
        ledger=ledger,
    )
    raise typer.Exit(_send.run(plan))


def _payload(data: str | None, data_file: Path | None) -> bytes | None:
    if data is not None and data_file is not None:
        raise SettingsError("Give --data or --data-file, not both.")
    if data_file is None:
        return None if data is None else data.encode("utf-8", "surrogateescape")
    try:
        return data_file.read_bytes()
    except OSError as error:
        raise SettingsError(f"--data-file {data_file}: {error.strerror}") from error
