"""The address rule against server-side request forgery: which addresses may be dialled. Pure.

Called by ``_connector`` for every address before it dials and for every peer after, and by
``server`` for the allow list of the operator.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from distributary import resource
from distributary.core.errors import SettingsError
from distributary.resource import NOWHERE, OwnAddresses, Reach

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


DENIED: Final = resource.DENIED_NETWORKS
"""Never dialled unless the operator allows it. IPv6 addresses outside ``2000::/3`` (global unicast)
are refused as well, listed or not."""

METADATA: Final = frozenset(network.network_address for network in resource.METADATA_NETWORKS)
"""Metadata services, which issue credentials of the machine: allowed only by an entry for that very
address, not by a range around it (decision 22, private addresses)."""

OWN: Final = resource.LOCAL_NETWORKS
"""This machine and its private networks: allowed while the server listens on loopback only."""

_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
"""For local translators (RFC 8215); which prefixes a site uses in it is unknown."""
_NAT64_LOCAL_BITS: Final = (48, 56, 64)
"""Lengths of prefixes in it besides the usual 96."""
_V4_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


def normal(address: str) -> Address:
    """Parses an address: IPv4-mapped IPv6 becomes IPv4, a zone is removed.

    Raises:
        ValueError: The text is not an address.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def _translated(address: ipaddress.IPv6Address, bits: int) -> ipaddress.IPv4Address:
    """The IPv4 address behind a prefix of *bits*, around the octet that stays zero (RFC 6052)."""
    number = int(address)
    if bits < 96:
        above, below = number >> 64, number & ((1 << 56) - 1)
        number = ((above << 56) | below) >> (88 - bits)
    return ipaddress.IPv4Address(number & 0xFFFF_FFFF)


def _embedded(
    address: Address, prefixes: Iterable[ipaddress.IPv6Network]
) -> Iterator[ipaddress.IPv4Address]:
    """Yields the IPv4 addresses to which a translator or relay would forward *address*."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo  # its server and its client: packets go to either
    if address in _NAT64 or address in _NAT64_LOCAL:
        yield _translated(address, 96)
    if address in _V4_COMPATIBLE and int(address) > 1:
        yield _translated(address, 96)
    for prefix in prefixes:
        if address in prefix:
            yield _translated(address, prefix.prefixlen)


def _may_hide_metadata(address: Address) -> bool:
    """Whether *address* embeds a metadata address behind a prefix of unknown length."""
    return (
        isinstance(address, ipaddress.IPv6Address)
        and address in _NAT64_LOCAL
        and any(_translated(address, bits) in METADATA for bits in _NAT64_LOCAL_BITS)
    )


def _unknown(_address: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class AddressRule:
    """Which addresses may be dialled.

    Attributes:
        allow: Networks that the operator allows although ``DENIED`` lists them. A metadata address
            needs a network of one address.
        loopback_allowed: Whether ``OWN`` is allowed (decision 22, private addresses).
        own: This server's own addresses: dialling its listeners is refused.
        nat64: Prefixes of translators to IPv4 besides the well-known ones.
        stays_here: Only loopback addresses are allowed, by this rule's others.
    """

    allow: tuple[Network, ...] = ()
    loopback_allowed: bool = False
    own: OwnAddresses = NOWHERE
    nat64: tuple[ipaddress.IPv6Network, ...] = ()
    stays_here: bool = False

    @classmethod
    def of(cls, reach: Reach) -> "AddressRule":
        """Returns the rule of the operator's settings, which are valid."""
        nat64 = tuple(ipaddress.IPv6Network(text) for text in reach.nat64_prefixes)
        allow = parse_networks(reach.allow_sinks)
        return cls(allow, reach.private_allowed, reach.own, nat64)

    def refusal(
        self, address: str, port: int | None = None, is_local: resource.IsLocal = _unknown
    ) -> str | None:
        """Returns why *address* must not be dialled; None: it may be.

        Accepts any text: what is no address is refused.

        Args:
            address: Address to dial, or of a peer.
            port: Port to dial; None: unknown, and not checked.
            is_local: Whether an address is one of this machine's.
        """
        try:
            parsed = normal(address)
        except ValueError:
            return "not an IP address"
        if self.stays_here and not parsed.is_loopback:
            return resource.CLEARTEXT
        reason = self._refusal(parsed)
        if reason is None and _may_hide_metadata(parsed):
            reason = f"{parsed} may stand for a cloud metadata address"
        for hidden in _embedded(parsed, self.nat64):
            reason = reason or self._refusal(hidden)
        if reason is not None or port is None:
            return reason
        if self.own.meets(str(parsed), port, is_local):
            return resource.OWN_LISTENER
        if port in resource.PORTS_DENIED and not self._named(parsed) and not is_private(address):
            return resource.PORT_DENIED
        return None

    def final(self, address: str) -> bool:
        """Whether *address* is refused unless the allow list names that very address.

        Other refusals depend on settings that may change.
        """
        try:
            parsed = normal(address)
        except ValueError:
            return True
        hidden = _embedded(parsed, self.nat64)
        return _may_hide_metadata(parsed) or any(each in METADATA for each in (parsed, *hidden))

    def _named(self, address: Address) -> bool:
        return any(address in network for network in self.allow)

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


_STRICT: Final = AddressRule()


def is_private(address: str) -> bool:
    """Whether *address* is not on the public internet: private, reserved, or no address."""
    return _STRICT.refusal(address) is not None


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parses the operator's allow list.

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
