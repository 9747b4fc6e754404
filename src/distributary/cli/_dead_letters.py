"""What ``distributary dead-letters`` does: it asks the API, and prints."""

import re
import time
from typing import Any, Final
from urllib.parse import quote

import msgspec
from rich.markup import escape
from rich.table import Table

from distributary.cli import _console
from distributary.cli._http import Address
from distributary.cli._subscribe import call, checked

__all__ = ["ask", "list_all"]

LOOK_EVERY_S: Final = 0.2
"""How often it is looked whether a run is over."""
_NEXT = re.compile(r'<([^>]+)>; rel="next"')


def list_all(
    address: Address, subscription: str | None, route: str | None, *, as_json: bool
) -> int:
    """Print the kept letters: a table for people, or JSON lines."""
    table = Table(box=None, pad_edge=False)
    for name in ("kept", "subscription", "event", "type", "reason", "sink"):
        table.add_column(name, overflow="fold")
    said = {"subscription": subscription, "route": route}
    chosen = [f"{name}={quote(value, safe='')}" for name, value in said.items() if value]
    path: str | None = "/dead-letters?" + "&".join(["limit=100", *chosen])
    count = 0
    while path is not None:
        response = call(address, "GET", path)
        for letter in checked(response) or []:
            count += 1
            if as_json:
                print(msgspec.json.encode(letter).decode())
            else:
                table.add_row(*(escape(_console.fits_one_line(cell)) for cell in _cells(letter)))
        found = _NEXT.search(response.headers.get("link", ""))
        path = None if found is None else found[1]
    if not as_json:
        _console.output().print(table if count else "no dead letters are kept")
    return _console.OK


def _cells(letter: dict[str, Any]) -> tuple[str, ...]:
    event = letter.get("event", {"id": "(damaged)"})
    return (
        str(letter["kept"]),
        str(letter.get("subscription") or letter.get("object") or letter["route"]),
        str(event.get("id", "")),
        str(event.get("type", "")),
        str(letter["reason"]),
        str(letter["sink"]),
    )


def ask(address: Address, kind: str, selection: dict[str, str | bool]) -> int:
    """Ask for a run, wait until it is over, and print what it came to."""
    asked = checked(call(address, "POST", f"/dead-letters/{kind}", selection))
    while True:
        state = checked(call(address, "GET", f"/dead-letters/runs/{asked['run']}"))
        if state["state"] == "done":
            break
        time.sleep(LOOK_EVERY_S)
    done = "sent again" if kind == "redrive" else "deleted"
    left = f", {state['passed']} left: filters do not match them" if state["passed"] else ""
    _console.output().print(f"{done}: {state['handled']}{left} (run {state['run']})")
    return _console.OK
