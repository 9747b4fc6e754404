"""Strategic merge patch: a merge patch that merges lists as the schema defines.

kubectl sends it for the API server's built-in kinds (Service, ConfigMap...).
"""

from collections import defaultdict
from typing import Any, Final

from distributary.knative.apiserver.machinery._kind import Object
from distributary.knative.apiserver.machinery.fields import value_of
from distributary.knative.apiserver.machinery.read import check_depth
from distributary.knative.apiserver.machinery.shape import ObjectShape
from distributary.knative.apiserver.machinery.status import StatusError

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"
_GONE: Final = object()


def strategic_merge_patch(obj: Object, patch: Any, schema: ObjectShape) -> Object:
    """Merge *patch* into *obj*.

    As a merge patch, but lists with a merge key in the schema are merged item by item, and these
    directives are supported: ``$patch: replace|delete|merge``, ``$retainKeys``,
    ``$setElementOrder/<list>``, ``$deleteFromPrimitiveList/<list>``.

    Args:
        obj: The object to patch; not modified.
        patch: The patch.
        schema: Of the kind.

    Raises:
        StatusError: ``BadRequest``: *patch* is no object, a directive is malformed, an item lacks
            its merge key, or the result nests too deep.

    Source:
        Kubernetes, "Strategic Merge Patch" (contributors' guide of the API machinery).
    """
    if not isinstance(patch, dict):
        raise StatusError("BadRequest", "a strategic merge patch must be an object")
    merged = _merged_map(obj, patch, schema)
    check_depth(merged)
    return merged


def _merged_map(obj: Object, patch: Object, shape: ObjectShape) -> Object:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _bad(f"{_PATCH} must be replace, delete or merge")
    merged = _retained(obj, patch)
    for name, change in patch.items():
        if name.startswith("$"):
            continue
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), change, shape.member(name))
    _follow(merged, patch, shape)
    return merged


def _follow(merged: Object, patch: Object, shape: ObjectShape) -> None:
    """Apply the list directives of *patch* to *merged*."""
    for name, words in patch.items():
        if name.startswith(_DELETE):
            _delete_from(merged, name.removeprefix(_DELETE), words)
        elif name.startswith(_ORDER):
            _reorder(merged, name.removeprefix(_ORDER), words, shape)
        elif name.startswith("$") and name not in (_PATCH, _RETAIN):
            raise _bad(f"{name[:100]} is no directive")


def _retained(obj: Object, patch: Object) -> Object:
    """A copy of *obj* with only the members that ``$retainKeys`` names."""
    if _RETAIN not in patch:
        return dict(obj)
    names = patch[_RETAIN]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _bad(f"{_RETAIN} must be a list of names")
    if not {name for name in patch if not name.startswith("$")} <= set(names):
        raise _bad(f"{_RETAIN} must name every member of the patch")
    return {name: value for name, value in obj.items() if name in names}


def _merged(value: Any, change: Any, shape: ObjectShape) -> Any:
    if isinstance(change, dict):
        return _merged_map(value if isinstance(value, dict) else {}, change, shape)
    if not isinstance(change, list) or not shape.merges:
        return change
    standing = value if isinstance(value, list) else []
    if shape.merge_key:
        return _merged_items(standing, change, shape)
    known = {value_of(word) for word in standing}
    return standing + [word for word in change if value_of(word) not in known]


def _merged_items(standing: list[Any], change: list[Any], shape: ObjectShape) -> list[Any]:
    key = shape.merge_key
    if any(_keyed(item, _PATCH) == "replace" for item in change):
        return [item for item in change if _keyed(item, _PATCH) != "replace"]
    merged = list(standing)
    # Several items may have the same key (ports of different protocols): the first one is merged.
    places: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(standing):
        places[value_of(_keyed(item, key))].append(place)
    for item in change:
        if _keyed(item, key) is None:
            raise _bad(f"an item does not contain the declared merge key {key}")
        found = places[value_of(item[key])]
        if item.get(_PATCH) == "delete":
            for place in found:
                merged[place] = _GONE
            found.clear()
        elif found:
            merged[found[0]] = _merged_map(merged[found[0]], item, shape.item)
        else:
            found.append(len(merged))
            merged.append(_merged_map({}, item, shape.item))
    return [item for item in merged if item is not _GONE]


def _keyed(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else None


def _delete_from(merged: Object, name: str, words: Any) -> None:
    if not isinstance(words, list):
        raise _bad(f"{_DELETE}{name[:100]} must be a list")
    standing = merged.get(name)
    if isinstance(standing, list):
        unwanted = {value_of(word) for word in words}
        merged[name] = [word for word in standing if value_of(word) not in unwanted]


def _reorder(merged: Object, name: str, order: Any, shape: ObjectShape) -> None:
    """Move the items that *order* names to the front, in its order; the others keep theirs."""
    if not isinstance(order, list):
        raise _bad(f"{_ORDER}{name[:100]} must be a list")
    standing = merged.get(name)
    if not isinstance(standing, list):
        return
    key = shape.member(name).merge_key
    ranks = {value_of(_identity(item, key)): rank for rank, item in enumerate(order)}
    merged[name] = sorted(
        standing, key=lambda item: ranks.get(value_of(_identity(item, key)), len(ranks))
    )


def _identity(item: Any, key: str) -> Any:
    """Identity of an item of an ordered list: its merge key, or itself."""
    return _keyed(item, key) if key else item


def _bad(why: str) -> StatusError:
    return StatusError("BadRequest", f"the strategic merge patch cannot be applied: {why}")
