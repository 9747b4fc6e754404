"""The whole server and a sink credential whose secret is in a file of the operator."""

import base64
import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kit.running_server import RunningServer, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S_MAX = 120.0
JSON = {"content-type": "application/json"}
CANARIES = ("c4n4ry-first", "c4n4ry-second")


class World:
    """A server, a sink that keeps what authorized each request, and the file of the secret."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret = folder / "crm"
        self.came: list[str | None] = []
        came = self.came

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                came.append(self.headers.get("authorization"))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self.sink = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.sink.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.sink.server_port}"
        self.thread = threading.Thread(target=self.sink.serve_forever, daemon=True)
        self.thread.start()
        self.toml = folder / "server.toml"
        self.write_table()
        self.server = RunningServer(folder / "data", flags=["--config", str(self.toml)])

    def write_table(self) -> None:
        """Name the file for the sink."""
        self.toml.write_text(
            f'[[secrets]]\nname = "crm"\nfile = "{self.secret}"\nsinks = ["{self.url}"]\n'
        )

    def ask(self, method: str, path: str, body: object, headers: dict[str, str] = JSON) -> bytes:
        """One request that succeeds."""
        answer = self.server.request(method, path, json.dumps(body).encode(), headers)
        assert answer.status in {200, 201, 202}, answer
        return answer.body

    def publish(self) -> None:
        """One event."""
        attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
        self.ask("POST", "/events", {}, JSON | {f"ce-{key}": attributes[key] for key in attributes})

    def came_with(self, secret: str) -> None:
        """Wait until the newest request was authorized by *secret*."""
        expected = "Basic " + base64.b64encode(f"me:{secret}".encode()).decode()
        wait_until(lambda: expected in self.came, WAIT_S_MAX, f"a request with {secret}")

    def close(self) -> None:
        """Stop."""
        self.sink.shutdown()
        self.sink.server_close()
        self.thread.join()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server without the file yet."""
    made = World(tmp_path)
    try:
        with made.server:
            yield made
    finally:
        made.server.kill_all()
        made.close()


def test_a_named_secret_is_waited_for_followed_and_taken_away(world: World) -> None:
    """No request goes without it, nobody touches the subscription, and no file of ours has it."""
    named = {"credentialType": "PLAIN", "identifier": "me", "secretRef": {"name": "crm"}}
    settings = {"delivery": {"retry": 0}}
    body = {"sink": world.url, "protocol": "HTTP", "source": "/s", "sinkCredential": named}
    world.ask("PUT", "/subscriptions/s", body | {"protocolsettings": settings})
    world.publish()
    missing = b"the file of the secret crm cannot be read now"
    wait_until(lambda: missing in _logs(world), WAIT_S_MAX, "the missing file is told")
    world.secret.write_text(CANARIES[0] + "\n")
    world.came_with(CANARIES[0])
    world.secret.write_text(CANARIES[1])
    # The file changes without a sign to the server: one event each until it is in force.
    wait_until(lambda: _sent_with(world, CANARIES[1]), WAIT_S_MAX, "the new secret")
    world.toml.write_text("")
    world.server.tree()[0].send_signal(signal.SIGHUP)
    wait_until(lambda: _told_after_one_more(world, b"there is no secret crm"), WAIT_S_MAX, "told")
    assert None not in world.came
    files = [path for path in (world.folder / "data").rglob("*") if path.is_file()]
    said = [path.read_bytes() for path in files] + [_logs(world)]
    assert not [text for text in CANARIES if any(text.encode() in each for each in said)]


def _logs(world: World) -> bytes:
    return world.server.log.read_bytes()


def _told_after_one_more(world: World, text: bytes) -> bool:
    """Publish one more event; whether the log has *text* so far."""
    world.publish()
    return text in _logs(world)


def _sent_with(world: World, secret: str) -> bool:
    """Publish one more event; whether any request had *secret* so far."""
    world.publish()
    expected = "Basic " + base64.b64encode(f"me:{secret}".encode()).decode()
    return expected in world.came
