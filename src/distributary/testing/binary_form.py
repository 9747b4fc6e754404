"""Events as readers of the log get those that came in binary mode.

Callers: simulations, the checks of transports, tests.
"""

from distributary.core.event import BinaryEvent, Event, binary
from distributary.protocols.http import binding

__all__ = ["in_binary_form"]


def in_binary_form(event: Event) -> BinaryEvent:
    """Returns *event* as read from its record in binary form.

    All values become strings, and empty data none. A content type must be ASCII, and must not be
    the first attribute.
    """
    lines, data = binding.encode_binary(event)
    found = binary.decode(binary.encode([lines], data))
    assert found is not None
    return found
