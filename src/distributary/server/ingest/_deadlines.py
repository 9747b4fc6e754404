"""Read deadlines of a connection. Pure.

Caller: ``_protocol``, once a second for each connection.
"""

import enum
from typing import Final

from distributary.server.ingest import _limits


class ReadPhase(enum.IntEnum):
    """What the connection expects next from the client."""

    IDLE = 0
    """The first byte of a further request."""
    HEAD = 1
    """The end of a header."""
    BODY = 2
    """The end of a body."""
    NEW = 3
    """The first byte of the connection."""


IDLE: Final = ReadPhase.IDLE
"""For each event: a member read from its enumeration costs as much as several calls."""


def overdue(phase: ReadPhase, age_s: float, body_bytes: int) -> bool:
    """Whether the client has exceeded the deadline of its phase.

    Args:
        phase: What is expected from it.
        age_s: Seconds in this phase.
        body_bytes: Bytes of the body received so far.
    """
    if phase is ReadPhase.IDLE:
        return age_s >= _limits.IDLE_S
    if phase is ReadPhase.NEW:
        return age_s >= _limits.FIRST_BYTE_S
    if phase is ReadPhase.HEAD:
        return age_s >= _limits.HEAD_DEADLINE_S
    if age_s >= _limits.BODY_DEADLINE_S:
        return True
    return (
        age_s >= _limits.BODY_RATE_GRACE_S
        and body_bytes < age_s * _limits.BODY_RATE_BYTES_PER_S_MIN
    )
