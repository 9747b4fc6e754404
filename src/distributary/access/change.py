"""A change that somebody asked for, as the audit log records it."""

from typing import NamedTuple

from distributary.access.identity import Identity


class Change(NamedTuple):
    """A request for a change, and its result, for the audit log.

    Attributes:
        sender: Who asked.
        operation: Its name.
        object: Path of what was to be changed, as over HTTP.
        origin: Address of the client; empty: unknown.
        status: As over HTTP.
        surface: Where it was asked.
    """

    sender: Identity
    operation: str
    object: str
    origin: str
    status: int
    surface: str
