"""The server side of the SASL exchange that precedes AMQP on a connection.

Called by ``_engine`` in server mode, where clients must log in (proton's SASL knows no tokens, and
no passwords of its own). Hides mechanisms and frames. No I/O: bytes in, bytes out.

Source:
    OASIS AMQP 1.0, part 5, section 5.3; RFC 4616 (PLAIN), RFC 4422 appendix A (EXTERNAL), RFC 7628
    (OAUTHBEARER).
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from distributary.protocols.amqp.engine._sasl_frames import (
    CHALLENGE,
    HEADER,
    INIT,
    MECHANISMS,
    OUTCOME,
    RESPONSE,
    SaslFrames,
    frame_of,
)
from distributary.protocols.amqp.engine._values import AmqpError, Symbol, Symbols, UByte

FRAME_BYTES_MAX: Final = 16 * 1024
"""Longest SASL frame of a client: its token may have 8 KiB."""

_OK: Final = 0
_AUTH: Final = 1
_REFUSAL: Final = b'{"status":"invalid_token"}'


class ClientLogin(NamedTuple):
    """What a client shows.

    Attributes:
        mechanism: The mechanism it chose.
        secret: Its key or token; empty with EXTERNAL.
    """

    mechanism: str
    secret: str

    def __repr__(self) -> str:
        """Without the secret."""
        return f"ClientLogin({self.mechanism!r})"


class Logins(Protocol):
    """Decides about logins."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Those that are offered: of ``PLAIN``, ``OAUTHBEARER`` and ``EXTERNAL``."""

    def accept(self, login: ClientLogin) -> bool:
        """Whether *login* is valid."""


class ServerHandshake:
    """The server side of one SASL exchange.

    Args:
        logins: Decides.

    Attributes:
        done: Whether the login has succeeded.
        refused: Whether it has failed: write what was returned, and close.
    """

    def __init__(self, logins: Logins) -> None:
        self._logins = logins
        self._frames = SaslFrames(FRAME_BYTES_MAX)
        self._headed = False
        self._failing = False
        self.done = self.refused = False

    def take(self, raw: bytes) -> tuple[bytes, bytes]:
        """Parse *raw*. Returns the bytes to send, and the rest, which belongs to AMQP itself.

        Raises:
            AmqpError: The bytes are not SASL.
        """
        self._frames.add(raw)
        answers: list[bytes] = []
        if not self._headed:
            begins = self._frames.begins()
            if begins is None:
                return b"", b""
            if not begins:
                # The header that the client must send instead (section 2.2).
                self.refused = True
                return HEADER, b""
            self._headed = True
            offered = Symbols(map(Symbol, self._logins.mechanisms))
            answers += (HEADER, frame_of(MECHANISMS, [offered]))
        for code, fields in self._frames.read():
            answers.append(self._answer(code, fields))
            if self.done or self.refused:
                break
        return b"".join(answers), self._frames.rest() if self.done else b""

    def _answer(self, code: object, fields: list[Any]) -> bytes:
        if self._failing and code == RESPONSE:
            return self._refuse()
        if self._failing or code != INIT:
            raise AmqpError("an unknown SASL frame")
        login = _read(fields[0], fields[1])
        if login is None or login.mechanism not in self._logins.mechanisms:
            return self._refuse()
        if self._logins.accept(login):
            self.done = True
            return frame_of(OUTCOME, [UByte(_OK)])
        if login.mechanism == "OAUTHBEARER":
            # The reason is a challenge, to which the client responds with nothing (section 3.2.3).
            self._failing = True
            return frame_of(CHALLENGE, [_REFUSAL])
        return self._refuse()

    def _refuse(self) -> bytes:
        self.refused = True
        return frame_of(OUTCOME, [UByte(_AUTH)])


def _read(mechanism: object, response: object) -> ClientLogin | None:
    """What an init frame shows; None: it is malformed."""
    read = _READERS.get(mechanism) if isinstance(mechanism, str) else None
    raw = b"" if response is None else response
    if read is None or not isinstance(raw, bytes):
        return None
    try:
        secret = read(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    return None if secret is None else ClientLogin(str(mechanism), secret)


def _of_external(text: str) -> str | None:
    return None if text else ""  # nobody acts for another


def _of_plain(text: str) -> str | None:
    """The password; the user is the client's own choice, and nobody acts for another."""
    parts = text.split("\0")
    return parts[2] if len(parts) == 3 and parts[0] in ("", parts[1]) else None


def _of_bearer(text: str) -> str | None:
    """The token (RFC 7628 section 3.1)."""
    shown = [pair[5:] for pair in text.split("\x01")[1:] if pair.startswith("auth=")]
    if len(shown) != 1 or shown[0][:7].lower() != "bearer ":
        return None
    return shown[0][7:].strip(" ")


_READERS: Final[dict[str, Callable[[str], str | None]]] = {
    "EXTERNAL": _of_external,
    "PLAIN": _of_plain,
    "OAUTHBEARER": _of_bearer,
}
