"""Reads a subject of core NATS, where nothing is acknowledged."""

from collections import deque
from collections.abc import Callable
from typing import Final

from distributary.core.errors import TransportError
from distributary.core.source import Message, Settlement, SourceSpec
from distributary.protocols.nats.source._talk import Talk, message_of

LATER_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may come after the subscription was given up, bytes: as much as nats-server keeps for one
client (``max_pending``). A server that sends more does not stop, and is left."""


class CoreReading:
    """One run over a subscription whose queue group has the name of the source.

    A core server cannot be made to wait. When as many messages are unsettled as may be, the
    subscription is given up until half of them are settled: meanwhile the other members of the
    group take what is published, and where there are none, it is gone.

    Args:
        talk: The connection.
        spec: What to read.
        take: Takes each message.
        unsettled_max: Most messages taken and not settled.
    """

    def __init__(
        self, talk: Talk, spec: SourceSpec, take: Callable[[Message], None], unsettled_max: int
    ) -> None:
        self._talk = talk
        self._spec = spec
        self._take = take
        self._max = unsettled_max
        self._sid = 0  # one number for good: what comes late belongs to it, and none are heaped up
        self._subscribed = False
        self._unsettled = 0
        self._later: deque[tuple[str, bytes, bytes]] = deque()  # came after the limit was reached
        self._later_bytes = 0
        self._handing_over = False

    async def read(self) -> None:
        """Read until the connection ends.

        Raises:
            TransportError: Why it has ended.
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
            return  # a message was settled as it was taken: the loop below goes on
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
