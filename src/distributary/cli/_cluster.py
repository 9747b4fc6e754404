"""Lines of ``distributary status`` about nodes, leases and partitions."""

from collections.abc import Iterable, Iterator
from typing import Any

from distributary.cli import _console
from distributary.cli._api import call
from distributary.cli._http import Address

PATH = "/cluster"


def read_cluster(address: Address) -> dict[str, Any] | None:
    """What the server says of it; None: it does not say it to this caller, or at all."""
    response = call(address, "GET", PATH)
    found = response.json() if response.good else None
    return found if isinstance(found, dict) else None


def show_cluster(found: dict[str, Any]) -> None:
    """Print it, as three tables."""
    _table(
        found["nodes"],
        ("node", "address", "version", "since", "seen", "does"),
        lambda one: (
            one["name"],
            one["address"],
            one["version"],
            one["since"],
            f"{one['ageSeconds']:.1f} s ago",
            ", ".join(_does(one)),
        ),
    )
    _table(
        found["leases"],
        ("lease", "generation", "holder", "runs out"),
        lambda one: (one["name"], one["generation"], one["holder"], _runs_out(one)),
    )
    _table(
        found["partitions"],
        ("partition", "owner", "generation", "position", "end", "lag"),
        lambda one: (
            one["partition"],
            _owner(one["owner"]),
            one["generation"],
            *(_known(one[name]) for name in ("position", "end", "lag")),
        ),
    )


def _table(rows: Iterable[dict[str, Any]], names: tuple[str, ...], cells: Any) -> None:
    columns = {
        name: (lambda one, at=at: cells(one)[at])  # a column each
        for at, name in enumerate(names)
    }
    _console.output().print()
    _console.show_rows(rows, columns, as_json=False, none=f"no {names[0]}")


def _does(node: dict[str, Any]) -> Iterator[str]:
    if not node["live"]:
        yield "gone"
    if node["leads"]:
        yield "leads"
    if node["takesEvents"]:
        yield "takes events"


def _runs_out(lease: dict[str, Any]) -> str:
    left = lease["leftSeconds"]
    if not lease["held"]:
        return "has run out"
    return "with its holder" if left is None else f"in {left:.1f} s"


def _owner(owner: dict[str, Any] | None) -> str:
    if owner is None:
        return "nobody"
    executor = f", executor {owner['executor']}" if owner["executor"] else ""
    return f"{owner['host']}{executor}, process {owner['pid']}"


def _known(number: int | None) -> str:
    return "unknown" if number is None else str(number)
