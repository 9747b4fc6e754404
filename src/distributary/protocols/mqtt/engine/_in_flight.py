"""The in-flight window: published messages without an answer, by packet identifier."""

from typing import Final, Generic, TypeVar

_PACKET_ID_MAX: Final = 65_535
"""There is no 0 (2.2.1)."""

Token = TypeVar("Token")


class InFlight(Generic[Token]):
    """Messages in flight, by the packet that each waits for.

    Attributes:
        acked: QoS 1, until PUBACK.
        received: QoS 2, until PUBREC.
        released: QoS 2, until PUBCOMP.
        unflushed: QoS 0, until it is written.
        written: QoS 0, until the write buffer is empty.
    """

    __slots__ = ("_last_id", "acked", "received", "released", "unflushed", "written")

    def __init__(self) -> None:
        self.acked: dict[int, Token] = {}
        self.received: dict[int, Token] = {}
        self.released: dict[int, Token] = {}
        self.unflushed: list[Token] = []
        self.written: list[Token] = []
        self._last_id = 0

    def __len__(self) -> int:
        qos_0 = len(self.unflushed) + len(self.written)
        return qos_0 + len(self.acked) + len(self.received) + len(self.released)

    def add(self, qos: int, token: Token) -> bytes:
        """Add *token*. Returns its packet identifier, encoded; empty at QoS 0."""
        if qos == 0:
            self.unflushed.append(token)
            return b""
        number = self.free_id()
        (self.acked if qos == 1 else self.received)[number] = token
        return number.to_bytes(2, "big")

    def free_id(self) -> int:
        """Returns the next unused packet identifier, 1 to 65,535.

        Raises:
            RuntimeError: All are in use: the caller keeps no window.
        """
        number = self._last_id
        for _ in range(_PACKET_ID_MAX):
            number = number % _PACKET_ID_MAX + 1
            if not (number in self.acked or number in self.received or number in self.released):
                self._last_id = number
                return number
        raise RuntimeError("every packet identifier is in use")

    def flush(self) -> None:
        """Move unflushed messages to ``written``."""
        self.written += self.unflushed
        self.unflushed.clear()

    def take_written(self) -> list[Token]:
        """Remove and return ``written``."""
        written, self.written = self.written, []
        return written

    def clear(self) -> None:
        """Drop all messages."""
        for tokens in (self.acked, self.received, self.released, self.unflushed, self.written):
            tokens.clear()
