"""YAML as the JSON that the API server makes of it, without recursion and within limits."""

import math
from typing import Any, Final

import yaml

from distributary.knative.apiserver.machinery._status_error import StatusError

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SCALARS: Final = {f"tag:yaml.org,2002:{name}" for name in ("str", "timestamp", "value")}
_PREFIX: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_PREFIX}merge"

_NODE_BYTES: Final = 2
"""What a value weighs at least, as JSON: its own character and a separator."""

_DUPLICATES_MAX: Final = 100
_ANCHORS_MAX: Final = 1000


def read_yaml(
    body: bytes, *, depth_max: int, bytes_max: int, values_max: int
) -> tuple[Any, list[str]]:
    """The value of the one YAML document in *body*, and paths of members standing twice.

    Timestamps and ``12:30:00`` are strings and keys become strings, as in the API server. The
    document is read event by event: no depth of nesting fills the stack, and what aliases
    multiply is counted before it is made.

    Args:
        body: Any bytes.
        depth_max: Deepest nesting of arrays and objects.
        bytes_max: Largest size of the value as JSON, roughly, aliases expanded.
        values_max: Most values in it; one that an alias repeats counts once.

    Raises:
        StatusError: ``BadRequest``; ``RequestEntityTooLarge``: too many values.
    """
    try:
        events = yaml.parse(body.decode("utf-8-sig"), Loader=_LOADER)
        builder = _Builder(depth_max, bytes_max, values_max)
        for event in events:
            builder.take(event)
    except UnicodeDecodeError as error:
        raise _bad("it is not UTF-8") from error
    except yaml.YAMLError as error:
        raise _bad(" ".join(str(error).split())[:300]) from error
    if not builder.documents:
        raise _bad("there is no document in it")
    return builder.root, builder.duplicates


class _Open:
    """A collection that is being read."""

    __slots__ = ("anchor", "height", "key", "merged", "path", "size", "value")

    def __init__(self, value: Any, path: str, anchor: str | None) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.size = _NODE_BYTES
        self.height = 0
        self.key: str | None = None
        self.merged: list[Any] = []


class _Builder:
    """Makes the value from events; what is open stands on a stack of our own."""

    def __init__(self, depth_max: int, bytes_max: int, values_max: int) -> None:
        self.root: Any = None
        self.documents = 0
        self.duplicates: list[str] = []
        self._depth_max = depth_max
        self._bytes_max = bytes_max
        self._values_max = values_max
        self._size = 0
        self._count = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._resolver: Any = yaml.resolver.Resolver()
        self._constructor = yaml.constructor.SafeConstructor()

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise _bad("there must be one document in it")
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        value = event.value if self._is_key() and tag != _MERGE else self._typed(tag, event)
        size = _NODE_BYTES + len(event.value)
        self._remember(event.anchor, value, size, 0)
        self._put(value, size, 0, merge=tag == _MERGE)

    def _typed(self, tag: str, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if tag in _SCALARS or tag == _MERGE:
            return text
        node = yaml.ScalarNode(tag, text)
        try:
            match tag.removeprefix(_PREFIX):
                case "null":
                    return None
                case "bool":
                    return self._constructor.construct_yaml_bool(node)
                case "int":
                    # 12:30 is a number to base 60 for YAML 1.1, but a string for Kubernetes.
                    return text if ":" in text else self._whole(node)
                case "float":
                    number = self._constructor.construct_yaml_float(node)
                    return text if ":" in text else _finite(number)
        except (ValueError, KeyError, OverflowError) as error:
            raise _bad(f"{text[:60]!r} is no {tag.removeprefix(_PREFIX)}") from error
        raise _bad(f"the tag {tag[:100]!r} has no meaning here")

    def _whole(self, node: yaml.ScalarNode) -> int:
        number: int = self._constructor.construct_yaml_int(node)
        str(number)  # refuses what has too many digits to be written as JSON
        return number

    def _alias(self, anchor: str | None) -> None:
        if anchor is None or anchor not in self._anchors:
            raise _bad(f"the alias *{str(anchor)[:60]} names nothing that is complete")
        value, size, height = self._anchors[anchor]
        if self._is_key() and not isinstance(value, str):
            raise _bad("a key must be a string")
        self._put(value, size, height, merge=False)

    def _begin(self, value: Any, event: yaml.CollectionStartEvent) -> None:
        if self._is_key():
            raise _bad("a key must be a string")
        if event.tag not in (None, "!", f"{_PREFIX}map", f"{_PREFIX}seq"):
            raise _bad(f"the tag {event.tag[:100]!r} has no meaning here")
        if len(self._open) >= self._depth_max:
            raise self._too_deep()
        self._open.append(_Open(value, self._path_here(), event.anchor))

    def _end(self) -> None:
        closed = self._open.pop()
        for more in closed.merged:
            for key, value in more.items():
                closed.value.setdefault(key, value)
        height = closed.height + 1
        self._remember(closed.anchor, closed.value, closed.size, height)
        # What is in it was counted when it was put there.
        self._size -= closed.size - _NODE_BYTES
        self._put(closed.value, closed.size, height, merge=False)

    def _put(self, value: Any, size: int, height: int, *, merge: bool) -> None:
        """Put a complete value where it stands."""
        self._size += size
        if self._size > self._bytes_max:
            raise _bad(f"it is larger than {self._bytes_max} bytes, aliases expanded")
        if len(self._open) + height > self._depth_max:
            raise self._too_deep()
        if not self._open:
            self.root = value
            return
        self._count += 1
        if self._count > 2 * self._values_max:  # keys are counted too
            message = f"Request entity too large: limit is {self._values_max} values"
            raise StatusError("RequestEntityTooLarge", message)
        parent = self._open[-1]
        parent.size += size
        parent.height = max(parent.height, height)
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            parent.key = _MERGE if merge else value
        else:
            self._set(parent, parent.key, value)
            parent.key = None

    def _set(self, parent: _Open, key: str, value: Any) -> None:
        if key == _MERGE:
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                raise _bad("what << merges must be a map or a list of maps")
            parent.merged.extend(sources)
            return
        if key in parent.value and len(self.duplicates) < _DUPLICATES_MAX:
            self.duplicates.append(f"{parent.path}.{key}" if parent.path else key)
        parent.value[key] = value

    def _is_key(self) -> bool:
        """Whether the next value is the key of a map."""
        if not self._open:
            return False
        parent = self._open[-1]
        return isinstance(parent.value, dict) and parent.key is None

    def _path_here(self) -> str:
        if not self._open:
            return ""
        parent = self._open[-1]
        if isinstance(parent.value, list):
            return f"{parent.path}[{len(parent.value)}]"
        return f"{parent.path}.{parent.key}" if parent.path else str(parent.key)

    def _remember(self, anchor: str | None, value: Any, size: int, height: int) -> None:
        if anchor is None:
            return
        self._anchors[anchor] = (value, size, height)
        if len(self._anchors) > _ANCHORS_MAX:
            raise _bad(f"there may be at most {_ANCHORS_MAX} anchors in it")

    def _too_deep(self) -> StatusError:
        return _bad(f"arrays and objects may nest at most {self._depth_max} deep")


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("JSON has no such number")
    return number


def _bad(why: str) -> StatusError:
    return StatusError("BadRequest", f"the body of the request is not YAML that can be read: {why}")
