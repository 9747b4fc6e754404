"""``distributary events``: finds accepted events, tells the way of one, and follows new ones."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.text import Text as Line

from distributary.cli import _console, _events_screen
from distributary.cli._api import call, checked, in_namespace, parts_of, path_of, with_query
from distributary.cli._http import Address
from distributary.cli._options import (
    DEFAULT_URL,
    Namespace,
    Text,
    TokenFrom,
    Url,
    add_command,
)
from distributary.cli._server import server_at
from distributary.cli._times import moment_ms, seconds, time_of
from distributary.core.errors import SettingsError
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.resource.times import format_time, parse_time_ms

LIMIT_DEFAULT: Final = 20
"""Events that ``find`` prints: a screen."""
PART_MAX: Final = 1000
"""Events asked for at a time."""
LOOK_S_DEFAULT: Final = "1s"
"""Interval at which ``tail`` asks."""
LOOK_S_MIN: Final = 0.1
"""Shortest such interval: each look costs the server some milliseconds."""
OVERLAP_MS: Final = 5_000
"""``tail`` asks again for the last seconds: events of several partitions become visible out of
order, and each is printed once."""
SHOWN_MAX: Final = 100_000
"""Positions that ``tail`` remembers as printed."""

STATES_MAX: Final = 10
"""Subscriptions without an outcome whose state ``show`` asks for: a request each."""

events = typer.Typer(no_args_is_help=True, help="Find events, and what became of them.")

Id = Annotated[Text, typer.Option("--id", metavar="TEXT", help="Their id.")]
Type = Annotated[Text, typer.Option("--type", metavar="TEXT", help="Their type.")]
Source = Annotated[Text, typer.Option("--source", metavar="TEXT", help="Their source.")]
Subject = Annotated[Text, typer.Option("--subject", metavar="TEXT", help="Their subject.")]
Broker = Annotated[Text, typer.Option("--broker", metavar="NAME", help="Published to this Broker.")]
Channel = Annotated[
    Text, typer.Option("--channel", metavar="NAME", help="Published to this Channel.")
]
Since = Annotated[
    Text,
    typer.Option("--since", metavar="TIME", help="Accepted then or later; 30m: half an hour ago."),
]
Until = Annotated[Text, typer.Option("--until", metavar="TIME", help="Accepted before then.")]
Json = Annotated[bool, typer.Option("--json", help="JSON lines.")]


def find(
    *,
    id_: Id = None,
    type_: Type = None,
    source: Source = None,
    subject: Subject = None,
    broker: Broker = None,
    channel: Channel = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Most events.")
    ] = LIMIT_DEFAULT,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    json: Json = False,
) -> None:
    """Find accepted events, the newest first.

    By --id at once; otherwise the log is read backwards, which takes a while where nothing fits.
    Times are 30s, PT30S, 30, a day, or 2026-11-23T10:00:00Z.

    For example:

      distributary events find --id order-17

      distributary events find --type com.example.order --since 1h

    Exit code 1 if there is none.
    """
    asked = {
        "id": id_,
        "type": type_,
        "source": source,
        "subject": subject,
        "broker": broker,
        "channel": channel,
        "since": time_of("--since", since),
        "until": time_of("--until", until),
    }
    address = server_at(url, token_from)
    path = _path(namespace, asked, min(limit, PART_MAX))
    count = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count
        for event in _found(address, path):
            if count == limit:
                return
            count += 1
            yield event

    _console.show_rows(counted(), _events_screen.COLUMNS, as_json=json, none="no such events")
    if not count:
        raise typer.Exit(_console.FAILED)


def show(
    position: Annotated[str, typer.Argument(metavar="POSITION", hidden=True)],
    *,
    subscription: Annotated[
        Text, typer.Option("--subscription", metavar="ID", help="Only to this subscription.")
    ] = None,
    route: Annotated[
        Text,
        typer.Option("--route", metavar="UID", help="Only to this route, such as a Trigger's."),
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    json: Json = False,
) -> None:
    """Tell the way of one event: who matched, who did not and why, each attempt and outcome.

    POSITION is what find prints first.

    For example:

      distributary events show 0-4711-0

      distributary events show 0-4711-0 --subscription orders
    """
    if not re.fullmatch(r"[0-9]+-[0-9]+-[0-9]+", position):
        raise SettingsError(
            f"POSITION is partition-offset-index, such as 0-4711-0; got {position!r}"
        )
    address = server_at(url, token_from)
    asked = {"subscription": subscription, "route": route}
    path = with_query(in_namespace(namespace, f"/events/{position}"), asked)
    way = checked(call(address, "GET", path))
    if json:
        print(msgspec.json.encode(way).decode())
    else:
        states = _states_of(address, namespace, way["matches"])
        _events_screen.show_way(_console.output(), way, states)


def _states_of(
    address: Address, namespace: str, matches: Iterable[Mapping[str, Any]]
) -> dict[str, str]:
    """The state of subscriptions that have an event waiting: paused ones look like any other."""
    waiting = (
        each
        for each in matches
        if each["matched"] and each["outcome"] is None and each.get("waiting", True)
    )
    ids = [each["subscription"] for each in waiting if each.get("subscription")]
    states = {}
    for id_ in ids[:STATES_MAX]:
        answer = call(address, "GET", path_of(id_, namespace) + "/status")
        if answer.good:
            states[id_] = str(msgspec.json.decode(answer.body)["state"])
    return states


def tail(
    *,
    type_: Type = None,
    source: Source = None,
    subject: Subject = None,
    broker: Broker = None,
    channel: Channel = None,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Begin there; now, say.")
    ] = "now",
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="Ask the server so often.")
    ] = LOOK_S_DEFAULT,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="End after so many events.")
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    json: Json = False,
) -> None:
    """Follow new events, until Ctrl-C.

    Up to 1,000 events are printed for each look; where more came, a line says so.

    For example:

      distributary events tail --type com.example.order
    """
    interval_s = seconds("--interval", interval, LOOK_S_MIN)
    asked = {
        "type": type_,
        "source": source,
        "subject": subject,
        "broker": broker,
        "channel": channel,
    }
    now_ms = _now_ms()
    begin_ms = moment_ms("--since", since, now_ms=now_ms)
    address = server_at(url, token_from)
    if moment_ms("--since", since, now_ms=now_ms + 1) != begin_ms:  # seen from now
        skew_ms = _skew_ms(address, _path(namespace, {"since": format_time(now_ms)}, 1))
        begin_ms = max(0, begin_ms + skew_ms)
    left = limit
    tailing = _Tailing(address, namespace, asked, begin_ms)
    try:
        while left is None or left > 0:
            for event in tailing.look():
                _show_line(event, as_json=json)
                left = None if left is None else left - 1
                if left == 0:
                    return
            time.sleep(interval_s)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _skew_ms(address: Address, path: str) -> int:
    """How far the server's clock is ahead of ours, as an answer to *path* tells.

    0 where they may agree: the server tells seconds. Events have times of the server's clock, so
    one that begins to follow them by a clock that is ahead would miss the first ones.
    """
    response = call(address, "GET", path)
    checked(response, list)
    ours_ms = _now_ms()
    try:
        theirs = parsedate_to_datetime(response.headers.get("date", ""))
    except ValueError:  # a proxy left it out, or wrote its own
        return 0
    theirs_ms = round(theirs.timestamp() * 1000)
    return 0 if theirs_ms <= ours_ms < theirs_ms + 1000 else theirs_ms - ours_ms


def _show_line(event: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(event).decode(), flush=True)
    else:
        line: Line = _events_screen.line_of(event)
        _console.output().print(line, soft_wrap=True)


class _Tailing:
    """Asks for new events, and tells each once.

    Args:
        address: The server.
        namespace: Whose events.
        asked: Which of them.
        begin_ms: No older ones, wall clock, milliseconds.
    """

    def __init__(
        self, address: Address, namespace: str, asked: Mapping[str, str | None], begin_ms: int
    ) -> None:
        self._address = address
        self._namespace = namespace
        self._asked = dict(asked)
        self._begin_ms = begin_ms
        self._newest_ms = begin_ms
        self._shown: dict[str, None] = {}

    def look(self) -> list[dict[str, Any]]:
        """The events that no earlier look has returned, the oldest first."""
        since_ms = max(self._begin_ms, self._newest_ms - OVERLAP_MS)
        asked = {**self._asked, "since": format_time(since_ms)}
        path = _path(self._namespace, asked, PART_MAX)
        found: list[dict[str, Any]] = []
        more = False
        for event in _found(self._address, path):
            if event["position"] in self._shown:
                continue
            if len(found) == PART_MAX:
                more = True
                break
            found.append(event)
        if more:
            _console.errors().print("more events came than are shown", style="yellow")
        for event in found:
            self._shown[event["position"]] = None
            self._newest_ms = max(self._newest_ms, parse_time_ms(event["time"]))
        while len(self._shown) > SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        found.reverse()
        return found


def _path(namespace: str, asked: Mapping[str, str | None], limit: int) -> str:
    return with_query(in_namespace(namespace, "/events"), {**asked, "limit": limit})


def _found(address: Address, path: str) -> Iterator[dict[str, Any]]:
    """All events from *path* on; says what it looks at where that takes long."""
    console = _console.errors()
    for listed, response in parts_of(address, path):
        yield from listed
        looked = response.headers.get("distributary-looked-to")  # absent in the last part
        if not listed and looked and console.is_terminal:
            console.print(f"looked at everything since {looked}; going on", style="dim")


add_command(events, "find", find)
add_command(events, "show", show)
add_command(events, "tail", tail)
