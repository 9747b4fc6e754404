"""``protocolsettings`` of AMQP 1.0.

Source:
    Subscriptions API 3.2.2.3; decision 27 (settings of brokers): the address is in the settings, in
    the path of the sink URI, or the same in both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from distributary.core.deliver.broker_settings import BrokerSettings, Scalar
from distributary.resource import Faults, Schema, bounded_map, patterns

ADDRESS_BYTES_MAX: Final = 1024
"""Longest AMQP address in UTF-8. Names at brokers have at most 255 bytes; some forms of an address
have two of them and a prefix."""

LINK_NAME_BYTES_MAX: Final = 256
"""Longest ``linkname`` in UTF-8; generated names have some 50 bytes."""

WHOLE_MIN: Final = -(2**63)
"""Least whole number of a link property: that of an AMQP ``long``."""
WHOLE_MAX: Final = 2**63 - 1
"""Whole numbers of a link property: those of an AMQP ``long``."""


def _fits_long(faults: Faults, path: str, value: Any) -> Any:
    if isinstance(value, int) and not WHOLE_MIN <= value <= WHOLE_MAX:
        faults.add(path, "value", "a whole number of a link property has at most 64 bits")
    return value


def _name(bytes_max: int, description: str) -> Schema:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": bytes_max,
        "pattern": patterns.PLAIN_TEXT,
        "description": description,
        "x-utf8": True,
        "x-expected": "a name has no control characters",
    }


SETTINGS: Final[dict[str, Schema]] = {
    "address": _name(
        ADDRESS_BYTES_MAX,
        "The target node. Required where the path of the sink does not name it; where both do,"
        " they are the same.",
    ),
    "linkname": _name(LINK_NAME_BYTES_MAX, "Name of the link; absent: a random one."),
    "sendersettlementmode": {
        "enum": ["unsettled", "settled"],
        "default": "unsettled",
        "description": "settled: without acknowledgement, so that events can be lost.",
    },
    "linkproperties": bounded_map(
        "Properties of the link.",
        names={
            "pattern": "^[!-~]{1,256}$",  # an AMQP symbol
            "x-expected": "the name of a link property is printable ASCII without spaces",
        },
        values={"type": ["string", "number", "boolean"], "x-rule": _fits_long},
    ),
}
"""Setting -> its schema, in the order of realized objects."""


@dataclass(frozen=True, slots=True)
class AmqpSettings(BrokerSettings):
    """Protocol settings of AMQP 1.0.

    Attributes:
        address: Target node of the link, from the setting or the path of the sink URI.
        linkname: Name of the link; None: a random one.
        settled: ``sendersettlementmode: settled``: sent without acknowledgement, which gives up
            at-least-once (decision 28, delivered means acknowledged). False: ``unsettled``.
        linkproperties: Properties of the link. May hold secrets, so left out of the ``repr``.
        linktypes: Types of their values: 1, 1.0 and true are equal in Python, and are three
            properties in AMQP, so settings with one must not share a link with another's.
    """

    address: str
    linkname: str | None = None
    settled: bool = False
    linkproperties: tuple[tuple[str, Scalar], ...] = field(default=(), repr=False)
    linktypes: tuple[type, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        types = tuple(type(value) for _, value in self.linkproperties)
        object.__setattr__(self, "linktypes", types)

    @property
    def place(self) -> str:
        """The address, which identifies a sink at the broker."""
        return self.address


def restore(realized: Mapping[str, Any]) -> AmqpSettings:
    """See ``core.protocol.Protocol``."""
    return AmqpSettings(
        address=realized["address"],
        linkname=realized.get("linkname"),
        settled=realized["sendersettlementmode"] == "settled",
        linkproperties=tuple(realized["linkproperties"].items()),
    )
