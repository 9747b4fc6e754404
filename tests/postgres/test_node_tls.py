"""A node of several speaks TLS by the files as they are now, whether it leads or not."""

import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distributary.core.environment import STORE_PASSWORD_VARIABLE
from kit.certificates import Authority, write_pair
from kit.ports import free_port
from kit.running_server import RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEEN_S_MAX = 30


@pytest.fixture
def node(tmp_path: Path, kafka_cluster: Any, postgres: Any) -> Iterator[RunningServer]:
    """A node that has just begun: it need not lead, nor have a pipeline."""
    store = postgres.new_database()
    (tmp_path / "node.toml").write_text(
        f"""
log = "kafka://{",".join(kafka_cluster.servers)}/tls-{os.getpid()}"
store = "{store.url}"
partitions = 1
node_name = "one"
node_address = "127.0.0.1:{free_port()}"
tls_cert_file = "{tmp_path}/server.crt"
tls_key_file = "{tmp_path}/server.key"
"""
    )
    server = RunningServer(
        tmp_path / "data",
        flags=("--config", str(tmp_path / "node.toml")),
        environ=clean_environ() | {STORE_PASSWORD_VARIABLE: store.password},
    )
    write_pair(tmp_path, "server", Authority().server("127.0.0.1"))
    server.start()
    yield server
    server.kill_all()


def test_certificates_are_replaced(node: RunningServer, tmp_path: Path) -> None:
    """By new files at the same paths, and by others that the settings name after SIGHUP."""
    authority = Authority()
    trusting = ssl.create_default_context(cadata=authority.pem.decode())

    def shows(certificate: bytes) -> Callable[[], bool]:
        def look() -> bool:
            try:
                raw = socket.create_connection(("127.0.0.1", node.port), timeout=SEEN_S_MAX)
                with trusting.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
                    found = connection.getpeercert(binary_form=True)
            except OSError:  # it has not begun, or shows one of the former authority
                return False
            return found is not None and ssl.DER_cert_to_PEM_cert(found).encode() == certificate

        return look

    wait_until(lambda: '"serving"' in node.log.read_text(), SEEN_S_MAX, "it serves")
    pair = authority.server("127.0.0.1")
    write_pair(tmp_path, "server", pair)
    wait_until(shows(pair.certificate), SEEN_S_MAX, "the new certificate is shown")
    other = authority.server("127.0.0.1")
    write_pair(tmp_path, "other", other)
    config = tmp_path / "node.toml"
    config.write_text(config.read_text().replace("/server.", "/other."))
    os.kill(node.pid, signal.SIGHUP)
    wait_until(shows(other.certificate), SEEN_S_MAX, "that of other files is shown")
    config.write_text(config.read_text().replace("/other.", "/nowhere."))
    os.kill(node.pid, signal.SIGHUP)
    wait_until(lambda: "reload-refused" in node.log.read_text(), SEEN_S_MAX, "it is refused")
    assert shows(other.certificate)()
