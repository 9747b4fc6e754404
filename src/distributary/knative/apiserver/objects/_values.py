"""The values that pass between the object store, its callers and its watchers."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from distributary.knative.apiserver.machinery import Key, Object


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
            (``resource.knative``), and is read so until somebody writes it again. What the server
            writes, and a status, does not count.
    """

    key: Key
    uid: str
    version: int
    content: Object
    json: bytes
    early: bool = False


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Change(NamedTuple):
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
