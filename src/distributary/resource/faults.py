"""Collects every fault of a resource, each with its JSON path, before the resource is refused."""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from distributary.core.errors import Fault, ResourceError

FAULTS_MAX: Final = 100
"""Most faults in one response. A hostile body can hold tens of thousands of unknown members;
people read fewer than this, and a response stays smaller than its request."""

_SHOWN_CHARS_MAX: Final = 60
"""Characters of a client's own text that a message or path repeats."""

_PLAIN_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TYPE_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def member(path: str, name: object) -> str:
    """JSON path of the member *name* of the object at *path*."""
    text = str(name)
    if _PLAIN_MEMBER.fullmatch(text) and len(text) <= _SHOWN_CHARS_MAX:
        return f"{path}.{text}"
    return f"{path}[{shown(text)}]"


def shown(value: object) -> str:
    """*value* as a message may repeat it: quoted, escaped and cut."""
    text = value if isinstance(value, str) else repr(value)[: _SHOWN_CHARS_MAX + 1]
    cut = text if len(text) <= _SHOWN_CHARS_MAX else text[: _SHOWN_CHARS_MAX - 1] + "…"
    return json.dumps(cut, ensure_ascii=True)


def one_of(names: Iterable[str]) -> str:
    """*names* as a list for people."""
    return ", ".join(names)


class Faults:
    """The faults found so far.

    Attributes:
        found: The faults, in the order in which they were found.
    """

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, path: str, code: str, message: str) -> None:
        """Note one fault. *message* never holds a secret."""
        self.found.append(Fault(path, code, message))

    def wrong_type(self, path: str, expected: str, value: object) -> None:
        """Note that *value* is not *expected* (``a string``, ``an array of strings``)."""
        found = _TYPE_NAMES.get(type(value), type(value).__name__)
        self.add(path, "type", f"expected {expected}, found {found}")

    def object_at(self, path: str, value: object) -> Mapping[str, Any] | None:
        """*value* where it is a JSON object; else None, with a fault noted."""
        if isinstance(value, dict):
            return value
        self.wrong_type(path, "an object", value)
        return None

    def text_at(self, path: str, value: object, chars_max: int) -> str | None:
        """*value* where it is a string of 1 to *chars_max* characters; else None and a fault."""
        if not isinstance(value, str):
            self.wrong_type(path, "a string", value)
        elif not value:
            self.add(path, "empty", "expected a string that is not empty")
        elif len(value) > chars_max:
            self.add(path, "too-long", f"at most {chars_max} characters")
        else:
            return value
        return None

    def unknown_members(self, path: str, value: Mapping[str, Any], known: Collection[str]) -> None:
        """Note every member of the object *value* that is not *known*, with the nearest name."""
        for name in value:
            if name in known:
                continue
            near = difflib.get_close_matches(name[:_SHOWN_CHARS_MAX], known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {one_of(known) or 'none'}"
            self.add(member(path, name), "unknown", f"unknown member; {hint}")
            if len(self.found) > FAULTS_MAX:
                return

    def refuse(self) -> None:
        """Raise the faults found, if any.

        Raises:
            ResourceError: With at most ``FAULTS_MAX`` faults.
        """
        if not self.found:
            return
        faults = self.found
        if len(faults) > FAULTS_MAX:
            rest = Fault("$", "too-many", f"more faults follow; the first {FAULTS_MAX} are named")
            faults = [*faults[:FAULTS_MAX], rest]
        raise ResourceError(faults)
