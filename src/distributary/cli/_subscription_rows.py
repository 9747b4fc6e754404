"""How subscriptions are shown: a line each in lists, and one in detail.

Callers: ``_subscriptions``. Pure. Members that an older server does not send are left out.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from distributary.cli._console import counted

FILTER_CHARS_MAX: Final = 60
"""Longest filter in a list, characters; ``get`` shows it whole."""

Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[dict[str, Any]], object]]

AWAITS_CONSENT: Final = "awaiting-consent"
"""State of a subscription whose sink was asked and has not agreed."""

NOT_THERE: Final = "-"
"""Shown for what is not known, or has never been."""


def filter_text(row: Row) -> str:
    """What the subscription selects, in short: ``type=a|b subject=eu/*``; empty: every event."""
    parts = [f"source={row['source']}"] if row.get("source") else []
    if row.get("types"):
        parts.append("type=" + "|".join(row["types"]))
    parts += [_expression(each) for each in row.get("filters") or ()]
    text = " ".join(parts)
    return text if len(text) <= FILTER_CHARS_MAX else text[: FILTER_CHARS_MAX - 1] + "…"


def _expression(expression: Any) -> str:
    if not isinstance(expression, dict) or len(expression) != 1:
        return _json(expression)
    ((dialect, value),) = expression.items()
    if dialect in _PATTERNS and isinstance(value, dict):
        return " ".join(f"{name}={_PATTERNS[dialect].format(text)}" for name, text in value.items())
    if dialect in {"all", "any"} and isinstance(value, list):
        word = " and " if dialect == "all" else " or "
        return f"({word.join(_expression(each) for each in value)})"
    if dialect == "not":
        return f"not({_expression(value)})"
    return f"({value})" if dialect == "sql" else _json(expression)


_PATTERNS: Final = {"exact": "{}", "prefix": "{}*", "suffix": "*{}"}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


LISTED: Final[Columns] = {
    "id": lambda row: row.get("id", ""),
    "state": lambda row: (row.get("status") or {}).get("state", NOT_THERE),
    "sink": lambda row: row.get("sink", ""),
    "filter": filter_text,
}
"""Columns of a list; the URI of the sink tells the protocol."""


def reason_of(status: Row) -> str:
    """Why nothing, or not everything, is delivered; empty: no reason is known."""
    failing, disabled = status.get("failing"), status.get("disabled")
    if isinstance(disabled, dict) and disabled.get("reason"):
        return str(disabled["reason"])
    awaited = next((one for one in status.get("consent") or () if "reason" in one), None)
    if awaited and status.get("state") == AWAITS_CONSENT:
        return _joined(awaited, "reason", "sink")
    if isinstance(failing, dict):
        return _joined(failing, "reason", "sink")
    stopped = status.get("lastError") or status.get("parked")
    if stopped or awaited:
        return _joined(stopped or awaited, "reason", "sink")
    halted = disabled or status.get("paused")
    return f"by {halted['by']}" if isinstance(halted, dict) and halted.get("by") else ""


def _joined(value: Any, *names: str) -> str:
    found = [str(value[name]) for name in names if value.get(name)]
    return " at ".join(found)


def _dead(status: Row) -> object:
    """Dead letters so far; an older server tells only of those that it keeps."""
    if status.get("deadLettered") is not None:
        return status["deadLettered"]
    kept = status.get("kept")
    return kept.get("count", NOT_THERE) if isinstance(kept, dict) else NOT_THERE


STATES: Final[Columns] = {
    "id": lambda row: row["id"],
    "state": lambda row: row.get("state", NOT_THERE),
    "waiting": lambda row: row.get("waiting", NOT_THERE),
    "delivered": lambda row: row.get("delivered", NOT_THERE),
    "dead": _dead,
    "why": reason_of,
}
"""Columns of the statuses of all: ``dead`` counts dead letters."""


def detail(status: Row) -> Iterator[tuple[str, str]]:
    """Names and values of the status of one subscription, for people."""
    yield "id", str(status["id"])
    for name in ("state", "route", "revision"):
        if status.get(name) is not None:
            yield name, str(status[name])
    failing = status.get("failing")
    if isinstance(failing, dict):
        yield "failing", _failing(failing)
    elif reason_of(status) and not (status.get("paused") or status.get("disabled")):
        yield "why", reason_of(status)
    for name, shown in _MOMENTS.items():
        if status.get(name):
            yield shown, _when(status[name])
    for name, shown in _COUNTS.items():
        if status.get(name) is not None:
            yield shown, f"{status[name]:,}"
    yield from _amounts(status)
    yield from _refusals(status)
    for each in status.get("conditions") or ():
        said = " ".join(str(each[name]) for name in ("reason", "message") if each.get(name))
        yield str(each.get("type")), f"{each.get('status')} {said}".strip()


def _refusals(status: Row) -> Iterator[tuple[str, str]]:
    """Why sinks have not consented, and when they are asked again."""
    for each in status.get("consent") or ():
        if "reason" in each:
            again = f"; asked again {each['next']}" if each.get("next") else ""
            yield "consent", f"{each['state']}: {_joined(each, 'reason', 'sink')}{again}"


def _amounts(status: Row) -> Iterator[tuple[str, str]]:
    if status.get("rate") is not None:
        yield "rate", f"{status['rate']:g} deliveries a second"
    kept = status.get("kept")
    if isinstance(kept, dict):
        size = counted(kept.get("bytes", 0), "byte")
        yield "dead letters kept", f"{kept.get('count', 0):,}, {size}"
    distance = (status.get("backfill") or {}).get("distance")
    if distance is not None:
        yield "behind in the log", counted(distance, "record")


_MOMENTS: Final = {
    "lastSuccess": "last success",
    "lastAnswer": "last answer",
    "paused": "paused",
    "disabled": "disabled",
}
_COUNTS: Final = {
    "waiting": "waiting",
    "inFlight": "in flight",
    "delivered": "delivered",
    "deadLettered": "dead-lettered",
    "dropped": "dropped",
}


def _failing(failing: Row) -> str:
    text = f"since {failing.get('since', NOT_THERE)}: {_joined(failing, 'reason', 'sink')}"
    count = failing.get("count")
    return text if count is None else f"{text} ({counted(count, 'attempt')})"


def _when(value: Any) -> str:
    """A time, or an object with a time and what belongs to it."""
    if not isinstance(value, dict):
        return str(value)
    words = {"time": "", "since": "since ", "by": "by ", "reason": "", "status": "status "}
    return " ".join(f"{words[name]}{value[name]}" for name in words if value.get(name))
