"""One client connection: its links, and its requests in order with their responses."""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog

from distributary.access import NOBODY, Change, Identity, UnauthenticatedError
from distributary.core.errors import DistributaryError, RequestError
from distributary.core.tenant import DEFAULT_NAMESPACE, is_namespace, path_in
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
from distributary.subscriptions.amqp._sender import Audit, Sender, changes
from distributary.subscriptions.http.operations import OperationName, Operations
from distributary.subscriptions.http.problem_details import INTERNAL_DETAIL, Problem, describe_error

ADDRESS: Final = "subscriptions"
"""The management node of the namespace ``default``, to which requests are sent."""

_NAMESPACED: Final = re.compile(rf"namespaces/([^/]+)/{ADDRESS}")
"""That of any namespace."""

SURFACE: Final = "amqp"
"""Name of this surface in the audit log."""

REQUEST_BYTES_MAX: Final = RESOURCE_BYTES_MAX + 64 * 1024
"""Largest request, bytes: the largest body, and space for its properties."""

REQUEST_LINKS_MAX: Final = 4
"""Most request links of one connection; a client needs one."""

REQUEST_CREDIT: Final = 4
"""Requests in flight on one link: the next one is here when one is done, and memory holds few
bodies of the largest size."""

WAITING_MAX: Final = REQUEST_LINKS_MAX * REQUEST_CREDIT
"""Most waiting requests of one connection: the credit of its links. A client that exceeds it, by
opening links anew, is cut."""

ANSWER_LINKS_MAX: Final = 16
"""Most response links of one connection; a client needs one."""

_log = structlog.get_logger(__name__)


def namespace_of(address: str) -> str | None:
    """The namespace whose requests go to *address*; None: no requests go there."""
    if address == ADDRESS:
        return DEFAULT_NAMESPACE
    found = _NAMESPACED.fullmatch(address.removeprefix("/"))
    return found[1] if found is not None and is_namespace(found[1]) else None


class Conversation:
    """Handles one connection (an ``amqp.Handler``).

    Handles requests one by one: a client that sends without waiting relies on their order, and a
    response that a client does not read delays the requests of its own connection only.

    Args:
        operations: Carry out requests.
        over: Called once, when the connection has ended and no request is in flight.
        now_s: The clock.
        sender: Who asks.
        origin: Address of the client; empty: unknown.
        audit: Records changes.
        count_call: Counts a request of a namespace; raises where its quota is used up.
        admit: Counts this as open, for the only namespace of its sender, if there is one; returns
            why it may not stay, empty: it may.

    Attributes:
        asked_s: When it last received a request, or sent a response.
    """

    def __init__(
        self,
        operations: Operations,
        over: Callable[["Conversation"], None],
        now_s: Callable[[], float],
        sender: Sender,
        *,
        origin: str = "",
        audit: Audit = lambda _change: None,
        count_call: Callable[[str], None] = lambda _namespace: None,
        admit: Callable[["Conversation", str], str] = lambda _self, _holder: "",
    ) -> None:
        self.engine = AmqpEngine(
            self,
            server=True,
            logins=sender if sender.required else None,
            message_bytes_max=REQUEST_BYTES_MAX,
        )
        self._sender = sender
        self._origin = origin
        self._audit = audit
        self._count_call = count_call
        self._admit = admit
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
        self._sending_on: AmqpLink | None = None
        self._opened = self._ended = self._writing = self._stopping = False

    def expect_opening(self) -> None:
        """Cut the connection unless the client has opened it by now."""
        if not self._opened and not self._ended:
            self.engine.abort()

    def end_idle(self) -> None:
        """Close an idle connection; cut it if the client does not close, or hangs."""
        if self._stopping:
            self.engine.abort()
        else:
            self._stopping = True
            self.engine.close("amqp:connection:forced", "nothing was asked for a long time")

    def stop(self) -> None:
        """Close after the response to the current request; start no other."""
        self._stopping = True
        self._waiting.clear()
        if self._work is None:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        self.engine.close("amqp:connection:forced", "the server stops")

    # -- called by the engine -----------------------------------------------------------------

    def opened(self, engine: AmqpEngine) -> None:
        """Begin to take requests, or close where the sender has too many connections."""
        self._opened = True
        holder = ""
        with contextlib.suppress(UnauthenticatedError):  # its first request is refused
            holder = self._sender.identify().holder
        refusal = self._admit(self, holder)
        if refusal:
            self._stopping = True
            engine.close("amqp:resource-limit-exceeded", refusal)

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

    def credited(self, link: AmqpLink) -> None:
        self._changed.set()
        if link is not self._sending_on:
            link.return_credit()

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
        """Responses are sent settled, so nothing is done."""

    def written(self, _link: AmqpLink) -> None:
        self._writing = False
        self._changed.set()

    def closed(self, _ended: Ended) -> None:
        """Handle the end of the connection: finish the current request, drop waiting ones."""
        self._ended = True
        self._waiting.clear()
        self._request_links.clear()
        self._answer_links.clear()
        self._changed.set()
        if self._work is None:
            self._over(self)

    # -- links --------------------------------------------------------------------------------

    def _open_requests(self, link: AmqpLink) -> None:
        namespace = namespace_of(link.address or "")
        if namespace is None:
            text = f"requests go to {ADDRESS}, or to namespaces/NAMESPACE/{ADDRESS}"
            link.close("amqp:not-found", text)
        elif len(self._request_links) >= REQUEST_LINKS_MAX:
            text = f"a connection has at most {REQUEST_LINKS_MAX} request links"
            link.close("amqp:resource-limit-exceeded", text)
        else:
            link.context = namespace
            self._request_links.add(link)
            link.accept()
            link.grant(REQUEST_CREDIT)

    def _open_answers(self, link: AmqpLink) -> None:
        address = self._made_address() if link.dynamic else link.address
        if len(self._answer_links) >= ANSWER_LINKS_MAX:
            text = f"a connection has at most {ANSWER_LINKS_MAX} response links"
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
        """An address unique within this connection; it means nothing on another."""
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
        if error is not None:  # a bug of ours: ends this connection, not the others
            _log.error("amqp-connection-failed", exc_info=error)
            self.engine.abort()
        elif self._ended:
            self._over(self)
        elif self._stopping:
            self._say_goodbye()
        elif self._waiting:  # arrived in the loop iteration in which the task ended
            self._begin_work()

    async def _take(self, incoming: IncomingMessage) -> None:
        """Carry out the request *incoming* and send the response."""
        try:
            request = decode_message(incoming.payload)
        except AmqpError as error:
            incoming.settle(Outcome(DeliveryState.REJECTED, "amqp:decode-error", str(error)))
            return
        link = self._answer_links.get(request.reply_to or "")
        if link is None:
            text = "reply-to must be the source address of a link of this connection"
            incoming.settle(Outcome(DeliveryState.REJECTED, "amqp:invalid-field", text))
        elif correlation_of(request) is None:
            text = "a request needs a message-id or correlation-id for its response"
            incoming.settle(Outcome(DeliveryState.REJECTED, "amqp:invalid-field", text))
        else:
            answer = encode_message(await self._answer(request, incoming.link.context))
            # Before the response: a client may wait for the outcome before it gives credit.
            incoming.settle(ACCEPTED)
            await self._send(link, answer)

    async def _answer(self, request: AmqpMessage, namespace: str) -> AmqpMessage:
        operation, subscription_id, status = None, "", 500
        try:
            sender = self._sender.identify()
        except RequestError as error:
            if isinstance(error, UnauthenticatedError):
                self.engine.close("amqp:unauthorized-access", str(error))
            problem = describe_error(error)
            self._audit_refusal(request, namespace, problem.status)
            return problem_of(problem, request)
        try:
            operation, call = read_request(request, namespace)
            if operation is None:
                return discovery_of(request)
            subscription_id = call.id
            self._sender.check(sender, operation, namespace)
            self._count_call(namespace)
            result = await self._operations.answer(operation, call)
            subscription_id, status = result.created_id or subscription_id, result.status.code
            return answer_of(result, request)
        except DistributaryError as error:
            problem = describe_error(error)
            status = problem.status
            return problem_of(problem, request)
        except Exception:  # noqa: BLE001 - a bug: logged whole, and answered as HTTP answers it
            # It must not end the connection and the other requests on it.
            _log.exception("amqp-request-failed")
            return problem_of(Problem("internal", INTERNAL_DETAIL), request)
        finally:
            self._record(sender, operation, namespace, subscription_id, status)

    def _audit_refusal(self, request: AmqpMessage, namespace: str, status: int) -> None:
        """Record what was asked for by whoever may not ask any more; once for a connection."""
        with contextlib.suppress(DistributaryError):  # of no operation: nothing would change
            operation, call = read_request(request, namespace)
            self._record(NOBODY, operation, namespace, call.id, status)

    def _record(
        self,
        sender: Identity,
        operation: OperationName | None,
        namespace: str,
        id_: str,
        status: int,
    ) -> None:
        """Tell the audit log of a request for a change."""
        if operation is not None and changes(operation):
            path = path_in(namespace, f"/subscriptions/{id_}").removesuffix("/")
            self._audit(Change(sender, operation, path, self._origin, status, SURFACE))

    async def _send(self, link: AmqpLink, payload: bytes) -> None:
        """Send on *link* once it has credit; returns when the message is in the socket."""
        self._sending_on = link
        try:
            await self._send_on(link, payload)
        finally:
            self._sending_on = None
        link.return_credit()

    async def _send_on(self, link: AmqpLink, payload: bytes) -> None:
        while link.ended is None and link.credit <= 0:
            await self._change()
        if link.ended is not None:  # the client closed it
            return
        limit = link.message_bytes_max
        if 0 < limit < len(payload):
            text = f"the response has {len(payload)} bytes, and the link allows {limit}"
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
