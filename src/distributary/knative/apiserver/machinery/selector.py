"""Parses selectors of lists and watches: ``labelSelector`` and ``fieldSelector``."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from distributary.knative.apiserver.machinery._kind import Kind, Object
from distributary.knative.apiserver.machinery.names import qualified_faults, value_faults
from distributary.knative.apiserver.machinery.status import StatusError

SELECTOR_CHARS_MAX: Final = 16 * 1024
"""Longest selector; a request's target is limited to about that."""

REQUIREMENTS_MAX: Final = 100
"""Requirements in one selector: each is tested on every object of a list and on every change."""

Selector = Callable[[Object], bool]
"""Whether an object matches."""

_WORD: Final = r"[^\s,=!<>()]+"
_REQUIREMENT: Final = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_WORD})"
    rf"|(?P<key>{_WORD})"
    rf"(?:\s*(?P<op>==|=|!=|>|<)\s*(?P<value>(?:{_WORD})?)"
    r"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?"
    r")\s*(?P<end>,|$)"
)
_TERM: Final = re.compile(r"\s*(?P<field>[^=!,\s]+)(?P<op>==|=|!=)(?P<value>(?:[^\\,]|\\.)*)(,|$)")
_ESCAPED: Final = re.compile(r"\\(.)")


def label_selector(text: str) -> Selector:
    """Parse a label selector: matches objects whose labels meet every requirement in *text*.

    ``a=b``, ``a==b``, ``a!=b``, ``a in (b, c)``, ``a notin (b)``, ``a``, ``!a``, ``a>1``, ``a<1``,
    joined by commas. ``!=`` and ``notin`` hold if the label is absent. Empty: every object.

    Raises:
        StatusError: ``BadRequest``: a syntax error, and where.
    """
    requirements = _parse(text, _REQUIREMENT, _label_requirement)
    if not requirements:
        return _everything

    def meant(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(holds(labels) for holds in requirements)

    return meant


def field_selector(text: str, kind: Kind) -> Selector:
    r"""Parse a field selector such as ``metadata.name=a,metadata.name!=b``.

    Every kind supports ``metadata.name`` and ``metadata.namespace``, and its ``Kind.selectable``.
    An absent field is the empty string. In a value, ``\,`` is a comma and ``\\`` a backslash.

    Raises:
        StatusError: ``BadRequest``: a syntax error, or an unsupported field.
    """
    known = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}
    known |= dict(kind.selectable)
    terms = _parse(text, _TERM, lambda found: _field_term(found, known))
    if not terms:
        return _everything
    return lambda obj: all(holds(obj) for holds in terms)


def value_at(obj: Object, path: str) -> Any:
    """The member of *obj* at *path* (names joined by dots); None if absent."""
    value: Any = obj
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _everything(_obj: Object) -> bool:
    return True


def _parse(
    text: str, pattern: re.Pattern[str], make: Callable[[re.Match[str]], Selector]
) -> list[Selector]:
    if len(text) > SELECTOR_CHARS_MAX:
        raise _bad(f"it may have at most {SELECTOR_CHARS_MAX} characters")
    made: list[Selector] = []
    position = 0
    more = bool(text.strip())
    while more:
        found = pattern.match(text, position)
        if found is None:
            raise _bad(f"found {text[position : position + 100]!r}, expected a requirement")
        made.append(make(found))
        if len(made) > REQUIREMENTS_MAX:
            raise _bad(f"it may have at most {REQUIREMENTS_MAX} requirements")
        position, more = found.end(), found.group(0).endswith(",")
    return made


def _label_requirement(found: re.Match[str]) -> Selector:
    """A test of an object's labels."""
    if found["absent"]:
        absent = _key(found["absent"])
        return lambda labels: absent not in labels
    key = _key(found["key"])
    if found["set"]:
        if not found["values"].strip():
            raise _bad("for 'in' and 'notin' the values set can't be empty")
        values = frozenset(_value(value.strip()) for value in found["values"].split(","))
        wanted = found["set"] == "in"
        return lambda labels: (labels.get(key) in values) is wanted
    if found["op"] is None:
        return lambda labels: key in labels
    return _comparison(key, found["op"], found["value"])


def _comparison(key: str, sign: str, text: str) -> Selector:
    if sign in ("=", "==", "!="):
        value, wanted = _value(text), sign != "!="
        return lambda labels: (labels.get(key) == value) is wanted
    bound = _integer(text)
    return lambda labels: _compares(labels.get(key), sign, bound)


def _compares(text: str | None, sign: str, bound: int) -> bool:
    try:
        number = int(text or "")
    except ValueError:
        return False
    return number > bound if sign == ">" else number < bound


def _sound(what: str, text: str, faults: Iterable[str]) -> str:
    listed = "; ".join(faults)
    if listed:
        raise _bad(f"{what} {text[:100]!r}: {listed}")
    return text


def _key(text: str) -> str:
    return _sound("key", text, qualified_faults(text))


def _value(text: str) -> str:
    return _sound("value", text, value_faults(text))


def _integer(text: str) -> int:
    try:
        return int(_value(text))
    except ValueError as error:
        raise _bad(f"for '>' and '<' the value must be an integer, not {text[:100]!r}") from error


def _field_term(found: re.Match[str], known: dict[str, str]) -> Selector:
    field, value = found["field"], _ESCAPED.sub(r"\1", found["value"])
    if field not in known:
        names = ", ".join(f'"{name}"' for name in known)
        message = f'"{field[:100]}" is not a known field selector: only {names}'
        raise StatusError("BadRequest", message)
    path, wanted = known[field], found["op"] != "!="
    return lambda obj: (str(value_at(obj, path) or "") == value) is wanted


def _bad(why: str) -> StatusError:
    return StatusError("BadRequest", f"unable to parse requirement: {why}")
