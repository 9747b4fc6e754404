"""This server's own addresses, and the sinks it may reach: derived from the settings."""

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from distributary.knative.reconcile import Site
from distributary.resource import OwnAddresses, Reach, is_loopback, protocols_allowed
from distributary.server.settings import Settings


def base(host: str, port: int, scheme: str = "http") -> str:
    """Returns the URL of a listening address."""
    return f"{scheme}://{'[' + host + ']' if ':' in host else host}:{port}"


def url_of(listener: socket.socket | None, scheme: str) -> str | None:
    """Returns the URL of *listener*; None without a listener."""
    if listener is None:
        return None
    host, port = listener.getsockname()[:2]
    return base(host, port, scheme)


def listeners_of(sockets: Iterable[socket.socket | None]) -> tuple[tuple[str, int], ...]:
    """Address and port of each socket that is not None."""
    return tuple(each.getsockname()[:2] for each in sockets if each is not None)


def reach_of(settings: Settings, listeners: tuple[tuple[str, int], ...]) -> Reach:
    """Returns where events may be sent.

    Args:
        settings: The operator's settings.
        listeners: Listening addresses of this server; the first is the receiver's.
    """
    address = listeners[0]
    # A proxy behind a public URL connects from loopback for remote clients: not trusted then.
    trusted = is_loopback(address[0]) and settings.public_url is None
    private = {"auto": trusted, "allow": True, "deny": False}[settings.private_sinks]
    denied = settings.private_sinks == "deny"
    return Reach(
        private_allowed=private,
        allow_sinks=settings.allow_sinks,
        nat64_prefixes=settings.nat64_prefixes,
        own=OwnAddresses(_urls(settings, address), listeners, _reached(address)),
        own_sinks=settings.own_sinks,
        protocols=protocols_allowed(settings.protocols, private_denied=denied),
        error_data=settings.error_data,
    )


def names_of(settings: Settings, own: OwnAddresses) -> tuple[str, ...]:
    """Host names of this server, those of the URLs in *own* included."""
    urls = tuple(urlsplit(url).hostname or "" for url in own.urls)
    return tuple(dict.fromkeys((socket.gethostname(), settings.host, *urls)))


def site_of(reach: Reach) -> Site:
    """Returns the addresses that objects of the Kubernetes API show."""
    public, *aliases = reach.own.urls
    return Site(public, reach.own.dial, reach.rule(), tuple(aliases))


def _reached(address: tuple[str, int]) -> str:
    """``host:port`` at which this machine reaches its own port."""
    host, port = address
    listening = ipaddress.ip_address(host)
    loopback = "127.0.0.1" if listening.version == 4 else "::1"
    return base(loopback if listening.is_unspecified else host, port).removeprefix("http://")


def _urls(settings: Settings, address: tuple[str, int]) -> tuple[str, ...]:
    """Every URL of the receiver; the first is the published one."""
    host, port = address
    every = ipaddress.ip_address(host).is_unspecified
    listening = base(socket.gethostname() if every else host, port)
    names: tuple[str, ...] = ()
    if every or is_loopback(host):
        names = ("localhost", "127.0.0.1", "::1")
    if every:
        names = (*names, socket.gethostname(), socket.getfqdn())
    urls = (
        settings.public_url or listening,
        f"http://{_reached(address)}",
        *(base(name, port) for name in names),
    )
    return tuple(dict.fromkeys(urls))
