"""The operations of the Subscriptions API, for all protocol bindings."""

import asyncio
import base64
import binascii
import dataclasses
import re
import uuid
from collections.abc import Callable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.errors import Fault, NotFoundError, ResourceError
from distributary.resource import ResourceRules
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.store.leader import RETRY_WAIT_S, Leader, RouteAppender
from distributary.subscriptions.store.schedule import Ending
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import (
    NO_PRECONDITION,
    Delete,
    DeleteReason,
    Precondition,
    Put,
    Replaced,
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

    async def start(self) -> None:
        """Roll pending changes of an earlier process forward, then accept changes."""
        await self._leader.start()

    async def close(self) -> None:
        """Finish changes in flight; refuse later ones."""
        await self._leader.close()

    def behind(self) -> str | None:
        """Why stored changes may be missing in the log; None: none are (for readiness)."""
        return self._leader.behind

    async def create(self, body: object) -> StoredSubscription:
        """Create a subscription under a new id; ignores an ``id`` in *body*.

        Raises:
            ResourceError: *body* is not a subscription; nothing was stored.
            LogUnavailableError: Not now. As ``ChangePendingError``: stored, do not repeat it.
            StoreError: Not now; nothing was stored.
            RequestError: Too many waiting changes; nothing was stored.

        Source:
            Subscriptions API 3.2.5.1; decision 2, ids.
        """
        spec = api_subscription.parse(body, self._rules)
        applied = await self._leader.submit(Put(str(self._new_uuid()), spec, self._new_uid()))
        return applied.subscription

    async def retrieve(self, id_: str) -> StoredSubscription:
        """Return the subscription with this id.

        Raises:
            NotFoundError: It does not exist.
            StoreError: The store cannot be read now.

        Source:
            Subscriptions API 3.2.5.2.
        """
        _known_shape(id_)
        return await asyncio.to_thread(self._store.find, id_)

    async def query(
        self, limit: int, cursor: str | None = None
    ) -> SubscriptionPage[StoredSubscription]:
        """Return a part of the list. Lists a subscription that exists throughout exactly once.

        Args:
            limit: Most subscriptions, from 1 to ``PAGE_MAX``.
            cursor: ``SubscriptionPage.next_cursor`` of the part before; None: from the beginning.

        Raises:
            ResourceError: *limit* or *cursor* is invalid.
            StoreError: The store cannot be read now.

        Source:
            Subscriptions API 3.2.5.3; decision 3, lists.
        """
        if not 1 <= limit <= PAGE_MAX:
            raise ResourceError([Fault("limit", "value", f"expected 1 to {PAGE_MAX}")])
        after = _read_cursor(cursor) if cursor is not None else ""
        found = await asyncio.to_thread(self._store.page, after, limit + 1)
        items = found[:limit]
        return SubscriptionPage(items, _write_cursor(items[-1].id) if len(found) > limit else None)

    async def replace(
        self, id_: str, body: object, precondition: Precondition = NO_PRECONDITION
    ) -> Replaced:
        """Replace the whole subscription, or create one under the client's id.

        Raises:
            ResourceError: *body* is not a subscription, has another id than *id_*, or *id_* cannot
                be an id. Nothing was stored.
            ConflictError: *precondition* does not hold. Read again.
            LogUnavailableError, StoreError, RequestError: As ``create``.

        Source:
            Subscriptions API 3.2.5.4 (upsert); decision 2, ids.
        """
        if not _ID.fullmatch(id_) or id_ in _DOTS:
            message = "an id has 1 to 128 of the characters A-Z a-z 0-9 . _ - (and not only dots)"
            raise ResourceError([Fault("$.id", "value", message)])
        spec = api_subscription.parse(body, self._rules, secrets_kept=True)
        claimed = body.get("id") if isinstance(body, dict) else None
        change = Put(id_, spec, self._new_uid(), claimed, precondition)
        applied = await self._leader.submit(change)
        return Replaced(applied.subscription, applied.op == "created")

    async def delete(
        self, id_: str, precondition: Precondition = NO_PRECONDITION
    ) -> StoredSubscription:
        """Delete; returns the last state of the subscription, once no later event can match it.

        Raises:
            NotFoundError: It does not exist.
            ConflictError: *precondition* does not hold. Read again.
            LogUnavailableError, StoreError, RequestError: As ``create``.

        Source:
            Subscriptions API 3.2.5.5; decision 23, deletes.
        """
        _known_shape(id_)
        applied = await self._leader.submit(Delete(id_, precondition))
        return applied.subscription

    async def end(self, ending: Ending, reason: DeleteReason) -> None:
        """Delete an expired subscription, unless it has changed since *ending* was read.

        Raises:
            NotFoundError, ConflictError: It was deleted or replaced meanwhile; look again.
            LogUnavailableError, StoreError, RequestError: As ``create``.
        """
        await self._leader.submit(end_of(ending.id, ending.etag, reason))

    def _new_uid(self) -> str:
        return self._new_uuid().hex


def _known_shape(id_: str) -> None:
    if not _ID.fullmatch(id_):
        raise NotFoundError("there is no subscription with this id")


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
