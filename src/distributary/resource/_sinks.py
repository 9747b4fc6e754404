"""Which sink addresses an operator allows, as far as a URI alone can tell (decision 22).

Called by the validation of resources. Only addresses written as such are judged here, and the
names that mean this machine by definition; what a name resolves to is judged by the
connector at each connection, which is the guard that counts (a name can be repointed later).
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


LOCAL_NETWORKS: Final = _networks(
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
)
"""This machine and private networks: allowed while the server listens on loopback only."""

METADATA_NETWORKS: Final = _networks(
    "169.254.169.254/32",  # AWS, Azure, Google Cloud and most others
    "169.254.170.2/32",  # AWS ECS task credentials
    "169.254.170.23/32",  # AWS EKS pod identity
    "168.63.129.16/32",  # Azure's wire server, a public address
    "100.100.100.200/32",  # Alibaba Cloud
    "192.0.0.192/32",  # Oracle Cloud, classic
    "fd00:ec2::254/128",  # AWS over IPv6
    "fd00:ec2::23/128",  # AWS EKS pod identity over IPv6
    "fd20:ce::254/128",  # Google Cloud over IPv6
)
"""Addresses that hand out a machine's own credentials to whoever asks."""

DENIED_NETWORKS: Final = LOCAL_NETWORKS + _networks(
    "0.0.0.0/8",  # this network
    "100.64.0.0/10",  # carrier-grade NAT
    "169.254.0.0/16",  # link-local, metadata
    "192.0.0.0/24",  # protocol assignments
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # 6to4 relays
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, broadcast
    "::/96",  # unspecified, IPv4-compatible
    "::ffff:0:0/96",  # IPv4-mapped: unmapped before it is looked up
    "64:ff9b::/96",  # NAT64
    "64:ff9b:1::/48",  # NAT64, local
    "100::/64",  # discard
    "2001::/23",  # protocol assignments, Teredo
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4
    "3fff::/20",  # documentation
    "5f00::/16",  # segment routing
    "fe80::/10",  # link-local
    "fec0::/10",  # site-local
    "ff00::/8",  # multicast
)
"""Addresses that are not hosts of the public internet. ``deliver`` holds every address that it
dials to the same list: there is one, so that what is refused later is refused at once."""


@dataclass(frozen=True, slots=True)
class SinkRule:
    """Where events may be sent.

    Attributes:
        local_allowed: Loopback and private addresses are allowed: the server itself listens on
            loopback only, so whoever can ask for it can reach them without us.
        allowed: Networks that the operator allows. A cloud metadata address is allowed by an
            entry for that one address alone, never by a larger network.
    """

    local_allowed: bool
    allowed: tuple[Network, ...] = ()

    @classmethod
    def of(cls, *, local_allowed: bool, allowed: Iterable[str] = ()) -> "SinkRule":
        """A rule from texts such as ``10.0.0.0/8``.

        Raises:
            ValueError: A text is no network; settings are checked before they come here.
        """
        return cls(local_allowed, tuple(ipaddress.ip_network(text) for text in allowed))

    def refusal(self, host: str) -> str | None:
        """Why no event may go to *host*; None where nothing in its text forbids it.

        Args:
            host: Host of a URI: a name, an IPv4 address, or an IPv6 address without brackets.
        """
        address = _literal(host)
        if address is None or self._allows(address):
            return None
        return (
            "events are not sent to this address: it is private, reserved or a cloud metadata"
            " address; the operator can allow it (allow_sinks)"
        )

    def _allows(self, address: Address) -> bool:
        named = any(address in network for network in self.allowed)
        if _within(address, METADATA_NETWORKS):
            return any(
                address in network and network.num_addresses == 1 for network in self.allowed
            )
        if named or not _within(address, DENIED_NETWORKS):
            return True
        return self.local_allowed and _within(address, LOCAL_NETWORKS)


def _literal(host: str) -> Address | None:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")  # RFC 6761, section 6.3
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)
