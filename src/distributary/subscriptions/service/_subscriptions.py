"""The operations of the Subscriptions API, for all protocol bindings."""

import base64
import binascii
import dataclasses
import re
import uuid
from collections.abc import Callable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.errors import Fault, NotFoundError, ResourceError
from distributary.core.quotas import QuotaTable
from distributary.core.tenant import DEFAULT_NAMESPACE, NAME_EXPECTED, is_namespace
from distributary.core.turns import in_thread
from distributary.resource import ResourceRules
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service._orders import Orders
from distributary.subscriptions.store.leader import RETRY_WAIT_S, Leader, RouteAppender
from distributary.subscriptions.store.schedule import Ending
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import (
    NO_PRECONDITION,
    NO_SUBSCRIPTION,
    Delete,
    DeleteReason,
    Precondition,
    Put,
    Replaced,
    Rotate,
    StoredSubscription,
    SubscriptionPage,
    end_of,
)

PAGE_MAX: Final = 1000
"""Most subscriptions of one part of a list; about 1 MB of JSON."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_DOTS: Final = (".", "..")


class Subscriptions:
    """Create, retrieve, query, replace and delete subscriptions.

    Once a change is answered, it is in the store and, as a route record, in every partition of the
    log: it decides for every event accepted from then on. Between store and log, readers may
    already see the new state. Where the log refuses the record, the change stays visible and takes
    effect when the log is back; the caller gets ``ChangePendingError``, and until then further
    changes are refused.

    Args:
        store: Holds the subscriptions.
        appender: Appends route records to the log.
        rules: To validate proposals.
        clock: For stamps.
        new_uuid: Generates ids and uids.
        retry_wait_s: Between two tries to roll forward, seconds.
    """

    def __init__(
        self,
        store: Store,
        appender: RouteAppender,
        rules: ResourceRules,
        clock: Clock,
        *,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
        retry_wait_s: float = RETRY_WAIT_S,
    ) -> None:
        self._store = store
        self._leader = Leader(store, appender, clock, retry_wait_s=retry_wait_s)
        self._clock = clock
        self.change_rules(rules)
        self._new_uuid = new_uuid

    def change_rules(self, rules: ResourceRules) -> None:
        """Validate proposals by these from now on; stored subscriptions stay."""
        self._rules = dataclasses.replace(rules, wall_ms=self._clock.wall_ms)

    @property
    def leader(self) -> Leader:
        """Makes the changes of these and all other routes; started and closed with this."""
        return self._leader

    @property
    def quotas(self) -> QuotaTable:
        """What each namespace may use."""
        return self._store.quotas

    def orders(self, partitions: int) -> Orders:
        """What carries out orders of other objects in the same store, over *partitions*."""
        return Orders(self._store, self._clock, partitions)

    async def start(self) -> None:
        """Roll pending changes of an earlier process forward, then accept changes."""
        await self._leader.start()

    async def close(self) -> None:
        """Finish changes in flight; refuse later ones."""
        await self._leader.close()

    def behind(self) -> str | None:
        """Why stored changes may be missing in the log; None: none are (for readiness)."""
        return self._leader.behind

    async def create(self, body: object, namespace: str = DEFAULT_NAMESPACE) -> StoredSubscription:
        """Create a subscription under a new id; ignores an ``id`` in *body*.

        Raises:
            ResourceError: *body* is not a subscription, or *namespace* cannot name one; nothing
                was stored.
            LogUnavailableError: Not now. As ``ChangePendingError``: stored, do not repeat it.
            StoreError: Not now; nothing was stored.
            RequestError: Too many waiting changes; nothing was stored.

        Source:
            Subscriptions API 3.2.5.1; decision 2, ids.
        """
        _check_namespace(namespace)
        spec = api_subscription.parse(body, self._rules)
        change = Put(str(self._new_uuid()), spec, self._new_uid(), namespace=namespace)
        applied = await self._leader.submit(change)
        return applied.answer()

    async def retrieve(self, id_: str, namespace: str = DEFAULT_NAMESPACE) -> StoredSubscription:
        """Return the subscription with this id.

        Raises:
            NotFoundError: It does not exist in this namespace.
            StoreError: The store cannot be read now.

        Source:
            Subscriptions API 3.2.5.2.
        """
        _known_shape(id_)
        return await in_thread(namespace, self._store.find, id_, namespace)

    async def query(
        self,
        limit: int,
        cursor: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        chosen: Callable[[int, str], tuple[list[StoredSubscription], str | None]] | None = None,
    ) -> SubscriptionPage[StoredSubscription]:
        """Return a part of the list. Lists a subscription that exists throughout exactly once.

        Args:
            limit: Most subscriptions, from 1 to ``PAGE_MAX``.
            cursor: ``SubscriptionPage.next_cursor`` of the part before; None: from the beginning.
            namespace: Where.
            chosen: Reads so many after this id, in place of all of the namespace; returns them,
                and the id after which to go on (None: there are no more).

        Raises:
            ResourceError: *limit* or *cursor* is invalid.
            StoreError: The store cannot be read now.

        Source:
            Subscriptions API 3.2.5.3; decision 3, lists.
        """
        if not 1 <= limit <= PAGE_MAX:
            raise ResourceError([Fault("limit", "value", f"expected 1 to {PAGE_MAX}")])
        after = _read_cursor(cursor) if cursor is not None else ""
        if chosen is None:
            found = await in_thread(namespace, self._store.page, after, limit + 1, namespace)
            last = found[limit - 1].id if len(found) > limit else None
        else:
            found, last = await in_thread(namespace, chosen, limit, after)
        return SubscriptionPage(found[:limit], None if last is None else _write_cursor(last))

    async def replace(
        self,
        id_: str,
        body: object,
        precondition: Precondition = NO_PRECONDITION,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Replaced:
        """Replace the whole subscription, or create one under the client's id.

        Raises:
            ResourceError: *body* is not a subscription, has another id than *id_*, or *id_* cannot
                be an id, or *namespace* name one. Nothing was stored.
            ConflictError: *precondition* does not hold. Read again.
            LogUnavailableError, StoreError, RequestError: As ``create``.

        Source:
            Subscriptions API 3.2.5.4 (upsert); decision 2, ids.
        """
        _check_namespace(namespace)
        if not _ID.fullmatch(id_) or id_ in _DOTS:
            message = "an id has 1 to 128 of the characters A-Z a-z 0-9 . _ - (and not only dots)"
            raise ResourceError([Fault("$.id", "value", message)])
        spec = api_subscription.parse(body, self._rules, secrets_kept=True)
        claimed = body.get("id") if isinstance(body, dict) else None
        change = Put(id_, spec, self._new_uid(), claimed, precondition, namespace)
        applied = await self._leader.submit(change)
        return Replaced(applied.answer(), applied.op == "created")

    async def rotate(
        self,
        id_: str,
        body: object,
        precondition: Precondition = NO_PRECONDITION,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> StoredSubscription:
        """Replace the key that signs deliveries; the result has the new secret, once.

        Raises:
            ResourceError: *body* is no ``Rotation``, the subscription is not signed, or as many
                keys sign as may.
            NotFoundError: It does not exist.
            ConflictError: *precondition* does not hold. Read again.
            LogUnavailableError, StoreError, RequestError: As ``create``.
        """
        _known_shape(id_)
        rotation = api_subscription.parse_rotation(body)
        applied = await self._leader.submit(Rotate(id_, rotation, precondition, namespace))
        return applied.answer()

    async def delete(
        self,
        id_: str,
        precondition: Precondition = NO_PRECONDITION,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> StoredSubscription:
        """Delete; returns the last state of the subscription, once no later event can match it.

        Raises:
            NotFoundError: It does not exist in this namespace.
            ConflictError: *precondition* does not hold. Read again.
            LogUnavailableError, StoreError, RequestError: As ``create``.

        Source:
            Subscriptions API 3.2.5.5; decision 23, deletes.
        """
        _known_shape(id_)
        applied = await self._leader.submit(Delete(id_, precondition, namespace=namespace))
        return applied.subscription

    async def end(self, ending: Ending, reason: DeleteReason) -> None:
        """Delete an expired subscription, unless it has changed since *ending* was read.

        Raises:
            NotFoundError, ConflictError: It was deleted or replaced meanwhile; look again.
            LogUnavailableError, StoreError, RequestError: As ``create``.
        """
        await self._leader.submit(end_of(ending.name, ending.etag, reason))

    def _new_uid(self) -> str:
        return self._new_uuid().hex


def _check_namespace(namespace: str) -> None:
    if not is_namespace(namespace):
        raise ResourceError([Fault("namespace", "value", NAME_EXPECTED)])


def _known_shape(id_: str) -> None:
    if not _ID.fullmatch(id_):
        raise NotFoundError(NO_SUBSCRIPTION)


def _write_cursor(last_id: str) -> str:
    return base64.urlsafe_b64encode(last_id.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> str:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        last_id = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        last_id = ""
    if not _ID.fullmatch(last_id):
        message = "this cursor did not come from a Link header of this server"
        raise ResourceError([Fault("cursor", "value", message)])
    return last_id
