"""The Subscriptions API over AMQP of a whole server, asked by Qpid Proton's own client."""

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from kit.proton_client import ProtonClient
from kit.running_server import RunningServer, clean_environ

pytest.importorskip("proton", reason="Qpid Proton is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "subscriptions-over-amqp.md"

EXAMPLE_S_MAX = 60
"""Longest run of the guide's example."""

CONNECTIONS = 10
EACH = 10

PROPOSAL = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}


class Served(NamedTuple):
    """A server and where its clients of AMQP connect."""

    server: RunningServer
    port: int

    @property
    def url(self) -> str:
        """Of the AMQP port."""
        return f"amqp://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def served(plain_server: RunningServer, amqp_port: int) -> Served:
    """The shared server."""
    return Served(plain_server, amqp_port)


@pytest.fixture
def client(served) -> Iterator[ProtonClient]:
    """A connection."""
    made = ProtonClient(served.port)
    yield made
    made.close()


def test_the_example_of_the_guide_prints_what_it_shows(served):
    """It is run as it stands there."""
    text = GUIDE.read_text("utf-8")
    (code,) = re.findall(r"^```python run-amqp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code, served.url],
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=EXAMPLE_S_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == shown


def test_both_bindings_show_the_same_subscriptions(served, client):
    """What one makes the other reads, with the same entity tag."""
    made = client.ask("Update", PROPOSAL, id="both", ifnonematch="*")
    read = served.server.request("GET", "/subscriptions/both")
    shown = json.loads(read.body)
    assert shown.pop("status")["state"] == "ready"  # HTTP tells how it stands besides
    assert json.loads(bytes(made.body)) == shown
    assert made.properties["etag"] == read.headers["etag"]
    served.server.request("DELETE", "/subscriptions/both")
    assert client.ask("Retrieve", id="both").properties["status"] == "notfound"


def test_a_hundred_requests_from_ten_connections(served):
    """All at once; each connection gets the answers to its own requests."""
    ready = threading.Barrier(CONNECTIONS)

    def talk(number: int) -> list[tuple[str, str]]:
        made = ProtonClient(served.port)
        ready.wait(timeout=30)
        names = [f"crowd{number}-{each}" for each in range(EACH)]
        answers = [made.ask("Update", PROPOSAL | {"source": f"/{name}"}, id=name) for name in names]
        made.close()
        return [
            (name, json.loads(bytes(each.body))["source"])
            for name, each in zip(names, answers, strict=True)
        ]

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        talked = [pair for each in threads.map(talk, range(CONNECTIONS)) for pair in each]
    assert len(talked) == CONNECTIONS * EACH
    assert all(source == f"/{name}" for name, source in talked)
    listed = {found["id"] for found in served.server.request("GET", "/subscriptions").json()}
    assert {name for name, _ in talked} <= listed


def test_hostile_connections_harm_nobody(served, client):
    """Garbage, half an opening, an opening and then silence: others are answered meanwhile."""
    hostile = []
    for raw in (b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x03", b"AMQP\x00\x01\x00\x00", b"\xff" * 65536):
        connection = socket.create_connection(("127.0.0.1", served.port), timeout=10)
        connection.sendall(raw)
        hostile.append(connection)
    assert client.ask("Discover").properties["status"] == "ok"
    assert ProtonClient(served.port).ask("Discover").properties["status"] == "ok"
    for connection in hostile:
        connection.close()
    assert served.server.request("GET", "/healthz").status == 200


def test_a_port_that_is_taken_ends_the_start(served, tmp_path):
    """With a message that says what to do, before anything is started."""
    command = [sys.executable, "-m", "distributary.cli", "serve", "--port", "0"]
    command += ["--data-dir", str(tmp_path / "data"), "--amqp-port", str(served.port)]
    done = subprocess.run(
        command, env=clean_environ(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{served.port} for AMQP" in done.stderr
    assert "choose another: --amqp-port" in done.stderr
