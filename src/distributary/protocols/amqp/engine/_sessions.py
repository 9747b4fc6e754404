"""Counts the sessions of one connection, and defers the end of unanswered ones.

Called by ``_core``. Hides that proton allocates channels and reports no error when none is left.
"""

from typing import Any

from distributary.protocols.amqp.engine import _proton
from distributary.protocols.amqp.engine._limits import SESSION_BYTES_MAX, SESSIONS_MAX


class Sessions:
    """Sessions that either side has begun.

    Args:
        connection: Proton's.
        transport: Proton's, of that connection.
    """

    def __init__(self, connection: Any, transport: Any) -> None:
        self._c = _proton.library()
        self._connection = connection
        self._transport = transport
        self._count = 0  # with a channel
        self._going = 0  # of those: ended, and without a channel once all output is written
        self._unanswered: set[Any] = set()  # to end as soon as the peer has answered

    @property
    def most(self) -> int:
        """Limit of sessions, the lower of both ends'."""
        remote: int = self._c.pn_transport_remote_channel_max(self._transport)
        return min(SESSIONS_MAX, remote + 1)

    @property
    def has_room(self) -> bool:
        return self._count < self.most

    def begin(self) -> Any:
        """Begin a session."""
        assert self.has_room, "the connection has no room for another link"
        session = self._c.pn_session(self._connection)
        self._open(session)
        return session

    def end(self, session: Any) -> None:
        """End a session of ours, once the peer has answered its ``begin``.

        Proton reuses the channel at once, and would take a late answer for the next session's.
        """
        if self._c.pn_session_state(session) & self._c.PN_REMOTE_UNINIT:
            self._unanswered.add(session)
        else:
            self._c.pn_session_close(session)

    def begun(self, session: Any) -> None:
        """Handle the peer's ``begin`` of *session*."""
        if self._c.pn_session_state(session) & self._c.PN_LOCAL_UNINIT:
            self._open(session)
        elif session in self._unanswered:
            self._unanswered.discard(session)
            self._c.pn_session_close(session)

    def ended(self, session: Any) -> None:
        """Handle the peer's ``end`` of *session*, and free it."""
        self._unanswered.discard(session)
        self._c.pn_session_close(session)
        self._c.pn_session_free(session)
        self._going += 1

    def all_is_said(self) -> None:
        """Release the channels of ended sessions: all output is written."""
        self._count -= self._going
        self._going = 0

    def _open(self, session: Any) -> None:
        self._c.pn_session_set_incoming_capacity(session, SESSION_BYTES_MAX)
        self._c.pn_session_open(session)
        self._count += 1
