"""The client side of the SASL exchange that precedes AMQP on a connection.

Called by ``_engine`` in client mode (proton's SASL does not support tokens). Hides mechanisms and
frames. No I/O: bytes in, bytes out.

Source:
    OASIS AMQP 1.0, part 5, section 5.3; RFC 4616 (PLAIN), RFC 7628 (OAUTHBEARER).
"""

from dataclasses import dataclass, field
from typing import Any, Final

from distributary.protocols.amqp.engine._sasl_frames import (
    CHALLENGE,
    INIT,
    MECHANISMS,
    OUTCOME,
    RESPONSE,
    SaslFrames,
    frame_of,
)
from distributary.protocols.amqp.engine._values import AmqpError, Symbol

FRAME_BYTES_MAX: Final = 64 * 1024
"""Longest SASL frame accepted: the standard says 512 bytes, but lists of mechanisms may be
longer."""

_CODES: Final = ("ok", "sasl-auth", "sasl-sys", "sasl-sys-perm", "sasl-sys-temp")
"""Codes of an outcome, in order, by their names in ``protocols.amqp.answers``."""


@dataclass(frozen=True, slots=True)
class AmqpLogin:
    """Credentials of a client. Nothing set: anonymous.

    Attributes:
        user: User name; may be empty with a token.
        password: Password of *user*.
        token: Access token, in place of a password.
        certified: A client certificate was shown by TLS: without other credentials the server may
            take the account from it.
    """

    user: str = ""
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    certified: bool = False


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
        self._frames = SaslFrames(FRAME_BYTES_MAX)
        self._headed = False
        self.done = False

    def take(self, raw: bytes) -> tuple[bytes, bytes]:
        """Parse *raw*. Returns the bytes to send, and the rest, which belongs to AMQP itself.

        Raises:
            LoginRefusedError: The server refused the login.
            AmqpError: The bytes are not SASL.
        """
        self._frames.add(raw)
        if not self._headed:
            begins = self._frames.begins()
            if begins is False:
                raise AmqpError("the server does not speak AMQP 1.0 with SASL")
            self._headed = begins is True
        answers: list[bytes] = []
        if self._headed:
            for code, fields in self._frames.read():
                answers.append(self._answer(code, fields))
                if self.done:
                    break
        return b"".join(answers), self._frames.rest() if self.done else b""

    def _answer(self, code: object, fields: list[Any]) -> bytes:
        if code == MECHANISMS:
            return self._init(fields[0])
        if code == CHALLENGE:
            # Token mechanisms send an error as a challenge; the response is empty (RFC 7628).
            return frame_of(RESPONSE, [b""])
        if code == OUTCOME:
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
                return frame_of(INIT, [Symbol(mechanism), response.encode(), self._host])
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
        certified = [("EXTERNAL", "")] if login.certified else []
        return [*certified, ("ANONYMOUS", "distributary")]
