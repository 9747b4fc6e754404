"""How ``distributary events`` shows events and their ways to people.

Callers: ``_events``. Everything that came with an event is shown without control characters and
without markup.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.text import Text as Line

from distributary.cli import _console

COLUMNS: Final[Mapping[str, Callable[[dict[str, Any]], object]]] = {
    "position": lambda event: event["position"],
    "time": lambda event: event["time"],
    "id": lambda event: (event["event"] or {}).get("id", ""),
    "type": lambda event: (event["event"] or {}).get("type", ""),
    "source": lambda event: (event["event"] or {}).get("source", ""),
    "subject": lambda event: (event["event"] or {}).get("subject", ""),
    "by": lambda event: event["by"] or "",
}
"""The table of ``find``."""

_OUTCOMES: Final = {"delivered": "green", "dead-lettered": "red", "dropped": "yellow"}


def line_of(event: Mapping[str, Any]) -> Line:
    """One event on one line: time, position, type, source, id, subject."""
    attributes = event["event"] or {}
    line = Line(overflow="ellipsis", no_wrap=True)
    line.append(f"{event['time']} ", style="dim")
    line.append(f"{event['position']} ")
    for name, style in (("type", "cyan"), ("source", "magenta"), ("id", "bold"), ("subject", "")):
        if name in attributes:
            line.append(_console.fits_one_line(attributes[name]) + " ", style=style)
    return line


def show_way(console: Console, way: Mapping[str, Any], states: Mapping[str, str]) -> None:
    """Print the way of an event: what was accepted, then each subscription with its attempts.

    Args:
        console: Where.
        way: As the server tells it.
        states: Of subscriptions that have no outcome yet, by id, as far as they are known.
    """
    for line in _lines(way, states):
        console.print(line, soft_wrap=True)


def _lines(way: Mapping[str, Any], states: Mapping[str, str]) -> Iterator[Line]:
    attributes = dict(way["event"] or {})
    data = [attributes.pop(name) for name in ("data", "data_base64") if name in attributes]
    yield _pair("accepted", way["time"])
    yield _pair("position", way["position"])
    yield _pair("published to", way["address"] or "(a timer made it)")
    yield _pair("by", way["by"] or "(not known)")
    for name, value in attributes.items():
        yield _pair(name, value)
    for each in data:
        yield _pair("data", each if isinstance(each, str) else msgspec.json.encode(each).decode())
    yield Line()
    matches = way["matches"]
    if "repeats" in way:
        yield Line(f"a repeat of the event at {way['repeats']}: delivered to nobody", "yellow")
    elif not matches:
        yield Line("no subscription or Trigger was there for it", "yellow")
    for match in matches:
        yield from _match(match, states.get(match.get("subscription", "")))
    if way["more"]:
        yield Line(
            "there are more subscriptions than are shown; ask about one: --subscription ID",
            "yellow",
        )
    if way["attempts"] != "all":
        yield Line(f"recorded attempts: {way['attempts']}", "yellow")


def _pair(name: str, value: object) -> Line:
    line = Line(f"{name:<16}", "dim")
    return line.append(_console.fits_one_line(value), style="default")


def _match(match: Mapping[str, Any], state: str | None) -> Iterator[Line]:
    names = (match.get("subscription"), match.get("trigger"), match.get("object"))
    name = next((each for each in names if each), match["uid"])
    line = Line(_console.fits_one_line(name), "bold")
    outcome = match["outcome"]
    if not match["matched"]:
        line.append(" does not match", style="dim")
    elif outcome is None and not match.get("waiting", True):
        line.append(" matches; it has ended, and its outcome is not kept", style="yellow")
    elif outcome is None:
        line.append(" matches; no outcome yet", style="yellow")
        if state is not None and state != "ready":
            line.append(f": it is {_console.fits_one_line(state)}", style="red")
    else:
        line.append(f" {outcome}", style=_OUTCOMES.get(outcome, "default"))
        if "reason" in match:
            line.append(f" ({_console.fits_one_line(match['reason'])})")
    if match.get("deleted"):
        line.append(" (deleted since, or ended)", style="yellow")
    if match.get("changed"):
        line.append(" (it has changed since)", style="yellow")
    yield line
    for why in match.get("why", ()):
        text = f"  {why['path']}: {why['reason']}"
        yield Line(_console.fits_one_line(text), "dim")
    for attempt in match["attempts"]:
        yield from _attempt(attempt)


def _attempt(attempt: Mapping[str, Any]) -> Iterator[Line]:
    duration = attempt["duration"]
    word = " in" if attempt["decision"] == "delivered" else ", took"
    took = "" if duration is None else f"{word} {duration * 1000:.1f} ms"
    status = "" if attempt["status"] is None else f" {attempt['status']}"
    stage = "" if attempt["stage"] == "event" else f" ({attempt['stage']})"
    reason = f": {attempt['reason']}" if attempt["reason"] else ""
    number = f"attempt {attempt['attempt']}{stage}"
    text = f"  {attempt['time']} {number}{status} {attempt['decision']}{took}{reason}"
    yield Line(_console.fits_one_line(text))
    if "answer" in attempt:
        yield Line(_console.fits_one_line(f"    answer: {attempt['answer']}"), "dim")
