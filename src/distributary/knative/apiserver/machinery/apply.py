"""Server-side apply: ownership of fields by managers, merging, and conflicts."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from distributary.knative.apiserver.machinery._kind import Object
from distributary.knative.apiserver.machinery.fields import (
    Path,
    fields,
    from_tree,
    key_of,
    parts,
    same,
    shown,
    to_tree,
    value_of,
)
from distributary.knative.apiserver.machinery.metadata import is_managed
from distributary.knative.apiserver.machinery.read import check_depth
from distributary.knative.apiserver.machinery.shape import ANY, ObjectShape
from distributary.knative.apiserver.machinery.status import Cause, StatusError

UPDATE_MANAGERS_MAX: Final = 10
"""Entries of managers that update rather than apply; beyond it the oldest are merged into one
entry. The API server's own limit."""

CONFLICTS_SHOWN_MAX: Final = 100
"""Conflicting fields named in a refusal."""

_ANCIENT: Final = "ancient-changes"
_BEFORE: Final = "before-first-apply"


class _Writer(NamedTuple):
    """An owner of fields: identity of one entry of ``managedFields``."""

    manager: str
    operation: str
    subresource: str
    api_version: str


class _Owned(NamedTuple):
    """Fields of a writer, and when they last changed (RFC 3339)."""

    paths: frozenset[Path]
    time: str


_Owners = dict[_Writer, _Owned]


def apply(
    current: Object | None,
    applied: Object,
    *,
    manager: str,
    force: bool,
    now: str,
    schema: ObjectShape = ANY,
    subresource: str = "",
) -> Object:
    """Apply *applied* on behalf of *manager*; returns the new object.

    Fields in *applied* get its values and become owned by *manager*. Fields that only *manager*
    owned and that are missing in *applied* are removed. Applying is idempotent.

    Args:
        current: The current object; None: there is none.
        applied: The fields that *manager* specifies, ``apiVersion`` and ``kind`` included. Null
            means the same as absent.
        manager: ``fieldManager`` of the request.
        force: Take over fields owned by others.
        now: RFC 3339, whole seconds, ``Z``.
        schema: Of the kind: which lists are merged by keys.
        subresource: ``status``: only the status is applied; empty: all but the status.

    Returns:
        A new object; pass it through ``for_create`` or ``for_update``.

    Raises:
        StatusError: ``Conflict``: others own fields that would change, each a cause.
            ``BadRequest``: *applied* has ``managedFields``, or list items with the same keys.

    Source:
        Kubernetes API concepts, "Server-Side Apply".
    """
    if not isinstance(applied.get("metadata", {}), dict):
        raise StatusError("BadRequest", "metadata must be an object")
    if _managed_of(applied):
        raise StatusError("BadRequest", "metadata.managedFields must be nil")
    wanted = _of_subresource(_without_nulls(applied), subresource)
    writer = _Writer(manager, "Apply", subresource, str(applied.get("apiVersion", "")))
    paths = frozenset(fields(wanted, schema, subresource, strict=True))
    live = fields(current or {}, schema, subresource)
    owners = _expanded(_owners(current, schema, now), live.keys())
    merged = _merged(current or {}, wanted, schema)
    if current is not None:
        changed, replaced = _changed(live, fields(merged, schema, subresource))
        owners = _take_over(owners, writer, changed | replaced, force=force)
    mine = [other for other in owners if other[:3] == writer[:3]]
    lost = frozenset[Path]().union(*(owners.pop(other).paths for other in mine)) - paths
    kept = paths.union(*(owned.paths for owned in owners.values()))
    result = _pruned(merged, lost - kept, kept, schema) if lost - kept else merged
    owners[writer] = _Owned(paths, now)
    check_depth(result)
    return _with_owners(result, owners, current)


def note_update(
    old: Object | None,
    new: Object,
    manager: str,
    now: str,
    subresource: str = "",
    *,
    schema: ObjectShape = ANY,
) -> Object:
    """*new* with ``managedFields`` updated for a write other than apply.

    *manager* becomes the only owner of changed fields; removed fields lose their owners. At most
    ``UPDATE_MANAGERS_MAX`` such writers keep their own entry. An object whose list was cleared
    (``[{}]``) is not tracked until the next apply.

    Args:
        old: The state before; None: it is being created.
        new: From ``for_create`` or ``for_update``; not modified.
        manager: ``fieldManager`` of the request, or the beginning of its user agent.
        now: RFC 3339, whole seconds, ``Z``.
        subresource: ``status``, or empty.
        schema: Of the kind: which lists are merged by keys.
    """
    if old is not None and not _managed_of(new):
        return new
    before = fields(old or {}, schema, subresource)
    changed, removed = _changed(before, fields(new, schema, subresource))
    if not changed and not removed:
        return new
    writer = _Writer(manager, "Update", subresource, str(new.get("apiVersion", "")))
    others = _owners(new, schema, now) if _managed_of(new) else {}
    own = others.pop(writer, _Owned(frozenset(), now)).paths
    owners = {
        other: _Owned(owned.paths - changed - removed, owned.time)
        for other, owned in others.items()
    }
    owners[writer] = _Owned((own - removed) | changed, now)
    return _with_owners(new, _capped(owners), new)


def _of_subresource(obj: Object, subresource: str) -> Object:
    """The part of *obj* in *subresource*: its identity, and the status or everything else."""
    if subresource == "status":
        counted = ("apiVersion", "kind", "metadata", "status")
        return {name: value for name, value in obj.items() if name in counted}
    return {name: value for name, value in obj.items() if name != "status"}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _merged(live: Any, wanted: Any, shape: ObjectShape) -> Any:
    """*live* merged with *wanted*; items of merged lists follow the order of *wanted*."""
    if isinstance(wanted, dict) and isinstance(live, dict) and not shape.atomic_map:
        merged = dict(live)
        for name, value in wanted.items():
            merged[name] = _merged(live[name], value, shape.member(name)) if name in live else value
        return merged
    if not isinstance(wanted, list) or not isinstance(live, list):
        return wanted
    if shape.keys:
        stood = [(key_of(item, shape), item) for item in live]
        standing = dict(reversed(stood))
        named = [(key_of(item, shape), item) for item in wanted]
        keys = {key for key, _ in named}
        return [_merged(standing.get(key, {}), item, shape.item) for key, item in named] + [
            item for key, item in stood if key not in keys
        ]
    if shape.is_set:
        values = {value_of(item) for item in wanted}
        return wanted + [item for item in live if value_of(item) not in values]
    return wanted


def _changed(
    before: dict[Path, Any], after: dict[Path, Any]
) -> tuple[frozenset[Path], frozenset[Path]]:
    """Fields that were added or changed, and fields that were removed."""
    changed = frozenset(
        path for path, value in after.items() if path not in before or not same(before[path], value)
    )
    return changed, frozenset(before.keys() - after.keys())


def _take_over(
    owners: _Owners, writer: _Writer, changed: frozenset[Path], *, force: bool
) -> _Owners:
    """*owners* without the fields that *writer* takes over by changing them.

    Raises:
        StatusError: ``Conflict``: others own such fields, and *force* is false.
    """
    taken = {
        other: owned.paths & changed
        for other, owned in owners.items()
        if other[:3] != writer[:3] and owned.paths & changed
    }
    if taken and not force:
        raise _conflict(taken, owners)
    return {
        other: _Owned(owned.paths - taken.get(other, frozenset()), owned.time)
        for other, owned in owners.items()
    }


def _conflict(taken: dict[_Writer, frozenset[Path]], owners: _Owners) -> StatusError:
    lines, causes = [], []
    for other, paths in sorted(taken.items()):
        who = f'conflict with "{other.manager}"'
        if other.subresource:
            who += f' with subresource "{other.subresource}"'
        if other.operation == "Update":
            who += f" using {other.api_version} at {owners[other].time}"
        places = [shown(path) for path in sorted(paths)]
        causes += [Cause(place, "FieldManagerConflict", who) for place in places]
        if len(places) == 1:
            lines.append(f"{who}: {places[0]}")
        else:
            lines.append("\n- ".join([who.replace("conflict", "conflicts", 1) + ":", *places]))
    count = len(causes)
    plural = "" if count == 1 else "s"
    message = f"Apply failed with {count} conflict{plural}: " + "\n".join(lines)
    return StatusError("Conflict", message[:20_000], causes=causes[:CONFLICTS_SHOWN_MAX])


def _pruned(
    obj: Object, lost: frozenset[Path], kept: frozenset[Path], shape: ObjectShape
) -> Object:
    """*obj* without the fields *lost*, except ancestors of fields in *kept*."""
    # Ancestors of kept fields stay; other ancestors of lost fields are removed once empty.
    above = {path[:length] for path in kept for length in range(len(path) + 1)}
    return _without(obj, (), lost, above, shape) or {}


def _without(
    value: Any, path: Path, lost: frozenset[Path], above: set[Path], shape: ObjectShape
) -> Any:
    """*value* without the lost fields below *path*; None: nothing is left."""
    made_of = parts(value, shape)
    if made_of is None:
        return None if path in lost and path not in above else value
    left = []
    for step, name, child, inner in made_of:
        below = (*path, step)
        rest = _without(child, below, lost, above, inner)
        if rest is not None and step.startswith("k:"):
            # An item that remains keeps its keys.
            rest = {key: child[key] for key in shape.keys if key in child} | rest
        if rest is not None or child is None:
            left.append((name, rest))
    unowned = path not in above
    if unowned and (path in lost or (not left and made_of)):
        # Unowned fields below a lost map key or list item are removed with it.
        return None
    return dict(left) if isinstance(value, dict) else [rest for _, rest in left]


def _managed_of(obj: Object | None) -> Any:
    metadata = obj.get("metadata") if obj else None
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def _owners(obj: Object | None, shape: ObjectShape, now: str) -> _Owners:
    """Owners of *obj*'s fields; one writer owns all of them if there are no ``managedFields``."""
    if obj is None:
        return {}
    entries = _managed_of(obj)
    if not is_managed(entries):
        writer = _Writer(_BEFORE, "Update", "", str(obj.get("apiVersion", "")))
        return {writer: _Owned(frozenset(fields(obj, shape, "")), now)}
    owners: _Owners = {}
    for entry in entries:
        writer = _Writer(
            entry.get("manager", ""),
            entry["operation"],
            entry.get("subresource", ""),
            str(entry.get("apiVersion", "")),
        )
        owned = owners.get(writer, _Owned(frozenset(), ""))
        time = max(owned.time, str(entry.get("time", "")))
        owners[writer] = _Owned(owned.paths | from_tree(entry.get("fieldsV1")), time)
    return owners


def _expanded(owners: _Owners, live: Iterable[Path]) -> _Owners:
    """*owners*, with ownership of a whole list expanded to its *live* items.

    Such entries come from writes with an unknown or different schema. Maps are not expanded: the
    owner of an empty map does not own members added later.
    """
    live = frozenset(live)
    expanded = dict(owners)
    for writer, (paths, time) in owners.items():
        if paths <= live:
            continue
        above = {path[:length] for path in paths for length in range(len(path))}
        whole = paths - live - above
        parts = {path for path in live if whole and _is_item(path, whole)}
        expanded[writer] = _Owned(paths | parts, time)
    return expanded


def _is_item(path: Path, lists: frozenset[Path]) -> bool:
    """Whether *path* is in an item of one of the *lists*, or is the item itself."""
    return any(step.startswith(("k:", "v:")) and path[:n] in lists for n, step in enumerate(path))


def _capped(owners: _Owners) -> _Owners:
    """*owners*, with the oldest surplus ``Update`` writers merged into one for each version."""
    updating = sorted(
        (writer for writer in owners if writer.operation == "Update" and not writer.subresource),
        key=lambda writer: (owners[writer].time, writer),
    )
    surplus = len(updating) - UPDATE_MANAGERS_MAX
    if surplus <= 0:
        return owners
    gathered: dict[str, list[_Owned]] = defaultdict(list)
    # One more than the surplus: the merged entry counts too.
    for writer in updating[: surplus + 1]:
        gathered[writer.api_version].append(owners[writer])
    ancient = {
        _Writer(_ANCIENT, "Update", "", version): _Owned(
            frozenset[Path]().union(*(part.paths for part in parts)),
            max(part.time for part in parts),
        )
        for version, parts in gathered.items()
    }
    gone = set(updating[: surplus + 1])
    return {w: owned for w, owned in owners.items() if w not in gone} | ancient


def _with_owners(obj: Object, owners: _Owners, before: Object | None) -> Object:
    """*obj* with these ``managedFields``; unchanged entries keep their time."""
    stood = _owners(before, ANY, "") if is_managed(_managed_of(before)) else {}
    entries = []
    for writer, owned in owners.items():
        if not owned.paths and writer.operation == "Update":
            continue
        unchanged = writer in stood and stood[writer].paths == owned.paths
        entries.append((writer, owned.paths, stood[writer].time if unchanged else owned.time))
    entries.sort(key=lambda entry: (entry[0].operation, entry[2], entry[0]))
    metadata = {
        name: value for name, value in obj.get("metadata", {}).items() if name != "managedFields"
    }
    managed = [_entry(*entry) for entry in entries]
    return {**obj, "metadata": metadata | ({"managedFields": managed} if managed else {})}


def _entry(writer: _Writer, paths: Iterable[Path], time: str) -> Object:
    entry: Object = {"manager": writer.manager, "operation": writer.operation}
    entry["apiVersion"] = writer.api_version
    if time:
        entry["time"] = time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_tree(paths)}
    return entry | ({"subresource": writer.subresource} if writer.subresource else {})
