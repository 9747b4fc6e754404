"""An open connection to a NATS server, and who listens to it.

Called by ``_session`` and by the NATS consumer; made by ``_client``. Hides how commands look.
"""

from collections.abc import Callable
from typing import Final, Protocol

from distributary.policy import Answer

FIRST_SID: Final = 1_000_000
"""Our own subscriptions count from here; nats-py's count from 1."""


class Listener(Protocol):
    """Takes what comes off the wire. Called on the loop; must not raise."""

    def taken(self, sid: int, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """A message of the subscription *sid*; *headers* is its block, empty where it has none."""
        ...

    def denied(self, text: str) -> None:
        """The server refused a publish or a subscription, and the connection goes on.

        Args:
            text: Its words.
        """
        ...

    def lost(self, answer: Answer) -> None:
        """The connection has ended by itself. Called once, and nothing is called after it."""
        ...


class Client(Protocol):
    """What is used of nats-py's client behind a connection."""

    def new_inbox(self) -> str:
        """A subject that nobody else uses."""
        ...

    async def flushed(self, timeout_s: int) -> bool:
        """Whether the server has read everything that was sent so far."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class Connection:
    """An open connection, logged in.

    Args:
        client: Of nats-py.
        send: Writes a frame at the end of this turn of the loop, with all others of the turn.
        message_bytes_max: Bytes of the largest message that the server takes, headers included.
        headers: Whether it takes headers.
    """

    def __init__(
        self,
        client: Client,
        send: Callable[[bytes], None],
        message_bytes_max: int,
        *,
        headers: bool,
    ) -> None:
        self._client = client
        self._sid = FIRST_SID
        self.send = send
        self.message_bytes_max = message_bytes_max
        self.headers = headers

    def new_inbox(self) -> str:
        """A subject that nobody else uses."""
        return self._client.new_inbox()

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send a message without headers."""
        between = f" {reply} " if reply else " "
        self.send(b"PUB %b%d\r\n%b\r\n" % ((subject + between).encode(), len(payload), payload))

    def subscribe(self, subject: str, queue: str = "", sid: int = 0) -> int:
        """Have the messages of *subject* from now on; their number for ``Listener.taken``.

        Args:
            subject: May hold wildcards.
            queue: Name of a group whose members share the messages; empty: none.
            sid: Number of a subscription that was given up, to be used again; 0: a new one.
        """
        if not sid:
            self._sid += 1
            sid = self._sid
        between = f" {queue} " if queue else " "
        self.send(f"SUB {subject}{between}{sid}\r\n".encode())
        return sid

    def unsubscribe(self, sid: int) -> None:
        """Have no more messages of a subscription; what is on its way still comes."""
        self.send(b"UNSUB %d\r\n" % sid)

    async def flush(self, timeout_s: int) -> bool:
        """Whether the server has read everything that was sent so far."""
        return await self._client.flushed(timeout_s)

    async def close(self) -> None:
        """Close it. ``Listener.lost`` may be called."""
        await self._client.close()
