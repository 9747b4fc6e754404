"""``distributary status``: what flows through a namespace, what stands in its way, and the past."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.text import Text as Line

from distributary.cli import _console
from distributary.cli._api import call, checked, in_namespace, with_query
from distributary.cli._cluster import read_cluster, show_cluster
from distributary.cli._http import Address
from distributary.cli._options import (
    DEFAULT_URL,
    AsJson,
    Namespace,
    TokenFrom,
    Url,
)
from distributary.cli._server import server_at
from distributary.core.tenant import DEFAULT_NAMESPACE, path_in

STATES: Final = ("failing", "lagging", "paused", "disabled", "parked", "awaiting-consent")
"""Members of the answer that count subscriptions, in the order in which they need attention."""
EVENTS: Final = 200
"""Newest events whose types are counted: enough to see what flows, and one read of the log."""
TYPES_MAX: Final = 8
"""Types that are shown, the most frequent ones."""
_BARS: Final = " ▁▂▃▄▅▆▇█"


def status(
    *,
    types: Annotated[
        bool, typer.Option("--types/--no-types", help="Count the types of the newest events too.")
    ] = True,
    cluster: Annotated[
        bool,
        typer.Option("--cluster/--no-cluster", help="Show nodes, leases and partitions too."),
    ] = True,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
    json: AsJson = False,
) -> None:
    """Show whether all is ready, what flows, fails or waits; then who owns which partition.

    Types are those of the newest 200 events. Nodes, leases and partitions are for who may observe
    all namespaces; any node says them, also while none leads.
    """
    address = server_at(url, token_from)
    path = in_namespace(namespace, "/status")
    members = read_cluster(address) if cluster else None
    answer = call(address, "GET", path)
    if not answer.good and members is not None and not json:
        show_cluster(members)  # nobody leads, mostly: that is when people look
    found: dict[str, Any] = checked(answer)
    ready, why = _readiness(address)
    counts = _types(address, namespace) if types else Counter()
    if json:
        shown = found | {"ready": ready} | ({"notReady": why} if why else {})
        shown |= {"types": dict(counts.most_common())} if types else {}
        shown |= {} if members is None else {"cluster": members}
        print(msgspec.json.encode(shown).decode())
        return
    readiness = ("server", "ready", "green") if ready else ("server", f"not ready: {why}", "red")
    where = ("namespace", namespace, "")
    lines = [readiness, where, *_lines(found), *_type_lines(counts)]
    width = max(len(name) for name, _, _ in lines)
    for name, text, style in lines:
        line = Line(f"{name:{width}}  ").append(_console.fits_one_line(text), style=style)
        _console.output().print(line)
    if members is not None:
        show_cluster(members)


def _readiness(address: Address) -> tuple[bool, str]:
    """Whether the server is ready; else why not: the reason itself is for who may observe it."""
    answer = call(address, "GET", "/readyz")
    if answer.good:
        return True, ""
    try:
        return False, str(msgspec.json.decode(answer.body)["detail"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return False, f"it answered {answer.status}"


def _types(address: Address, namespace: str) -> Counter[str]:
    path = with_query(path_in(namespace, "/events"), {"limit": EVENTS})
    found = checked(call(address, "GET", path), list)
    return Counter(str((each["event"] or {}).get("type", "")) for each in found)


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name, text and style of each line."""
    yield "accepted", f"{_rate(found['accepted'])} events/s", ""
    yield "delivered", f"{_rate(found['delivered'])} deliveries/s", ""
    latency = found["latency"]
    if latency["p50"] is not None and latency["p99"] is not None:
        yield "latency", f"{latency['p50']:.3f} s (p50), {latency['p99']:.3f} s (p99)", ""
    for name in STATES:
        if found.get(name):
            some = _console.counted(found[name], "subscription")
            yield name, some, "red" if name == "failing" else "yellow"
    yield "in flight", str(found["inFlight"]), ""
    yield "waiting", str(found["waiting"]), ""
    yield "dead letters kept", str(found["deadLetters"]), "yellow" if found["deadLetters"] else ""
    if found["backlog"] is not None:
        yield "backlog", _console.counted(found["backlog"], "record"), ""
    minutes = found["minutes"]
    for name in ("accepted", "delivered"):
        past = [float(point[name]) for point in minutes]
        if any(past):
            peak = f"  at most {_rate(max(past))}/s"
            yield f"{name}, last hour", bars(past) + peak, "cyan"


def _rate(per_s: float) -> str:
    """A rate with one decimal; a small one with its first two digits: it is not 0."""
    return f"{per_s:.1f}" if per_s >= 0.1 or not per_s else f"{per_s:.2g}"


def _type_lines(counts: Counter[str]) -> Iterator[tuple[str, str, str]]:
    whole = counts.total()
    for name, count in counts.most_common(TYPES_MAX):
        share = f"{count / whole:4.0%}" if count * 100 >= whole else " <1%"
        yield "newest events", f"{share}  {name}", ""


def bars(values: Iterable[float]) -> str:
    """A bar for each of *values*, none negative, as high as its share of the largest."""
    values = list(values)
    peak = max(values, default=0.0) or 1.0
    return "".join(_BARS[math.ceil(value / peak * 8)] for value in values)
