"""Server-side apply: who owns which field, and what happens where two want the same one."""

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
"""Writers by other ways than apply that are told apart; the oldest beyond that become one entry.
The API server's own limit."""

CONFLICTS_SHOWN_MAX: Final = 100
"""Fields in conflict that are named."""

_ANCIENT: Final = "ancient-changes"
_BEFORE: Final = "before-first-apply"


class _Writer(NamedTuple):
    """Who owns fields: one entry of ``managedFields``."""

    manager: str
    operation: str
    subresource: str
    api_version: str


class _Owned(NamedTuple):
    """What a writer owns, and when that last changed (RFC 3339)."""

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
    """The object after *manager* has applied what it wants of it.

    Fields in *applied* get its values and belong to *manager*. Fields that belonged to it, are not
    in *applied* any more and belong to nobody else are removed. Applied twice, the second time
    changes nothing.

    Args:
        current: The object as it stands; None: there is none.
        applied: The fields that *manager* cares for, ``apiVersion`` and ``kind`` included. Nulls
            in it mean the same as absent.
        manager: ``fieldManager`` of the request.
        force: Take over the fields that belong to others.
        now: RFC 3339, whole seconds, ``Z``.
        schema: Of the kind: which lists are merged by keys.
        subresource: ``status``: only the status counts; empty: all but the status.

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
    """*new* with ``managedFields`` that say what *manager* changed by another way than apply.

    What changed belongs to *manager* alone from now on; what was removed to nobody. At most
    ``UPDATE_MANAGERS_MAX`` such writers are told apart. An object whose list was cleared
    (``[{}]``) is not tracked until somebody applies to it.

    Args:
        old: As it stood; None: it is being created.
        new: As ``for_create`` or ``for_update`` made it. It stays as it is.
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
    """What of *obj* counts: its identity, and the status or everything else."""
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
    """*live* with what is in *wanted*; items of lists that are merged come in its order."""
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
    """The fields that are new or have another value, and those that are gone."""
    changed = frozenset(
        path for path, value in after.items() if path not in before or not same(before[path], value)
    )
    return changed, frozenset(before.keys() - after.keys())


def _take_over(
    owners: _Owners, writer: _Writer, changed: frozenset[Path], *, force: bool
) -> _Owners:
    """*owners* without the fields that *writer* changes and takes from them.

    Raises:
        StatusError: ``Conflict``: there are such fields, and they are not taken by force.
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
    """*obj* without the fields *lost*, but for what has fields of *kept* below it."""
    # What lies above a kept field stays; what lies above a lost one alone goes with it once empty.
    above = {path[:length] for path in kept for length in range(len(path) + 1)}
    return _without(obj, (), lost, above, shape) or {}


def _without(
    value: Any, path: Path, lost: frozenset[Path], above: set[Path], shape: ObjectShape
) -> Any:
    """*value* without what is lost below *path*; None: nothing of it is left."""
    made_of = parts(value, shape)
    if made_of is None:
        return None if path in lost and path not in above else value
    left = []
    for step, name, child, inner in made_of:
        below = (*path, step)
        rest = _without(child, below, lost, above, inner)
        if rest is not None and step.startswith("k:"):
            # What of an item stays, stays with what tells the item apart.
            rest = {key: child[key] for key in shape.keys if key in child} | rest
        if rest is not None or child is None:
            left.append((name, rest))
    unowned = path not in above
    if unowned and (path in lost or (not left and made_of)):
        # Fields of nobody below a lost key of a map or item of a list go with it.
        return None
    return dict(left) if isinstance(value, dict) else [rest for _, rest in left]


def _managed_of(obj: Object | None) -> Any:
    metadata = obj.get("metadata") if obj else None
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def _owners(obj: Object | None, shape: ObjectShape, now: str) -> _Owners:
    """Who owns what of *obj*; all of it belongs to one writer where nothing was written down."""
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
    """*owners*, where who owns a list as a whole owns the *live* items that it consists of.

    Such entries are written where the schema was not known, or was another one. Maps are not
    meant: who owns an empty one owns nothing that comes into it later.
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
    """Whether *path* is, or lies in, an item of one of the *lists*."""
    return any(step.startswith(("k:", "v:")) and path[:n] in lists for n, step in enumerate(path))


def _capped(owners: _Owners) -> _Owners:
    """*owners* with the oldest of too many updating writers merged into one of each version."""
    updating = sorted(
        (writer for writer in owners if writer.operation == "Update" and not writer.subresource),
        key=lambda writer: (owners[writer].time, writer),
    )
    surplus = len(updating) - UPDATE_MANAGERS_MAX
    if surplus <= 0:
        return owners
    gathered: dict[str, list[_Owned]] = defaultdict(list)
    # One more than the surplus: what they become is an entry too.
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
    """*obj* with these ``managedFields``; an entry that did not change keeps its time."""
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
