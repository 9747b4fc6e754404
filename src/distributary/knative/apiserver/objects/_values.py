"""Values of the object store: objects, changes, requests and their results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from distributary.knative.apiserver.machinery import Key, Kind, Object
from distributary.knative.kinds import PolicyCost


class Stored(NamedTuple):
    """A stored object. Shared by all readers: never change ``content``.

    Attributes:
        key: Its name.
        uid: Never reused; a recreated object has another.
        version: Its ``metadata.resourceVersion``: of the whole store, from 1; 0 after a
            ``dry_run`` that would have created it.
        content: The whole object, ``metadata.resourceVersion`` included.
        json: *content* as JSON.
        early: Whether it was written when a ``delivery`` without ``retry`` meant the default
            (``knative.kinds``); it keeps that meaning until a client writes it again. Writes of the
            server and of the status do not count.
        sealed: Values of a Secret; empty: another kind.
        cost: Of an EventPolicy; nothing: another kind.
    """

    key: Key
    uid: str
    version: int
    content: Object
    json: bytes
    early: bool = False
    sealed: bytes = b""
    cost: PolicyCost = PolicyCost()

    @property
    def size_bytes(self) -> int:
        """What limits count of it: its JSON, and the values of a Secret."""
        return len(self.json) + len(self.sealed)


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class ObjectChange(NamedTuple):
    """One change of one object, in the order of ``stored.version``.

    Attributes:
        type: As in a watch.
        stored: The new state; if deleted, the last state with the version of the delete.
        before: The state before; None if it was added.
    """

    type: ChangeType
    stored: Stored
    before: Stored | None

    @property
    def size_bytes(self) -> int:
        """What limits count of it: both states."""
        return self.stored.size_bytes + (0 if self.before is None else self.before.size_bytes)


Permit = Callable[[Kind, Object, Object | None], None]
"""Asks whether who writes may write this admitted content in place of the old one, if any; raises
``StatusError``. As ``Admit``, it is called in another thread."""


def _anything(_kind: Kind, _new: Object, _old: Object | None) -> None:
    """Permits every content."""


@dataclass(frozen=True, slots=True)
class Write:
    """Options and preconditions of one write.

    Attributes:
        subresource: ``status``: only the status may change; empty: all but the status may.
        manager: Field manager for ``metadata.managedFields``; empty: none is recorded.
        uid: Uid that the object must have; None: any.
        version: Version that the object must have; None: any.
        dry_run: Do everything but store it.
        by_server: A write of the server itself (status, ``Channel.spec.subscribers``): not
            admitted anew, and ``metadata.generation`` stays.
        orphan: A delete keeps the object's dependents, and removes their reference to it.
        applied: A server-side apply: the change sets ``metadata.managedFields`` itself.
        permit: Whether the sender may write this content; not asked of the server itself.
        body_bytes: Size of what the client sent.
    """

    subresource: str = ""
    manager: str = ""
    uid: str | None = None
    version: int | None = None
    dry_run: bool = False
    by_server: bool = False
    orphan: bool = False
    applied: bool = False
    permit: Permit = _anything
    body_bytes: int = 0


class Create(NamedTuple):
    """Create an object that does not exist."""

    kind: Kind
    namespace: str
    content: Object
    write: Write = Write()


class Edit(NamedTuple):
    """Replace an existing object by *change* of its newest state."""

    key: Key
    change: Callable[[Object], Object]
    write: Write = Write()


class PutObject(NamedTuple):
    """As ``Edit``, but creates a missing object: *change* gets None."""

    key: Key
    change: Callable[[Object | None], Object]
    write: Write = Write()


class DeleteObject(NamedTuple):
    """Delete an object, or mark it as being deleted if finalizers or its content remain."""

    key: Key
    write: Write = Write()


class OpenAddress(NamedTuple):
    """Let receivers accept events for a Broker or Channel; ``write.uid`` says which incarnation."""

    key: Key
    write: Write = Write()


Request = Create | Edit | PutObject | DeleteObject | OpenAddress


class Made(NamedTuple):
    """Result of a request.

    Attributes:
        stored: The object after it.
        created: Whether the request created it.
    """

    stored: Stored
    created: bool = False


Outcome = Made | Exception
"""Result of a request, or why it was refused."""
