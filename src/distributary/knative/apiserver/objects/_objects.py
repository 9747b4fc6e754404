"""The interface of the object store, for ``apiserver.http`` and the reconciler."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import sqlalchemy as sa
import structlog

from distributary.core.clock import Clock
from distributary.core.quotas import QuotaTable
from distributary.core.tenant import NO_ADDRESSES
from distributary.knative.apiserver.machinery import Key, Kind, Object, StatusError
from distributary.knative.apiserver.objects import _addresses, _namespaces
from distributary.knative.apiserver.objects._object_cache import ObjectCache
from distributary.knative.apiserver.objects._refusals import not_found
from distributary.knative.apiserver.objects._rows import Rows
from distributary.knative.apiserver.objects._rules import Admit, Default, ObjectRules
from distributary.knative.apiserver.objects._sweeper import Sweeper
from distributary.knative.apiserver.objects._usage import Quota
from distributary.knative.apiserver.objects._values import (
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
from distributary.knative.apiserver.objects._watch import Watch
from distributary.knative.apiserver.objects._watch_window import (
    CHANGES_KEPT_MAX,
    KEPT_BYTES_MAX,
    WatchWindow,
)
from distributary.knative.apiserver.objects._writer import Writer
from distributary.knative.kinds import BROKER, NAMESPACE
from distributary.resource import Vault

OBJECTS_MAX: Final = 200_000
"""Objects that may exist: as many as in the Subscriptions API (``SUBSCRIPTIONS_MAX``)."""

OBJECTS_BYTES_MAX: Final = 256 * 1024 * 1024
"""All objects, bytes, kept in memory: JSON, 200,000 of 1.3 KiB, and values of Secrets. The Python
values of JSON need some seven times as much in addition."""

_PLAIN: Final = Write()

_Listed = list[Stored]
_Edits = Sequence[tuple[Key, Callable[[Object], Object]]]
_Results = list[Stored | StatusError]

_log = structlog.get_logger(__name__)


class Objects:
    """All objects: read from memory, persisted in the store at *url*. One per store.

    Methods are called on one event loop. What they return is shared: never change it. Functions
    passed to writes (``change``, ``admit``, ``default``) run in another thread and must not modify
    their arguments; they may raise a ``StatusError``, which refuses only that write.

    Every write returns when it is durable, in memory, and announced to listeners. Besides the
    errors of each method it raises:

    - ``StatusError``: ``Invalid``, ``BadRequest``, ``Conflict``, ``RequestEntityTooLarge``; the
      preconditions in ``Write``; ``Forbidden``: the namespace terminates, or the server is full,
      or a quota is used up;
      ``TooManyRequests``: too many writes wait; ``ServiceUnavailable``: the server stops.
    - ``StoreError``: nothing was stored, or, if the disk failed at the end of a commit, the outcome
      is unknown until a later read.

    Args:
        url: ``sqlite_url`` of a file, or ``database_url``.
        kinds: Kinds that are served.
        admit: Refuses contents that break their kind's rules.
        default: Fills in what the client left to the server.
        clock: For timestamps and ages.
        new_uid: Draws a fresh uid.
        objects_max: See ``OBJECTS_MAX``.
        bytes_max: See ``OBJECTS_BYTES_MAX``.
        changes_kept_max: See ``CHANGES_KEPT_MAX``.
        kept_bytes_max: See ``KEPT_BYTES_MAX``.
        quotas: Returns the quotas of namespaces in force.
        vault: Seals the values of Secrets; for this object alone. None: there are none.
        leader: See ``StoreWriter``.

    Attributes:
        own_addresses: For ``own_address``.
        closed: Paths of Brokers and Channels that were not open at the start.
    """

    def __init__(
        self,
        url: sa.URL,
        *,
        kinds: Sequence[Kind],
        admit: Admit,
        default: Default,
        clock: Clock,
        new_uid: Callable[[], str],
        objects_max: int = OBJECTS_MAX,
        bytes_max: int = OBJECTS_BYTES_MAX,
        changes_kept_max: int = CHANGES_KEPT_MAX,
        kept_bytes_max: int = KEPT_BYTES_MAX,
        quotas: Callable[[], QuotaTable] = QuotaTable,
        vault: Vault | None = None,
        leader: int | None = None,
    ) -> None:
        self._url = url
        self._leader = leader
        self._kinds = {kind.resource: kind for kind in kinds}
        quota = Quota(quotas, self._subscriptions)
        self._rules = ObjectRules(
            self._kinds, admit, default, new_uid, objects_max, bytes_max, quota, vault
        )
        self._clock = clock
        self._cache = ObjectCache()
        self._ring = WatchWindow(
            self._kinds, changes_max=changes_kept_max, bytes_max=kept_bytes_max
        )
        self._told: list[Callable[[ObjectChange], None]] = []
        self._rows: Rows | None = None
        self.own_addresses: Mapping[str, str] = NO_ADDRESSES
        self.closed: frozenset[str] = frozenset()
        self._writer: Writer | None = None
        self._sweeper: Sweeper | None = None

    async def start(self) -> None:
        """Read everything; create the default namespace and broker if the store is new.

        Changes before the start cannot be watched.

        Raises:
            StoreError: The store cannot be opened or read, or a newer version wrote it.
        """
        assert self._writer is None
        rows = await asyncio.to_thread(Rows, self._url, self._kinds, leader=self._leader)
        self._rows = rows
        self.own_addresses = rows.own_addresses
        self.closed = rows.closed
        self._cache, written = await asyncio.to_thread(rows.load, self._rules.vault)
        self._ring.restart(self._cache.version)
        self._writer = Writer(rows, self._cache, self._rules, self._clock, self._take)
        self._sweeper = Sweeper(lambda: self._cache, written, self._sweep, self._clock)
        if self._cache.version == 0:
            await self._begin()

    async def close(self) -> None:
        """Finish the current writes, refuse others, end all watches."""
        if self._sweeper is not None:
            await self._sweeper.close()
        if self._writer is not None:
            await self._writer.close()
        self._ring.close()
        if self._rows is not None:
            await asyncio.to_thread(self._rows.close)

    @property
    def version(self) -> int:
        """The newest resource version."""
        return self._cache.version

    def get(self, key: Key) -> Stored | None:
        """The object with this key; None: there is none."""
        return self._cache.get(key)

    def find(self, key: Key) -> Stored:
        """The object with this key.

        Raises:
            StatusError: ``NotFound``.
        """
        found = self._cache.get(key)
        if found is None:
            raise not_found(self._kinds[key.resource], key.name)
        return found

    def list(self, kind: Kind, namespace: str | None = None) -> tuple[_Listed, int]:
        """All objects of a kind, and the version to watch them from.

        Args:
            kind: One of those that are served.
            namespace: None: all namespaces.

        Returns:
            The objects by (namespace, name), and the newest resource version.
        """
        return self._cache.all_of(kind.resource, namespace), self._cache.version

    async def create(
        self, kind: Kind, namespace: str, content: Object, write: Write = _PLAIN
    ) -> Stored:
        """Create an object, and its namespace if it does not exist.

        Args:
            kind: One of those that are served.
            namespace: Of the path; empty if the kind has none.
            content: As the client sent it: any JSON object.
            write: Options of the write.

        Raises:
            StatusError: ``AlreadyExists``; and those of the class.
            StoreError: As described at the class.
        """
        return (await self._one(Create(kind, namespace, content, write))).stored

    async def edit(
        self, key: Key, change: Callable[[Object], Object], write: Write = _PLAIN
    ) -> Stored:
        """Replace the newest state of an object by *change* of it.

        An object that is being deleted is removed with its last finalizer.

        Args:
            key: Of the object.
            change: Returns the new content. If it equals the old one, nothing is written, and the
                version stays.
            write: Options of the write.

        Raises:
            StatusError: ``NotFound``; and those of the class.
            StoreError: As described at the class.
        """
        return (await self._one(Edit(key, change, write))).stored

    async def put(
        self, key: Key, change: Callable[[Object | None], Object], write: Write = _PLAIN
    ) -> tuple[Stored, bool]:
        """As ``edit``, but creates a missing object: *change* gets None.

        Returns:
            The object, and whether it was created.

        Raises:
            StatusError, StoreError: As described at the class.
        """
        made = await self._one(PutObject(key, change, write))
        return made.stored, made.created

    async def delete(self, key: Key, write: Write = _PLAIN) -> Stored:
        """Delete an object.

        One with finalizers is marked (``metadata.deletionTimestamp``) and stays until an edit
        removes the last one. A Namespace is marked too and accepts no new objects; the deletion of
        its content begins at once, and it is removed when empty.

        Returns:
            Its last state, with the version of the delete; or its current state, marked.

        Raises:
            StatusError: ``NotFound``; ``Forbidden`` for the namespace ``default``; and those of the
                class.
            StoreError: As described at the class.
        """
        return (await self._one(DeleteObject(key, write))).stored

    async def edit_all(self, edits: _Edits, write: Write = _PLAIN) -> _Results:
        """Make many edits in one transaction, which locks the store for some 40 us each.

        Returns:
            For each, in order, the new object, or why it was refused; a refusal affects no other.

        Raises:
            StatusError, StoreError: As described at the class, for all of them.
        """
        if not edits:
            return []
        requests = [Edit(key, change, write) for key, change in edits]
        return [
            outcome if isinstance(outcome, StatusError) else _made(outcome).stored
            for outcome in await self._submit(requests, write.by_server)
        ]

    async def open_addresses(self, uids: Mapping[str, Key]) -> None:
        """Have receivers that look from now on accept events for these Brokers and Channels.

        One that was deleted or recreated meanwhile stays as it is.

        Args:
            uids: Their keys, by uid.

        Raises:
            StatusError, StoreError: As described at the class, for all of them.
        """
        if uids:
            await self._submit(
                [OpenAddress(key, Write(uid=uid, by_server=True)) for uid, key in uids.items()],
                by_server=True,
            )

    def on_change(self, told: Callable[[ObjectChange], None]) -> None:
        """Register *told* to be called with each change, in order, on the event loop, after commit.

        Reads (``get``, ``list``) show the result of the whole commit. After a commit with unknown
        outcome, changes may be coalesced: an object's newest state, once.
        """
        self._told.append(told)

    def watch(self, kind: Kind, namespace: str | None, from_version: int) -> Watch:
        """Open a cursor over all changes of a kind after *from_version*.

        Args:
            kind: One of those that are served.
            namespace: None: all namespaces.
            from_version: From ``list``, or the last that a client saw.

        Raises:
            StatusError: ``Expired``: list, and watch from there. ``Timeout``: no such version yet.
        """
        return Watch(self._ring, kind.resource, namespace, from_version)

    async def _begin(self) -> None:
        """Create the default namespace and broker: once, when the store is new."""
        default = _namespaces.DEFAULT_NAMESPACE.name
        outcomes = await self._submit(
            [
                Create(NAMESPACE, "", {"metadata": {"name": default}}),
                Create(BROKER, default, {"metadata": {"name": default}, "spec": {}}),
            ],
            by_server=True,
        )
        for outcome in outcomes:
            _made(outcome)
        assert self.get(_addresses.DEFAULT_BROKER) is not None

    def _subscriptions(self, namespace: str) -> int:
        assert self._rows is not None
        return self._rows.subscriptions(namespace)

    async def _one(self, request: Request) -> Made:
        (outcome,) = await self._submit([request], request.write.by_server)
        return _made(outcome)

    async def _sweep(self, deletes: Sequence[DeleteObject]) -> Sequence[Outcome]:
        return await self._submit(deletes, by_server=True)

    async def _submit(self, requests: Sequence[Request], by_server: bool) -> Sequence[Outcome]:
        if self._writer is None:
            raise StatusError("ServiceUnavailable", "the server is starting", retry_after_s=1)
        return await self._writer.submit(requests, by_server=by_server)

    def _take(self, cache: ObjectCache, changes: Sequence[ObjectChange], again: bool) -> None:
        """Notify listeners and watches after a commit; memory shows it already."""
        self._cache = cache
        if self._sweeper is not None:
            self._sweeper.note(changes)
        for change in changes:
            self._tell(change)
        if again:
            self._ring.restart(cache.version)
        else:
            self._ring.publish(changes, cache.version)

    def _tell(self, change: ObjectChange) -> None:
        for told in self._told:
            try:
                told(change)
            # Report a bug in a listener and continue: the change is committed, and the others and
            # the caller must be notified.
            except Exception:  # noqa: BLE001 - see above
                _log.exception("object-change-not-heard", object=change.stored.key)


def _made(outcome: Outcome) -> Made:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
