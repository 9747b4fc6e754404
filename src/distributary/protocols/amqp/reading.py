"""What a source reads of an AMQP broker: a node.

Every check says why a value cannot be used, or gives None. Places that are read may hold wildcards;
those that are published to (``settings``) may not.
"""

import re
from typing import Any

from distributary.core.protocol import Reading
from distributary.protocols.amqp.settings import ADDRESS_BYTES_MAX

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def address(value: Any) -> str | None:
    """The address of an AMQP node."""
    if not isinstance(value, str) or not value or _CONTROL.search(value):
        return "expected an address such as orders or /queues/orders"
    if len(value.encode()) > ADDRESS_BYTES_MAX:
        return f"an address has at most {ADDRESS_BYTES_MAX} bytes"
    return None


READING = Reading("distributary.protocols.amqp.source:make", "address", address)
