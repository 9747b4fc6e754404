"""A transaction: applies a batch of requests to the objects in memory, before it is stored."""

import hashlib
from typing import Final

import structlog

from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import (
    Key,
    Kind,
    Object,
    StatusError,
    conflict,
    invalid,
)
from distributary.knative.apiserver.machinery.apply import note_update
from distributary.knative.apiserver.machinery.fields import same
from distributary.knative.apiserver.machinery.metadata import (
    check_size,
    for_create,
    for_update,
    with_generation,
)
from distributary.knative.apiserver.machinery.metadata_faults import check_metadata
from distributary.knative.apiserver.objects import _content, _namespaces
from distributary.knative.apiserver.objects._object_cache import ObjectCache
from distributary.knative.apiserver.objects._owners import (
    owner_keys,
    owners_of,
    owns,
    without_owner,
)
from distributary.knative.apiserver.objects._refusals import (
    already_there,
    check_incarnation,
    no_room,
    not_found,
)
from distributary.knative.apiserver.objects._rules import ObjectRules
from distributary.knative.apiserver.objects._secrets import Taken, take_values
from distributary.knative.apiserver.objects._usage import Usage
from distributary.knative.apiserver.objects._values import (
    ChangeType,
    Create,
    DeleteObject,
    Edit,
    Made,
    ObjectChange,
    OpenAddress,
    Outcome,
    PutObject,
    Request,
    Stored,
    Write,
)
from distributary.knative.kinds import NAMESPACE, SECRET, shape_of

NAME_TRIES_MAX: Final = 8
"""Names drawn for one ``generateName`` before the create is refused. There are 14 million suffixes,
so the first is free unless millions are taken."""

_SUFFIX_CHARS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As in Kubernetes: no vowels, no ambiguous characters."""

_SUFFIX_LENGTH: Final = 5

_OURS: Final = Write(by_server=True)

_log = structlog.get_logger(__name__)


class Transaction:
    """The objects after a batch of requests, and the changes that lead there.

    Used outside the event loop's thread; *cache* does not change meanwhile.

    Args:
        cache: The objects before the batch.
        rules: Rules that requests must meet.
        now: For timestamps: RFC 3339, whole seconds, ``Z``.

    Attributes:
        changes: All changes, in order; versions grow by one from the cache's.
    """

    def __init__(self, cache: ObjectCache, rules: ObjectRules, now: str) -> None:
        self.changes: list[ObjectChange] = []
        self._cache = cache
        self._rules = rules
        self._now = now
        self._drafted: dict[Key, Stored | None] = {}
        self._opens: list[Stored] = []
        # Owners named at any time in the transaction: callers check the current objects.
        self._owned: dict[str, set[Key]] = {}
        self._grown = Usage()
        self._count = len(cache)
        self._size_bytes = cache.size_bytes

    @property
    def version(self) -> int:
        """The newest resource version."""
        return self._cache.version + len(self.changes)

    @property
    def opened(self) -> list[Stored]:
        """Brokers and Channels to open, without those that the transaction replaced later."""
        now = ((each, self.get(each.key)) for each in self._opens)
        return [each for each, found in now if found is not None and found.uid == each.uid]

    def get(self, key: Key) -> Stored | None:
        """The object as the transaction sees it."""
        if key in self._drafted:
            return self._drafted[key]
        return self._cache.get(key)

    def apply(self, request: Request) -> Outcome:
        """Apply *request*, whole or not at all.

        Returns:
            The result, or why it was refused: a ``StatusError``; a ``StoreError``, of which the
            caller tells; or what a bug raised.
        """
        changes_before = len(self.changes)
        try:
            made = self._make(request)
        except (StatusError, StoreError) as error:
            self._undo(changes_before)
            return error
        # A bug in one request fails that request (500), not the others in its batch.
        except Exception as error:  # noqa: BLE001 - see above
            _log.exception("object-write-failed", request=type(request).__name__)
            self._undo(changes_before)
            return error
        if request.write.dry_run:
            self._undo(changes_before)
            before = self.get(made.stored.key)
            if made.stored is not before:
                return made._replace(stored=_content.rehearsed(made.stored, before))
        return made

    def _make(self, request: Request) -> Made:
        if isinstance(request, Create):
            kind, namespace, content, write = request
            return self._create(kind, namespace, "", content, write)
        kind = self._rules.kinds[request.key.resource]
        before = self.get(request.key)
        if isinstance(request, PutObject) and before is None:
            return self._create_absent(kind, request)
        if before is None:
            raise not_found(kind, request.key.name)
        check_incarnation(kind, before, request.write)
        if isinstance(request, OpenAddress):
            self._opens.append(before)
            return Made(before)
        if isinstance(request, DeleteObject):
            return Made(self._delete(kind, before, request.write))
        return Made(self._edit(kind, before, request))

    def _create_absent(self, kind: Kind, request: PutObject) -> Made:
        key, change, write = request
        if write.uid is not None or write.version is not None:
            raise conflict(kind, key.name, "Precondition failed: the object does not exist")
        new = change(None)
        sent = new.get("metadata")
        if isinstance(sent, dict) and (sent.get("uid") or sent.get("resourceVersion")):
            raise conflict(kind, key.name, "Precondition failed: the object does not exist")
        return self._create(kind, key.namespace, key.name, new, write)

    def _create(self, kind: Kind, namespace: str, name: str, content: Object, write: Write) -> Made:
        new = self._named(kind, namespace, name, content)
        if kind is NAMESPACE:
            new = new if check_metadata(kind, new, "") else _namespaces.as_new(new)
        new = self._checked(kind, new, None, namespace, write)
        metadata = new["metadata"]
        key = Key(kind.resource, namespace, metadata["name"])
        if self.get(key) is not None:
            raise already_there(kind, key.name)
        new, sealed = self._taken(kind, new, None)
        new = self._noted(kind, None, new, write)
        if kind.namespaced:
            self._open_namespace(kind, key)
        stored = self._write("ADDED", key, metadata["uid"], new, write, sealed=sealed)
        return Made(stored, created=True)

    def _named(self, kind: Kind, namespace: str, name: str, content: Object) -> Object:
        """*content* with its uid and name; a generated name is unused."""
        for _ in range(NAME_TRIES_MAX):
            uid = self._rules.new_uid()
            new = for_create(
                kind,
                content,
                namespace=namespace,
                name=name,
                uid=uid,
                now=self._now,
                suffix=_suffix_of(uid),
            )
            drawn = new["metadata"]["name"]
            sent = content.get("metadata") or {}
            if name or sent.get("name") or not isinstance(drawn, str):
                break
            if self.get(Key(kind.resource, namespace, drawn)) is None:
                break
        return new

    def _open_namespace(self, kind: Kind, key: Key) -> None:
        """Create the namespace with its first object."""
        standing = self.get(_namespaces.key_of(key.namespace))
        if standing is None:
            metadata = {"metadata": {"name": key.namespace}}
            self._create(NAMESPACE, "", "", metadata, Write(by_server=True))
        elif _namespaces.is_ending(standing):
            raise _namespaces.ending_refusal(kind, key.namespace, key.name)

    def _edit(self, kind: Kind, before: Stored, request: Edit | PutObject) -> Stored:
        write, old = request.write, before.content
        new = for_update(
            kind,
            request.change(old),
            old,
            subresource=write.subresource,
            by_server=write.by_server,
        )
        new = self._checked(kind, new, old, before.key.namespace, write)
        if not (write.by_server or write.subresource):
            new = with_generation(kind, new, old)
        new, sealed = self._taken(kind, new, before)
        if same(new, old) and sealed == before.sealed:
            return before
        new = self._noted(kind, old, new, write)
        metadata = new["metadata"]
        if _ends_with(kind, metadata):
            return self._end(before, new, write)
        return self._write("MODIFIED", before.key, before.uid, new, write, sealed=sealed)

    def _taken(self, kind: Kind, new: Object, before: Stored | None) -> Taken:
        """*new* without the values of a Secret, and these sealed."""
        if kind is not SECRET:
            return Taken(new, b"")
        return take_values(new, before, self._rules)

    def _delete(self, kind: Kind, before: Stored, write: Write) -> Stored:
        if before.key == _namespaces.DEFAULT_NAMESPACE:
            raise _namespaces.default_refusal()
        content = before.content
        metadata = content["metadata"]
        if write.orphan:
            for dependent in self._dependents(before):
                self._let_go(before, dependent)
        waits = bool(metadata.get("finalizers")) or (kind is NAMESPACE and not write.by_server)
        if not waits:
            return self._end(before, content, write)
        return self._mark(kind, before)

    def _mark(self, kind: Kind, before: Stored) -> Stored:
        """Mark the object as being deleted, until its finalizers are removed."""
        if _namespaces.is_ending(before):
            return before
        content = before.content
        metadata = content["metadata"]
        marks: Object = {"deletionTimestamp": self._now, "deletionGracePeriodSeconds": 0}
        if kind.generations:
            marks["generation"] = int(metadata.get("generation", 0)) + 1
        content = {**content, "metadata": {**metadata, **marks}}
        if kind is NAMESPACE:
            content = _namespaces.as_ending(content)
        # Written by the server: a full server must not refuse what frees space.
        return self._write("MODIFIED", before.key, before.uid, content, _OURS)

    def _end(self, before: Stored, content: Object, write: Write) -> Stored:
        """Delete the object and, in the same transaction, its dependents without another owner.

        Background and foreground deletion are therefore the same: all disappear together.
        """
        ended = self._write("DELETED", before.key, before.uid, content, write)
        gone = [before]
        while gone:
            owner = gone.pop()
            for dependent in self._dependents(owner):
                kind = self._rules.kinds[dependent.key.resource]
                if self._owned_by_another(owner, dependent):
                    self._let_go(owner, dependent)
                elif dependent.content["metadata"].get("finalizers"):
                    self._mark(kind, dependent)
                else:
                    content = dependent.content
                    self._write("DELETED", dependent.key, dependent.uid, content, _OURS)
                    gone.append(dependent)
        return ended

    def _dependents(self, owner: Stored) -> list[Stored]:
        """Current objects that *owner* owns."""
        if not owner.key.namespace:
            return []
        keys = self._cache.dependents(owner.uid) | self._owned.get(owner.uid, frozenset())
        found = (self.get(key) for key in sorted(keys))
        return [stored for stored in found if stored is not None and owns(owner, stored)]

    def _owned_by_another(self, owner: Stored, dependent: Stored) -> bool:
        for key, uid in owner_keys(dependent.content, self._rules.kinds):
            other = self.get(key) if uid != owner.uid else None
            if other is not None and other.uid == uid:
                return True
        return False

    def _let_go(self, owner: Stored, dependent: Stored) -> None:
        content = without_owner(dependent.content, owner.uid)
        self._write("MODIFIED", dependent.key, dependent.uid, content, _OURS)

    def _checked(
        self, kind: Kind, new: Object, old: Object | None, namespace: str, write: Write
    ) -> Object:
        """*new* with defaults if it is valid; otherwise raises with all faults."""
        if write.by_server and old is not None:
            return new
        causes = check_metadata(kind, new, namespace)
        if not (causes or write.by_server):
            new = self._rules.default(kind, new, old)
        if not write.by_server:
            try:
                self._rules.admit(kind, new, old)
            except StatusError as error:
                if error.reason != "Invalid" or not causes:
                    raise
                causes = [*causes, *error.causes]
        if causes:
            raise invalid(kind, str(new["metadata"].get("name", "")), causes)
        if not write.by_server:
            write.permit(kind, new, old)
        return new

    def _noted(self, kind: Kind, old: Object | None, new: Object, write: Write) -> Object:
        """*new* with updated ``metadata.managedFields``."""
        if write.applied or not write.manager:
            return new
        shape = shape_of(kind)
        return note_update(old, new, write.manager, self._now, write.subresource, schema=shape)

    def _write(
        self,
        type_: ChangeType,
        key: Key,
        uid: str,
        content: Object,
        write: Write,
        *,
        sealed: bytes | None = None,
    ) -> Stored:
        """Add a change; returns the new object (deleted: its last state, with a new version)."""
        before = self.get(key)
        if sealed is None:
            sealed = b"" if before is None else before.sealed
        early = before is not None and before.early and (write.by_server or bool(write.subresource))
        version = self.version + 1
        stored = _content.stored_as(key, uid, version, content, early=early, before=before)
        stored = stored._replace(sealed=sealed)
        if type_ != "DELETED" and not write.by_server:
            if stored.size_bytes > _size(before):  # what exceeds a newer limit may shrink
                check_size(stored.size_bytes)
            self._check_room(stored, before)
        self._keep(ObjectChange(type_, stored, before))
        return stored

    def _check_room(self, stored: Stored, before: Stored | None) -> None:
        grown = stored.size_bytes - _size(before)
        rules = self._rules
        if before is None and self._count >= rules.objects_max:
            raise no_room(stored.key, f"{rules.objects_max} objects")
        if grown > 0 and self._size_bytes + grown > rules.bytes_max:
            raise no_room(stored.key, f"{rules.bytes_max} bytes of objects")
        namespace = stored.key.namespace
        if namespace:
            stood, more = self._cache.usage.of(namespace), self._grown.of(namespace)
            rules.quota.check(stored, before, stood.plus(more))

    def _keep(self, change: ObjectChange) -> None:
        self.changes.append(change)
        now = None if change.type == "DELETED" else change.stored
        self._set(change.stored.key, change.before, now)

    def _undo(self, changes_before: int) -> None:
        while len(self.changes) > changes_before:
            change = self.changes.pop()
            self._set(change.stored.key, self.get(change.stored.key), change.before)

    def _set(self, key: Key, was: Stored | None, now: Stored | None) -> None:
        self._drafted[key] = now
        for stored, sign in ((was, -1), (now, 1)):
            if stored is not None:
                self._grown.add(stored, sign)
        for uid in owners_of(now.content) if now is not None else ():
            self._owned.setdefault(uid, set()).add(key)
        self._count += (now is not None) - (was is not None)
        self._size_bytes += _size(now) - _size(was)


def _ends_with(kind: Kind, metadata: Object) -> bool:
    """Whether a write that leaves this metadata removes the object."""
    # A Namespace waits for its content as well as its finalizers.
    waits = bool(metadata.get("finalizers")) or kind is NAMESPACE
    return "deletionTimestamp" in metadata and not waits


def _suffix_of(uid: str) -> str:
    """Suffix for ``generateName``: as random as *uid*."""
    number = int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(_SUFFIX_LENGTH):
        number, letter = divmod(number, len(_SUFFIX_CHARS))
        letters.append(_SUFFIX_CHARS[letter])
    return "".join(letters)


def _size(stored: Stored | None) -> int:
    return 0 if stored is None else stored.size_bytes
