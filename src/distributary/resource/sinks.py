"""SSRF guard, static part: which sink addresses an operator allows (decision 22).

Called by the validation of resources. Judges addresses written as such, and names that mean this
machine by definition. The connector judges what a name resolves to, at each connection: that is
the guard that counts, since a name can be repointed.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from distributary.core.deliver.origins import origin_of
from distributary.core.protocol import protocols, schemes
from distributary.core.uri_parts import split_uri
from distributary.resource._own import NOWHERE, Address, OwnAddresses, is_loopback, literal
from distributary.resource._ports import PORTS_DENIED

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


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
"""Addresses that give a machine's own credentials to any client."""

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
    "::ffff:0:0/96",  # IPv4-mapped: unmapped before the lookup
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
"""Addresses that are not hosts of the public internet. ``net`` checks every address that it dials
against the same list, so what it would refuse later is refused at once."""


OWN_EVENTS: Final = (
    "events are not sent back to this server, where each would come again; the operator can allow"
    " it (own_sinks)"
)
OWN_LISTENER: Final = "this server's own ports are no sinks, but for the paths that take events"
CLEARTEXT: Final = (
    "a credential is not sent to another machine without TLS: use a scheme with TLS; the operator"
    " can allow it (cleartext_credentials)"
)
PORT_DENIED: Final = (
    "events are not sent to this port, which belongs to another service; the operator can allow the"
    " address (allow_sinks)"
)


@dataclass(frozen=True, slots=True)
class SinkRule:
    """Where events may be sent.

    Attributes:
        local_allowed: Allows loopback and private addresses. Set while the server listens on
            loopback only: its clients can then reach them without it.
        allowed: Networks that the operator allows. A cloud metadata address needs an entry for
            that one address, never a larger network.
        own: This server's own addresses: never a sink, except its event paths.
        own_allowed: Allows its event paths.
        protocols: Delivery protocols that the operator allows; None: all.
        cleartext_allowed: Allows credentials to other machines by schemes without TLS.
    """

    local_allowed: bool
    allowed: tuple[Network, ...] = ()
    own: OwnAddresses = NOWHERE
    own_allowed: bool = False
    protocols: tuple[str, ...] | None = None
    cleartext_allowed: bool = False

    @classmethod
    def of(cls, *, local_allowed: bool, allowed: Iterable[str] = ()) -> "SinkRule":
        """A rule from texts such as ``10.0.0.0/8``.

        Raises:
            ValueError: A text is not a network; settings are checked earlier.
        """
        return cls(local_allowed, tuple(ipaddress.ip_network(text) for text in allowed))

    def protocol_refusal(self, protocol: str) -> str | None:
        """Why delivery by *protocol* is refused; None: the operator allows it."""
        if self.protocols is None or protocol in self.protocols:
            return None
        return f"the operator does not allow delivery by {protocol} (protocols)"

    def own_refusal(self, host: str, port: int, *, takes_events: bool) -> str | None:
        """Why *host* and *port* are refused as this server's own; None: not its own, or allowed.

        Args:
            host: As for ``refusal``.
            port: Of the URI, or of its scheme.
            takes_events: The URI is one of the receiver's event paths.
        """
        if takes_events:
            return None if self.own_allowed else OWN_EVENTS
        return OWN_LISTENER if self.own.listens_at(host, port) else None

    def sink_refusal(self, protocol: str, uri: str, *, takes_events: bool) -> str | None:
        """Why the operator's settings refuse *uri*, before its host's address is looked at.

        For a sink that was accepted under earlier settings. Addresses are judged when dialled.

        Args:
            protocol: Of the delivery.
            uri: A URI that was valid then.
            takes_events: It is one of the receiver's event paths.
        """
        refusal = self.protocol_refusal(protocol)
        row = protocols()[protocol]
        if refusal is not None or row.hosts_max != 1:  # several hosts are checked when dialled
            return refusal
        parts = urlsplit(uri)
        if parts.hostname is None or parts.scheme not in row.schemes:
            return None  # dialling reports it
        port = parts.port or row.schemes[parts.scheme].port
        return self.own_refusal(parts.hostname, port, takes_events=takes_events)

    def stays_here(self, uri: str) -> bool:
        """Whether a credential for *uri*, a valid one, may go to this machine alone.

        True of schemes without TLS, also of those that upgrade only where the far side demands it:
        who sits between could leave the demand out.
        """
        scheme = schemes()[split_uri(uri).scheme]
        return not self.cleartext_allowed and not scheme.tls

    def cleartext_refusal(self, uri: str) -> str | None:
        """Why no credential may go to *uri*, a valid one; None: it may.

        Judges the text of its hosts; the connector judges what they resolve to.
        """
        hosts = origin_of(uri).hosts
        if not self.stays_here(uri) or all(is_loopback(host) for host, _port in hosts):
            return None
        return CLEARTEXT

    def port_refusal(self, host: str, port: int) -> str | None:
        """Why *port* of the address *host* is refused; None: allowed, or *host* is a name.

        Applies to public hosts that are in no network that the operator allows.
        """
        address = literal(host)
        if address is None or port not in PORTS_DENIED or _within(address, DENIED_NETWORKS):
            return None
        return None if any(address in network for network in self.allowed) else PORT_DENIED

    def refusal(self, host: str) -> str | None:
        """Why the text of *host* is refused as a sink's; None: nothing in it is.

        Args:
            host: Host of a URI: a name, an IPv4 address, or an IPv6 address without brackets.
        """
        address = literal(host)
        if address is None or self._allows(address):
            return None
        return (
            "events are not sent to this address: it is private, reserved or a cloud metadata"
            " address; the operator can allow it (private_sinks, allow_sinks)"
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


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)
