"""This server's own addresses: its receiver's URLs, and the sockets that are never a sink.

Called by the validation of resources, by ``knative`` (which resolves references), by
``partitions`` (which makes destinations) and by ``net`` (which dials). Pure.
"""

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from distributary.core.protocol import schemes
from distributary.core.uri_parts import split_uri

EVENTS_PATH: Final = "/events"
ADDRESS_PREFIXES: Final = ("/brokers/", "/channels/")
NAMESPACES_PREFIX: Final = "/namespaces/"
"""Paths at which this server receives events; below the last, those that end like the first."""

HOSTS_KNOWN_MAX: Final = 4_096
"""Hosts that are remembered as addresses or names: sinks of 100,000 routes are on far fewer."""
OWN_KNOWN_MAX: Final = 16
"""Sets of own URLs that are remembered: a process has one, and another when its settings change."""

IsLocal: TypeAlias = Callable[[str], bool]
"""Tells whether an address belongs to this machine."""


@dataclass(frozen=True, slots=True)
class OwnAddresses:
    """URLs and listening sockets of this server. Plain, so that it crosses processes as JSON.

    Attributes:
        urls: Scheme, host and port of its receiver: the public URL, the address that it listens
            on, and the names of that address.
        listeners: Address and port of every socket that it listens on, for any protocol.
        dial: Where this server reaches its own receiver, in plain HTTP: ``host:port``, or
            ``unix:`` and the path of a socket; None: not needed.
    """

    urls: tuple[str, ...] = ()
    listeners: tuple[tuple[str, int], ...] = ()
    dial: str | None = None

    def takes_events(self, uri: str) -> bool:
        """Whether *uri* is one of the receiver's: of a namespace, a Broker or a Channel."""
        return takes_events(uri, self.urls)

    def listens_at(self, host: str, port: int) -> bool:
        """Whether *host* and *port* lead here, as far as their text can tell."""
        if (host.rstrip(".").lower(), port) in _listening(self.urls):
            return True
        if all(at != port for _, at in self.listeners):
            return False
        address = literal(host)
        return address is not None and self.meets(str(address), port, is_loopback)

    def meets(self, address: str, port: int, is_local: IsLocal) -> bool:
        """Whether dialling *address* and *port* reaches a listener of this server.

        Args:
            address: An IP address; False for a name.
            port: To dial.
            is_local: Whether an address belongs to this machine; needed for listeners on all
                addresses.
        """
        for listening, at in self.listeners:
            if at != port:
                continue
            try:
                wanted, bound = _plain(address), _plain(listening)
            except ValueError:
                return False
            if wanted == bound or (wanted.is_unspecified and bound.is_loopback):
                return True  # dialling the unspecified address reaches loopback
            if bound.is_unspecified and (wanted.is_unspecified or is_local(str(wanted))):
                return True
        return False


Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def _plain(address: str) -> Address:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def literal(host: str) -> Address | None:
    """The IP address that *host* is or, by definition, means; None for any other name."""
    return _literal(host.rstrip(".").lower())


@lru_cache(HOSTS_KNOWN_MAX)
def _literal(name: str) -> Address | None:
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")  # RFC 6761, section 6.3
    try:
        return _plain(name)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether *host* is reachable from this machine alone, as far as its text can tell."""
    address = literal(host)
    return address is not None and address.is_loopback


NOWHERE: Final = OwnAddresses()
"""Of a process that does not listen."""


def takes_events(uri: str, urls: Iterable[str]) -> bool:
    """Whether *uri* is an event path of a receiver with one of *urls*."""
    parts = split_uri(uri)
    if "," in parts.netloc:
        return False  # several hosts: a broker's
    path = parts.path
    tenant = path.startswith(NAMESPACES_PREFIX) and path.endswith(EVENTS_PATH)
    if path != EVENTS_PATH and not tenant and not path.startswith(ADDRESS_PREFIXES):
        return False
    return _place(uri) in {_place(url) for url in urls}


@lru_cache(OWN_KNOWN_MAX)
def _listening(urls: tuple[str, ...]) -> frozenset[tuple[str, int | None]]:
    """Host and port of each of *urls*."""
    return frozenset(_place(url)[1:] for url in urls)


def _place(uri: str) -> tuple[str, str, int | None]:
    """Scheme, host and port (RFC 6454, section 4)."""
    parts = urlsplit(uri)
    host = (parts.hostname or "").rstrip(".")
    scheme = schemes().get(parts.scheme)
    return parts.scheme, host, parts.port or (None if scheme is None else scheme.port)
