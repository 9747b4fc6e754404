"""The operator's settings about sinks (networks, protocols, loops), in one value for all processes.

Made by ``server``; read where sinks are checked, resolved or dialled. Plain: crosses processes as
JSON.
"""

import ipaddress
import math
from dataclasses import dataclass
from typing import Literal

from distributary.core.protocol import protocols
from distributary.resource._consent import NOBODY_IS_ASKED, ConsentRule
from distributary.resource._own import NOWHERE, OwnAddresses
from distributary.resource.secret_files import SecretFile
from distributary.resource.sinks import SinkRule

ErrorData = Literal["none", "private-off", "all"]
"""Whose responses are quoted, cut, in dead letters: no sink's, those of sinks on public addresses,
or all."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where events may be sent.

    Attributes:
        private_allowed: Allows loopback and private addresses (decision 22, private addresses).
        allow_sinks: CIDRs that the operator allows nevertheless.
        nat64_prefixes: IPv6 prefixes behind which a translator reaches IPv4 (RFC 6052).
        own: This server's own addresses.
        own_sinks: How many times an event may return through subscriptions of the Subscriptions
            API whose sink is this server; 0 refuses such sinks.
        protocols: Delivery protocols that are allowed; None: all.
        error_data: Whose responses dead letters quote.
        cleartext_credentials: Whether credentials may go to other machines without TLS.
        consent: Who is asked before the first delivery.
        secrets: Files with secrets that credentials may name, and for which sinks.
    """

    private_allowed: bool = True
    allow_sinks: tuple[str, ...] = ()
    nat64_prefixes: tuple[str, ...] = ()
    own: OwnAddresses = NOWHERE
    own_sinks: int = 0
    protocols: tuple[str, ...] | None = None
    error_data: ErrorData = "private-off"
    cleartext_credentials: bool = False
    consent: ConsentRule = NOBODY_IS_ASKED
    secrets: tuple[SecretFile, ...] = ()

    def rule(self) -> SinkRule:
        """The part of it that resources are checked against."""
        return SinkRule(
            self.private_allowed,
            tuple(ipaddress.ip_network(text) for text in self.allow_sinks),
            self.own,
            self.own_sinks > 0,
            self.protocols,
            self.cleartext_credentials,
        )

    def pass_cost(self, passes_max: int) -> int:
        """Hops that one return to this server takes off the *passes_max* of a new event.

        Chosen so that an event can return ``own_sinks`` times, and not once more.
        """
        return math.ceil(passes_max / (self.own_sinks + 1))


def protocols_allowed(chosen: tuple[str, ...], *, private_denied: bool) -> tuple[str, ...] | None:
    """Delivery protocols that the operator allows; None: all.

    Args:
        chosen: Those that the operator named; empty: none named.
        private_denied: The operator refuses private addresses. Excludes protocols whose client
            dials addresses that the far side names, before they can be checked.
    """
    if chosen:
        return chosen
    if not private_denied:
        return None
    return tuple(name for name, each in protocols().items() if not each.dials_itself)
