"""Protection against web pages: checks ``Host`` (DNS rebinding) and ``Origin`` (CSRF).

Caller: ``_context``, with the head of each request. A server without accounts trusts every client
that reaches it, and a browser reaches it on behalf of any page its user visits: by a cross-origin
request, or under a host name of the page that resolves to this server (DNS rebinding). Programs
other than browsers send no ``Origin``; a rebound name is never an address.

Source:
    RFC 9110 section 7.4 (421 for another authority); Fetch, ``Origin`` and ``Sec-Fetch-Site``.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from distributary.core.errors import RequestError
from distributary.net.http1 import Request
from distributary.server.ingest._limits import HOSTS_PASSED_MAX, HOSTS_TOLD_MAX

# Some clients send the zone of a link-local address, which means nothing to a server.
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|[^:\[\]]+)(?::([0-9]{0,5}))?")
_SAFE_METHODS = frozenset((b"GET", b"HEAD", b"OPTIONS"))
_OWN_SITES = frozenset((b"same-origin", b"none"))  # none: the user asked, not a page
_PORTS = {"http": "80", "https": "443"}


class Guard:
    """Refuses requests with a foreign ``Host``, and changes from pages of a foreign origin.

    Args:
        names: Host names of this server, in any case; ``localhost`` and every address are implied.
        public_url: Published URL, whose origin is trusted. None: there is none.
        allowed: Further host names, from the settings.
        told: Called once for each refused name, for the first ``HOSTS_TOLD_MAX``.

    Attributes:
        passed: Accepted ``Host`` values, as sent: the hot path looks up these alone.
    """

    __slots__ = ("_allowed", "_names", "_public_origin", "_told", "_told_hosts", "passed")

    def __init__(
        self,
        names: Iterable[str] = (),
        public_url: str | None = None,
        allowed: Iterable[str] = (),
        told: Callable[[str], None] = lambda _host: None,
    ) -> None:
        self._names = {"localhost", *map(_plain, names)}
        self._public_origin: tuple[str, str, str] | None = None
        if public_url is not None:
            self._public_origin = _origin(public_url)
            self._names.add(_plain(urlsplit(public_url).hostname or ""))
        self._names.discard("")  # a machine without a name; what is no name or address reads so
        self._told = told
        self._told_hosts: set[str] = set()
        self.passed: set[bytes] = set()
        self.allow(allowed)

    def allow(self, names: Iterable[str]) -> None:
        """Replace the names that the operator allows."""
        self._allowed = frozenset(map(_plain, names))
        self.passed.clear()

    def check(self, request: Request, forwarded_host: bytes = b"") -> None:
        """Check ``Host``, and the origin of a changing request.

        Args:
            request: The request.
            forwarded_host: The host that a trusted proxy was asked for; empty: as in ``Host``. A
                page of it is no foreign one. ``Host`` is checked nevertheless: a page under a
                rebound name can write any field but that.

        Raises:
            RequestError: ``misdirected`` or ``cross-origin``.
        """
        if request.host and request.host not in self.passed:  # no browser leaves it empty
            self._check_host(request.host)
        if request.page is not None and request.method not in _SAFE_METHODS:
            self._check_page((request.host, forwarded_host), request.page)

    def _check_host(self, host: bytes) -> None:
        name = _host_name(host)
        if not _is_address(name) and name not in self._names and name not in self._allowed:
            if len(self._told_hosts) < HOSTS_TOLD_MAX and name not in self._told_hosts:
                self._told_hosts.add(name)
                self._told(name)
            raise RequestError(
                "misdirected",
                "Host is no name of this server; its operator may add it: allowed_hosts.",
            )
        if len(self.passed) >= HOSTS_PASSED_MAX:
            self.passed.clear()
        self.passed.add(host)

    def _check_page(self, hosts: Iterable[bytes], page: dict[bytes, bytes]) -> None:
        foreign = page.get(b"sec-fetch-site", b"none") not in _OWN_SITES
        origin = page.get(b"origin")
        if origin is not None:
            found = _origin(origin.decode("latin-1"))
            if found is not None and found == self._public_origin:
                return
            # A proxy that terminates TLS forwards Host, and the page's scheme is https then.
            foreign = (
                foreign
                or found is None
                or not any(found == _origin(f"{found[0]}://{_text(host)}") for host in hosts)
            )
        if foreign:
            raise RequestError(
                "cross-origin", "A web page of another origin may not change anything here."
            )


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _text(host: bytes) -> str:
    return host.decode("latin-1")


def _host_name(host: bytes) -> str:
    """The name or address in a ``Host``; empty where it is malformed."""
    found = _AUTHORITY.fullmatch(_text(host))
    return "" if found is None else _plain(found[1])


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return ":" not in name or name.startswith("[")


def _origin(url: str) -> tuple[str, str, str] | None:
    """Scheme, host and port (RFC 6454 section 4); None: no page of http or https."""
    scheme, _, authority = url.lower().partition("://")
    found = _AUTHORITY.fullmatch(authority)
    if found is None or scheme not in _PORTS:
        return None
    return scheme, found[1].removesuffix("."), found[2] or _PORTS[scheme]
