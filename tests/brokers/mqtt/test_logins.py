"""Who may come in, and whom we trust."""

import pytest
import uvloop

from distributary.core.deliver.credential import ClientCertificate, Credential
from distributary.core.errors import TransportError
from distributary.core.policy import delivered
from kit import fake_mqtt
from kit.fake_mqtt import FakeMqtt, packet
from kit.mqtt_checker import MqttChecker
from kit.servers import PASSWORD, USER, Authority
from kit.servers.mosquitto import Mosquitto

BOTH = pytest.mark.parametrize("protocol", ["MQTT3", "MQTT5"])


async def answer_of(way, uri, topic, **settings):
    """The answer to one event."""
    async with way() as it:
        return await it.send(it.to(0, topic, uri=uri, **settings))


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts", "ws", "wss"])
@BOTH
def test_every_scheme_delivers(mosquitto, way, topic, protocol, scheme):
    """Plain, with TLS, and by WebSocket."""
    ports = {
        "mqtt": mosquitto.port,
        "mqtts": mosquitto.tls_port,
        "ws": mosquitto.ws_port,
        "wss": mosquitto.wss_port,
    }
    uri = f"{scheme}://localhost:{ports[scheme]}" + ("/mqtt" if scheme in {"ws", "wss"} else "")

    async def scenario():
        with MqttChecker(mosquitto.port, topic) as checker:
            ca_certs = mosquitto.authority.ca_certs
            async with way() as it:
                answer = await it.send(
                    it.to(0, topic, uri=uri, protocol=protocol, ca_certs=ca_certs)
                )
                assert delivered(answer), answer
                await it.until(lambda: checker.seen)

    uvloop.run(scenario())


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts", "ws", "wss"])
def test_every_message_at_qos_0_is_answered(mosquitto, way, topic, scheme):
    """The first, and the next ones, whatever lies between us and the network."""
    port = getattr(mosquitto, {"mqtt": "port", "mqtts": "tls_port"}.get(scheme, f"{scheme}_port"))

    async def scenario():
        async with way() as it:
            uri = f"{scheme}://localhost:{port}"
            destination = it.to(0, topic, 0, uri=uri, ca_certs=mosquitto.authority.ca_certs)
            return [await it.send(destination, timeout_s=2.0) for _ in range(4)]

    assert [answer.code for answer in uvloop.run(scenario())] == ["written"] * 4


@pytest.mark.parametrize("scheme", ["mqtts", "wss"])
def test_a_certificate_of_an_unknown_authority_is_refused(mosquitto, way, topic, scheme):
    """No one else vouches for it."""
    port = mosquitto.tls_port if scheme == "mqtts" else mosquitto.wss_port
    answer = uvloop.run(answer_of(way, f"{scheme}://localhost:{port}", topic))
    assert isinstance(answer, TransportError)
    assert answer.reason == "tls"


@pytest.mark.parametrize("fault", ["name", "expired"])
def test_a_certificate_that_does_not_fit_is_refused(way, topic, tmp_path, fault):
    """For another name, or of yesterday."""
    authority = Authority(tmp_path / "authority")
    server = Mosquitto(authority)
    if fault == "name":
        server.certificate = authority.server(
            "other", names=("other.example",), addresses=("192.0.2.1",)
        )
    else:
        server.certificate = authority.server("old", days=-1)
    with server:
        uri = f"mqtts://localhost:{server.tls_port}"
        answer = uvloop.run(answer_of(way, uri, topic, ca_certs=authority.ca_certs))
    assert isinstance(answer, TransportError)
    assert answer.reason == "tls"


@BOTH
@pytest.mark.parametrize(
    "credential",
    [None, Credential("PLAIN", USER, "wrong"), Credential("PLAIN", "nobody", PASSWORD)],
    ids=["none", "password", "user"],
)
def test_a_login_that_is_refused_is_told(mosquitto, way, topic, protocol, credential):
    """The broker's answer, and no secret in it."""
    uri = f"mqtt://localhost:{mosquitto.port}"
    answer = uvloop.run(answer_of(way, uri, topic, protocol=protocol, credential=credential))
    assert answer.code == ("CONNACK 0x87" if protocol == "MQTT5" else "CONNACK 5")
    assert "wrong" not in repr(answer)
    assert PASSWORD not in repr(answer)


@pytest.mark.parametrize(
    ("protocol", "identifier", "flags", "fields"),
    [
        ("MQTT5", None, 0x42, [b"token"]),
        ("MQTT5", "me", 0xC2, [b"me", b"token"]),
        ("MQTT3", None, 0xC2, [b"", b"token"]),
        ("MQTT3", "me", 0xC2, [b"me", b"token"]),
    ],
)
def test_a_token_is_the_password(way, protocol, identifier, flags, fields):
    """MQTT 3 has no password without a user name, so an empty one stands there."""
    script = fake_mqtt.logs_in(int(protocol[-1]), lambda came: packet(0x40, came.packet_id))
    token = Credential("ACCESSTOKEN", identifier, access_token="token", access_token_type="Bearer")

    async def scenario():
        async with FakeMqtt(script) as broker:
            uri = f"mqtt://127.0.0.1:{broker.port}"
            await answer_of(way, uri, "t", protocol=protocol, credential=token)
            return broker.packets[0].body

    body = uvloop.run(scenario())
    assert body[7] == flags
    assert body.endswith(b"".join(len(field).to_bytes(2, "big") + field for field in fields))


def test_a_credential_that_no_login_can_hold_is_told(way):
    """Without a dial, without a retry, and without the secret."""
    credential = Credential("PLAIN", "a\0b", "secret")
    answer = uvloop.run(answer_of(way, "mqtt://127.0.0.1:9", "t", credential=credential))
    assert isinstance(answer, TransportError)
    assert (answer.reason, answer.retryable) == ("protocol", False)
    assert "secret" not in str(answer)


def test_credentials_have_connections_of_their_own(mosquitto, way, topic):
    """One that is refused says nothing about another."""

    async def scenario():
        async with way() as it:
            wrong = it.to(mosquitto.port, topic, credential=Credential("PLAIN", USER, "wrong"))
            tasks = [it.start(wrong), it.start(it.to(mosquitto.port, topic))]
            return [await task for task in tasks]

    refused, taken = uvloop.run(scenario())
    assert refused.code == "CONNACK 0x87"
    assert delivered(taken)


def test_an_address_that_must_not_be_dialled_is_not(way):
    """The rule for addresses holds for brokers as for every sink."""
    answer = uvloop.run(answer_of(way, "mqtt://169.254.169.254:1883", "t"))
    assert isinstance(answer, TransportError)
    assert (answer.reason, answer.retryable) == ("blocked-address", False)


@BOTH
def test_a_client_certificate_is_an_account(mosquitto, authority, way, topic, protocol):
    """The broker takes the account from it; without one, or with a stranger's, nobody comes in."""
    uri = f"mqtts://localhost:{mosquitto.certified_port}"

    def by(certificate):
        trust = {"ca_certs": authority.ca_certs, "client_certificate": certificate}
        answering = answer_of(way, uri, topic, protocol=protocol, credential=None, **trust)
        return uvloop.run(answering)

    assert delivered(by(client_certificate(authority, USER)))
    assert isinstance(by(None), TransportError)
    stranger = Authority(mosquitto.folder / f"stranger-{protocol}")
    assert isinstance(by(client_certificate(stranger, USER)), TransportError)


def client_certificate(authority, name):
    """A certificate for an account."""
    files = authority.server(name)
    return ClientCertificate(files.certificate.read_text(), files.key.read_text())
