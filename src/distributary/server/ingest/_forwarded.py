"""What proxies say of the client: believed from those that the operator trusts, dropped otherwise.

Callers: ``_context`` (limits, origins of web pages) and ``_proxy`` (what the control process is
told). Pure. Identities never come from these fields: any client can write them, and a proxy that
forgets to overwrite one would let it choose who it is.

``Forwarded`` (RFC 7239) is not read. Where two spellings count, a client uses the one that its
proxy does not overwrite.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple

UNIX_PROXY: Final = "unix"
"""Names the proxies that connect by a Unix socket."""

HOPS_MAX: Final = 32
"""Addresses in ``X-Forwarded-For`` that are read, from the last: real chains have a few."""

FORWARDED_FIELDS: Final = frozenset(
    (
        b"forwarded",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    )
)
"""Fields by which proxies speak of the client: none is passed on as it came."""

_SCHEMES: Final = frozenset((b"http", b"https"))

Fields = Iterable[tuple[bytes, bytes]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Client(NamedTuple):
    """Where a request comes from.

    Attributes:
        address: Of the client; None: unknown.
        scheme: ``http`` or ``https`` as the client used it; empty: unknown.
        host: The host that it asked for, if a proxy replaced it; empty: as in ``Host``.
    """

    address: str | None
    scheme: bytes = b""
    host: bytes = b""


class TrustedProxies:
    """The proxies that the operator trusts.

    Args:
        names: Networks, and ``unix``; valid as settings.
    """

    __slots__ = ("_networks", "_unix")

    def __init__(self, names: Iterable[str] = ()) -> None:
        listed = tuple(names)
        self._unix = UNIX_PROXY in listed
        self._networks: tuple[Network, ...] = tuple(
            ipaddress.ip_network(name) for name in listed if name != UNIX_PROXY
        )

    def trusts(self, address: str | None) -> bool:
        """Whether who connects from *address* is trusted; None: by a Unix socket."""
        if address is None:
            return self._unix
        if not self._networks:
            return False
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)

    def client(self, fields: Fields, address: str | None) -> Client:
        """Where a request comes from.

        Args:
            fields: Its header; names in lower case.
            address: Who has connected; None: by a Unix socket.
        """
        if not self.trusts(address):
            return Client(address)
        said = [(name, value) for name, value in fields if name in FORWARDED_FIELDS]
        scheme = _last(said, b"x-forwarded-proto").lower()
        return Client(
            self._first_stranger(said, address),
            scheme if scheme in _SCHEMES else b"",
            _last(said, b"x-forwarded-host"),
        )

    def _first_stranger(self, said: Fields, address: str | None) -> str | None:
        """The last address in ``X-Forwarded-For`` that is no trusted proxy's.

        Each proxy adds whom it was asked by, so what stands further left was written by somebody
        who is not trusted.
        """
        hops = b",".join(value for name, value in said if name == b"x-forwarded-for").split(b",")
        for hop in hops[: -HOPS_MAX - 1 : -1]:
            found = _address(_without_port(hop.strip().decode("latin-1")))
            if found is None:
                break
            address = str(found)
            if not self.trusts(address):
                break
        return address


def _last(said: Fields, wanted: bytes) -> bytes:
    values = [value for name, value in said if name == wanted]
    return values[-1].rpartition(b",")[2].strip() if values else b""


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _without_port(text: str) -> str:
    """*text* without a port: ``192.0.2.1:80``, ``[2001:db8::1]:80``."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
