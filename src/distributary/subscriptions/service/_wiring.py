"""Wires validation to filter dialects, protocols and clock."""

from collections.abc import Mapping
from typing import Final

from distributary.core import filter as filter_room
from distributary.core.protocol import protocols
from distributary.resource import ResourceRules, SinkRule

PROTOCOLS_ABSENT: Final[Mapping[str, str]] = {
    name: f"delivery by {name} {each.absent}"
    for name, each in protocols().items()
    if each.absent is not None
}
"""Delivery protocols that this installation lacks -> what it needs for them, for people."""


def rules(sinks: SinkRule) -> ResourceRules:
    """Rules to validate proposals by, with this version's filter dialects."""
    refused = {name: sinks.protocol_refusal(name) for name in protocols()}
    absent = {name: reason for name, reason in refused.items() if reason is not None}
    return ResourceRules(sinks, filter_room.check, protocols_absent={**absent, **PROTOCOLS_ABSENT})
