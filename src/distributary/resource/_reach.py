"""What the operator's settings say of where events may go, in one value for all processes.

Made by ``server``; read by whatever checks, resolves or dials sinks. Plain: it travels as JSON.
"""

import ipaddress
import math
from dataclasses import dataclass
from typing import Literal

from distributary.core.protocol import protocols
from distributary.resource._own import NOWHERE, OwnAddresses
from distributary.resource.sinks import SinkRule

ErrorData = Literal["none", "private-off", "all"]
"""Of which sinks' answers a dead letter carries the beginning: of none, of those on public
addresses, of all."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where events may go.

    Attributes:
        private_allowed: To loopback and private addresses (decision 22).
        allow_sinks: CIDRs that the operator allows all the same.
        nat64_prefixes: IPv6 prefixes behind which a translator reaches IPv4 (RFC 6052).
        own: This server's own addresses.
        own_sinks: How many times an event may come back by subscriptions of the Subscriptions API
            that send to this server itself; 0: such sinks are refused.
        protocols: Delivery protocols that are allowed; None: all.
        error_data: Of which sinks' answers a dead letter tells.
    """

    private_allowed: bool = True
    allow_sinks: tuple[str, ...] = ()
    nat64_prefixes: tuple[str, ...] = ()
    own: OwnAddresses = NOWHERE
    own_sinks: int = 0
    protocols: tuple[str, ...] | None = None
    error_data: ErrorData = "private-off"

    def rule(self) -> SinkRule:
        """What resources are checked by."""
        return SinkRule(
            self.private_allowed,
            tuple(ipaddress.ip_network(text) for text in self.allow_sinks),
            self.own,
            self.own_sinks > 0,
            self.protocols,
        )

    def pass_cost(self, passes_max: int) -> int:
        """What one way back to this server costs of the *passes_max* that an event has at first.

        So much that it can be paid ``own_sinks`` times, and not once more.
        """
        return math.ceil(passes_max / (self.own_sinks + 1))


def protocols_allowed(chosen: tuple[str, ...], *, private_denied: bool) -> tuple[str, ...] | None:
    """Delivery protocols that the operator allows; None: all.

    Args:
        chosen: What the operator named; empty: nothing.
        private_denied: Private addresses are refused by the operator's word. A protocol whose
            client dials what the far side names, before that can be checked, is left out then.
    """
    if chosen:
        return chosen
    if not private_denied:
        return None
    return tuple(name for name, each in protocols().items() if not each.dials_itself)
