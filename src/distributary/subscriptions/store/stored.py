"""The values that pass between the store, the service and who calls it."""

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from distributary.core.errors import ConflictError, LogUnavailableError
from distributary.routes.changes import RouteChange
from distributary.subscriptions.resource import ApiSubscriptionSpec

_Item = TypeVar("_Item")


class StoredSubscription(NamedTuple):
    """A subscription as it stands in the store.

    Attributes:
        id: Its name, unique among those that stand; a client may use it again after a delete.
        uid: Unique for ever; the route in the log carries it.
        revision: From 1; every replace adds one.
        etag: Strong entity tag, with its quotes; changes with every revision.
        created_ms: Wall clock, milliseconds.
        updated_ms: Wall clock of the newest revision, milliseconds.
        realized: JSON object without the ``id`` (``ApiSubscriptionSpec.realized``).
    """

    id: str
    uid: str
    revision: int
    etag: str
    created_ms: int
    updated_ms: int
    realized: bytes

    def __repr__(self) -> str:
        # Without ``realized``: custom headers may hold secrets.
        return f"StoredSubscription({self.id}, uid={self.uid}, revision={self.revision})"

    def encode(self) -> bytes:
        """JSON of the subscription object, the ``id`` first."""
        return b'{"id":' + msgspec.json.encode(self.id) + b"," + self.realized[1:]

    def to_json(self) -> dict[str, Any]:
        """The subscription object, as values of its own."""
        value: dict[str, Any] = msgspec.json.decode(self.encode())
        return value


class SubscriptionPage(NamedTuple, Generic[_Item]):
    """A part of a list.

    Attributes:
        items: In the order of the list.
        next_cursor: Opaque; asks for the next part. None: there is none.
    """

    items: list[_Item]
    next_cursor: str | None


class Replaced(NamedTuple):
    """What a replace came to.

    Attributes:
        subscription: As it stands now.
        created: True where there was none of that id before.
    """

    subscription: StoredSubscription
    created: bool


ANY_TAG: Final = "*"
"""In a ``Precondition``: any current state will do."""


@dataclass(frozen=True, slots=True)
class Precondition:
    """What a client believes about a resource, to be checked in the same transaction.

    Attributes:
        if_match: The resource must stand with one of these entity tags; None: no such demand.
        if_none_match: It must stand with none of these; None: no such demand.

    Source:
        RFC 9110, section 13.1; the tags come with their quotes. A weak tag never matches
        ``if_match``, since ours are strong.
    """

    if_match: frozenset[str] | None = None
    if_none_match: frozenset[str] | None = None

    def check(self, etag: str | None) -> None:
        """Compare with the state; *etag* is None where there is no such resource.

        Raises:
            ConflictError: The state is another one. Read again, then decide.
        """
        if self.if_match is not None and not _matches(self.if_match, etag):
            raise ConflictError(
                "the subscription has changed since it was read (If-Match)"
                if etag is not None
                else "there is no such subscription to match (If-Match)"
            )
        if self.if_none_match is not None and _matches(self.if_none_match, etag):
            raise ConflictError("a subscription of this id exists already (If-None-Match)")


def _matches(tags: frozenset[str], etag: str | None) -> bool:
    return etag is not None and (ANY_TAG in tags or etag in tags)


NO_PRECONDITION: Final = Precondition()


@dataclass(frozen=True, slots=True)
class Put:
    """Create the subscription *id*, or replace it.

    Attributes:
        id: Its name.
        spec: What it shall be.
        uid: The uid that it gets if it is created.
        claimed_id: The ``id`` in the body; on a replace it must be *id* or None (decision 2).
        precondition: What must hold before.
    """

    id: str
    spec: ApiSubscriptionSpec
    uid: str
    claimed_id: object = None
    precondition: Precondition = NO_PRECONDITION


DeleteReason = Literal["deleted", "expired", "used-up"]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the subscription *id*.

    Attributes:
        id: Its name.
        precondition: What must hold before.
        reason: What the change is then called: somebody asked for it, or it came due.
    """

    id: str
    precondition: Precondition = NO_PRECONDITION
    reason: DeleteReason = "deleted"


def end_of(id_: str, etag: str, reason: DeleteReason) -> Delete:
    """The change that ends the revision *etag* of *id_*; a newer one it leaves alone."""
    return Delete(id_, Precondition(if_match=frozenset((etag,))), reason)


Change = Put | Delete | RouteChange


class Applied(NamedTuple):
    """A change that is committed to the store.

    Attributes:
        seq: Its number, from 1; also the route record's.
        op: ``created``, ``replaced``, or the reason of the delete.
        subscription: As it stands now; where it was deleted, as it stood.
        record: The route record that every partition of the log has to take.
    """

    seq: int
    op: str
    subscription: StoredSubscription
    record: bytes


class ChangePendingError(LogUnavailableError):
    """The change is stored, but the log could not take its route record yet.

    It is rolled forward as soon as the log is back, also by the next start. Do not send it
    again: read the subscription of this id instead.

    Attributes:
        id: Of the subscription.
        op: ``created``, ``replaced``, or the reason of the delete.
    """

    def __init__(self, applied: Applied) -> None:
        self.id = applied.subscription.id
        self.op = applied.op
        super().__init__(
            f"subscription {self.id} is {applied.op} in the store and takes effect as soon as the"
            " log is back; do not repeat the request"
        )
