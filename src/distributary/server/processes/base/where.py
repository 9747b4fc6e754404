"""This server's own addresses, and the sinks it may reach: derived from the settings."""

import ipaddress
import socket
from pathlib import Path
from urllib.parse import urlsplit

from distributary.core.deliver.endpoint import UNIX
from distributary.knative.reconcile import Site
from distributary.resource import (
    NOBODY_IS_ASKED,
    ConsentRule,
    OwnAddresses,
    Reach,
    is_loopback,
    protocols_allowed,
)
from distributary.server.settings import Settings, read_secrets


def scheme_of(settings: Settings) -> str:
    """Returns the scheme of the receiver's URLs: https with TLS."""
    return "http" if settings.tls_cert_file is None else "https"


def base(host: str, port: int, scheme: str = "http") -> str:
    """Returns the URL of a listening address."""
    return f"{scheme}://{'[' + host + ']' if ':' in host else host}:{port}"


def has_proxy(settings: Settings) -> bool:
    """Whether the settings say that others reach a server on loopback, through a proxy."""
    said = (settings.public_url, settings.listen_unix, settings.trusted_proxies)
    return any(said)


def reach_of(
    settings: Settings,
    listeners: tuple[tuple[str, int], ...],
    own_socket: Path,
    consent: ConsentRule = NOBODY_IS_ASKED,
) -> Reach:
    """Returns where events may be sent.

    Args:
        settings: The operator's settings.
        own_socket: Socket by which this server reaches its own receiver.
        listeners: Listening addresses of this server; the first is the receiver's.
        consent: Who is asked before the first delivery.
    """
    address = listeners[0]
    # A proxy behind a public URL connects from loopback for remote clients: not trusted then. Where
    # clients must show who they are, they are not all the operator either.
    trusted = is_loopback(address[0]) and not has_proxy(settings)
    trusted = trusted and settings.auth != "required"
    private = {"auto": trusted, "allow": True, "deny": False}[settings.private_sinks]
    denied = settings.private_sinks == "deny"
    return Reach(
        private_allowed=private,
        allow_sinks=settings.allow_sinks,
        nat64_prefixes=settings.nat64_prefixes,
        own=OwnAddresses(_urls(settings, address), listeners, f"{UNIX}{own_socket}"),
        own_sinks=settings.own_sinks,
        protocols=protocols_allowed(settings.protocols, private_denied=denied),
        error_data=settings.error_data,
        cleartext_credentials=settings.cleartext_credentials,
        consent=consent,
        secrets=read_secrets(settings.secrets)[0],
    )


def names_of(settings: Settings, own: OwnAddresses) -> tuple[str, ...]:
    """Host names of this server, those of the URLs in *own* included."""
    urls = tuple(urlsplit(url).hostname or "" for url in own.urls)
    return tuple(dict.fromkeys((socket.gethostname(), settings.host, *urls)))


def site_of(reach: Reach, *, audiences: bool) -> Site:
    """Returns the addresses that objects of the Kubernetes API show.

    Args:
        reach: Where events may be sent.
        audiences: Whether they name audiences.
    """
    public, *aliases = reach.own.urls
    return Site(public, reach.own.dial, reach.rule(), tuple(aliases), audiences)


def _reached(address: tuple[str, int], scheme: str) -> str:
    """URL at which this machine reaches its own port."""
    host, port = address
    listening = ipaddress.ip_address(host)
    loopback = "127.0.0.1" if listening.version == 4 else "::1"
    return base(loopback if listening.is_unspecified else host, port, scheme)


def _urls(settings: Settings, address: tuple[str, int]) -> tuple[str, ...]:
    """Every URL of the receiver; the first is the published one."""
    host, port = address
    scheme = scheme_of(settings)
    every = ipaddress.ip_address(host).is_unspecified
    listening = base(socket.gethostname() if every else host, port, scheme)
    names: tuple[str, ...] = ()
    if every or is_loopback(host):
        names = ("localhost", "127.0.0.1", "::1")
    if every:
        names = (*names, socket.gethostname(), socket.getfqdn())
    urls = (
        settings.public_url or listening,
        _reached(address, scheme),
        *(base(name, port, scheme) for name in names),
    )
    return tuple(dict.fromkeys(urls))
