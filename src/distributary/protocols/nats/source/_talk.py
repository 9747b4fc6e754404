"""One connection of a source: requests to JetStream's API, subscriptions, and the end.

Called by ``_core`` and ``_stream``. Hides the inbox for replies.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from distributary.core.deliver import Answer
from distributary.core.errors import EventError, TransportError
from distributary.core.policy import Acknowledgement
from distributary.core.policy.acknowledgements import TEXT_CHARS_MAX
from distributary.core.source import Message, Settlement
from distributary.protocols.nats import binding as nats
from distributary.protocols.nats.sink import JETSTREAM_NOT_ENABLED, NatsConnection

ASK_S_MAX: Final = 5.0
"""Longest wait for a reply of JetStream's API."""

Take: TypeAlias = Callable[[str, str, bytes, bytes], None]
"""Called with a message: subject, reply subject (empty: none), header block and payload."""


class Talk:
    """A client of JetStream's API over one connection, and the listener of it."""

    def __init__(self) -> None:
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = False
        self._connection: NatsConnection | None = None
        self._inbox = ""
        self._number = 0
        self._answers: dict[str, asyncio.Future[tuple[bytes, bytes]]] = {}
        self._takers: dict[int, Take] = {}

    def start(self, connection: NatsConnection) -> None:
        """Use *connection*."""
        self._connection = connection
        self._inbox = connection.new_inbox()
        self._takers[connection.subscribe(f"{self._inbox}.*")] = self._answered

    def end(self) -> None:
        """Stop receiving and sending; a stream redelivers what is not settled."""
        self._connection = None
        self._over = True
        if self._ended.done():
            self._ended.exception()  # retrieved: already raised, or the run was cancelled

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the connection ends, or *timeout_s* is over.

        Raises:
            TransportError: The cause of the end.
        """
        # Not awaited directly: cancelling the run would cancel the future too.
        await asyncio.wait([self._ended], timeout=timeout_s)
        if self._ended.done():
            self._ended.result()

    def fail(self, error: TransportError) -> None:
        """End the run with *error*; the first one counts."""
        if not self._ended.done() and not self._over:
            self._ended.set_exception(error)

    # -- what is sent -------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send a message, unless the run has ended."""
        if self._connection is not None:
            self._connection.publish(subject, payload, reply)

    def subscribe(self, subject: str, take: Take, queue: str = "", sid: int = 0) -> int:
        """Subscribe to *subject* (``NatsConnection.subscribe``). Returns 0 if the run has ended."""
        if self._connection is None:
            return 0
        sid = self._connection.subscribe(subject, queue, sid)
        self._takers[sid] = take
        return sid

    def unsubscribe(self, sid: int) -> None:
        """End a subscription; messages in flight still reach its callback."""
        if self._connection is not None:
            self._connection.unsubscribe(sid)

    def new_inbox(self) -> str:
        """Returns a unique subject for replies."""
        assert self._connection is not None
        return self._connection.new_inbox()

    # -- JetStream's API ----------------------------------------------------------------------

    async def stream_of(self, subject: str) -> str:
        """Returns the stream that holds *subject*; empty: none.

        Raises:
            TransportError: Several streams hold it, or there is no valid reply: a cluster without a
                leader names none, and its streams are there again soon.
        """
        found = await self.ask("STREAM.NAMES", {"subject": subject})
        if found.get("error") is not None:
            text = f"JetStream does not say which stream holds {subject}: {error_text(found)}"
            raise TransportError("refused", text)
        streams = found.get("streams") or []
        if not isinstance(streams, list) or not all(isinstance(name, str) for name in streams):
            raise TransportError("protocol", "JetStream names streams that are no names")
        if len(streams) > 1:
            text = f"{len(streams)} streams hold {subject}: name one ({min(streams)}...)"
            raise TransportError("protocol", text)
        return streams[0] if streams else ""

    async def ask(self, what: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request to the API. Returns the reply, empty without JetStream.

        Raises:
            TransportError: There is no reply.
        """
        self._number += 1
        token = str(self._number)
        answer = self._answers[token] = asyncio.get_running_loop().create_future()
        body = b"" if request is None else json.dumps(request).encode()
        self.publish(f"$JS.API.{what}", body, f"{self._inbox}.{token}")
        await asyncio.wait(
            [answer, self._ended], timeout=ASK_S_MAX, return_when=asyncio.FIRST_COMPLETED
        )
        del self._answers[token]
        if self._ended.done():
            self._ended.result()  # raises
        if not answer.done():
            raise TransportError("timeout", f"JetStream does not answer {what}")
        headers, payload = answer.result()
        found = {} if headers else _object(payload)  # 503: no JetStream
        return {} if error_code(found) in JETSTREAM_NOT_ENABLED else found

    def _answered(self, subject: str, _reply: str, headers: bytes, payload: bytes) -> None:
        answer = self._answers.get(subject.rpartition(".")[2])
        if answer is not None and not answer.done():
            answer.set_result((headers, payload))

    # -- what comes ---------------------------------------------------------------------------

    def taken(self, sid: int, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        take = self._takers.get(sid)
        if take is not None and self._connection is not None:
            take(subject.decode("utf-8", "replace"), reply.decode("latin-1"), headers, payload)

    def denied(self, text: str) -> None:
        self.fail(TransportError("refused", text[:TEXT_CHARS_MAX]))

    def lost(self, answer: Answer) -> None:
        if isinstance(answer, Acknowledgement):
            answer = TransportError("reset", f"The server ended the connection: {answer.text}")
        assert isinstance(answer, TransportError)
        self.fail(answer)


def message_of(
    headers: bytes, payload: bytes, where: str, settle: Callable[[Settlement], None]
) -> Message:
    """Decode a message; a ``Message`` with the event, or with the fault."""
    try:
        return Message(nats.decode(headers, payload), None, where, settle)
    except EventError as fault:
        return Message(None, fault, where, settle)


def _object(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TransportError("protocol", "JetStream answers what is no JSON object")
    return found


def error_code(found: dict[str, Any]) -> object:
    """Returns the ``err_code`` of a reply of the API; None: it is no error."""
    error = found.get("error")
    return error.get("err_code") if isinstance(error, dict) else None


def error_text(found: dict[str, Any]) -> str:
    """Returns the description of the API's error, for people."""
    error = found.get("error")
    text = error.get("description") if isinstance(error, dict) else None
    return str(text or "no answer")[:TEXT_CHARS_MAX]
