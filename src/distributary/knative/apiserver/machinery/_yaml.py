"""Parses YAML to JSON values as the API server does, without recursion and within limits."""

import math
from typing import Any, Final, NamedTuple

import yaml

from distributary.knative.apiserver.machinery.limits import (
    BODY_BYTES_MAX,
    DEPTH_MAX,
    DUPLICATES_MAX,
    VALUES_MAX,
)
from distributary.knative.apiserver.machinery.status import StatusError

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PREFIX: Final = "tag:yaml.org,2002:"
_TEXTS: Final = ("str", "timestamp", "value", "merge")
_MERGE: Final = object()
"""Sentinel for the key ``<<``."""

_NODE_BYTES: Final = 2
"""Smallest size of a value as JSON: one character and a separator."""

_ANCHORS_MAX: Final = 1000


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Parse the one YAML document in *body*; returns its value and paths of duplicate members.

    Timestamps and ``12:30:00`` are strings and keys become strings, as in the API server. The
    document is read event by event: deep nesting cannot overflow the stack, and the expansion of
    aliases counts (roughly) towards ``BODY_BYTES_MAX`` before it is made. Towards the number of
    values, an alias counts once.

    Raises:
        StatusError: ``BadRequest``; ``RequestEntityTooLarge``: too many values.
    """
    builder = _Builder()
    try:
        for event in yaml.parse(body.decode("utf-8-sig"), Loader=_LOADER):
            builder.take(event)
    except UnicodeDecodeError as error:
        raise _bad("it is not UTF-8") from error
    except yaml.YAMLError as error:
        raise _bad(" ".join(str(error).split())[:300]) from error
    if not builder.documents:
        raise _bad("there is no document in it")
    return builder.root, builder.duplicates


class _Made(NamedTuple):
    """A complete value; size and height include expanded aliases."""

    value: Any
    size: int
    height: int


class _Open:
    """A collection that is not complete yet."""

    __slots__ = ("anchor", "height", "key", "merged", "size", "value")

    def __init__(self, event: yaml.CollectionStartEvent) -> None:
        self.value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.anchor = event.anchor
        self.size = _NODE_BYTES
        self.height = 1
        self.key: Any = None
        self.merged: list[Any] = []


class _Builder:
    """Builds the value from parser events, with an explicit stack of open collections."""

    def __init__(self) -> None:
        self.root: Any = None
        self.documents = 0
        self.duplicates: list[str] = []
        self._count = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, _Made] = {}
        self._resolver: Any = yaml.resolver.Resolver()
        self._constructor = yaml.constructor.SafeConstructor()

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise _bad("it must have exactly one document")
        elif isinstance(event, yaml.ScalarEvent):
            made = _Made(self._scalar(event), _NODE_BYTES + len(event.value), 0)
            self._put(made, event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._put(self._named(str(event.anchor)))
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        if self._is_key():
            return _MERGE if tag == f"{_PREFIX}merge" else event.value
        return self._typed(tag, event.value)

    def _typed(self, tag: str, text: str) -> Any:
        name = tag.removeprefix(_PREFIX)
        if name in _TEXTS:
            return text
        node = yaml.ScalarNode(tag, text)
        try:
            match name:
                case "null":
                    return None
                case "bool":
                    return self._constructor.construct_yaml_bool(node)
                case "int":
                    # 12:30 is a number to base 60 for YAML 1.1, but a string for Kubernetes.
                    if ":" in text:
                        return text
                    whole = self._constructor.construct_yaml_int(node)
                    str(whole)  # raises ValueError if it has too many digits to be written as JSON
                    return whole
                case "float":
                    number = self._constructor.construct_yaml_float(node)
                    return text if ":" in text else _finite(number)
        except (ValueError, KeyError, OverflowError) as error:
            raise _bad(f"{text[:60]!r} is no {name}") from error
        raise _bad(f"the tag {tag[:100]!r} is not supported")

    def _named(self, anchor: str) -> _Made:
        """The value of *anchor*."""
        made = self._anchors.get(anchor)
        if made is None:
            raise _bad(f"the alias *{anchor[:60]} refers to no complete value")
        if self._is_key() and not isinstance(made.value, str):
            raise _bad("a key must be a string")
        self._check_depth(made.height)
        return made

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        if self._is_key():
            raise _bad("a key must be a string")
        if event.tag not in (None, "!", f"{_PREFIX}map", f"{_PREFIX}seq"):
            raise _bad(f"the tag {event.tag[:100]!r} is not supported")
        self._check_depth(1)
        self._open.append(_Open(event))

    def _end(self) -> None:
        closed = self._open.pop()
        for more in closed.merged:
            for key, value in more.items():
                closed.value.setdefault(key, value)
        self._put(_Made(closed.value, closed.size, closed.height), closed.anchor)

    def _put(self, made: _Made, anchor: str | None = None) -> None:
        """Add a complete value to its parent."""
        if anchor is not None:
            self._anchors[anchor] = made
            if len(self._anchors) > _ANCHORS_MAX:
                raise _bad(f"there may be at most {_ANCHORS_MAX} anchors in it")
        if not self._open:
            self.root = made.value
            return
        self._count += 1
        if self._count > 2 * VALUES_MAX:  # keys are counted too
            message = f"Request entity too large: limit is {VALUES_MAX} values"
            raise StatusError("RequestEntityTooLarge", message)
        parent = self._open[-1]
        parent.size += made.size
        if parent.size > BODY_BYTES_MAX:
            raise _bad(f"it is larger than {BODY_BYTES_MAX} bytes, aliases expanded")
        parent.height = max(parent.height, made.height + 1)
        if isinstance(parent.value, list):
            parent.value.append(made.value)
        elif parent.key is None:
            parent.key = made.value
        else:
            self._set(parent, made.value)
            parent.key = None

    def _set(self, parent: _Open, value: Any) -> None:
        if parent.key is _MERGE:
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                raise _bad("what << merges must be a map or a list of maps")
            parent.merged.extend(sources)
            return
        if parent.key in parent.value and len(self.duplicates) < DUPLICATES_MAX:
            self.duplicates.append(self._path())
        parent.value[parent.key] = value

    def _is_key(self) -> bool:
        """Whether the next value is the key of a map."""
        return bool(self._open) and (
            self._open[-1].key is None and isinstance(self._open[-1].value, dict)
        )

    def _path(self) -> str:
        """Path of the next value."""
        path = ""
        for each in self._open:
            if isinstance(each.value, list):
                path += f"[{len(each.value)}]"
            else:
                path += ".<<" if each.key is _MERGE else f".{each.key}"
        return path.removeprefix(".")

    def _check_depth(self, height: int) -> None:
        if len(self._open) + height > DEPTH_MAX:
            raise _bad(f"arrays and objects may nest at most {DEPTH_MAX} deep")


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("JSON has no such number")
    return number


def _bad(why: str) -> StatusError:
    return StatusError("BadRequest", f"the body of the request is not YAML that can be read: {why}")
