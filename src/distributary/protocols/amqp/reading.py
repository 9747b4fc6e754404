"""Checks the keys of an AMQP source: the address of a node.

The check returns why a value is invalid, or None.
"""

import re
from typing import Any

from distributary.core.protocol import Reading
from distributary.protocols.amqp.settings import ADDRESS_BYTES_MAX

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def address(value: Any) -> str | None:
    """Check the address of a node."""
    if not isinstance(value, str) or not value or _CONTROL.search(value):
        return "expected an address such as orders or /queues/orders"
    if len(value.encode()) > ADDRESS_BYTES_MAX:
        return f"an address has at most {ADDRESS_BYTES_MAX} bytes"
    return None


READING = Reading("distributary.protocols.amqp.source:make", "address", address)
