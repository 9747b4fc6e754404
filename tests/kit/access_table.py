"""Who may do what, as it was meant: written down, not computed by the server's own table.

Callers: tests, which compare the server's table and a running server with it. No script writes
``access_table.json``: whoever changes what somebody may do changes the cell there too. A key is
surface, method and path for people; its value the columns that are let through. Who is not gets
401 as a stranger, else 403.
"""

import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_suffix(".json")


def read() -> dict[str, list[str]]:
    """Columns that are let through, by route and method."""
    found: dict[str, list[str]] = json.loads(_FILE.read_text())
    return found


def key_of(way: Any) -> str:
    """The key of a ``scripts/access_matrix.py`` ``Way``."""
    return f"{way.surface} {way.method} {way.shown}"


class MeantTable:
    """The table, for the questions of tests.

    Args:
        strangers: Columns of who is not known; written down as ``nobody``.
    """

    def __init__(self, strangers: tuple[str, ...]) -> None:
        self._strangers = strangers
        self._let_through = {key: frozenset(columns) for key, columns in read().items()}

    def expected(self, way: Any, column: str) -> int | None:
        """Status of the refusal that *way* is to bring to who has *column*; None: let through."""
        let_through = self._let_through[key_of(way)]
        stranger = column in self._strangers
        if ("nobody" if stranger else column) in let_through:
            return None
        return 401 if stranger else 403
