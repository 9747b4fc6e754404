"""The operations of the Subscriptions API, whatever protocol they arrive by."""

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
"""Most subscriptions of one part of the list; about 1 MB of JSON."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_DOTS: Final = (".", "..")


class Subscriptions:
    """Create, retrieve, query, replace and delete subscriptions.

    What a client sees: a change that was answered stands in the store and, as a route record,
    in every partition of the log: every event accepted from then on is judged by it. Between
    the store and the log a reader may already see the new state. Where the log refuses the
    record, the change stays visible, takes effect when the log is back, and the caller is told
    so (``ChangePendingError``); until then no further change is taken.

    Args:
        store: Holds the subscriptions.
        appender: Appends route records to the log.
        rules: What proposals are checked against.
        clock: For stamps.
        new_uuid: Draws ids and uids.
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
        """Check proposals against these from now on; what is stored stays."""
        self._rules = dataclasses.replace(rules, wall_ms=self._clock.wall_ms)

    @property
    def leader(self) -> Leader:
        """Makes the changes of these and of all other routes; started and closed with this."""
        return self._leader

    async def start(self) -> None:
        """Roll forward what an earlier process left in between; then changes are taken."""
        await self._leader.start()

    async def close(self) -> None:
        """Finish what is under way; later changes are refused."""
        await self._leader.close()

    def behind(self) -> str | None:
        """Why stored changes may not stand in the log yet; None: all do (for readiness)."""
        return self._leader.behind

    async def create(self, body: object) -> StoredSubscription:
        """A new subscription under an id of its own; an ``id`` in *body* is ignored.

        Raises:
            ResourceError: *body* is not a subscription; nothing was stored.
            LogUnavailableError: Not now. As ``ChangePendingError``: stored, do not repeat it.
            StoreError: Not now; nothing was stored.
            RequestError: Too many changes wait; nothing was stored.

        Source:
            Subscriptions API 3.2.5.1; decision 2.
        """
        spec = api_subscription.parse(body, self._rules)
        applied = await self._leader.submit(Put(str(self._new_uuid()), spec, self._new_uid()))
        return applied.subscription

    async def retrieve(self, id_: str) -> StoredSubscription:
        """The subscription with this id.

        Raises:
            NotFoundError: There is none.
            StoreError: The store cannot be read now.

        Source:
            Subscriptions API 3.2.5.2.
        """
        _known_shape(id_)
        return await asyncio.to_thread(self._store.find, id_)

    async def query(
        self, limit: int, cursor: str | None = None
    ) -> SubscriptionPage[StoredSubscription]:
        """A part of the list. Subscriptions that stand all the time appear exactly once.

        Args:
            limit: At most so many, from 1 to ``PAGE_MAX``.
            cursor: ``SubscriptionPage.next_cursor`` of the part before; None: from the beginning.

        Raises:
            ResourceError: *limit* or *cursor* is not such a value.
            StoreError: The store cannot be read now.

        Source:
            Subscriptions API 3.2.5.3; decision 3.
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
        """The whole subscription anew, or a new one under the id that the client chose.

        Raises:
            ResourceError: *body* is not a subscription, names another id than the one that is
                replaced, or *id_* cannot be an id. Nothing was stored.
            ConflictError: *precondition* does not hold. Read again.
            LogUnavailableError, StoreError, RequestError: As ``create``.

        Source:
            Subscriptions API 3.2.5.4 (upsert); decision 2.
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
        """Delete; returns the subscription as it stood, once no later event can match it.

        Raises:
            NotFoundError: There is none.
            ConflictError: *precondition* does not hold. Read again.
            LogUnavailableError, StoreError, RequestError: As ``create``.

        Source:
            Subscriptions API 3.2.5.5; decision 23.
        """
        _known_shape(id_)
        applied = await self._leader.submit(Delete(id_, precondition))
        return applied.subscription

    async def end(self, ending: Ending, reason: DeleteReason) -> None:
        """Delete what has come to its end by itself, as it stood when that was seen.

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
