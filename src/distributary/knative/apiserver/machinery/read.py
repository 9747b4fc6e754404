"""Parses request bodies, JSON or YAML: any bytes give a value or a ``StatusError``."""

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

JSON: Final = "application/json"
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_YAML_TYPES: Final = frozenset({"application/yaml", "application/apply-patch+yaml", "text/yaml"})


def is_yaml(content_type: str) -> bool:
    """Whether a body of this type is YAML, which JSON is too."""
    return _media_type(content_type) in _YAML_TYPES


def read_object(body: bytes, content_type: str) -> tuple[Object, list[str]]:
    """Parse the object in *body*, and find duplicate members.

    Args:
        body: Any bytes.
        content_type: ``application/json``, ``application/yaml`` or one of the patch types, with or
            without parameters. Never guessed: any web page can let a browser send a body without
            one.

    Returns:
        The object (the last one of duplicate members counts) and the paths of duplicates, in
        order: ``spec.filter``.

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
    media_type = _media_type(content_type)
    if len(body) > BODY_BYTES_MAX:
        message = f"Request entity too large: limit is {BODY_BYTES_MAX}"
        raise StatusError("RequestEntityTooLarge", message)
    if media_type in _YAML_TYPES:
        # Most bodies that kubectl sends as YAML are JSON, which is parsed fifty times faster.
        if body.lstrip()[:1] in (b"{", b"["):
            try:
                return _read_json(body)
            except StatusError as error:
                if error.reason == "RequestEntityTooLarge":
                    raise
                # YAML in flow style, or malformed: leave it to the YAML parser.
        value, twins = read_yaml(body)
        if isinstance(value, dict | list):
            check_depth(value)  # counts values repeated by aliases
        return value, twins
    if media_type == JSON or media_type.endswith("+json"):
        return _read_json(body)
    raise StatusError(
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON}, application/yaml",
    )


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def check_depth(value: Any) -> None:
    """Refuse a value nested deeper than ``DEPTH_MAX``, or of more than ``VALUES_MAX`` values.

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
    """The collections directly in *value*."""
    children = value.values() if isinstance(value, dict) else value
    return [child for child in children if isinstance(child, dict | list)]


def _read_json(body: bytes) -> tuple[Any, list[str]]:
    twins = _Twins()
    _check_count(body)
    try:
        # The first parser is stricter (lone surrogates, NaN, numbers beyond a double); the second
        # one finds duplicate members.
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
    """Refuse JSON of too many values before parsing it, which would take long."""
    if _count(body) > VALUES_MAX and _count(_STRING.sub(b"", body)) > VALUES_MAX:
        raise _too_many()


def _count(json_text: bytes) -> int:
    """Upper bound for the number of values in *json_text*: also counts punctuation in strings."""
    return sum(map(json_text.count, (b",", b"[", b"{")))


class _Twins:
    """Finds duplicate members of JSON objects, and their paths."""

    def __init__(self) -> None:
        # Keeps the objects, so that ids of overwritten ones are not reused.
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
