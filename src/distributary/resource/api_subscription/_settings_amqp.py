"""``protocolsettings`` of AMQP 1.0.

Source:
    Subscriptions API 3.2.2.3; decision 27: the address stands in the settings, or in the path of
    the sink URI, or in both alike.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from distributary.resource._broker_settings import AmqpSettings
from distributary.resource._faults import Faults, member, one_of
from distributary.resource._places import CONTROL, check_amqp_address
from distributary.resource._uri import SinkUri
from distributary.resource.api_subscription import _defaults
from distributary.resource.api_subscription._maps import bounded_map

NAMES: Final = ("address", "linkname", "sendersettlementmode", "linkproperties")

SETTLEMENT_MODES: Final = ("unsettled", "settled")

LINK_NAME_BYTES_MAX: Final = 256
"""Longest ``linkname`` in UTF-8; names that peers make up have some 50."""

PROPERTY_NAME: Final = r"[\x21-\x7e]{1,256}"
"""Pattern of the name of a link property, an AMQP symbol: ASCII."""

WHOLE_MIN: Final = -(2**63)
WHOLE_MAX: Final = 2**63 - 1
"""Whole numbers of a link property: those of an AMQP ``long``."""

_PROPERTY_NAME = re.compile(PROPERTY_NAME)


def realize(
    faults: Faults, path: str, written: Mapping[str, Any], sink: SinkUri | None
) -> dict[str, Any]:
    """See ``_protocols.ProtocolSettings``."""
    realized: dict[str, Any] = {"address": _address(faults, f"{path}.address", written, sink)}
    if "linkname" in written:
        where = f"{path}.linkname"
        realized["linkname"] = faults.utf8_at(where, written["linkname"], LINK_NAME_BYTES_MAX)
        if realized["linkname"] is not None and CONTROL.search(realized["linkname"]):
            faults.add(where, "value", "control characters cannot stand in a name")
    mode = written.get("sendersettlementmode", _defaults.SETTLEMENT_MODE)
    realized["sendersettlementmode"] = mode
    if not isinstance(mode, str):
        faults.wrong_type(f"{path}.sendersettlementmode", "a string", mode)
    elif mode not in SETTLEMENT_MODES:
        message = f"expected one of {one_of(SETTLEMENT_MODES)}"
        faults.add(f"{path}.sendersettlementmode", "value", message)
    properties = written.get("linkproperties", {})
    realized["linkproperties"] = _properties(faults, f"{path}.linkproperties", properties)
    return realized


def restore(realized: Mapping[str, Any]) -> AmqpSettings:
    """See ``_protocols.ProtocolSettings``."""
    return AmqpSettings(
        address=realized["address"],
        linkname=realized.get("linkname"),
        settled=realized["sendersettlementmode"] == "settled",
        linkproperties=tuple(realized["linkproperties"].items()),
    )


def _address(
    faults: Faults, path: str, written: Mapping[str, Any], sink: SinkUri | None
) -> str | None:
    named = None if sink is None else sink.place
    if "address" in written:
        address = check_amqp_address(faults, path, written["address"])
        if address is not None and sink is not None and not sink.agrees_with(address):
            faults.add(path, "conflict", "differs from what the path of the sink names")
        return address
    if named is None and sink is not None:
        message = "required where the path of the sink does not name the address"
        faults.add(path, "missing", message)
    return named


def _properties(faults: Faults, path: str, value: object) -> dict[str, Any]:
    """No message repeats a value: it may be a secret."""
    properties = bounded_map(faults, path, value, "link properties")
    if properties is None:
        return {}
    for name, each in properties.items():
        where = member(path, name)
        if not _PROPERTY_NAME.fullmatch(name):
            message = "the name of a link property is printable ASCII without spaces"
            faults.add(where, "value", message)
        if not isinstance(each, str | int | float):
            faults.wrong_type(where, "a string, a number or a boolean", each)
        elif isinstance(each, int) and not WHOLE_MIN <= each <= WHOLE_MAX:
            faults.add(where, "value", "a whole number of a link property has at most 64 bits")
    return dict(properties)
