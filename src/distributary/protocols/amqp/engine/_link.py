"""Links and incoming messages of a connection.

For handlers of an ``AmqpEngine``. Hides proton's links and deliveries: no pointer is kept here
longer than in proton.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributary.protocols.amqp.engine import _proton
from distributary.protocols.amqp.engine._outcomes import DeliveryState, Ended, Outcome

if TYPE_CHECKING:
    from distributary.protocols.amqp.engine._core import Core
    from distributary.protocols.amqp.engine._engine import AmqpEngine


class AmqpLink:
    """One link, opened by ``AmqpEngine.open_sender``, ``open_receiver``, or the peer.

    Attributes:
        engine: Its connection.
        name: Name of the link.
        sending: Whether this end sends.
        ours: Whether this end opened it.
        address: Node at the server: target of a client's sender, source of its receiver. None: the
            client named none (with ``dynamic``: requests one).
        dynamic: Whether the client requests a new address.
        settlement: The peer's sender settle mode (section 2.8.2).
        ended: How it ended; None: it has not.
        unsettled: Tokens of sent messages without an outcome, in order.
        context: For the handler.
    """

    __slots__ = (
        "_c",
        "_core",
        "_pointer",
        "address",
        "context",
        "dynamic",
        "ended",
        "engine",
        "name",
        "ours",
        "partial",
        "sending",
        "settlement",
        "too_large",
        "unsettled",
    )

    def __init__(
        self, engine: "AmqpEngine", core: "Core", pointer: Any, name: str, *, sending: bool
    ) -> None:
        self.engine = engine
        self._core = core
        self._c = _proton.library()
        self.name = name
        self.sending = sending
        self.ours = False
        self.address: str | None = None
        self.dynamic = False
        self.settlement = "mixed"
        self.ended: Ended | None = None
        self.unsettled: dict[Any, object] = {}
        self.context: Any = None
        self.partial = bytearray()
        self.too_large = False
        self._pointer = pointer

    @property
    def credit(self) -> int:
        """Link credit: messages that this end (of a sender) or the peer may still send."""
        return 0 if self.ended is not None else int(self._c.pn_link_credit(self._pointer))

    @property
    def unwritten_bytes(self) -> int:
        """Bytes of sent messages that wait for the peer's window, or for the socket."""
        if self.ended is not None:
            return 0
        # Each link of ours has its own session.
        return int(self._c.pn_session_outgoing_bytes(self._c.pn_link_session(self._pointer)))

    @property
    def message_bytes_max(self) -> int:
        """Largest message that the peer accepts; 0: no limit."""
        return (
            0
            if self.ended is not None
            else int(self._c.pn_link_remote_max_message_size(self._pointer))
        )

    @property
    def properties(self) -> dict[str, Any]:
        """The peer's properties of the link."""
        if self.ended is not None:
            return {}
        return _proton.read_map(self._c.pn_link_remote_properties(self._pointer))

    def accept(self, address: str | None = None) -> None:
        """Accept a link that the peer opened (in ``Handler.link_opened``, or later).

        Args:
            address: Address of the node; required if the link is ``dynamic``. None: as requested.
        """
        if self.ended is None:
            self._core.accept_link(self, self._pointer, address)

    def close(self, condition: str = "", text: str = "") -> None:
        """Detach the link, with an error if *condition* is set. Also refuses a peer's link."""
        if self.ended is None:
            self._core.close_link(self, self._pointer, condition, text)

    def grant(self, count: int) -> None:
        """Add *count* to the credit of a receiving link."""
        if self.ended is None:
            self._core.expect(count)
            self._c.pn_link_flow(self._pointer, count)
            self._core.wake()

    def return_credit(self) -> None:
        """Give unused credit back if the peer asks for that, by ``drain`` (section 2.6.7).

        Call it in ``Handler.credited``, once nothing waits to be sent: a peer that asks may wait.
        """
        if self.ended is None and self._c.pn_link_get_drain(self._pointer):
            if self._c.pn_link_drained(self._pointer):
                self._core.expect(1)  # the peer may ask again, after this answer
            self._core.wake()

    def send(self, payload: bytes, token: object, *, settled: bool = False) -> None:
        """Send one message; requires ``credit``.

        Args:
            payload: From ``encode_message``.
            token: Passed to ``Handler.settled`` with the outcome.
            settled: Send it settled, without an outcome; see ``Handler.written``.
        """
        assert self.ended is None, "the link has ended"
        self._core.send(self, self._pointer, payload, token, settled=settled)


@dataclass(slots=True, eq=False)
class IncomingMessage:
    """A received message, until it is settled.

    Attributes:
        link: The link that it came by.
        payload: For ``decode_message``.
        settled: Whether its sender sent it settled.
        too_large: The message exceeds the limit and was dropped: *payload* is empty. Only on links
            that this end opened; the peer's links are ended instead.
    """

    link: AmqpLink
    _core: "Core"
    _pointer: Any
    payload: bytes
    settled: bool
    too_large: bool

    def settle(self, outcome: Outcome) -> None:
        """Settle the message, once; has no effect if the link has ended."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None and self.link.ended is None:
            _settle(pointer, outcome)
            self._core.wake()


def _settle(pointer: Any, outcome: Outcome) -> None:
    c = _proton.library()
    state = outcome.state
    if state is DeliveryState.REJECTED and outcome.condition:
        condition = c.pn_disposition_condition(c.pn_delivery_local(pointer))
        _proton.say(condition, outcome.condition, outcome.text)
    elif state is DeliveryState.MODIFIED:
        local = c.pn_delivery_local(pointer)
        c.pn_disposition_set_failed(local, outcome.failed)
        c.pn_disposition_set_undeliverable(local, outcome.undeliverable)
    if state is not DeliveryState.NONE:
        c.pn_delivery_update(pointer, state.value)
    c.pn_delivery_settle(pointer)
