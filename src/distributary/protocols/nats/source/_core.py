"""Reads a subject of core NATS, without acknowledgement (at most once)."""

from collections import deque
from collections.abc import Callable
from typing import Final

from distributary.core.errors import TransportError
from distributary.core.source import Message, Settlement, SourceSpec
from distributary.protocols.nats.source._talk import Talk, message_of

LATER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that may arrive after UNSUB: nats-server's buffer for one client (``max_pending``). On more
the connection is ended."""


class CoreReading:
    """One run of a subscription in a queue group with the name of the source.

    Core NATS has no backpressure. At the limit of unsettled messages the source unsubscribes until
    half of them are settled: meanwhile messages go to the other members of the group, or are lost
    without any.

    Args:
        talk: The connection.
        spec: What to read.
        take: Called with each message.
        unsettled_max: Limit of unsettled messages.
    """

    def __init__(
        self, talk: Talk, spec: SourceSpec, take: Callable[[Message], None], unsettled_max: int
    ) -> None:
        self._talk = talk
        self._spec = spec
        self._take = take
        self._max = unsettled_max
        self._sid = 0  # reused: late messages belong to it, and none accumulate
        self._subscribed = False
        self._unsettled = 0
        self._later: deque[tuple[str, bytes, bytes]] = deque()  # beyond the limit
        self._later_bytes = 0
        self._handing_over = False

    async def read(self) -> None:
        """Read until the connection ends.

        Raises:
            TransportError: The cause.
        """
        self._subscribe()
        await self._talk.wait()

    def _subscribe(self) -> None:
        self._sid = self._talk.subscribe(self._spec.place, self._came, self._spec.name, self._sid)
        self._subscribed = True

    def _came(self, subject: str, _reply: str, headers: bytes, payload: bytes) -> None:
        self._later.append((subject, headers, payload))
        self._later_bytes += len(headers) + len(payload)
        self._hand_over()
        if self._later_bytes > LATER_BYTES_MAX:
            self._talk.fail(TransportError("protocol", "The server does not stop sending"))

    def _hand_over(self) -> None:
        if self._handing_over:
            return  # re-entered: a message was settled inside ``take``
        self._handing_over = True
        try:
            while self._later and self._unsettled < self._max:
                self._unsettled += 1
                subject, headers, payload = self._later.popleft()
                self._later_bytes -= len(headers) + len(payload)
                self._take(message_of(headers, payload, subject, self._settled))
        finally:
            self._handing_over = False
        if self._unsettled >= self._max and self._subscribed:
            self._talk.unsubscribe(self._sid)
            self._subscribed = False
        elif not self._subscribed and self._unsettled <= self._max // 2:
            self._subscribe()

    def _settled(self, _outcome: Settlement) -> None:
        self._unsettled -= 1
        self._hand_over()
