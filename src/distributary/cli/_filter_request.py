"""The filter to try: reads it from flags, files and whole subscriptions, and checks it.

Callers: ``_filter``. Hides: the shapes in which a filter may be given, and how each fault is
reported at the place where the user wrote it.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from distributary.cli._subscribe_flags import parse_pair
from distributary.core import filter as filters
from distributary.core.errors import Fault, ResourceError, SettingsError
from distributary.resource import RESOURCE_BYTES_MAX, ResourceRules, SinkRule, decode_json
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import FilterSelection

_ELSEWHERE: Final = (
    "id",
    "sink",
    "protocol",
    "protocolsettings",
    "config",
    "sinkCredential",
    "sinkcredential",
)
"""Members of a subscription that do not affect which events match; they are ignored."""

_MATCHING: Final = ("source", "types", "filters", "filter")
"""Members that do, in any revision of the specification."""

_RULES: Final = ResourceRules(SinkRule(local_allowed=True), filters.check)
_TARGET: Final = {"sink": "http://127.0.0.1/", "protocol": "HTTP"}
"""Placeholder for the sink: nothing is sent."""


class Misfit(NamedTuple):
    """A fault of the input.

    Attributes:
        given: Where: a flag such as ``--filter``, or the name of a file.
        fault: What is wrong, at a path into that input.
        value: The value at that path, where it can be found.
    """

    given: str
    fault: Fault
    value: object


def read(
    *,
    texts: Sequence[str] = (),
    files: Sequence[Path] = (),
    sql: Sequence[str] = (),
    types: Sequence[str] = (),
    source: str | None = None,
    **pairs: Sequence[str],
) -> tuple[FilterSelection, list[Misfit]]:
    """Read the filter that the flags ask for, all ANDed, and everything wrong with it.

    Args:
        texts: JSON: an expression, an array of them, or a whole subscription.
        files: Files with such a text.
        sql: Expressions of the dialect ``sql``.
        types: Event types, any of which will do; empty: every type.
        source: The event's source; None: every source.
        pairs: ``name=text`` each, by the dialect (``exact``, ``prefix``, ``suffix``).

    Raises:
        SettingsError: A file cannot be read, a pair has no ``=``, or a member that a subscription
            has once was given twice.
    """
    reading = _Reading()
    for given, text in _numbered("--filter", texts):
        reading.text(given, text.encode("utf-8", "surrogateescape"))
    for path in files:
        reading.text(str(path), _content(path))
    for given, text in _numbered("--sql", sql):
        reading.expression(given, {"sql": text})
    for dialect, said in pairs.items():
        for given, text in _numbered(f"--{dialect}", said):
            reading.expression(given, {dialect: dict([_pair(given, text)])})
    reading.subscription("--source", source, ())
    reading.subscription("--type", None, types)
    return reading.selection, reading.misfits


def _numbered(flag: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each text with its flag, numbered where there are several."""
    for number, text in enumerate(texts, 1):
        yield flag if len(texts) == 1 else f"{flag} ({number})", text


class _Reading:
    """The input read so far."""

    def __init__(self) -> None:
        self.selection = FilterSelection()
        self.misfits: list[Misfit] = []

    def text(self, given: str, text: bytes) -> None:
        """Add a JSON text: an expression, an array of them, or a whole subscription."""
        try:
            value = decode_json(text)
        except ResourceError as error:
            self._note(given, error.faults, None)
            return
        if isinstance(value, list):
            self._several(given, value)
        elif isinstance(value, dict) and not value.keys().isdisjoint((*_MATCHING, *_ELSEWHERE)):
            self._whole(given, value)
        else:
            self.expression(given, value)

    def expression(self, given: str, value: object) -> None:
        """Add one filter expression; its faults have paths of that expression alone."""
        faults = filters.check([value], "$")
        moved = [Fault(f.path.replace("$[0]", "$", 1), f.code, f.message) for f in faults]
        self._note(given, moved, value)
        if not faults and isinstance(value, dict):
            self.selection.filters.append(value)

    def subscription(self, given: str, source: str | None, types: Iterable[str]) -> None:
        """Add the conditions of a subscription besides its filters."""
        selection, types = self.selection, tuple(types)
        if source is not None:
            _refuse_second(given, "source", selection.source)
            selection.source = source
        if types:
            _refuse_second(given, "types", selection.types)
            selection.types = types

    def _several(self, given: str, expressions: list[Any]) -> None:
        faults = filters.check(expressions, "$")
        self._note(given, faults, expressions)
        if not faults:
            self.selection.filters += expressions

    def _whole(self, given: str, value: dict[str, Any]) -> None:
        """Add a subscription of any of the three revisions; ignores members without conditions."""
        asked = {name: value[name] for name in value if name not in _ELSEWHERE}
        try:
            spec = api_subscription.parse({**asked, **_TARGET}, _RULES)
        except ResourceError as error:
            self._note(given, error.faults, value)
            return
        self.selection.filters += spec.filters
        self.subscription(given, spec.source, spec.types)

    def _note(self, given: str, faults: Iterable[Fault], root: object) -> None:
        self.misfits += [Misfit(given, fault, _value_at(root, fault.path)) for fault in faults]


def _refuse_second(given: str, member: str, there: object) -> None:
    if there:
        raise SettingsError(f"{given}: a subscription has one {member}, and there is one already")


def _value_at(root: object, path: str) -> object:
    """The value at *path* (plain member names and indexes); None if there is none."""
    value: Any = root
    for step in path[1:].replace("[", ".[").split(".")[1:]:
        try:
            value = value[int(step[1:-1])] if step.startswith("[") else value[step]
        except (LookupError, TypeError, ValueError):
            return None
    return value


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(RESOURCE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(f"--filter-file {path}: {error.strerror}") from error
    if len(content) > RESOURCE_BYTES_MAX:
        raise SettingsError(f"--filter-file {path}: longer than {RESOURCE_BYTES_MAX:,} bytes")
    return content


def _pair(given: str, text: str) -> tuple[str, str]:
    try:
        return parse_pair(given, text)
    except ValueError as error:
        raise SettingsError(str(error)) from error
