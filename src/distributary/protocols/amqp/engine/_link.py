"""What travels over a connection: links, and deliveries that came.

Called by whoever handles an ``AmqpEngine``. Hides proton's links and deliveries: none of their
pointers lives longer here than in proton.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributary.protocols.amqp.engine import _proton
from distributary.protocols.amqp.engine._outcomes import DeliveryState, Ended, Outcome

if TYPE_CHECKING:
    from distributary.protocols.amqp.engine._core import Core
    from distributary.protocols.amqp.engine._engine import AmqpEngine


class AmqpLink:
    """One link. Made by ``AmqpEngine.open_sender``, ``open_receiver``, or by the peer.

    Attributes:
        engine: The connection that it belongs to.
        name: As the one who opened it called it.
        sending: Whether this end sends.
        ours: Whether this end opened it.
        address: The node at the server that it is for: target of what the client sends, source
            of what it receives. None: the client named none (with ``dynamic``: asks for one).
        dynamic: The client asks the server to make an address.
        settlement: How the peer says that the sender settles: a mode of section 2.8.2.
        ended: How it ended; None: it has not.
        unsettled: Tokens of what was sent here and has no outcome, in order.
        context: Whatever whoever handles the link keeps with it.
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
        """Messages that may be sent (of a sender), or that the peer may still send."""
        return 0 if self.ended is not None else int(self._c.pn_link_credit(self._pointer))

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that were sent here and still wait for the peer's window, or for the socket."""
        if self.ended is not None:
            return 0
        # Each link of ours has a session of its own.
        return int(self._c.pn_session_outgoing_bytes(self._c.pn_link_session(self._pointer)))

    @property
    def message_bytes_max(self) -> int:
        """Largest message that the peer takes; 0: it gave no limit."""
        return (
            0
            if self.ended is not None
            else int(self._c.pn_link_remote_max_message_size(self._pointer))
        )

    @property
    def properties(self) -> dict[str, Any]:
        """Properties that the peer gave the link."""
        if self.ended is not None:
            return {}
        return _proton.read_map(self._c.pn_link_remote_properties(self._pointer))

    def accept(self, address: str | None = None) -> None:
        """Agree to a link that the peer opened (in ``Handler.link_opened``, or later).

        Args:
            address: What to call the node; needed where the link is ``dynamic``. None: as asked.
        """
        if self.ended is None:
            self._core.accept_link(self, self._pointer, address)

    def close(self, condition: str = "", text: str = "") -> None:
        """End it; with *condition*: as an error. Also refuses one that was not accepted."""
        if self.ended is None:
            self._core.close_link(self, self._pointer, condition, text)

    def grant(self, count: int) -> None:
        """Let the peer send *count* messages more."""
        if self.ended is None:
            self._c.pn_link_flow(self._pointer, count)
            self._core.wake()

    def send(self, payload: bytes, token: object, *, settled: bool = False) -> None:
        """Send one message; only where there is ``credit``.

        Args:
            payload: See ``encode_message``.
            token: Comes back with its outcome (``Handler.settled``).
            settled: Ask for no outcome; see ``Handler.written``.
        """
        assert self.ended is None, "the link has ended"
        self._core.send(self, self._pointer, payload, token, settled=settled)


@dataclass(slots=True, eq=False)
class IncomingMessage:
    """A message that came, until it is settled.

    Attributes:
        link: Where it came.
        payload: See ``decode_message``.
        settled: Whether its sender wants no outcome.
        too_large: It is larger than messages may be here and was not kept: *payload* is empty.
            By links that this end opened alone: whoever reads settles it and has the next one.
            Links of the peer are ended by such a message.
    """

    link: AmqpLink
    _core: "Core"
    _pointer: Any
    payload: bytes
    settled: bool
    too_large: bool

    def settle(self, outcome: Outcome) -> None:
        """Say what became of it. Once; where the link has ended meanwhile, nobody hears it."""
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
