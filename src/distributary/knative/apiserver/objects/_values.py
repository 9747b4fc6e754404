"""What passes between the object store, its callers and its watchers: objects and requests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from distributary.knative.apiserver.machinery import Key, Kind, Object


class Stored(NamedTuple):
    """An object as it stands in the store. Shared by all readers: never change ``content``.

    Attributes:
        key: Its name.
        uid: Unique for ever; a recreated object has another.
        version: Its ``metadata.resourceVersion``: of the whole store, from 1; 0 after a
            ``dry_run`` that would have created it.
        content: The whole object, ``metadata.resourceVersion`` included.
        json: The same as JSON.
        early: It was written when a ``delivery`` without ``retry`` meant the default
            (``knative.kinds``), and is read so until somebody writes it again. What the server
            writes, and a status, does not count.
    """

    key: Key
    uid: str
    version: int
    content: Object
    json: bytes
    early: bool = False


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class ObjectChange(NamedTuple):
    """One change of one object, in the order of ``stored.version``.

    Attributes:
        type: As a watch names it.
        stored: As it stands now; where it was deleted, as it stood, with the version of the delete.
        before: As it stood before; None where it was added.
    """

    type: ChangeType
    stored: Stored
    before: Stored | None


@dataclass(frozen=True, slots=True)
class Write:
    """What is asked of one write beside the change itself.

    Attributes:
        subresource: ``status``: only the status may change; empty: all but the status may.
        manager: Who writes, for ``metadata.managedFields``; empty: nobody is noted.
        uid: The object must have this uid; None: any.
        version: It must stand in this version; None: any.
        dry_run: Do everything but store it.
        by_server: A write of the server itself (status, ``Channel.spec.subscribers``): not
            admitted anew, and ``metadata.generation`` stays.
        orphan: A delete that leaves the object's dependents alone, without their owner.
        applied: A server-side apply: the change sets ``metadata.managedFields`` itself.
    """

    subresource: str = ""
    manager: str = ""
    uid: str | None = None
    version: int | None = None
    dry_run: bool = False
    by_server: bool = False
    orphan: bool = False
    applied: bool = False


Admit = Callable[[Kind, Object, Object | None], None]
"""Refuses a new content (the old one given where there is one) by a ``StatusError``."""

Default = Callable[[Kind, Object, Object | None], Object]
"""A new content with what the server fills in. Takes any JSON object; leaves its arguments."""


class Create(NamedTuple):
    """Make an object that is not there."""

    kind: Kind
    namespace: str
    content: Object
    write: Write = Write()


class Edit(NamedTuple):
    """Make another object of the newest one. It must be there."""

    key: Key
    change: Callable[[Object], Object]
    write: Write = Write()


class PutObject(NamedTuple):
    """As ``Edit``; gets None, and makes the object, where there is none."""

    key: Key
    change: Callable[[Object | None], Object]
    write: Write = Write()


class DeleteObject(NamedTuple):
    """Delete an object, or mark it as being deleted where something must be done first."""

    key: Key
    write: Write = Write()


Request = Create | Edit | PutObject | DeleteObject


class Made(NamedTuple):
    """What a request came to.

    Attributes:
        stored: The object after it.
        created: It was not there before.
    """

    stored: Stored
    created: bool = False


Outcome = Made | Exception
"""What a request came to, or why it was refused."""


@dataclass(frozen=True, slots=True)
class ObjectRules:
    """What requests are held against.

    Attributes:
        kinds: By ``Kind.resource``.
        admit: See there.
        default: See there.
        new_uid: Draws a uid that was never drawn before.
        objects_max: How many objects may stand.
        json_bytes_max: How large all of them may be together, as JSON.
    """

    kinds: Mapping[str, Kind]
    admit: Admit
    default: Default
    new_uid: Callable[[], str]
    objects_max: int
    json_bytes_max: int
