"""The operations of the Subscriptions API (3.2.5), one handler for all protocol bindings.

A binding reads the request of its protocol (``ApiCall``), calls ``Operations.answer``, and writes
the ``OperationResult`` or the error. What is read of a call, and in which order, is decided here,
so that the same mistakes get the same response everywhere.
"""

import enum
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from distributary.subscriptions.service import Subscriptions
from distributary.subscriptions.store.stored import (
    Precondition,
    StoredSubscription,
    SubscriptionPage,
)

_STREAM_PAGE = 500
"""Subscriptions read at a time for a list without limit: about 300 KiB in memory."""

_STEP_PAGE: Final = 100
"""Subscriptions read at a time for a list limited by size, which it may overshoot by as many."""


class OperationName(enum.StrEnum):
    """Names as the specification spells them."""

    CREATE = "Create"
    RETRIEVE = "Retrieve"
    QUERY = "Query"
    UPDATE = "Update"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True)
class ListRange:
    """The part of the list that a client requests.

    Attributes:
        limit: Most subscriptions, from 1; None: all.
        cursor: ``OperationResult.next_cursor`` of the part before; None: from the beginning.
        body_bytes_max: The part ends once its JSON is about that long, for a protocol whose
            responses are whole messages. None: unlimited, and the list is a stream.
    """

    limit: int | None = None
    cursor: str | None = None
    body_bytes_max: int | None = None


class ApiCall(Protocol):
    """A client's request, as read by its binding. Each part is read when it is needed."""

    @property
    def id(self) -> str:
        """Id of the subscription."""

    async def read_body(self) -> object:
        """Read the JSON body of the call.

        Raises:
            RequestError, ResourceError: It has no valid one.
        """

    def read_precondition(self) -> Precondition:
        """Read the precondition.

        Raises:
            RequestError, ResourceError: It is malformed. Ignoring it would turn a conditional
                change into an unconditional one.
        """

    def read_range(self) -> ListRange:
        """Read the requested part of the list.

        Raises:
            ResourceError: It is malformed.
        """


class Status(enum.Enum):
    """How an operation succeeded: the specification's word, and the HTTP status."""

    OK = ("ok", 200)
    CREATED = ("ok", 201)
    NO_CONTENT = ("nocontent", 200)
    """A list without results (3.2.5.3); over HTTP 200 with ``[]`` (decision 3, empty lists)."""
    NOT_MODIFIED = ("notmodified", 304)
    """Not in the specification: for a read with a precondition."""

    def __init__(self, word: str, code: int) -> None:
        self.word = word
        self.code = code


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The result of an operation.

    Attributes:
        status: How it succeeded.
        body: JSON, whole or in pieces; empty: none.
        etag: Entity tag of the one subscription in the body.
        created_id: Id of the subscription that was created.
        next_cursor: Cursor of the next part of a list; None: it was the last.
    """

    status: Status
    body: bytes | AsyncIterator[bytes] = b""
    etag: str | None = None
    created_id: str | None = None
    next_cursor: str | None = None


class Operations:
    """Carries out calls.

    Args:
        subscriptions: Makes and reads the changes; started before the first call.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._handlers = {
            OperationName.CREATE: self._create,
            OperationName.RETRIEVE: self._retrieve,
            OperationName.QUERY: self._query,
            OperationName.UPDATE: self._update,
            OperationName.DELETE: self._delete,
        }

    async def answer(self, operation: OperationName, call: ApiCall) -> OperationResult:
        """Carry out *operation* with the parameters of *call*.

        Raises:
            DistributaryError: It failed; the binding renders the error.
        """
        return await self._handlers[operation](call)

    async def _create(self, call: ApiCall) -> OperationResult:
        created = await self._subscriptions.create(await call.read_body())
        return _made(created)

    async def _retrieve(self, call: ApiCall) -> OperationResult:
        found = await self._subscriptions.retrieve(call.id)
        unless = call.read_precondition().if_none_match
        if unless is not None and ("*" in unless or found.etag in unless):
            return OperationResult(Status.NOT_MODIFIED, etag=found.etag)
        return OperationResult(Status.OK, found.encode(), etag=found.etag)

    async def _update(self, call: ApiCall) -> OperationResult:
        precondition = call.read_precondition()
        body = await call.read_body()
        replaced = await self._subscriptions.replace(call.id, body, precondition)
        if replaced.created:
            return _made(replaced.subscription)
        stands = replaced.subscription
        return OperationResult(Status.OK, stands.encode(), etag=stands.etag)

    async def _delete(self, call: ApiCall) -> OperationResult:
        precondition = call.read_precondition()
        gone = await self._subscriptions.delete(call.id, precondition)
        return OperationResult(Status.OK, gone.encode())

    async def _query(self, call: ApiCall) -> OperationResult:
        wanted = call.read_range()
        if wanted.limit is not None or wanted.body_bytes_max is not None:
            return await self._part(wanted)
        # Reads the first page before the response begins, so that an unreadable store gives an
        # error response and not a broken stream.
        first = await self._subscriptions.query(_STREAM_PAGE, wanted.cursor)
        return OperationResult(_listed(bool(first.items)), self._all_from(first))

    async def _part(self, wanted: ListRange) -> OperationResult:
        items: list[bytes] = []
        size, cursor = 0, wanted.cursor
        while True:
            page = await self._subscriptions.query(_step(wanted, len(items)), cursor)
            for item in page.items:
                items.append(item.encode())
                size += len(items[-1])
            cursor = page.next_cursor
            full = wanted.body_bytes_max is not None and size >= wanted.body_bytes_max
            if cursor is None or full or len(items) == wanted.limit:
                break
        body = b"[" + b",".join(items) + b"]"
        return OperationResult(_listed(bool(items)), body, next_cursor=cursor)

    async def _all_from(self, page: SubscriptionPage[StoredSubscription]) -> AsyncIterator[bytes]:
        opening = b"["
        while page.items:
            yield opening + b",".join(item.encode() for item in page.items)
            opening = b","
            if page.next_cursor is None:
                break
            page = await self._subscriptions.query(_STREAM_PAGE, page.next_cursor)
        yield b"[]" if opening == b"[" else b"]"


def _made(subscription: StoredSubscription) -> OperationResult:
    return OperationResult(
        Status.CREATED,
        subscription.encode(),
        etag=subscription.etag,
        created_id=subscription.id,
    )


def _listed(found: bool) -> Status:
    return Status.OK if found else Status.NO_CONTENT


def _step(wanted: ListRange, count: int) -> int:
    """Number to read next; the whole part where there is no size limit."""
    if wanted.limit is None:
        return _STEP_PAGE
    left = wanted.limit - count
    return left if wanted.body_bytes_max is None else min(left, _STEP_PAGE)
