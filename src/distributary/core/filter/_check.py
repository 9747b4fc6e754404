"""Validates a ``filters`` array: reports every fault at once, each with its JSON path."""

from typing import Final

from distributary.core.errors import Fault
from distributary.core.filter._paths import member, shown
from distributary.core.filter._registry import DIALECTS, REGISTRY

DEPTH_MAX: Final = 32
"""Deepest nesting of expressions; one of the ``filters`` array is at depth 1. People nest three or
four deep. A compiled expression takes one Python frame a level, so this stays far below the
interpreter's limit for any caller."""

NODES_MAX: Final = 1_000
"""Most expressions and comparisons of one resource, together. It bounds the cost of one route for
an event to about 0.1 ms; a list of a thousand values belongs into several routes."""


def check(filters: object, path: str = "$.filters") -> list[Fault]:
    """Return every fault of a ``filters`` array; an empty list means that it can be compiled.

    Never raises and never recurses beyond ``DEPTH_MAX``, for any input.

    Args:
        filters: The decoded JSON.
        path: Its JSON path, the root of the faults' paths.

    Source:
        Subscriptions API, ``filters`` and 3.2.4; decision 7, faults of filters. An empty array is
        no fault: it passes everything.
    """
    if not isinstance(filters, list | tuple):
        return [Fault(path, "type", "expected an array of filter expressions")]
    walk = _Walk(path)
    for index, expression in enumerate(filters):
        at = f"{path}[{index}]"
        if not walk.count(at):
            break
        walk.expression(expression, at)
    return walk.faults


class _Walk:
    """The state of one check: faults, number of nodes, current depth."""

    def __init__(self, root: str) -> None:
        self.faults: list[Fault] = []
        self._root = root
        self._nodes = 0
        self._depth = 0

    def fault(self, path: str, code: str, message: str) -> None:
        self.faults.append(Fault(path, code, message))

    def count(self, path: str) -> bool:
        self._nodes += 1
        if self._nodes == NODES_MAX + 1:
            message = (
                f"more than {NODES_MAX} expressions and comparisons; the rest, from {path} on, "
                "was not checked"
            )
            self.fault(self._root, "too-many", message)
        return self._nodes <= NODES_MAX

    def expression(self, value: object, path: str) -> None:
        if self._depth == DEPTH_MAX:
            self.fault(path, "too-deep", f"filter expressions nest at most {DEPTH_MAX} deep")
            return
        self._depth += 1
        self._dialects(value, path)
        self._depth -= 1

    def _dialects(self, value: object, path: str) -> None:
        known = ", ".join(DIALECTS)
        if not isinstance(value, dict):
            self.fault(path, "type", f"expected an object with one dialect of: {known}")
            return
        if not value:
            self.fault(path, "empty", f"expected one dialect of: {known}")
        elif len(value) > 1:
            self.fault(path, "one-dialect", "expected one dialect in an object; use all or any")
        for name, inner in value.items():
            at = member(path, name)
            if name in REGISTRY:
                REGISTRY[name].check(inner, self, at)
            elif self.count(at):
                message = f"{shown(name)} is not a known filter dialect; known are: {known}"
                self.fault(at, "unknown-dialect", message)
            else:
                return
