"""The sessions of one connection: how many there are, and when one may end.

Called by ``_core``. Hides that proton keeps channels for them and says nothing where none is left.
"""

from typing import Any

from distributary.protocols.amqp.engine import _proton
from distributary.protocols.amqp.engine._limits import SESSION_BYTES_MAX, SESSIONS_MAX


class Sessions:
    """Those that either side has begun.

    Args:
        connection: Proton's.
        transport: Proton's, of that connection.
    """

    def __init__(self, connection: Any, transport: Any) -> None:
        self._c = _proton.library()
        self._connection = connection
        self._transport = transport
        self._count = 0  # that have a channel
        self._going = 0  # of those: when all is written that is to be said they have none
        self._unanswered: set[Any] = set()  # to be ended as soon as they are answered

    @property
    def most(self) -> int:
        """How many there may be, by what both ends say."""
        remote: int = self._c.pn_transport_remote_channel_max(self._transport)
        return min(SESSIONS_MAX, remote + 1)

    @property
    def has_room(self) -> bool:
        return self._count < self.most

    def begin(self) -> Any:
        """A new one of ours."""
        assert self.has_room, "the connection has no room for another link"
        session = self._c.pn_session(self._connection)
        self._open(session)
        return session

    def end(self, session: Any) -> None:
        """End one of ours; one that has no answer yet, when it has one.

        Proton uses the channel for the next one at once, and would take the answer for its.
        """
        if self._c.pn_session_state(session) & self._c.PN_REMOTE_UNINIT:
            self._unanswered.add(session)
        else:
            self._c.pn_session_close(session)

    def begun(self, session: Any) -> None:
        """The peer has begun *session*, or has answered it."""
        if self._c.pn_session_state(session) & self._c.PN_LOCAL_UNINIT:
            self._open(session)
        elif session in self._unanswered:
            self._unanswered.discard(session)
            self._c.pn_session_close(session)

    def ended(self, session: Any) -> None:
        """The peer has ended *session*: it is of no use to anybody after this."""
        self._unanswered.discard(session)
        self._c.pn_session_close(session)
        self._c.pn_session_free(session)
        self._going += 1

    def all_is_said(self) -> None:
        """What was to be said is written, and the ends of sessions with it."""
        self._count -= self._going
        self._going = 0

    def _open(self, session: Any) -> None:
        self._c.pn_session_set_incoming_capacity(session, SESSION_BYTES_MAX)
        self._c.pn_session_open(session)
        self._count += 1
