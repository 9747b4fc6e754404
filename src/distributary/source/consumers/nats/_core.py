"""Reads a subject of core NATS, where nothing is acknowledged."""

from collections import deque
from collections.abc import Callable

from distributary.source._port import Message, Settlement, SourceSpec
from distributary.source.consumers.nats._talk import Talk, message_of


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
        self._sid = 0  # 0: not subscribed
        self._unsettled = 0
        self._later: deque[tuple[str, bytes, bytes]] = deque()  # came after the limit was reached

    async def read(self) -> None:
        """Read until the connection ends.

        Raises:
            TransportError: Why it has ended.
        """
        self._subscribe()
        await self._talk.wait()

    def _subscribe(self) -> None:
        self._sid = self._talk.subscribe(self._spec.place, self._came, self._spec.name)

    def _came(self, subject: str, _reply: str, headers: bytes, payload: bytes) -> None:
        self._later.append((subject, headers, payload))
        self._hand_over()

    def _hand_over(self) -> None:
        while self._later and self._unsettled < self._max:
            self._unsettled += 1
            subject, headers, payload = self._later.popleft()
            self._take(message_of(headers, payload, subject, self._settled))
        if self._unsettled >= self._max and self._sid:
            self._talk.unsubscribe(self._sid)
            self._sid = 0
        elif not self._sid and self._unsettled <= self._max // 2:
            self._subscribe()

    def _settled(self, _outcome: Settlement) -> None:
        self._unsettled -= 1
        self._hand_over()
