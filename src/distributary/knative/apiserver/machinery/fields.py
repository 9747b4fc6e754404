"""Sets of field paths: of an object, and in the form of ``fieldsV1``."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from distributary.knative.apiserver.machinery._kind import Object
from distributary.knative.apiserver.machinery.metadata import METADATA_FIELDS
from distributary.knative.apiserver.machinery.shape import ATOM, ObjectShape
from distributary.knative.apiserver.machinery.status import StatusError

Path = tuple[str, ...]
"""Path of a field: ``f:name`` for a member, ``k:{...}`` for an item by its keys, ``v:...`` for an
item of a set."""

NODE: Final = object()
"""Value of a field that is owned itself and has fields below it."""

_SELF: Final = "."
_NESTED: Final = (dict, list)
_OWNED_METADATA: Final = ("annotations", "finalizers", "generateName", "labels", "ownerReferences")
_UNOWNED: Final = frozenset(
    ("f:metadata", f"f:{name}") for name in METADATA_FIELDS if name not in _OWNED_METADATA
)
"""Metadata without owners: it identifies the object, or is set by the server."""


def fields(
    obj: Object, shape: ObjectShape, subresource: str, *, strict: bool = False
) -> dict[Path, Any]:
    """Every field of *obj* that can be owned, with its value.

    Members of structs are fields if they are scalars or atomic; keys of maps and items of lists
    are also fields themselves (value ``NODE`` if there are fields below).

    Args:
        obj: The object.
        shape: Of its kind.
        subresource: ``status``: only fields of the status; empty: all others.
        strict: Refuse items of a list that have the same keys.

    Raises:
        StatusError: ``BadRequest``: such items, if *strict*.
    """
    members = {
        name: value
        for name, value in obj.items()
        if (name == "status") is (subresource == "status") and name not in ("apiVersion", "kind")
    }
    pairs = list(_walk(members, shape, ()))
    found = dict(pairs)
    if strict and len(found) != len(pairs):
        twin, _ = Counter(path for path, _ in pairs).most_common(1)[0]
        raise StatusError("BadRequest", f"duplicate entries for {shown(twin)}")
    return {path: value for path, value in found.items() if path[:2] not in _UNOWNED}


def key_of(item: Any, shape: ObjectShape) -> str:
    """``k:{...}``: the keys of *item* in a list of this *shape*, with defaults for absent keys."""
    members = item if isinstance(item, dict) else {}
    shown = {key: members.get(key, shape.item.member(key).default) for key in shape.keys}
    known = {key: value for key, value in shown.items() if value is not None}
    return "k:" + _json(known)


def value_of(item: Any) -> str:
    """``v:...``: path step for *item* of a set."""
    return "v:" + _json(item)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal JSON; ``1`` and ``true`` are not."""
    if one is other:
        return True
    if type(one) is not type(other) or one != other:
        return False
    return not isinstance(one, dict | list) or value_of(one) == value_of(other)


def from_tree(tree: Any) -> set[Path]:
    """The fields in a ``fieldsV1``; malformed parts are ignored."""
    return set(_read(tree, ())) if isinstance(tree, dict) else set()


def to_tree(paths: Iterable[Path]) -> Object:
    """*paths* as a ``fieldsV1``."""
    tree: Object = {}
    chosen = set(paths)
    for path in sorted(chosen):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    _mark(tree, (), chosen)
    return tree


def shown(path: Path) -> str:
    """*path* for messages: ``.spec.ports[port=80,protocol="TCP"].name``."""
    text = ""
    for step in path:
        kind, rest = step[:2], step[2:]
        if kind == "k:":
            keys = json.loads(rest)
            pairs = (f"{name}={json.dumps(value)}" for name, value in keys.items())
            text += f"[{','.join(pairs)}]"
        elif kind == "v:":
            text += f"[={rest}]"
        else:
            text += f".{rest}"
    return text


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def parts(value: Any, shape: ObjectShape) -> list[tuple[str, str, Any, ObjectShape]] | None:
    """Parts of *value*: step of the path, name of the member, value, its shape.

    None: it is one field as a whole.
    """
    if isinstance(value, dict) and value and not shape.atomic_map:
        return [(f"f:{name}", name, child, shape.member(name)) for name, child in value.items()]
    if isinstance(value, list) and shape.keys:
        return [(key_of(item, shape), "", item, shape.item) for item in value]
    if isinstance(value, list) and shape.is_set:
        return [(value_of(item), "", item, ATOM) for item in value]
    return None


def _walk(value: Any, shape: ObjectShape, path: Path) -> Iterator[tuple[Path, Any]]:
    """The fields of *value* at *path*."""
    made_of = parts(value, shape)
    if made_of is None:
        yield path, value
        return
    for step, name, child, inner in made_of:
        below = (*path, step)
        nested = isinstance(child, _NESTED)
        # An item, or a key of a map, is a field itself; a nested member of a struct is not.
        map_key = nested and path and step[0] == "f" and child and not shape.is_field(name)
        if step[0] == "k" or (map_key and isinstance(child, dict)):
            yield below, NODE
        if nested:
            yield from _walk(child, inner, below)
        else:
            yield below, child


def _read(tree: Object, path: Path) -> Iterator[Path]:
    if not tree and path:
        yield path
    for step, below in tree.items():
        if step == _SELF:
            yield path
        elif isinstance(below, dict) and _is_step(step):
            yield from _read(below, (*path, step))


def _is_step(step: str) -> bool:
    if step.startswith("k:"):
        try:
            return isinstance(json.loads(step[2:]), dict)
        except ValueError:
            return False
    return step.startswith(("f:", "v:"))


def _mark(tree: Object, path: Path, chosen: set[Path]) -> None:
    """Mark the nodes of *tree* that are fields and have fields below them."""
    for step, below in tree.items():
        if below:
            _mark(below, (*path, step), chosen)
    if tree and path in chosen:
        tree[_SELF] = {}
