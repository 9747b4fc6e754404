"""How deliveries stand, and what one may ask of them: what the commands print."""

from typing import Any

import msgspec
from rich.markup import escape

from distributary.cli import _console
from distributary.cli._http import Address
from distributary.cli._subscribe import call, checked, path_of, print_json

__all__ = ["resume", "status"]

GONE = 404


def status(address: Address, identifier: str | None, *, as_json: bool) -> int:
    """Print how a subscription stands, or how all of them do."""
    if identifier is not None:
        print_json(checked(call(address, "GET", path_of(identifier) + "/status")))
        return _console.OK
    rows = checked(call(address, "GET", "/subscriptions")) or []
    ids = (str(row["id"]) for row in rows)
    table = _console.folding_table(ids, "state", "waiting", "kept", "last error")
    for row in rows:
        response = call(address, "GET", path_of(row["id"]) + "/status")
        if response.status == GONE:
            continue  # deleted since the list was made
        found = checked(response)
        if as_json:
            print(msgspec.json.encode(found).decode())
        else:
            table.add_row(*(escape(_console.fits_one_line(cell)) for cell in _cells(found)))
    if not as_json:
        _console.output().print(table if rows else "no subscriptions")
    return _console.OK


def _cells(found: dict[str, Any]) -> tuple[str, ...]:
    error = found.get("lastError") or found.get("parked") or {}
    return (
        str(found["id"]),
        str(found["state"]),
        str(found["waiting"]),
        str(found["kept"]["count"]),
        " at ".join(str(error[name]) for name in ("reason", "sink") if name in error),
    )


def resume(address: Address, identifier: str) -> int:
    """Have a parked subscription sent to again."""
    checked(call(address, "POST", path_of(identifier) + "/resume"))
    _console.output().print(f"resumed {escape(_console.fits_one_line(identifier))}")
    return _console.OK
