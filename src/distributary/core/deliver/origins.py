"""The origin of a URI, to which a secret is bound (decision 10, secrets).

Called by ``subscriptions``, which seals the origin with each secret and compares it before the
secret is kept or used.
"""

import ipaddress
from typing import NamedTuple

from distributary.core.protocol import schemes
from distributary.core.uri_parts import split_uri


class UriOrigin(NamedTuple):
    """Scheme, hosts and account of a URI, as a security origin.

    Attributes:
        scheme: In lower case.
        hosts: Each host, in lower case, with its port; several where the URI names several.
        user: Account at a broker; None: none, or an HTTP sink, where the credential is the account.
    """

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    user: str | None = None

    def covers(self, other: "UriOrigin") -> bool:
        """Whether a secret given for this origin may go to *other*.

        True for the same origin, and for the same with TLS added, on the same port or on the
        default ports of both schemes. Never true if TLS is removed.
        """
        if other == self:
            return True
        scheme = schemes().get(self.scheme)
        if other.user != self.user or scheme is None or scheme.with_tls != other.scheme:
            return False
        return len(self.hosts) == len(other.hosts) and all(
            host == other_host and (port == other_port or self._default(port, other, other_port))
            for (host, port), (other_host, other_port) in zip(self.hosts, other.hosts, strict=True)
        )

    def _default(self, port: int, other: "UriOrigin", other_port: int) -> bool:
        known = schemes()
        return port == known[self.scheme].port and other_port == known[other.scheme].port


def origin_of(uri: str, user: str | None = None) -> UriOrigin:
    """The origin of *uri*, a URI checked before (``check_sink``).

    Args:
        uri: Of a sink or of a token endpoint.
        user: See ``UriOrigin.user``.
    """
    parts = split_uri(uri)
    scheme = parts.scheme
    authorities = parts.netloc.rpartition("@")[2].split(",")
    port = schemes()[scheme].port if scheme in schemes() else 0
    hosts = sorted(_host(each, port) for each in authorities)
    return UriOrigin(scheme, tuple(hosts), user)


def _host(authority: str, default_port: int) -> tuple[str, int]:
    name, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):  # no port, or an IPv6 address without one
        name, port = authority, ""
    name = name.lower().rstrip(".")
    if name.startswith("["):
        name = str(ipaddress.IPv6Address(name[1:-1]))
    return name, int(port) if port else default_port
