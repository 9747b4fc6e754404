"""The client side of the SASL exchange that precedes AMQP on a connection.

Called by ``_engine`` in client mode (proton's SASL does not support tokens). Hides mechanisms and
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
"""Longest SASL frame accepted: the standard says 512 bytes, but lists of mechanisms may be
longer."""

FRAMES_MAX: Final = 8
"""Limit of a server's SASL frames in one login. Three are needed: mechanisms, perhaps a challenge,
and the outcome; a server that sends more might never finish."""

_MECHANISMS: Final = 0x40
_INIT: Final = 0x41
_CHALLENGE: Final = 0x42
_RESPONSE: Final = 0x43
_OUTCOME: Final = 0x44

_CODES: Final = ("ok", "sasl-auth", "sasl-sys", "sasl-sys-perm", "sasl-sys-temp")
"""Codes of an outcome, in order, by their names in ``protocols.amqp.answers``."""


@dataclass(frozen=True, slots=True)
class AmqpLogin:
    """Credentials of a client. Nothing set: anonymous.

    Attributes:
        user: User name; may be empty with a token.
        password: Password of *user*.
        token: Access token, in place of a password.
    """

    user: str = ""
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


class LoginRefusedError(Exception):
    """The server refused the login.

    Attributes:
        code: ``sasl-auth`` and the other codes of an outcome; ``sasl-mechanism``: it offers no
            mechanism that is supported for the credentials.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Handshake:
    """The client side of one SASL exchange.

    Args:
        login: Credentials.
        host: The server's name; some servers select a realm by it.

    Attributes:
        done: Whether the login has succeeded.
    """

    def __init__(self, login: AmqpLogin, host: str) -> None:
        self._login = login
        self._host = host
        self._buffer = b""
        self._headed = False
        self._frames = 0
        self.done = False

    def take(self, raw: bytes) -> tuple[bytes, bytes]:
        """Parse *raw*. Returns the bytes to send, and the rest, which belongs to AMQP itself.

        Raises:
            LoginRefusedError: The server refused the login.
            AmqpError: The bytes are not SASL.
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
            # Token mechanisms send an error as a challenge; the response is empty (RFC 7628).
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
        """Returns mechanisms and their initial responses, the best first."""
        login = self._login
        if login.token is not None:
            bearer = f"auth=Bearer {login.token}\x01\x01"
            name = login.user.replace("=", "=3D").replace(",", "=2C")  # RFC 5801, section 4
            authorize = f"a={name}" if name else ""
            return [
                ("OAUTHBEARER", f"n,{authorize},\x01host={self._host}\x01{bearer}"),
                ("XOAUTH2", f"user={login.user}\x01{bearer}"),
                ("PLAIN", f"\x00{login.user}\x00{login.token}"),  # for RabbitMQ
            ]
        if login.password is not None:
            return [("PLAIN", f"\x00{login.user}\x00{login.password}")]
        return [("ANONYMOUS", "distributary")]


def _frame(code: int, fields: list[object]) -> bytes:
    body = _values.encode(Described(ULong(code), fields))
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body
