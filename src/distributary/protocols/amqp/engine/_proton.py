"""Wrappers of proton's C functions and structures.

Called by ``_core`` and ``_link``. Hides the lazy import of proton, and that names from peers may be
any bytes.
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
"""Terminal delivery states."""

_ACCEPTED: Final = DeliveryState.ACCEPTED.value


@functools.cache
def library() -> Any:
    """Returns proton's C functions; imported at the first connection, to save memory."""
    return importlib.import_module("cproton")


def new_transport(*, server: bool, idle_ms: int) -> Any:
    """Create proton's transport with our limits; a server allows anonymous clients."""
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
    """Encode *properties* as an AMQP map with symbols as keys; empty if there are none.

    Raises:
        AmqpError: A name or a value cannot be encoded in AMQP.
    """
    if not properties:
        return b""
    return _values.encode({Symbol(name): value for name, value in properties.items()})


def read_map(structure: Any) -> dict[str, Any]:
    """Decode a peer's map in *structure*; empty if it is not a map or cannot be decoded."""
    c = library()
    size = 0 if structure == c.ffi.NULL else c.pn_data_encoded_size(structure)
    if size <= 0:
        return {}
    raw = bytes(c.pn_data_encode(structure, size)[1])
    try:
        found, _ = _values.decode(raw)
    except AmqpError:  # proton accepts more than we do, such as a repeated key
        return {}
    return found if isinstance(found, dict) else {}


def text(read: Any, structure: Any) -> str | None:
    """Returns the text that *read* gets from *structure*; None if it is not UTF-8."""
    try:
        found: str | None = read(structure)
    except UnicodeDecodeError:
        return None
    return found


def say(condition: Any, name: str, description: str) -> None:
    """Set an error condition."""
    c = library()
    c.pn_condition_set_name(condition, name)
    c.pn_condition_set_description(condition, description[:CONDITION_CHARS_MAX])


def said(condition: Any) -> Ended:
    """Returns the peer's error condition."""
    c = library()
    if not c.pn_condition_is_set(condition):
        return Ended("peer")
    name = text(c.pn_condition_get_name, condition) or ""
    description = text(c.pn_condition_get_description, condition) or ""
    return Ended("peer", name[:CONDITION_CHARS_MAX], description[:CONDITION_CHARS_MAX])


def outcome(delivery: Any, state: int) -> Outcome:
    """Returns the outcome of *delivery*, whose remote state is *state*."""
    if state == _ACCEPTED:  # the most frequent
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
    """Drop a delivery on a *link* that has ended here but not at the peer.

    Otherwise proton keeps it.
    """
    c = library()
    if not c.pn_link_is_receiver(link) or not c.pn_delivery_readable(delivery):
        return
    size = c.pn_delivery_pending(delivery)
    if size:
        c.pn_link_recv(link, size)
    if not c.pn_delivery_partial(delivery):
        c.pn_delivery_settle(delivery)
