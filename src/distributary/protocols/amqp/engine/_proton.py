"""Proton's C functions, and what goes into and comes out of its structures.

Called by ``_core``. Hides when proton is imported, and that what peers name may be any bytes.
"""

import functools
import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, Final

from distributary.protocols.amqp.engine import _values
from distributary.protocols.amqp.engine._limits import FRAME_BYTES_MAX, SESSIONS_MAX
from distributary.protocols.amqp.engine._outcomes import (
    ACCEPTED,
    CONDITION_CHARS_MAX,
    DeliveryState,
    Ended,
    Outcome,
)
from distributary.protocols.amqp.engine._values import AmqpError, Symbol

AVAILABLE: Final = importlib.util.find_spec("cproton") is not None
"""Whether proton is installed: it needs a C compiler, so it is an extra (``amqp``)."""

STATES: Final = frozenset(state.value for state in DeliveryState if state is not DeliveryState.NONE)
"""Delivery states that say what became of a message."""

_ACCEPTED: Final = DeliveryState.ACCEPTED.value


@functools.cache
def library() -> Any:
    """Proton's C functions; imported when the first connection is made, for memory's sake."""
    return importlib.import_module("cproton")


def new_transport(*, server: bool, idle_ms: int) -> Any:
    """The half of a connection that has bytes, with our limits; a server lets everybody in."""
    c = library()
    transport = c.pn_transport()
    if server:
        c.pn_transport_set_server(transport)
        c.pn_sasl_allowed_mechs(c.pn_sasl(transport), "ANONYMOUS")
        c.pn_transport_require_auth(transport, False)
    c.pn_transport_set_max_frame(transport, FRAME_BYTES_MAX)
    c.pn_transport_set_channel_max(transport, SESSIONS_MAX - 1)
    c.pn_transport_set_idle_timeout(transport, idle_ms)
    return transport


def symbol_map(properties: Mapping[str, Any] | None) -> bytes:
    """*properties* as an AMQP map with symbols as keys; empty: there are none.

    Raises:
        AmqpError: A name or a value cannot be said in AMQP.
    """
    if not properties:
        return b""
    return _values.encode({Symbol(name): value for name, value in properties.items()})


def read_map(structure: Any) -> dict[str, Any]:
    """What a peer wrote into *structure*; what is no map that we can read is none."""
    c = library()
    size = 0 if structure == c.ffi.NULL else c.pn_data_encoded_size(structure)
    if size <= 0:
        return {}
    raw = bytes(c.pn_data_encode(structure, size)[1])
    try:
        found, _ = _values.decode(raw)
    except AmqpError:  # what proton takes and we do not, such as a key that stands twice
        return {}
    return found if isinstance(found, dict) else {}


def text(read: Any, structure: Any) -> str | None:
    """What *read* reads as text from *structure*; bytes that are no UTF-8 are none."""
    try:
        found: str | None = read(structure)
    except UnicodeDecodeError:
        return None
    return found


def say(condition: Any, name: str, description: str) -> None:
    """Give a reason."""
    c = library()
    c.pn_condition_set_name(condition, name)
    c.pn_condition_set_description(condition, description[:CONDITION_CHARS_MAX])


def said(condition: Any) -> Ended:
    """What the peer gave as a reason."""
    c = library()
    if not c.pn_condition_is_set(condition):
        return Ended("peer")
    name = text(c.pn_condition_get_name, condition) or ""
    description = text(c.pn_condition_get_description, condition) or ""
    return Ended("peer", name[:CONDITION_CHARS_MAX], description[:CONDITION_CHARS_MAX])


def outcome(delivery: Any, state: int) -> Outcome:
    """What the peer says became of *delivery*, whose remote state is *state*."""
    if state == _ACCEPTED:  # as nearly all are
        return ACCEPTED
    c = library()
    if state not in STATES:
        return Outcome(DeliveryState.NONE)
    remote = c.pn_delivery_remote(delivery)
    if state == DeliveryState.REJECTED.value:
        why = said(c.pn_disposition_condition(remote))
        return Outcome(DeliveryState.REJECTED, why.condition, why.text)
    return Outcome(
        DeliveryState(state),
        failed=bool(c.pn_disposition_is_failed(remote)),
        undeliverable=bool(c.pn_disposition_is_undeliverable(remote)),
    )


def drop(link: Any, delivery: Any) -> None:
    """Forget what comes by a *link* that has ended here and that the peer goes on with.

    Otherwise proton keeps it all.
    """
    c = library()
    if not c.pn_link_is_receiver(link) or not c.pn_delivery_readable(delivery):
        return
    size = c.pn_delivery_pending(delivery)
    if size:
        c.pn_link_recv(link, size)
    if not c.pn_delivery_partial(delivery):
        c.pn_delivery_settle(delivery)
