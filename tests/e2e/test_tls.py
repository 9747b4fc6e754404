"""A whole server with TLS on every port: publishing, delivering, its own Brokers, renewal."""

import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from distributary.cli._tls import ClientTls
from distributary.knative.kinds import BROKER
from kit import proton_client
from kit.answering_sinks import AnsweringSinks, answered, respond_event
from kit.certificates import Authority, write_pair
from kit.knative_client import KnativeClient
from kit.ports import free_port
from kit.running_server import Role, RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEEN_S_MAX = 60.0
"""Longest wait for something that takes a second."""
EVENT_FIELDS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}


class World(NamedTuple):
    """A server that asks for certificates, and what reaches it."""

    server: RunningServer
    authority: Authority
    folder: Path
    health_port: int
    amqp_port: int | None

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the files of the client in its environment."""
        environ = clean_environ() | {
            "DISTRIBUTARY_URL": self.server.url,
            "DISTRIBUTARY_CA_FILE": str(self.folder / "ca.pem"),
            "DISTRIBUTARY_CLIENT_CERT_FILE": str(self.folder / "client.crt"),
            "DISTRIBUTARY_CLIENT_KEY_FILE": str(self.folder / "client.key"),
        }
        ended = subprocess.run(
            [sys.executable, "-m", "distributary.cli", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=environ,
            timeout=SEEN_S_MAX,
        )
        assert ended.returncode == 0, ended.stderr
        return ended


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Certificates of clients are required everywhere but at the health port."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    ca = authority.write(folder / "ca.pem")
    write_pair(folder, "server", authority.server("localhost", "127.0.0.1"))
    client = write_pair(folder, "client", authority.client(uris=["spiffe://shop/admin"]))
    health_port = free_port()
    amqp_port = free_port() if proton_client.installed() else None
    config = folder / "distributary.toml"
    config.write_text(
        f"""
tls_cert_file = "{folder}/server.crt"
tls_key_file = "{folder}/server.key"
tls_client_ca_file = "{ca}"
tls_client_certs = "required"
auth = "required"
private_sinks = "allow"
health_port = {health_port}
partitions = 1
{f"amqp_port = {amqp_port}" if amqp_port else ""}

[[certificates]]
name = "uri:spiffe://shop/admin"
may = ["admin"]
namespaces = ["*"]
"""
    )
    tls = ClientTls(ca, *client).context()
    flags = ["--config", str(config)]
    with RunningServer(folder / "data", flags=flags, tls=tls) as server:
        yield World(server, authority, folder, health_port, amqp_port)


def publish(world: World, connection: http.client.HTTPConnection | None = None) -> int:
    """The status of one event's answer, on *connection* or a new one."""
    used = connection or world.server.connection()
    try:
        used.request("POST", "/events", b"{}", {**EVENT_FIELDS, "content-type": "application/json"})
        answer = used.getresponse()
        answer.read()
        return answer.status
    finally:
        if connection is None:
            used.close()


def test_commands_work(world: World) -> None:
    """Publishing and subscribing, with files from the environment."""
    with AnsweringSinks() as sinks:
        sink = sinks.sink("/one")
        world.cli("subscribe", "--sink", sink.url, "--type", "tls.one", "--id", "one")
        world.cli("send", "--type", "tls.one", "--data", "{}")
        sink.wait()
    assert "one" in world.cli("subscriptions", "list").stdout
    world.cli("subscriptions", "delete", "one")


def test_without_a_certificate_there_is_no_answer(world: World) -> None:
    """Neither in plain HTTP; each is counted, and none is a line of the log."""
    before = world.server.metrics()
    plain = http.client.HTTPConnection("127.0.0.1", world.server.port, timeout=SEEN_S_MAX)
    assert not answers(plain)
    stranger = ClientTls(world.folder / "ca.pem").context()
    nobody = http.client.HTTPSConnection("127.0.0.1", world.server.port, context=stranger)
    assert not answers(nobody)

    def counted(reason: str) -> bool:
        name = f'tls_handshake_failures_total{{listener="http",reason="{reason}"}}'
        return world.server.metrics().get(name, 0) > before.get(name, 0)

    wait_until(lambda: counted("plain"), SEEN_S_MAX, "plain HTTP is counted")
    wait_until(lambda: counted("client-certificate"), SEEN_S_MAX, "the stranger is counted")
    assert "handshake" not in world.server.log.read_text()


def answers(connection: http.client.HTTPConnection) -> bool:
    """Whether a request gets any answer."""
    try:
        connection.request("GET", "/readyz")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    else:
        return True
    finally:
        connection.close()


def test_answers_keep_browsers_to_tls(world: World) -> None:
    """Those of the receiver and those of the API."""
    for path in ("/events", "/readyz", "/docs", "/nowhere"):
        fields = world.server.request("GET", path).headers
        assert fields["strict-transport-security"] == "max-age=31536000"
        assert fields["x-content-type-options"] == "nosniff"


def test_replies_come_back(world: World) -> None:
    """This server has no certificate of its own authority: it reaches itself by its own socket."""
    reply = respond_event({"type": "tls.reply"})
    with AnsweringSinks() as sinks:
        asked, hears = sinks.sink("/asked", answered(reply)), sinks.sink("/hears")
        client = KnativeClient(world.server, "tls-replies")
        path = client.broker()
        url = client.read(BROKER, "b")["status"]["address"]["url"]
        assert url.startswith("https://")
        client.trigger(asked.url, "asks", filter={"attributes": {"type": "tls.ask"}})
        client.trigger(hears.url, "hears", filter={"attributes": {"type": "tls.reply"}})
        client.publish(path, type="tls.ask")
        assert hears.wait()[0].headers["ce-type"] == "tls.reply"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="NOT RUN: there is no kubectl")
def test_kubectl_reads_by_the_kubeconfig(world: World) -> None:
    """With the authority and the certificate that ``distributary kubeconfig`` wrote."""
    config = world.folder / "kubeconfig"
    config.write_text(world.cli("kubeconfig", "--server", world.server.url).stdout)
    found = subprocess.run(
        ["kubectl", "--kubeconfig", config, "get", "brokers", "-o", "name"],
        check=True,
        capture_output=True,
        text=True,
        timeout=SEEN_S_MAX,
    )
    assert "broker.eventing.knative.dev/default" in found.stdout


def test_the_health_port_asks_for_no_certificate(world: World) -> None:
    """Balancers have none."""
    trusting = ClientTls(world.folder / "ca.pem").context()
    connection = http.client.HTTPSConnection("127.0.0.1", world.health_port, context=trusting)
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert answer.headers["cache-control"] == "no-store"
    connection.close()


def test_the_main_port_answers_by_tls_while_receivers_hang(world: World) -> None:
    """The control process stands in for them, with the same certificate."""
    [ingest] = world.server.processes(Role.INGEST)
    ingest.suspend()
    try:
        wait_until(lambda: _stood_in(world), SEEN_S_MAX, "somebody answers instead")
    finally:
        ingest.resume()
    wait_until(lambda: publish(world) == 202, SEEN_S_MAX, "the receiver is back")


def _stood_in(world: World) -> bool:
    connection = world.server.connection()
    connection.timeout = 1
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 503
    except OSError:
        return False
    finally:
        connection.close()


def test_amqp_speaks_tls(world: World) -> None:
    """The first bytes of AMQP are answered after the handshake."""
    if world.amqp_port is None:
        pytest.skip("NOT RUN: Qpid Proton is not installed")
    assert world.server.tls is not None
    raw = socket.create_connection(("127.0.0.1", world.amqp_port), timeout=SEEN_S_MAX)
    with world.server.tls.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        connection.sendall(b"AMQP\x03\x01\x00\x00")
        assert connection.recv(8).startswith(b"AMQP")


def test_a_certificate_logs_in_over_amqp(world: World) -> None:
    """By SASL EXTERNAL, with a client that shares no code with ours."""
    if world.amqp_port is None:
        pytest.skip("NOT RUN: Qpid Proton is not installed")
    files = [str(world.folder / name) for name in ("ca.pem", "client.crt", "client.key")]
    client = proton_client.ProtonClient(world.amqp_port, tls=(files[0], files[1], files[2]))
    try:
        assert client.ask("Query").properties["statuscode"] == 200
    finally:
        client.close()


def test_certificates_change_under_traffic(world: World) -> None:
    """No event is refused: on connections that stay, and on new ones; all ports show the new one.

    A broken pair changes nothing, and is told with what to do.
    """
    stop, statuses, errors = threading.Event(), [], []

    def publish_on(*, anew: bool) -> None:
        kept = None if anew else world.server.connection()
        while not stop.is_set():
            try:
                statuses.append(publish(world, kept))
            except (OSError, http.client.HTTPException) as error:
                errors.append(error)
        if kept is not None:
            kept.close()

    threads = [threading.Thread(target=publish_on, kwargs={"anew": n > 1}) for n in range(4)]
    for thread in threads:
        thread.start()
    ports = [world.server.port, world.health_port]
    ports += [] if world.amqp_port is None else [world.amqp_port]
    try:
        for _ in range(3):
            pair = world.authority.server("localhost", "127.0.0.1")
            write_pair(world.folder, "server", pair)
            wait_until(
                lambda pair=pair: all(shown(world, port) == pair.certificate for port in ports),
                SEEN_S_MAX,
                "all ports show the new certificate",
            )
        (world.folder / "server.key").write_bytes(world.authority.server("localhost").key)
        wait_until(
            lambda: "tls-reload-refused" in world.server.log.read_text(), SEEN_S_MAX, "a warning"
        )
        assert "Replace both together" in world.server.log.read_text()
        [ingest] = world.server.processes(Role.INGEST)
        assert all(shown(world, port) == pair.certificate for port in ports)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert len(statuses) > 100
    assert set(statuses) == {202}

    # A receiver that starts while the files are broken has the certificate in use.
    ingest.kill()
    wait_until(lambda: _publishes(world), SEEN_S_MAX, "the receiver is back")
    assert shown(world, world.server.port) == pair.certificate
    write_pair(world.folder, "server", world.authority.server("localhost", "127.0.0.1"))


def _publishes(world: World) -> bool:
    try:
        return publish(world) == 202
    except (OSError, http.client.HTTPException):
        return False


def shown(world: World, port: int) -> bytes:
    """The certificate that *port* shows now, in PEM."""
    assert world.server.tls is not None
    raw = socket.create_connection(("127.0.0.1", port), timeout=SEEN_S_MAX)
    with world.server.tls.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        found = connection.getpeercert(binary_form=True)
    assert found is not None
    return ssl.DER_cert_to_PEM_cert(found).encode()


def test_other_files_are_read_at_sighup(world: World) -> None:
    """And refused, with nothing changed, where they cannot be used."""
    config = world.folder / "distributary.toml"
    text = config.read_text()
    config.write_text(text.replace("server.crt", "nowhere.crt"))
    world.server.tree()[0].send_signal(signal.SIGHUP)
    wait_until(lambda: "reload-refused" in told(world), SEEN_S_MAX, "the refusal")
    pair = world.authority.server("localhost", "127.0.0.1")
    write_pair(world.folder, "other", pair)
    config.write_text(text.replace("/server.", "/other."))
    world.server.tree()[0].send_signal(signal.SIGHUP)
    wait_until(lambda: told(world)["reloaded"] > 0, SEEN_S_MAX, "the reload")
    wait_until(
        lambda: shown(world, world.server.port) == pair.certificate, SEEN_S_MAX, "the other pair"
    )


def told(world: World) -> Counter[str]:
    """How often each event stands in the log."""
    return Counter(json.loads(line)["event"] for line in world.server.log.read_text().splitlines())


def test_a_start_names_what_is_wrong(tmp_path: Path) -> None:
    """Before anything is opened."""
    flags = ["--tls-cert-file", str(tmp_path / "none"), "--tls-key-file", str(tmp_path / "none")]
    command = [sys.executable, "-m", "distributary.cli", "serve", "--data-dir", str(tmp_path / "d")]
    ended = subprocess.run(
        [*command, *flags, "--port", "0"],
        check=False,
        capture_output=True,
        text=True,
        env=clean_environ(),
        timeout=SEEN_S_MAX,
    )
    assert ended.returncode == 1
    assert "tls_key_file" in ended.stderr
    assert not (tmp_path / "d").exists()
