"""The operations of the Subscriptions API (3.2.5), one handler for all protocol bindings.

A binding reads the request of its protocol (``ApiCall``), calls ``Operations.answer``, and writes
the ``OperationResult`` or the error. What is read of a call, and in which order, is decided here,
so that the same mistakes get the same response everywhere.
"""

import enum
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

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
        state: Only subscriptions that stand so (a ``Word``); None: all.
    """

    limit: int | None = None
    cursor: str | None = None
    body_bytes_max: int | None = None
    state: str | None = None


class ApiCall(Protocol):
    """A client's request, as read by its binding. Each part is read when it is needed."""

    @property
    def namespace(self) -> str:
        """The namespace of the subscriptions that it concerns."""

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


Render: TypeAlias = Callable[[Sequence[StoredSubscription]], Awaitable[list[bytes]]]
"""Returns the JSON of subscriptions."""

Pages: TypeAlias = Callable[[int, str | None], Awaitable[SubscriptionPage[StoredSubscription]]]
"""Reads a part of a list: at most so many, from this cursor on."""


InState: TypeAlias = Callable[[str, str, int, str], tuple[list[StoredSubscription], str | None]]
"""Reads subscriptions that stand so: state, namespace, most of them, after this id. Returns the id
after which to go on too; None: there are no more."""


def _nowhere(
    _state: str, _namespace: str, _limit: int, _after: str
) -> tuple[list[StoredSubscription], str | None]:
    return [], None


async def encoded(found: Sequence[StoredSubscription]) -> list[bytes]:
    """JSON of subscriptions as they were configured."""
    return [one.encode() for one in found]


class Operations:
    """Carries out calls.

    Args:
        subscriptions: Makes and reads the changes; started before the first call.
        render: JSON of subscriptions that are read.
        in_state: Reads those that stand so: state, namespace, most of them, after this id. Only
            for bindings that ask for a state.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        render: Render = encoded,
        in_state: InState | None = None,
    ) -> None:
        self._subscriptions = subscriptions
        self._render = render
        self._in_state = in_state or _nowhere
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
        created = await self._subscriptions.create(await call.read_body(), call.namespace)
        return _made(created)

    async def _retrieve(self, call: ApiCall) -> OperationResult:
        found = await self._subscriptions.retrieve(call.id, call.namespace)
        precondition = call.read_precondition()
        Precondition(precondition.if_match).check(found.etag)
        unless = precondition.if_none_match
        if unless is not None and ("*" in unless or found.etag in unless):
            return OperationResult(Status.NOT_MODIFIED, etag=found.etag)
        (body,) = await self._render([found])
        return OperationResult(Status.OK, body, etag=found.etag)

    async def _update(self, call: ApiCall) -> OperationResult:
        precondition = call.read_precondition()
        body = await call.read_body()
        replaced = await self._subscriptions.replace(call.id, body, precondition, call.namespace)
        if replaced.created:
            return _made(replaced.subscription)
        stands = replaced.subscription
        return OperationResult(Status.OK, stands.encode(), etag=stands.etag)

    async def _delete(self, call: ApiCall) -> OperationResult:
        precondition = call.read_precondition()
        gone = await self._subscriptions.delete(call.id, precondition, call.namespace)
        return OperationResult(Status.OK, gone.encode())

    async def _query(self, call: ApiCall) -> OperationResult:
        wanted = call.read_range()
        if wanted.limit is not None or wanted.body_bytes_max is not None:
            return await self._part(wanted, self._pages(call.namespace, wanted.state))
        # Reads the first page before the response begins, so that an unreadable store gives an
        # error response and not a broken stream.
        page = self._pages(call.namespace, wanted.state)
        first = await page(_STREAM_PAGE, wanted.cursor)
        stream = self._all_from(first, page)
        return OperationResult(_listed(bool(first.items)), stream)

    def _pages(self, namespace: str, state: str | None) -> Pages:
        """Reads parts of the list of *namespace*: at most so many from this cursor on."""
        chosen = None if state is None else functools.partial(self._in_state, state, namespace)

        async def read(limit: int, cursor: str | None) -> SubscriptionPage[StoredSubscription]:
            return await self._subscriptions.query(limit, cursor, namespace, chosen)

        return read

    async def _part(self, wanted: ListRange, pages: Pages) -> OperationResult:
        items: list[bytes] = []
        size, cursor = 0, wanted.cursor
        while True:
            step = _step(wanted, len(items))
            page = await pages(step, cursor)
            rendered = await self._render(page.items)
            items += rendered
            size += sum(map(len, rendered))
            cursor = page.next_cursor
            full = wanted.body_bytes_max is not None and size >= wanted.body_bytes_max
            # A list of those in a state may look through many, and end a part before it is full.
            if cursor is None or full or len(page.items) < step or len(items) == wanted.limit:
                break
        body = b"[" + b",".join(items) + b"]"
        return OperationResult(_listed(bool(items)), body, next_cursor=cursor)

    async def _all_from(
        self, page: SubscriptionPage[StoredSubscription], pages: Pages
    ) -> AsyncIterator[bytes]:
        opening = b"["
        while True:
            if page.items:
                yield opening + b",".join(await self._render(page.items))
                opening = b","
            if page.next_cursor is None:
                break
            page = await pages(_STREAM_PAGE, page.next_cursor)
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
