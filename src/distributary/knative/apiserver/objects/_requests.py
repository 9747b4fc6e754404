"""What may be asked of the store, and the rules that a request is held against."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from distributary.knative.apiserver.machinery import Key, Kind, Object
from distributary.knative.apiserver.objects._values import Stored, Write

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


class Put(NamedTuple):
    """As ``Edit``; gets None, and makes the object, where there is none."""

    key: Key
    change: Callable[[Object | None], Object]
    write: Write = Write()


class Delete(NamedTuple):
    """Delete an object, or mark it as being deleted where something must be done first."""

    key: Key
    write: Write = Write()


Request = Create | Edit | Put | Delete


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
class Rules:
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
