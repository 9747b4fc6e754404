"""How a client logs in: the SASL frames that stand before AMQP itself on a connection.

Called by ``_engine`` in client mode (proton's own SASL knows no tokens). Hides mechanisms and
frames. No I/O: bytes in, bytes out.

Source:
    OASIS AMQP 1.0, part 5, section 5.3; RFC 4616 (PLAIN), RFC 7628 (OAUTHBEARER).
"""

import struct
from dataclasses import dataclass, field
from typing import Final

from distributary.protocols.amqp.engine import _values
from distributary.protocols.amqp.engine._values import AmqpError, Described, Symbol, ULong

HEADER: Final = b"AMQP\x03\x01\x00\x00"

FRAME_BYTES_MAX: Final = 64 * 1024
"""Longest SASL frame that is read: the standard says 512 bytes; nobody's list of mechanisms is
longer than this."""

FRAMES_MAX: Final = 8
"""SASL frames of the server in one login. Three are needed: what it offers, perhaps a challenge,
and the outcome; one that says more never comes to an end."""

_MECHANISMS: Final = 0x40
_INIT: Final = 0x41
_CHALLENGE: Final = 0x42
_RESPONSE: Final = 0x43
_OUTCOME: Final = 0x44

_CODES: Final = ("ok", "sasl-auth", "sasl-sys", "sasl-sys-perm", "sasl-sys-temp")
"""Codes of an outcome, in their order; as the table of answers calls them."""


@dataclass(frozen=True, slots=True)
class AmqpLogin:
    """Who a client is. Nothing set: anonymous.

    Attributes:
        user: Name; may be empty beside a token.
        password: Password of *user*.
        token: Access token, in place of a password.
    """

    user: str = ""
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


class LoginRefusedError(Exception):
    """The server does not let us in.

    Attributes:
        code: ``sasl-auth`` and the others of the outcome; ``sasl-mechanism``: it offers no way to
            log in that we know.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Handshake:
    """The client's half of one SASL exchange.

    Args:
        login: Who we are.
        host: The server's name, which some servers choose their realm by.

    Attributes:
        done: Whether we are in.
    """

    def __init__(self, login: AmqpLogin, host: str) -> None:
        self._login = login
        self._host = host
        self._buffer = b""
        self._headed = False
        self._frames = 0
        self.done = False

    def take(self, raw: bytes) -> tuple[bytes, bytes]:
        """Read *raw*; what to send for it, and what of it belongs to AMQP itself.

        Raises:
            LoginRefusedError: The server says no.
            AmqpError: It speaks no SASL.
        """
        self._buffer += raw
        answers: list[bytes] = []
        if not self._headed:
            if not HEADER.startswith(self._buffer[:8]):
                raise AmqpError("the server does not speak AMQP 1.0 with SASL")
            if len(self._buffer) < 8:
                return b"", b""
            self._buffer = self._buffer[8:]
            self._headed = True
        while not self.done and len(self._buffer) >= 8:
            size, offset, kind = struct.unpack_from(">IBB", self._buffer)
            if kind != 1 or offset < 2 or not 4 * offset <= size <= FRAME_BYTES_MAX:
                raise AmqpError("a SASL frame was expected")
            if len(self._buffer) < size:
                break
            self._frames += 1
            if self._frames > FRAMES_MAX:
                raise AmqpError("the server talks on instead of an outcome of the login")
            frame, self._buffer = self._buffer[4 * offset : size], self._buffer[size:]
            answers.append(self._answer(frame))
        rest = b""
        if self.done:
            rest, self._buffer = self._buffer, b""
        return b"".join(answers), rest

    def _answer(self, frame: bytes) -> bytes:
        performative, _ = _values.decode(frame)
        if not isinstance(performative, Described) or not isinstance(performative.value, list):
            raise AmqpError("a SASL frame was expected")
        code, fields = performative.descriptor, [*performative.value, None, None]
        if code == _MECHANISMS:
            return self._init(fields[0])
        if code == _CHALLENGE:
            # The token mechanisms explain a refusal so, and wait for an empty word (RFC 7628).
            return _frame(_RESPONSE, [b""])
        if code == _OUTCOME:
            outcome = fields[0]
            if outcome != 0:
                known = isinstance(outcome, int) and 0 < outcome < len(_CODES)
                name = _CODES[outcome] if known else "sasl-sys"
                raise LoginRefusedError(name, "The server refuses the login")
            self.done = True
            return b""
        raise AmqpError("an unknown SASL frame")

    def _init(self, offered: object) -> bytes:
        names = offered if isinstance(offered, list) else [offered]
        for mechanism, response in self._ways():
            if mechanism in names:
                return _frame(_INIT, [Symbol(mechanism), response.encode(), self._host])
        wanted = " or ".join(mechanism for mechanism, _ in self._ways())
        shown = ", ".join(str(name)[:32] for name in names[:16])
        raise LoginRefusedError(
            "sasl-mechanism", f"{wanted} is needed to log in; the server offers {shown}"
        )

    def _ways(self) -> list[tuple[str, str]]:
        """Mechanisms and their first words, the best first."""
        login = self._login
        if login.token is not None:
            bearer = f"auth=Bearer {login.token}\x01\x01"
            name = login.user.replace("=", "=3D").replace(",", "=2C")  # RFC 5801, section 4
            authorize = f"a={name}" if name else ""
            return [
                ("OAUTHBEARER", f"n,{authorize},\x01host={self._host}\x01{bearer}"),
                ("XOAUTH2", f"user={login.user}\x01{bearer}"),
                ("PLAIN", f"\x00{login.user}\x00{login.token}"),  # as RabbitMQ takes tokens
            ]
        if login.password is not None:
            return [("PLAIN", f"\x00{login.user}\x00{login.password}")]
        return [("ANONYMOUS", "distributary")]


def _frame(code: int, fields: list[object]) -> bytes:
    body = _values.encode(Described(ULong(code), fields))
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body
