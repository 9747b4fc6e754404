"""A request's body as JSON: any bytes give a value or a ``StatusError``."""

import json
import re
from collections import Counter
from typing import Any, Final

import msgspec

from distributary.knative.apiserver.machinery._kind import Object
from distributary.knative.apiserver.machinery._yaml import read_yaml
from distributary.knative.apiserver.machinery.limits import (
    BODY_BYTES_MAX,
    DEPTH_MAX,
    DUPLICATES_MAX,
    VALUES_MAX,
)
from distributary.knative.apiserver.machinery.status import StatusError

_JSON: Final = "application/json"
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_YAML_TYPES: Final = frozenset({"application/yaml", "application/apply-patch+yaml", "text/yaml"})


def read_object(body: bytes, content_type: str) -> tuple[Object, list[str]]:
    """The object in *body*, and the members that stand twice in it.

    Args:
        body: Any bytes.
        content_type: ``application/json``, ``application/yaml`` or one of the patch types, with
            parameters or without. Never guessed: a body without one is what any web page can
            have a browser send.

    Returns:
        The object (of members that stand twice, the last one) and the paths of those members, in
        the order in which they stand: ``spec.filter``.

    Raises:
        StatusError: ``BadRequest``: no object. ``UnsupportedMediaType``: another content type.
            ``RequestEntityTooLarge``: more than ``BODY_BYTES_MAX``.
    """
    value, duplicates = read_value(body, content_type)
    if not isinstance(value, dict):
        raise _bad("the body of the request must be one object")
    return value, duplicates


def read_value(body: bytes, content_type: str) -> tuple[Any, list[str]]:
    """As ``read_object``, but any JSON value: a JSON patch is a list."""
    media_type = content_type.partition(";")[0].strip().lower()
    if len(body) > BODY_BYTES_MAX:
        message = f"Request entity too large: limit is {BODY_BYTES_MAX}"
        raise StatusError("RequestEntityTooLarge", message)
    if media_type in _YAML_TYPES:
        # What kubectl calls YAML is JSON mostly, which is read fifty times faster.
        if body.lstrip()[:1] in (b"{", b"["):
            try:
                return _read_json(body)
            except StatusError as error:
                if error.reason == "RequestEntityTooLarge":
                    raise
                # Then it is YAML in flow style, or nothing: the other reader says what
        value, twins = read_yaml(body)
        if isinstance(value, dict | list):
            check_depth(value)  # which counts what aliases multiply
        return value, twins
    if media_type == _JSON or media_type.endswith("+json"):
        return _read_json(body)
    raise StatusError(
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        f"{_JSON}, application/yaml",
    )


def check_depth(value: Any) -> None:
    """Refuse a value that nests deeper than ``DEPTH_MAX``, or holds more than ``VALUES_MAX``.

    Raises:
        StatusError: ``BadRequest``; ``RequestEntityTooLarge``: too many values.
    """
    level: list[Any] = [value]
    count = 0
    for _ in range(DEPTH_MAX):
        count += sum(map(len, level))
        if count > VALUES_MAX:
            raise _too_many()
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise _bad(f"arrays and objects may nest at most {DEPTH_MAX} deep")


def _children(value: Any) -> list[Any]:
    """The collections in *value*, but not below them."""
    children = value.values() if isinstance(value, dict) else value
    return [child for child in children if isinstance(child, dict | list)]


def _read_json(body: bytes) -> tuple[Any, list[str]]:
    twins = _Twins()
    _check_count(body)
    try:
        # The first reader is the stricter one (lone surrogates, NaN, numbers beyond a double);
        # the second one tells which members stand twice.
        msgspec.json.decode(body)
        value = json.loads(body, object_pairs_hook=twins.take)
    except RecursionError as error:
        raise _bad(f"arrays and objects may nest at most {DEPTH_MAX} deep") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise _bad(f"the body of the request is not JSON: {str(error)[:300]}") from error
    if isinstance(value, dict | list):
        check_depth(value)
    return value, twins.paths(value)


def _check_count(body: bytes) -> None:
    """Refuse JSON of too many values before it is read: reading it is what takes the time."""
    if _count(body) > VALUES_MAX and _count(_STRING.sub(b"", body)) > VALUES_MAX:
        raise _too_many()


def _count(json_text: bytes) -> int:
    """At least as many as there are values in *json_text*, and the punctuation in its strings."""
    return sum(map(json_text.count, (b",", b"[", b"{")))


class _Twins:
    """Finds the members of JSON objects that stand twice, and their paths."""

    def __init__(self) -> None:
        # The objects are kept, so that no other one gets the id of one that was overwritten.
        self._found: dict[int, tuple[Object, list[str]]] = {}

    def take(self, pairs: list[tuple[str, Any]]) -> Object:
        taken = dict(pairs)
        if len(taken) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            self._found[id(taken)] = (taken, [name for name in counts if counts[name] > 1])
        return taken

    def paths(self, root: Any) -> list[str]:
        return list(self._walk(root, ""))[:DUPLICATES_MAX] if self._found else []

    def _walk(self, value: Any, path: str) -> list[str]:
        if isinstance(value, list):
            items = enumerate(value)
            return [found for i, item in items for found in self._walk(item, f"{path}[{i}]")]
        if not isinstance(value, dict):
            return []
        dot = f"{path}." if path else ""
        _, names = self._found.get(id(value), (value, []))
        below = [
            found for name, item in value.items() for found in self._walk(item, f"{dot}{name}")
        ]
        return [f"{dot}{name}" for name in names] + below


def _too_many() -> StatusError:
    message = f"Request entity too large: limit is {VALUES_MAX} values"
    return StatusError("RequestEntityTooLarge", message)


def _bad(message: str) -> StatusError:
    return StatusError("BadRequest", message)
