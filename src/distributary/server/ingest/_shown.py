"""What a connection shows with each event, and the answer of the gate to it.

Caller: ``_context``, for requests in plain form. A client sends the same ``Authorization`` with
each request of a connection, at the same place. So its line is compared as a whole, and nothing
looks at each of its bytes; and the gate is asked again only where it has forgotten something.
"""

from typing import Final

from distributary.access import Credentials, Gate, Identity, PeerCertificate
from distributary.protocols.http.plain import TAKEN_OUT

MISSES_MAX: Final = 8
"""Requests whose line was elsewhere, or another, since the gate was asked last (some a minute);
then a connection is not looked at any more. To find a line costs as much as it saves."""


class Shown:
    """What the last request in plain form has shown. One a connection.

    Attributes:
        line: Its line ``Authorization``, with the line breaks around it; empty: none is remembered.
        at: Where it begins in the request.
        sender: Whose line it is.
        address: Where the sender may publish.
        generation: That of the gate when it said so: under another one, ask again.
    """

    __slots__ = ("_misses", "_value", "address", "at", "generation", "line", "sender")

    def __init__(self) -> None:
        self.line = b""
        self.at = 0
        self.sender: Identity | None = None
        self.address = ""
        self.generation = -1
        self._value = b""
        self._misses = 0

    def ask(
        self, gate: Gate, address: str, value: bytes | None, certificate: PeerCertificate | None
    ) -> Identity | None:
        """Who sends an event to *address*, and was admitted there before; None: nobody was.

        Args:
            gate: Has admitted.
            address: Where it is sent.
            value: Of the field ``Authorization``; None: there is none; ``TAKEN_OUT``: of ``line``.
            certificate: Of the connection.
        """
        if value != TAKEN_OUT:
            return gate.admitted.get((Credentials(value or b"", certificate), address))
        self.sender = gate.admitted.get((Credentials(self._value, certificate), address))
        self.address, self.generation, self._misses = address, gate.generation, 0
        return self.sender

    def remember(self, request: bytes, value: bytes) -> None:
        """Remember the line of *request*, a request in plain form.

        Args:
            request: Has one line ``Authorization``, which is not ``line`` at its place.
            value: Its value, without the blanks around it.
        """
        if self.line:
            self.line, self.generation = b"", -1
            self._misses += 1
        if self._misses >= MISSES_MAX:
            return
        value_at = request.find(value)
        at = request.rfind(b"\r\n", 0, value_at)
        end = value_at + len(value)
        is_line = request[at + 2 : value_at].lower().rstrip(b" \t") == b"authorization:"
        if at > 0 and is_line and request[end : end + 2] == b"\r\n":
            self._value, self.line, self.at = value, request[at : end + 2], at
