"""Which addresses a delivery may reach: the rule against server-side request forgery.

Called by ``_connector`` for every address before it dials and for every peer after, and by
``control`` for the allow list of the operator. Pure.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from distributary import resource
from distributary.errors import SettingsError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


DENIED: Final = resource.DENIED_NETWORKS
"""Never dialled unless the operator allows it. What is IPv6 and not in ``2000::/3`` (global
unicast) is refused as well, listed or not."""

METADATA: Final = frozenset(network.network_address for network in resource.METADATA_NETWORKS)
"""Addresses that hand out credentials of the machine: allowed by an entry for that very address
alone (decision 22), not by a range around it."""

OWN: Final = resource.LOCAL_NETWORKS
"""This machine and its private networks: allowed while the server listens on loopback only."""

_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_V4_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


def normal(address: str) -> Address:
    """The address of that text, IPv4-mapped IPv6 as IPv4 and without a zone.

    Raises:
        ValueError: The text is not an address.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a translator or relay would turn *address* into."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _V4_COMPATIBLE and int(address) > 1:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


@dataclass(frozen=True, slots=True)
class AddressRule:
    """Which addresses may be dialled.

    Attributes:
        allow: Networks that the operator allows although they stand in ``DENIED``. A network of
            one address names that address: this is how metadata addresses are allowed.
        loopback_allowed: Whether ``OWN`` is allowed, because the server itself listens on
            loopback only: whoever can make subscriptions is on this machine (decision 22).
    """

    allow: tuple[Network, ...] = ()
    loopback_allowed: bool = False

    def refusal(self, address: str) -> str | None:
        """Why *address* must not be dialled; None: it may be.

        Any text gives an answer: what is no address is refused.
        """
        try:
            parsed = normal(address)
        except ValueError:
            return "not an IP address"
        embedded = _embedded(parsed)
        return self._refusal(parsed) or (None if embedded is None else self._refusal(embedded))

    def _refusal(self, address: Address) -> str | None:
        allowed = [network for network in self.allow if address in network]
        if address in METADATA:
            named = any(network.num_addresses == 1 for network in allowed)
            return None if named else f"{address} is a cloud metadata address"
        if allowed or (self.loopback_allowed and any(address in network for network in OWN)):
            return None
        for network in DENIED:
            if address in network:
                return f"{address} is in {network}, which is not allowed"
        if address.version == 6 and address not in _GLOBAL_UNICAST:
            return f"{address} is not a global unicast address"
        return None


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks of an allow list, as the operator wrote it.

    Args:
        texts: Addresses or CIDR blocks (``10.1.2.3``, ``10.0.0.0/8``, ``fd00::/8``).

    Raises:
        SettingsError: Names every text that is neither.
    """
    networks: list[Network] = []
    wrong: list[str] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise SettingsError(f"Addresses to allow must be IP addresses or CIDRs: {'; '.join(wrong)}")
    return tuple(networks)
