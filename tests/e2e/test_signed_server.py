"""A whole server that signs: retries, redrives, rotations under load, and where secrets stand."""

import base64
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from kit.running_server import Answer, RunningServer, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ARRIVE_S_MAX = 60.0
JSON = {"content-type": "application/json"}
QUICK = {"retry": 1, "backoffDelay": "PT1.1S", "backoffMax": "PT1.1S"}
RATE = 500
"""Events a second that are published during the rotations; fewer on a busy machine."""
STEP_S = 1.5
"""Time under load before each rotation, and after the last one."""
PUBLISHERS = 4


class Got(NamedTuple):
    """A request at the sink."""

    path: str
    headers: dict[str, str]
    body: bytes

    def verifies(self, *secrets: str) -> bool:
        """Whether one of *secrets* has signed it."""
        for secret in secrets:
            try:
                Webhook(secret).verify(self.body, self.headers, json_parse=False)
            except WebhookVerificationError:
                continue
            return True
        return False


class Sink:
    """Takes events on loopback; ``/gone/...`` refuses them for good while ``refusing``."""

    def __init__(self) -> None:
        self.requests: list[Got] = []
        self.refusing = True
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                sink.requests.append(Got(self.path, headers, body))
                status = 503 if self.path.startswith("/gone") and sink.refusing else 204
                self.wfile.write(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status)

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def of(self, path: str) -> list[Got]:
        """What came to *path*."""
        return [request for request in tuple(self.requests) if request.path == path]

    def wait(self, path: str, count: int) -> list[Got]:
        """Wait for so many requests at *path*."""
        what = f"{count} requests at {path}"
        wait_until(lambda: len(self.of(path)) >= count, ARRIVE_S_MAX, what)
        return self.of(path)

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A sink."""
    made = Sink()
    yield made
    made.close()


def put(server: RunningServer, sink: Sink, name: str, path: str, **settings: Any) -> Answer:
    """Create or replace a subscription for events of the source ``/name``."""
    body = {
        "sink": sink.url + path,
        "protocol": "HTTP",
        "source": f"/{name}",
        "protocolsettings": {"signature": {"scheme": "v1"}, **settings},
    }
    return server.request("PUT", f"/subscriptions/{name}", json.dumps(body).encode(), JSON)


def secret_of(answer: Answer) -> str:
    """The secret that was made."""
    assert answer.status in {200, 201}, answer.body
    return str(answer.json()["protocolsettings"]["signature"]["secret"])


def publish(
    connection: http.client.HTTPConnection, name: str, number: int, key: str | None = None
) -> None:
    """One event; those with the same *key* are in one partition."""
    headers = {
        "ce-specversion": "1.0",
        "ce-id": str(number),
        "ce-source": f"/{name}",
        "ce-type": "t",
        **JSON,
    }
    if key is not None:
        headers["ce-partitionkey"] = key
    connection.request("POST", "/events", b'{"n": %d}' % number, headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 202


def number_of(request: Got) -> int:
    """Of the event in it."""
    number: int = json.loads(request.body)["n"]
    return number


def rotate(server: RunningServer, name: str) -> str:
    """Rotate; returns the new secret."""
    path = f"/subscriptions/{name}/signature/rotate"
    return secret_of(server.request("POST", path, b'{"overlap": "PT1H"}', JSON))


def test_a_server_signs_every_attempt_and_no_file_holds_a_secret(tmp_path, sink):
    """Retry and redrive have the same id and a time of their own; a restart keeps the key."""
    folder = tmp_path / "data"
    with RunningServer(folder, flags=["--log-level", "debug"]) as server:
        kept = put(server, sink, "kept", "/gone/kept", delivery=QUICK, format="structured")
        secrets = [secret_of(kept), secret_of(put(server, sink, "plain", "/plain"))]
        with contextlib.closing(server.connection()) as connection:
            publish(connection, "kept", 1)
            publish(connection, "plain", 2)
        first, second = sink.wait("/gone/kept", 2)
        (plain,) = sink.wait("/plain", 1)
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.headers["webhook-id"] != plain.headers["webhook-id"]
        stamps = [int(each.headers["webhook-timestamp"]) for each in (first, second)]
        assert stamps[0] < stamps[1]
        assert all(each.verifies(secrets[0]) for each in (first, second))
        assert plain.verifies(secrets[1])
        assert not plain.verifies(secrets[0])

        def letters() -> list[Any]:
            found: list[Any] = server.request("GET", "/dead-letters").json()
            return found

        wait_until(lambda: len(letters()) == 1, ARRIVE_S_MAX, "the dead letter")
        sink.refusing = False
        secrets.append(rotate(server, "kept"))
        redrive = server.request("POST", "/dead-letters/redrive", b'{"all": true}', JSON)
        assert redrive.status == 202
        *_, again = sink.wait("/gone/kept", 3)
        assert again.headers["webhook-id"] == first.headers["webhook-id"]
        assert again.verifies(secrets[0])
        wait_until(lambda: letters() == [], ARRIVE_S_MAX, "the redrive")
        for path in ("/subscriptions", "/subscriptions/kept", "/", "/metrics", "/openapi.json"):
            assert not any(
                secret.encode() in server.request("GET", path).body for secret in secrets
            )
        assert server.stop() == 0

    with RunningServer(folder, flags=["--log-level", "debug"]) as server:
        with contextlib.closing(server.connection()) as connection:
            publish(connection, "kept", 3)
        *_, after = sink.wait("/gone/kept", 4)
        assert after.verifies(secrets[0])
        assert after.verifies(secrets[2])
        server.request("DELETE", "/subscriptions/kept")
        assert _places_of(tmp_path, secrets) == []


def _places_of(folder: Path, secrets: list[str]) -> list[str]:
    """Files below *folder* that hold a secret, in any form in which it is written."""
    found = []
    for secret in secrets:
        text = secret.removeprefix("whsec_").encode()
        raw = base64.b64decode(text)
        forms = (text, raw, raw.hex().encode())
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            content = path.read_bytes()
            found += [f"{form!r} in {path}" for form in forms if form in content]
    return found


def test_a_rotation_under_load_leaves_nothing_unverifiable(plain_server, sink):
    """A receiver with any of the keys verifies all; once each partition has the new one, it does.

    Each publisher has a partition, so its newest delivery tells with which key that one signs.
    """
    server = plain_server
    secrets = [secret_of(put(server, sink, "rotated", "/rotated"))]
    ending = threading.Event()
    counts = [0] * PUBLISHERS

    def load(which: int) -> None:
        with contextlib.closing(server.connection()) as connection:
            while not ending.is_set():
                publish(connection, "rotated", which + PUBLISHERS * counts[which], str(which))
                counts[which] += 1
                time.sleep(PUBLISHERS / RATE / 2)

    def signed_anew() -> bool:
        newest: dict[int, Got] = {}
        for request in reversed(sink.requests[-500:]):
            newest.setdefault(number_of(request) % PUBLISHERS, request)
        verified = [request.verifies(secrets[-1]) for request in newest.values()]
        return len(verified) == PUBLISHERS and all(verified)

    publishers = [threading.Thread(target=load, args=(which,)) for which in range(PUBLISHERS)]
    for each in publishers:
        each.start()
    try:
        for _ in range(2):
            time.sleep(STEP_S)
            secrets.append(rotate(server, "rotated"))
            wait_until(signed_anew, ARRIVE_S_MAX, "deliveries with the new key")
        later_than = list(counts)
        time.sleep(STEP_S)
    finally:
        ending.set()
        for each in publishers:
            each.join()
    got = sink.wait("/rotated", sum(counts))
    assert len(got) > 500
    assert sum(not request.verifies(secrets[0]) for request in got) == 0
    late = []
    for request in got:
        round_, which = divmod(number_of(request), PUBLISHERS)
        if round_ > later_than[which]:
            late.append(request)
    assert late
    assert sum(not request.verifies(secrets[2]) for request in late) == 0
    assert len({request.headers["webhook-id"] for request in got}) == sum(counts)
