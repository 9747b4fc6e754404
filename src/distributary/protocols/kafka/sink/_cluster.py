"""A Kafka cluster of a sink or source: bootstrap servers, login, and address checks."""

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from distributary.core.clock import Clock
from distributary.core.deliver import Endpoint
from distributary.core.deliver import endpoint as _endpoint
from distributary.core.deliver.credential import ClientCertificate, Credential
from distributary.core.errors import TransportError
from distributary.core.uri_parts import split_uri
from distributary.net import Connector
from distributary.protocols.kafka.settings import HOSTS_MAX, SCHEMES

TOKEN_S: Final = 3_600.0
"""Assumed lifetime of a token without an expiry; the client then requests it again and gets the
same."""

SETUP_MS_MAX: Final = 5_000
"""Longest time for one connection to a broker: TCP, TLS and login."""

SILENCE_MS_MAX: Final = 20_000
"""A broker that owes a response for so long counts as lost: twice the other protocols' keepalive
of 10 s."""

PAUSE_MS_FIRST: Final = 100
"""First back-off, doubled up to ``PAUSE_MS_MAX``."""
PAUSE_MS_MAX: Final = 2_000
"""Backoff of librdkafka between attempts to connect; the same as for all transports."""

Place: TypeAlias = tuple[str, int]
"""Where a broker is, by its own word: host and port."""

Settings: TypeAlias = dict[str, Any]
"""Settings of librdkafka: strings, numbers and callbacks."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Bootstrap servers and credentials of a cluster.

    Attributes:
        servers: Bootstrap servers, all of one scheme.
        credential: For SASL; None: no login.
        ca_certs: PEM of CA certificates for its brokers, besides the system's.
        client_certificate: Shown to its brokers by TLS; None: none.
        tenant: Namespace for which it is dialled; see ``Endpoint``.
    """

    servers: tuple[Endpoint, ...]
    credential: Credential | None
    ca_certs: str | None
    client_certificate: ClientCertificate | None = None
    tenant: str = ""

    @classmethod
    def of(
        cls,
        uri: str,
        credential: Credential | None,
        ca_certs: str | None,
        client_certificate: ClientCertificate | None = None,
        tenant: str = "",
    ) -> "Cluster":
        """Parse a URI such as ``kafka://one:9092,two:9092/orders``; its path is ignored.

        Raises:
            TransportError: ``blocked-address``: the URI is invalid.
        """
        parts = split_uri(uri)
        hosts = parts.netloc.split(",")
        if len(hosts) > HOSTS_MAX:
            raise _blocked(f"it names more than {HOSTS_MAX} servers")
        _endpoint.parse(uri.replace(parts.netloc, hosts[0], 1), SCHEMES)  # the whole of it
        servers = tuple(_endpoint.parse(f"{parts.scheme}://{host}/", SCHEMES) for host in hosts)
        return cls(servers, credential, ca_certs, client_certificate, tenant)

    @property
    def tls(self) -> bool:
        """Whether connections use TLS."""
        return self.servers[0].tls

    async def settings(self, connector: Connector, clock: Clock) -> Settings:
        """Returns the connection settings of a producer or consumer.

        Raises:
            TransportError: ``blocked-address``: one of the servers must not be dialled;
                ``dns``: none of them has an address; ``tls``: the certificates cannot be read.
        """
        servers = await self._checked(connector)
        trusting = self.servers[0]._replace(ca_certs=self.ca_certs, tenant=self.tenant)
        return {
            "bootstrap.servers": ",".join(servers),
            "log_level": 0,  # errors reach ``error_cb``; log lines would go to stderr
            "socket.keepalive.enable": True,
            "socket.connection.setup.timeout.ms": SETUP_MS_MAX,
            "socket.timeout.ms": SILENCE_MS_MAX,
            "reconnect.backoff.ms": PAUSE_MS_FIRST,
            "reconnect.backoff.max.ms": PAUSE_MS_MAX,
            "enable.metrics.push": False,  # brokers must not collect our metrics
            **_security(self.tls, self.credential, clock),
            **(_trust(await connector.tls_context(trusting)) if self.tls else {}),
            **_shown(self.client_certificate),
        }

    async def _checked(self, connector: Connector) -> list[str]:
        """Returns ``host:port`` of the servers that have an allowed address.

        Names are resolved here, except with TLS, whose certificate is for the name.
        """
        found: list[str] = []
        unknown: TransportError | None = None
        for server in self.servers:
            try:
                addresses = await connector.checked_addresses(server.host, server.port)
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


async def check_brokers(brokers: Iterable[Place], connector: Connector) -> None:
    """Check the advertised addresses and ports of a cluster's brokers.

    Skips a name without an address: librdkafka cannot dial it either.

    Raises:
        TransportError: ``blocked-address``: one of them must not be dialled.
    """
    for host, port in brokers:
        try:
            await connector.checked_addresses(host.removeprefix("[").removesuffix("]"), port)
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
    """Returns all CA certificates of *context* as one PEM: librdkafka accepts only one set."""
    settings: Settings = {"ssl.endpoint.identification.algorithm": "https"}
    certificates = context.get_ca_certs(binary_form=True)
    if certificates:  # else only librdkafka's own search finds the system's
        settings["ssl.ca.pem"] = "".join(map(ssl.DER_cert_to_PEM_cert, certificates))
    return settings


def _shown(client: ClientCertificate | None) -> Settings:
    if client is None:
        return {}
    return {"ssl.certificate.pem": client.certificate, "ssl.key.pem": client.key}


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _blocked(why: str) -> TransportError:
    return TransportError("blocked-address", f"The sink URI cannot be used: {why}", retryable=False)
