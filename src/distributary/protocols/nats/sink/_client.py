"""Logging in at a NATS server, and nats-py's client with a wire of ours below.

Called by ``_session`` and, through this package, by the NATS consumer. nats-py does the login, the
parsing and the keepalive. Hides what would cost a task and a future for each message: frames are
written by us, and messages of our own subscriptions are taken as they come off the wire.

nats-py has no public place for some of these things; see ``_Client``.
"""

import asyncio
from typing import Any, Final

from nats import errors
from nats.aio.client import Client
from nats.protocol.parser import AWAITING_CONTROL_LINE, PERMISSIONS_ERR, Parser

from distributary.deliver import Connector, Destination
from distributary.deliver.tunnel import TUNNEL_SCHEMES, open_tunnel
from distributary.errors import TransportError
from distributary.policy import Acknowledgement, Answer, Decision, acknowledgement_rule
from distributary.protocols.nats.sink import _answers
from distributary.protocols.nats.sink._connection import FIRST_SID, Connection, Listener
from distributary.protocols.nats.sink._wire import LINE_BYTES_MAX, Wire
from distributary.resource import Credential

PING_S: Final = 10
"""Seconds between PINGs; one that is not answered when the next is due ends the connection, so
that a half-open wire is found within two."""

STEP_S_MAX: Final = 10
"""Longest time for each step of the handshake, seconds; who waits for all of it gives up sooner."""

NAME: Final = "distributary"
"""What the server's monitoring calls the connection."""

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Largest message that is taken where only answers are awaited: the longest names a thousand
streams."""


class _Parser(Parser):
    """nats-py's, which keeps to a limit, and ends the connection where it cannot go on.

    By itself it takes in what a server announces, however much that is, and what it does not
    expect only ends its reading: the connection would be deaf, and each flush a success.
    """

    def __init__(self, client: "_Client", message_bytes_max: int) -> None:
        super().__init__(client)
        self._bytes_max = message_bytes_max

    async def parse(self, data: bytes = b"") -> None:
        """Take *data*, and hand over what is whole."""
        try:
            await super().parse(data)
        except errors.Error:
            raise
        except Exception as error:  # INFO that is no JSON, a PONG too late...
            raise errors.ProtocolError from error
        waits_for_line = self.state == AWAITING_CONTROL_LINE
        if len(self.buf) > LINE_BYTES_MAX if waits_for_line else self.needed > self._bytes_max:
            raise errors.ProtocolError

    @property
    def line(self) -> str:
        """The line that is being handled, as the server wrote it."""
        return self.buf.partition(b"\r\n")[0].decode("utf-8", "replace")


class _Client(Client):
    """nats-py's client over a wire of ours, with a short way for our messages.

    The one place that touches what nats-py keeps private: ``_transport`` and ``_ps`` (it makes
    the former itself only where none is there; the latter is its parser), and ``_process_msg``,
    ``_process_err`` and ``_process_info``, which the parser calls for each message, ``-ERR`` and
    INFO. ``tests/brokers/nats/test_client_library.py`` fails where a new version changes them.

    Attributes:
        said: The ``-ERR`` that ends the connection, in the server's words; empty: none has come.
    """

    def __init__(self, wire: Wire, listener: Listener, message_bytes_max: int) -> None:
        super().__init__()
        self._transport = wire
        self._parser = self._ps = _Parser(self, message_bytes_max)
        self._listener = listener
        self.said = ""

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        if sid <= FIRST_SID:
            return
        try:
            self._listener.taken(sid, subject, reply, headers or b"", data)
        except Exception as bug:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a listener raised", "exception": bug}
            )
            raise

    async def _process_err(self, err_msg: str) -> None:
        # Its words come in lower case; the parser has not removed the line yet.
        said = self._parser.line.removeprefix("-ERR").strip()
        if PERMISSIONS_ERR in err_msg:
            self._listener.denied(said)
        else:
            self.said = said
            await super()._process_err(err_msg)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Nothing: other servers that it names are not dialled, and need not be remembered."""

    async def flushed(self, timeout_s: int) -> bool:
        """Whether the server has read everything that was sent so far."""
        try:
            await self.flush(timeout_s)
        except errors.Error:
            return False
        return self.is_connected


async def connect(
    connector: Connector,
    destination: Destination,
    listener: Listener,
    message_bytes_max: int = ANSWER_BYTES_MAX,
) -> Connection | Acknowledgement:
    """Connect and log in as *destination* says.

    Args:
        connector: Dials.
        destination: The server, the credential and the certificates.
        listener: Takes what arrives.
        message_bytes_max: Bytes of the largest message that is taken, headers included; a larger
            one ends the connection.

    Returns:
        The connection, or what the server answered to the login.

    Raises:
        TransportError: There is no connection.
    """
    endpoint = connector.endpoint_of(destination)
    wire = Wire(endpoint, lambda: connector.tls_context(endpoint.ca_certs))
    if endpoint.scheme in TUNNEL_SCHEMES:
        await open_tunnel(connector, endpoint, None, lambda: wire)
    else:
        dialled = await connector.dial(endpoint)
        try:
            await asyncio.get_running_loop().create_connection(lambda: wire, sock=dialled)
        except BaseException:
            dialled.close()
            raise
    try:
        client = _Client(wire, listener, message_bytes_max)
        return await _login(client, wire, listener, destination.credential)
    except BaseException:
        wire.abort()
        raise


async def _login(
    client: _Client, wire: Wire, listener: Listener, credential: Credential | None
) -> Connection | Acknowledgement:
    connected = False

    async def failed(_error: Exception) -> None:
        """It is raised, or told when the connection has ended."""

    async def closed() -> None:
        if connected:
            listener.lost(_why_lost(client))

    try:
        await client.connect(
            "nats://dialled-by-the-connector",
            name=NAME,
            allow_reconnect=False,
            connect_timeout=STEP_S_MAX,
            ping_interval=PING_S,
            max_outstanding_pings=1,
            error_cb=failed,
            closed_cb=closed,
            **_credential_options(credential),
        )
    except TimeoutError as error:
        raise TransportError("timeout", "The server did not finish the handshake") from error
    except OSError as error:
        raise TransportError("reset", f"The connection ended in the handshake: {error}") from error
    except errors.Error as error:
        wire.abort()
        return _refusal(error)
    if not client.is_connected:
        raise TransportError("protocol", "The server ended the handshake without an answer")
    connected = True
    assert wire.info is not None
    headers = wire.info.get("headers", False)
    return Connection(client, wire.send, client.max_payload, headers=headers)


def _credential_options(credential: Credential | None) -> dict[str, Any]:
    if credential is None:
        return {}
    if credential.type == "PLAIN":
        return {"user": credential.identifier or "", "password": credential.secret or ""}
    return {"token": credential.access_token}


def _refusal(error: errors.Error) -> Acknowledgement:
    """What a server said instead of a yes to the login.

    Raises:
        TransportError: It said nothing that can be understood: those words are nats-py's own.
    """
    said = str(error).removeprefix("nats: ").strip()
    if not said.startswith("'"):
        raise TransportError("protocol", f"The server does not speak NATS: {said}") from error
    return _answers.of_error(said)


def _why_lost(client: _Client) -> Answer:
    """The answer for what was in flight when the connection ended."""
    if client.said:
        said = _answers.of_error(client.said)
        if acknowledgement_rule(said).decision is not Decision.DEAD_LETTER:
            return said
        # It is about one message; the others must not go down with it.
        return TransportError("reset", f"The server ended the connection: {said.text}")
    error = client.last_error
    if isinstance(error, errors.ProtocolError):
        return TransportError("protocol", "The server said what is not NATS, or too much")
    return TransportError("reset", f"The connection ended: {error or 'closed by the server'}")
