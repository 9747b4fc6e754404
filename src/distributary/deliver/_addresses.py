"""Which addresses a delivery may reach: the rule against server-side request forgery.

Called by ``_connector`` for every address before it dials and for every peer after, and by
``control`` for the allow list of the operator. Pure.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from distributary.errors import SettingsError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


DENIED: Final = _networks(
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # carrier-grade NAT
    "127.0.0.0/8",  # loopback
    "169.254.0.0/16",  # link-local, metadata
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, broadcast
    "::/96",  # unspecified, loopback, IPv4-compatible
    "::ffff:0:0/96",  # IPv4-mapped: unmapped before it is looked up
    "64:ff9b::/96",  # NAT64
    "64:ff9b:1::/48",  # NAT64, local
    "100::/64",  # discard
    "2001::/23",  # protocol assignments, Teredo
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4
    "3fff::/20",  # documentation
    "5f00::/16",  # segment routing
    "fc00::/7",  # unique local
    "fe80::/10",  # link-local
    "fec0::/10",  # site-local
    "ff00::/8",  # multicast
)
"""Never dialled unless the operator allows it. What is IPv6 and not in ``2000::/3`` (global
unicast) is refused as well, listed or not."""

METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Google, Azure, OpenStack, DigitalOcean
        "169.254.170.2",  # AWS ECS task credentials
        "169.254.170.23",  # AWS EKS pod identity
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS EKS pod identity
        "fd20:ce::254",  # Google
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure wire server; a public address
        "192.0.0.192",  # Oracle
    )
)
"""Addresses that hand out credentials of the machine: allowed by an entry for that very address
alone (decision 22), not by a range around it."""

OWN: Final = _networks(
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
)
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
