"""What a URI and a credential come to, before anybody is dialled."""

import asyncio
import ssl

import pytest
from confluent_kafka import Producer

from distributary.core.deliver import Destination
from distributary.core.deliver.credential import ClientCertificate, Credential
from distributary.core.errors import TransportError
from distributary.net import AddressRule, Connector
from distributary.protocols.kafka.settings import HOSTS_MAX, KafkaSettings
from distributary.protocols.kafka.sink import Cluster
from distributary.protocols.kafka.sink._cluster import check_brokers
from distributary.protocols.kafka.sink._session import cluster_of
from distributary.resource import OwnAddresses
from kit.servers import Authority

NAMES = {
    "one.example": ["203.0.114.1", "203.0.114.2"],
    "two.example": ["2001:db9::2"],
    "inside.example": ["10.0.0.1"],
    "mixed.example": ["203.0.114.1", "10.0.0.1"],
}


class Names:
    """A resolver that knows a few names."""

    async def resolve(self, host):
        """Its addresses."""
        if host not in NAMES:
            raise TransportError("dns", f"no {host}")
        return NAMES[host]


class Noon:
    """A clock that stands."""

    def monotonic_s(self):
        """Nothing passes."""
        return 0.0

    def wall_ms(self):
        """Some day."""
        return 1_000_000


@pytest.fixture
def connector():
    """Refuses private addresses, and those that it listens on; knows no certificates."""
    rule = AddressRule(own=OwnAddresses(listeners=(("203.0.114.9", 8080),)))
    return Connector(rule, Names(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def settings_of(connector, uri, credential=None, ca_certs=None):
    """What librdkafka is told."""
    return asyncio.run(Cluster.of(uri, credential, ca_certs).settings(connector, Noon()))


@pytest.mark.parametrize(
    ("uri", "servers"),
    [
        ("kafka://one.example/orders", "203.0.114.1:9092,203.0.114.2:9092"),
        ("kafka://two.example:19092", "[2001:db9::2]:19092"),
        ("kafka://one.example:5,two.example:2/t", "203.0.114.1:5,203.0.114.2:5,[2001:db9::2]:2"),
        ("kafka://203.0.114.9,[2001:db9::9]:99/t", "203.0.114.9:9092,[2001:db9::9]:99"),
        ("kafka://nowhere.example,two.example/t", "[2001:db9::2]:9092"),
        ("kafka+ssl://one.example,two.example:2/t", "one.example:9093,two.example:2"),
    ],
)
def test_servers_are_told_by_their_checked_addresses(connector, uri, servers):
    """But by name where a certificate is for the name; what has no address is left out."""
    assert settings_of(connector, uri)["bootstrap.servers"] == servers


def test_certificates_are_read_for_the_tenant():
    """Tenants take turns at it."""
    asked = []

    class Reading(Connector):
        async def tls_context(self, endpoint):
            asked.append((endpoint.tenant, endpoint.ca_certs))
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    destination = Destination(
        "kafka+ssl://one.example/t",
        "KAFKA",
        ca_certs="own",
        tenant="shop",
        settings=KafkaSettings("t"),
    )
    cluster = cluster_of(destination)
    asyncio.run(cluster.settings(Reading(AddressRule(), Names()), Noon()))
    assert asked == [("shop", "own")]


def test_as_many_servers_as_a_subscription_may_name(connector):
    """What is taken when it is made is not refused when it delivers."""
    hosts = ",".join(f"203.0.114.{number}" for number in range(HOSTS_MAX))
    assert settings_of(connector, f"kafka://{hosts}/t")["bootstrap.servers"].count(":9092") == 16

    with pytest.raises(TransportError, match="more than 16"):
        settings_of(connector, f"kafka://{hosts},203.0.114.99/t")


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("kafka://inside.example/t", "blocked-address"),
        ("kafka://one.example,inside.example/t", "blocked-address"),
        ("kafka+ssl://mixed.example/t", "blocked-address"),
        ("kafka://127.0.0.1/t", "blocked-address"),
        ("kafka://one.example:25/t", "blocked-address"),
        ("kafka+ssl://two.example,one.example:6379/t", "blocked-address"),
        ("kafka://203.0.114.9:8080/t", "blocked-address"),
        ("kafka://nowhere.example,elsewhere.example/t", "dns"),
    ],
)
def test_servers_that_cannot_be_dialled(connector, uri, reason):
    """One that must not be dialled refuses all; without any address there is nobody to ask."""
    with pytest.raises(TransportError) as caught:
        settings_of(connector, uri)

    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "uri",
    [
        "http://one.example/t",
        "kafka:///t",
        "kafka://one.example,,two.example/t",
        "kafka://,one.example/t",
        "kafka://me:pw@one.example/t",
        "kafka://one.example,me@two.example/t",
        "kafka://one.example:0/t",
        "kafka://one.example:99999/t",
        "kafka://one.example, two.example/t",
        "kafka://one.example\\two.example/t",
        "kafka://[::1/t",
        "kafka://[::1],[::2/t",
        "kafka://" + ",".join(["one.example"] * 17),
        "kafka://one.example/" + "x" * 9_000,
    ],
)
def test_uris_that_two_readers_could_take_differently(uri):
    """Are refused for good."""
    with pytest.raises(TransportError) as caught:
        Cluster.of(uri, None, None)

    assert caught.value.reason == "blocked-address"
    assert not caught.value.retryable


def test_clusters_are_equal_whatever_the_topic():
    """They share a connection."""
    assert Cluster.of("kafka://a/x", None, None) == Cluster.of("kafka://a:9092/y", None, None)


class TestLogin:
    """Credentials."""

    def test_none(self, connector):
        """Nobody asks."""
        assert settings_of(connector, "kafka://one.example")["security.protocol"] == "PLAINTEXT"

    @pytest.mark.parametrize(
        ("scheme", "protocol"), [("kafka", "SASL_PLAINTEXT"), ("kafka+ssl", "SASL_SSL")]
    )
    def test_plain(self, connector, scheme, protocol):
        """Account and password."""
        found = settings_of(
            connector,
            f"{scheme}://one.example",
            Credential("PLAIN", identifier="me", secret="pw"),
        )

        assert found["security.protocol"] == protocol
        assert found["sasl.mechanism"] == "PLAIN"
        assert (found["sasl.username"], found["sasl.password"]) == ("me", "pw")

    @pytest.mark.parametrize(("expires_ms", "expires_s"), [(5_000_000, 5_000), (None, 4_600)])
    @pytest.mark.parametrize("kind", ["ACCESSTOKEN", "REFRESHTOKEN"])
    def test_token(self, connector, kind, expires_ms, expires_s):
        """The token, and until when; one that does not say lasts an hour at a time."""
        credential = Credential(kind, access_token="token", access_token_expires_ms=expires_ms)

        found = settings_of(connector, "kafka+ssl://one.example", credential)

        assert found["sasl.mechanism"] == "OAUTHBEARER"
        assert found["oauth_cb"]("") == ("token", expires_s)


class TestTrust:
    """Certificates."""

    def test_those_of_the_context_are_given_to_the_client(self, connector, tmp_path):
        """The sink's own beside the system's, as every transport trusts them."""
        ca_certs = Authority(tmp_path).ca_certs

        found = settings_of(connector, "kafka+ssl://one.example", ca_certs=ca_certs)

        assert ca_certs.strip() in found["ssl.ca.pem"]
        assert found["ssl.endpoint.identification.algorithm"] == "https"

    def test_without_any_the_client_searches_by_itself(self, connector):
        """It never trusts everybody."""
        assert "ssl.ca.pem" not in settings_of(connector, "kafka+ssl://one.example")

    def test_those_that_cannot_be_read_are_told(self, connector):
        """Before anybody is dialled."""
        with pytest.raises(TransportError) as caught:
            settings_of(connector, "kafka+ssl://one.example", ca_certs="rubbish")

        assert caught.value.reason == "tls"


class TestBrokers:
    """Where brokers say that they are."""

    @pytest.mark.parametrize(
        "hosts", [[], ["203.0.114.7"], ["[2001:db9::7]"], ["one.example", "nowhere.example"]]
    )
    def test_that_may_be_dialled(self, connector, hosts):
        """A name without an address cannot be, and does no harm."""
        asyncio.run(check_brokers([(host, 9092) for host in hosts], connector))

    @pytest.mark.parametrize(
        "broker",
        [
            ("127.0.0.1", 9092),
            ("[::1]", 9092),
            ("169.254.169.254", 9092),
            ("inside.example", 9092),
            ("mixed.example", 9092),
            ("one.example", 25),
            ("203.0.114.9", 8080),
        ],
        ids=str,
    )
    def test_that_must_not(self, connector, broker):
        """One is enough, by its address or its port."""
        with pytest.raises(TransportError) as caught:
            asyncio.run(check_brokers([("one.example", 9092), broker], connector))

        assert caught.value.reason == "blocked-address"

    def test_a_client_certificate_is_shown(self, connector, tmp_path):
        """The client takes the pair as it is; without one it is given none."""
        files = Authority(tmp_path).server("own")
        client = ClientCertificate(files.certificate.read_text(), files.key.read_text())
        cluster = Cluster.of("kafka+ssl://one.example", None, None, client)

        found = asyncio.run(cluster.settings(connector, Noon()))
        bare = settings_of(connector, "kafka+ssl://one.example")

        shown = {name: found[name] for name in ("ssl.certificate.pem", "ssl.key.pem")}
        assert shown == {"ssl.certificate.pem": client.certificate, "ssl.key.pem": client.key}
        assert shown.keys().isdisjoint(bare)
        Producer({"security.protocol": "SSL", "bootstrap.servers": "127.0.0.1:1", **shown})
        assert client.key.splitlines()[1] not in repr(cluster)
