"""A cluster as a sink or source names it: its servers, how to be let in, and where it may be."""

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from distributary.core.clock import Clock
from distributary.core.deliver import Endpoint
from distributary.core.deliver import endpoint as _endpoint
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.net import Connector
from distributary.protocols.kafka.settings import HOSTS_MAX, SCHEMES

TOKEN_S: Final = 3_600.0
"""How long a token that does not say when it expires is taken to last; the client then asks
again and gets the same."""

SETUP_MS_MAX: Final = 5_000
"""Longest time for one connection to a broker: TCP, TLS and login."""

SILENCE_MS_MAX: Final = 20_000
"""A broker that owes an answer for so long is taken to be gone: twice the 10 s after which the
other protocols ask whether anybody is there."""

PAUSE_MS_FIRST: Final = 100
PAUSE_MS_MAX: Final = 2_000
"""Pauses of the client between its own attempts to connect, as those of all transports."""

Settings: TypeAlias = dict[str, Any]
"""Of librdkafka: strings, numbers and callbacks."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who is asked for the brokers of a cluster, and how this client is let in.

    Attributes:
        servers: Bootstrap servers, all of one scheme.
        credential: Logs in; None: nobody asks.
        ca_certs: PEM of certificates that its brokers are trusted by, besides the system's.
    """

    servers: tuple[Endpoint, ...]
    credential: Credential | None
    ca_certs: str | None

    @classmethod
    def of(cls, uri: str, credential: Credential | None, ca_certs: str | None) -> "Cluster":
        """The cluster of a URI such as ``kafka://one:9092,two:9092/orders``.

        The path names a topic or nothing, and is not looked at.

        Raises:
            TransportError: ``blocked-address``: the URI cannot be used.
        """
        try:
            parts = urlsplit(uri)
        except ValueError as error:
            raise _blocked(str(error)) from error
        hosts = parts.netloc.split(",")
        if len(hosts) > HOSTS_MAX:
            raise _blocked(f"it names more than {HOSTS_MAX} servers")
        _endpoint.parse(uri.replace(parts.netloc, hosts[0], 1), SCHEMES)  # the whole of it
        servers = tuple(_endpoint.parse(f"{parts.scheme}://{host}/", SCHEMES) for host in hosts)
        return cls(servers, credential, ca_certs)

    @property
    def tls(self) -> bool:
        """Whether its brokers are spoken to by TLS."""
        return self.servers[0].tls

    async def settings(self, connector: Connector, clock: Clock) -> Settings:
        """What a client must know to connect, for producers and consumers alike.

        Raises:
            TransportError: ``blocked-address``: one of the servers must not be dialled;
                ``dns``: none of them has an address; ``tls``: the certificates cannot be read.
        """
        return {
            "bootstrap.servers": ",".join(await self._checked(connector)),
            "log_level": 0,  # what matters comes as an error; the rest would go to stderr
            "socket.keepalive.enable": True,
            "socket.connection.setup.timeout.ms": SETUP_MS_MAX,
            "socket.timeout.ms": SILENCE_MS_MAX,
            "reconnect.backoff.ms": PAUSE_MS_FIRST,
            "reconnect.backoff.max.ms": PAUSE_MS_MAX,
            "enable.metrics.push": False,  # a broker does not get to ask for metrics of ours
            **_security(self.tls, self.credential, clock),
            **(_trust(connector.tls_context(self.ca_certs)) if self.tls else {}),
        }

    async def _checked(self, connector: Connector) -> list[str]:
        """``host:port`` of the servers that have an address; addresses where names are not needed.

        A name is kept with TLS alone, whose certificate is for the name.
        """
        found: list[str] = []
        unknown: TransportError | None = None
        for server in self.servers:
            try:
                addresses = await connector.checked_addresses(server.host)
            except TransportError as error:
                if error.reason != "dns":
                    raise
                unknown = error
                continue
            names = [server.host] if self.tls else addresses
            found += [_authority(name, server.port) for name in names]
        if not found:
            assert unknown is not None
            raise unknown
        return found


async def check_brokers(hosts: Iterable[str], connector: Connector) -> None:
    """Check where the brokers of a cluster say that they are.

    A name without an address is left to the client: it cannot be dialled.

    Raises:
        TransportError: ``blocked-address``: one of them must not be dialled.
    """
    for host in hosts:
        try:
            await connector.checked_addresses(host.removeprefix("[").removesuffix("]"))
        except TransportError as error:
            if error.reason != "dns":
                raise


def _security(tls: bool, credential: Credential | None, clock: Clock) -> Settings:
    encrypted = "SSL" if tls else "PLAINTEXT"
    if credential is None:
        return {"security.protocol": encrypted}
    if credential.type == "PLAIN":
        return {
            "security.protocol": f"SASL_{encrypted}",
            "sasl.mechanism": "PLAIN",
            "sasl.username": credential.identifier or "",
            "sasl.password": credential.secret or "",
        }
    return {
        "security.protocol": f"SASL_{encrypted}",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": _token(credential, clock),
    }


def _token(credential: Credential, clock: Clock) -> Callable[[str], tuple[str, float]]:
    def token(_config: str) -> tuple[str, float]:
        expires_ms = credential.access_token_expires_ms
        expires_s = clock.wall_ms() / 1e3 + TOKEN_S if expires_ms is None else expires_ms / 1e3
        return credential.access_token or "", expires_s

    return token


def _trust(context: ssl.SSLContext) -> Settings:
    """The certificates that *context* trusts: the client takes one set, and no other way."""
    settings: Settings = {"ssl.endpoint.identification.algorithm": "https"}
    certificates = context.get_ca_certs(binary_form=True)
    if certificates:  # else the system keeps them where only the client's own search finds them
        settings["ssl.ca.pem"] = "".join(map(ssl.DER_cert_to_PEM_cert, certificates))
    return settings


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _blocked(why: str) -> TransportError:
    return TransportError("blocked-address", f"The sink URI cannot be used: {why}", retryable=False)
