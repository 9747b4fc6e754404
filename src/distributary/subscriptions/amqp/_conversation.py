"""One connection of a client: its links, its requests one after the other, their answers."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog

from distributary.core.errors import DistributaryError
from distributary.protocols.amqp.engine import (
    ACCEPTED,
    AmqpEngine,
    AmqpError,
    AmqpLink,
    AmqpMessage,
    DeliveryState,
    Ended,
    IncomingMessage,
    Outcome,
    decode_message,
    encode_message,
)
from distributary.resource import RESOURCE_BYTES_MAX
from distributary.subscriptions.amqp._messages import (
    answer_of,
    correlation_of,
    discovery_of,
    problem_of,
    read_request,
)
from distributary.subscriptions.http.operations import Operations
from distributary.subscriptions.http.problem_details import INTERNAL_DETAIL, Problem, describe_error

ADDRESS: Final = "subscriptions"
"""The management node: where requests are sent."""

REQUEST_BYTES_MAX: Final = RESOURCE_BYTES_MAX + 64 * 1024
"""Largest request: a body of the largest size, and room for its properties."""

REQUEST_LINKS_MAX: Final = 4
"""Links of one connection that requests come by; a client needs one."""

REQUEST_CREDIT: Final = 4
"""Requests that one link may have sent without an answer: the next one is here when one is done,
and memory holds few bodies of the largest size."""

WAITING_MAX: Final = REQUEST_LINKS_MAX * REQUEST_CREDIT
"""Requests of one connection that wait: as many as its links may have sent. A client that opens
links anew to send more is cut."""

ANSWER_LINKS_MAX: Final = 16
"""Links of one connection that answers go by; a client needs one."""

_log = structlog.get_logger(__name__)


class Conversation:
    """Handles one connection (an ``amqp.Handler``).

    Requests are done one after the other: their order means something to who sends them without
    waiting, and an answer that is not taken holds back the requests of its own connection alone.

    Args:
        operations: Have requests answered.
        over: Called once, when the connection has ended and nothing is under way any more.
        now_s: The clock.

    Attributes:
        asked_s: When it last had a request, or was answered one.
    """

    def __init__(
        self,
        operations: Operations,
        over: Callable[["Conversation"], None],
        now_s: Callable[[], float],
    ) -> None:
        self.engine = AmqpEngine(self, server=True, message_bytes_max=REQUEST_BYTES_MAX)
        self._operations = operations
        self._over = over
        self._request_links: set[AmqpLink] = set()
        self._answer_links: dict[str, AmqpLink] = {}
        self._made_addresses = 0
        self._now_s = now_s
        self.asked_s = now_s()
        self._waiting: deque[IncomingMessage] = deque()
        self._work: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._opened = self._ended = self._writing = self._stopping = False

    def expect_opening(self) -> None:
        """By now the client must have opened the connection; otherwise it is cut."""
        if not self._opened and not self._ended:
            self.engine.abort()

    def end_idle(self) -> None:
        """Close a connection that asked for nothing; cut it where it does not close, or hangs."""
        if self._stopping:
            self.engine.abort()
        else:
            self._stopping = True
            self.engine.close("amqp:connection:forced", "nothing was asked for a long time")

    def stop(self) -> None:
        """Say goodbye when the request under way is answered; begin no other."""
        self._stopping = True
        self._waiting.clear()
        if self._work is None:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        self.engine.close("amqp:connection:forced", "the server stops")

    # -- what the engine calls ----------------------------------------------------------------

    def opened(self, _engine: AmqpEngine) -> None:
        self._opened = True

    def link_opened(self, link: AmqpLink) -> None:
        if link.sending:
            self._open_answers(link)
        else:
            self._open_requests(link)

    def link_closed(self, link: AmqpLink) -> None:
        self._request_links.discard(link)
        if self._answer_links.get(link.context) is link:
            del self._answer_links[link.context]
        self._changed.set()

    def credited(self, _link: AmqpLink) -> None:
        self._changed.set()

    def received(self, _link: AmqpLink, incoming: IncomingMessage) -> None:
        if self._stopping:
            return
        self.asked_s = self._now_s()
        if len(self._waiting) >= WAITING_MAX:
            self.engine.abort()
            return
        self._waiting.append(incoming)
        if self._work is None:
            self._begin_work()

    def settled(self, link: AmqpLink, token: object, outcome: Outcome) -> None:
        """Answers are sent settled: nothing is to be learned about them."""

    def written(self, _link: AmqpLink) -> None:
        self._writing = False
        self._changed.set()

    def closed(self, _ended: Ended) -> None:
        """See ``amqp.Handler``. What is under way is finished; what waits has not begun."""
        self._ended = True
        self._waiting.clear()
        self._request_links.clear()
        self._answer_links.clear()
        self._changed.set()
        if self._work is None:
            self._over(self)

    # -- links --------------------------------------------------------------------------------

    def _open_requests(self, link: AmqpLink) -> None:
        if link.address != ADDRESS:
            link.close("amqp:not-found", f"requests go to the address {ADDRESS}")
        elif len(self._request_links) >= REQUEST_LINKS_MAX:
            text = f"a connection has at most {REQUEST_LINKS_MAX} links to ask by"
            link.close("amqp:resource-limit-exceeded", text)
        else:
            self._request_links.add(link)
            link.accept()
            link.grant(REQUEST_CREDIT)

    def _open_answers(self, link: AmqpLink) -> None:
        address = self._made_address() if link.dynamic else link.address
        if len(self._answer_links) >= ANSWER_LINKS_MAX:
            text = f"a connection has at most {ANSWER_LINKS_MAX} links for answers"
            link.close("amqp:resource-limit-exceeded", text)
        elif not address:
            link.close("amqp:invalid-field", "answers need a source: an address, or a dynamic one")
        elif address in self._answer_links:
            link.close("amqp:not-allowed", "this connection has a link from that address already")
        else:
            link.context = address
            self._answer_links[address] = link
            link.accept(address)

    def _made_address(self) -> str:
        """One that this connection does not use; it means nothing on another."""
        while True:
            self._made_addresses += 1
            address = f"answers/{self._made_addresses}"
            if address not in self._answer_links:
                return address

    # -- requests -----------------------------------------------------------------------------

    def _begin_work(self) -> None:
        self._work = asyncio.get_running_loop().create_task(self._work_off())
        self._work.add_done_callback(self._end_work)

    async def _work_off(self) -> None:
        while self._waiting:
            incoming = self._waiting.popleft()
            await self._take(incoming)
            incoming.link.grant(1)

    def _end_work(self, work: asyncio.Task[None]) -> None:
        self._work = None
        self.asked_s = self._now_s()
        error = None if work.cancelled() else work.exception()
        if error is not None:  # a bug of ours: this connection cannot go on, the others can
            _log.error("amqp-connection-failed", exc_info=error)
            self.engine.abort()
        elif self._ended:
            self._over(self)
        elif self._stopping:
            self._say_goodbye()
        elif self._waiting:  # came in the turn of the loop in which the work ended
            self._begin_work()

    async def _take(self, incoming: IncomingMessage) -> None:
        """Do what *incoming* asks and have the answer sent."""
        try:
            request = decode_message(incoming.payload)
        except AmqpError as error:
            incoming.settle(Outcome(DeliveryState.REJECTED, "amqp:decode-error", str(error)))
            return
        link = self._answer_links.get(request.reply_to or "")
        if link is None:
            text = "reply-to is to be the source address of a link of this connection"
            incoming.settle(Outcome(DeliveryState.REJECTED, "amqp:invalid-field", text))
        elif correlation_of(request) is None:
            text = "an answer needs a correlation-id or message-id to be known by"
            incoming.settle(Outcome(DeliveryState.REJECTED, "amqp:invalid-field", text))
        else:
            answer = encode_message(await self._answer(request))
            # Before the answer goes: a client may wait for the outcome, and only then give credit.
            incoming.settle(ACCEPTED)
            await self._send(link, answer)

    async def _answer(self, request: AmqpMessage) -> AmqpMessage:
        try:
            operation, call = read_request(request)
            if operation is None:
                return discovery_of(request)
            return answer_of(await self._operations.answer(operation, call), request)
        except DistributaryError as error:
            return problem_of(describe_error(error), request)
        except Exception:  # noqa: BLE001 - a bug: logged whole, and answered as HTTP answers it
            # It must not take the connection and the other requests on it with it.
            _log.exception("amqp-request-failed")
            return problem_of(Problem("internal", INTERNAL_DETAIL), request)

    async def _send(self, link: AmqpLink, payload: bytes) -> None:
        """Send by *link* as soon as the client takes it; returns when it is in the socket."""
        while link.ended is None and link.credit <= 0:
            await self._change()
        if link.ended is not None:  # nobody reads this any more
            return
        limit = link.message_bytes_max
        if 0 < limit < len(payload):
            text = f"the answer has {len(payload)} bytes, and the link takes {limit}"
            link.close("amqp:link:message-size-exceeded", text)
            self.link_closed(link)
            return
        self._writing = True
        link.send(payload, None, settled=True)
        while self._writing and link.ended is None:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
