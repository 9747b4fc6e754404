"""Values exchanged between the store, the service and its callers."""

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from distributary.core.deliver.signing import SigningKeys
from distributary.core.errors import ConflictError, LogUnavailableError
from distributary.core.tenant import DEFAULT_NAMESPACE, path_in
from distributary.routes.changes import RouteChange
from distributary.subscriptions.resource import ApiSubscriptionSpec, Rotation, with_secret

_Item = TypeVar("_Item")

NO_SUBSCRIPTION: Final = (
    "there is no subscription with this id in the namespace: it never was, was deleted, or expired"
)
"""One text for all three: what was there once is gone, and ids of other namespaces show nothing."""


class SubscriptionName(NamedTuple):
    """What identifies a live subscription.

    Attributes:
        namespace: Its tenant.
        id: Unique there.
    """

    namespace: str
    id: str


class StoredSubscription(NamedTuple):
    """A subscription in the store.

    Attributes:
        id: Its name, unique among live ones of its namespace; free again after a delete.
        uid: Unique for ever; the route in the log carries it.
        revision: From 1; every replace adds one.
        etag: Strong entity tag, with its quotes; changes with every revision.
        created_ms: Wall clock, milliseconds.
        updated_ms: Wall clock of the newest revision, milliseconds.
        realized: JSON object without the ``id`` (``ApiSubscriptionSpec.realized``).
        namespace: Its tenant.
    """

    id: str
    uid: str
    revision: int
    etag: str
    created_ms: int
    updated_ms: int
    realized: bytes
    namespace: str = DEFAULT_NAMESPACE

    @property
    def name(self) -> SubscriptionName:
        """Its namespace and id."""
        return SubscriptionName(self.namespace, self.id)

    def __repr__(self) -> str:
        # Without ``realized``: custom headers may hold secrets.
        name = f"{self.namespace}/{self.id}"
        return f"StoredSubscription({name}, uid={self.uid}, revision={self.revision})"

    def encode(self) -> bytes:
        """JSON of the subscription object, the ``id`` first."""
        return b'{"id":' + msgspec.json.encode(self.id) + b"," + self.realized[1:]

    def to_json(self) -> dict[str, Any]:
        """The subscription object, as a copy."""
        value: dict[str, Any] = msgspec.json.decode(self.encode())
        return value


class SubscriptionPage(NamedTuple, Generic[_Item]):
    """A part of a list.

    Attributes:
        items: In the order of the list.
        next_cursor: Opaque; for the request of the next part. None: there is none.
    """

    items: list[_Item]
    next_cursor: str | None


class Replaced(NamedTuple):
    """The result of a replace.

    Attributes:
        subscription: The new state.
        created: True where there was none of that id before.
    """

    subscription: StoredSubscription
    created: bool


ANY_TAG: Final = "*"
"""In a ``Precondition``: matches any current state."""


@dataclass(frozen=True, slots=True)
class Precondition:
    """A client's condition on the current state, checked in the transaction of the change.

    Attributes:
        if_match: The resource must have one of these entity tags; None: no condition.
        if_none_match: It must have none of these; None: no condition.

    Source:
        RFC 9110, section 13.1; the tags come with their quotes. A weak tag never matches
        ``if_match``, since ours are strong.
    """

    if_match: frozenset[str] | None = None
    if_none_match: frozenset[str] | None = None

    def check(self, etag: str | None) -> None:
        """Compare with the state; *etag* is None where the resource does not exist.

        Raises:
            ConflictError: The state differs. Read again, then decide.
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
        spec: The new state.
        uid: The uid if it is created.
        claimed_id: The ``id`` in the body; on a replace it must be *id* or None (decision 2, ids).
        precondition: On the state before.
        namespace: Where.
    """

    id: str
    spec: ApiSubscriptionSpec
    uid: str
    claimed_id: object = None
    precondition: Precondition = NO_PRECONDITION
    namespace: str = DEFAULT_NAMESPACE

    @property
    def name(self) -> SubscriptionName:
        """Namespace and id."""
        return SubscriptionName(self.namespace, self.id)


@dataclass(frozen=True, slots=True)
class Rotate:
    """Replace the key that signs deliveries of the subscription *id*.

    Attributes:
        id: Its name.
        rotation: How.
        precondition: On the state before.
        namespace: Where.
    """

    id: str
    rotation: Rotation
    precondition: Precondition = NO_PRECONDITION
    namespace: str = DEFAULT_NAMESPACE

    @property
    def name(self) -> SubscriptionName:
        """Namespace and id."""
        return SubscriptionName(self.namespace, self.id)


DeleteReason = Literal["deleted", "expired", "used-up"]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the subscription *id*.

    Attributes:
        id: Its name.
        precondition: On the state before.
        reason: Recorded with the change: deleted by a client, or ended.
        namespace: Where.
    """

    id: str
    precondition: Precondition = NO_PRECONDITION
    reason: DeleteReason = "deleted"
    namespace: str = DEFAULT_NAMESPACE

    @property
    def name(self) -> SubscriptionName:
        """Namespace and id."""
        return SubscriptionName(self.namespace, self.id)


def end_of(name: SubscriptionName, etag: str, reason: DeleteReason) -> Delete:
    """Make the change that ends revision *etag* of the subscription *name*, and no newer one."""
    condition = Precondition(if_match=frozenset((etag,)))
    return Delete(name.id, condition, reason, name.namespace)


Change = Put | Delete | Rotate | RouteChange


class Applied(NamedTuple):
    """A change that is committed to the store.

    Attributes:
        seq: Its number, from 1; also the route record's.
        op: ``created``, ``replaced``, ``rotated``, or the reason of the delete.
        subscription: The new state; the last one where it was deleted.
        record: The route record for every partition of the log.
        made: Keys that sign, whose newest this change has made; None: none.
    """

    seq: int
    op: str
    subscription: StoredSubscription
    record: bytes
    made: SigningKeys | None = None

    def answer(self) -> StoredSubscription:
        """The new state for who asked for the change: with the secret that was made by it."""
        realized = with_secret(self.subscription.realized, self.made)
        return self.subscription._replace(realized=realized)


class ChangePendingError(LogUnavailableError):
    """The change is stored, but the log could not accept its route record yet.

    It is rolled forward as soon as the log is back, also by the next start. Do not send it
    again: read the subscription of this id instead.

    Attributes:
        id: Of the subscription.
        path: Where it can be read over HTTP.
        op: ``created``, ``replaced``, or the reason of the delete.
    """

    def __init__(self, applied: Applied) -> None:
        made = applied.subscription
        self.id = made.id
        self.path = path_in(made.namespace, f"/subscriptions/{made.id}")
        self.op = applied.op
        super().__init__(
            f"subscription {self.id} is {applied.op} in the store and takes effect as soon as the"
            " log is back; do not repeat the request"
        )
