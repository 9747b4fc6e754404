"""The whole server with secrets: they reach whom they were given for, and stand nowhere else.

Credentials, headers and the query of a sink hold canaries. At the end everything that the server
has said or written, and all that the wrong parties got, is searched for them, and for what Basic
authentication makes of them (RELIABILITY H14).
"""

import base64
import datetime as dt
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import psutil
import pytest

from kit.running_server import (
    Answer,
    RunningServer,
    clean_environ,
    wait_until,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CANARY = "c4n4ry"
KEY = base64.b64encode(b"c4n4ry" * 5 + b"!!").decode()
OTHER_KEY = base64.b64encode(b"o" * 32).decode()
FAR = "2099-01-01T00:00:00Z"
QUICK = {"retry": 1, "backoffDelay": "PT0.05S", "backoffMax": "PT0.1S"}
STEADFAST = {"retry": 1000, "backoffDelay": "PT0.1S", "backoffMax": "PT0.5S"}
ARRIVE_S_MAX = 60.0
EXPIRES_S = 5.0  # longer than the change of a subscription takes, also under load
JSON = {"content-type": "application/json"}


class Peer:
    """A server on loopback: a sink, an endpoint for tokens, or one that tells on us.

    ``/sink/...`` takes events; ``/echo/...`` refuses them with all that it was sent, and so does
    ``/moved...``, with its query; ``/token`` gives a new access token and a new refresh token;
    ``/broken`` fails, repeating the form.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                fields = {name.lower(): value for name, value in self.headers.items()}
                peer.requests.append((self.path, fields, body))
                status, answer = peer.answer(self.path, fields, body)
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, path: str, fields: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body."""
        if path.startswith("/echo"):
            return 401, json.dumps(fields).encode() + fields.get("authorization", "").encode()
        if path.startswith("/moved"):
            return 403, f"no {path}: {fields}".encode()
        if path == "/broken":
            return 500, b'{"error": "server_error", "error_description": "' + body + b'"}'
        if path != "/token":
            return 200, b""
        count = len(self.of("/token"))
        assert parse_qs(body.decode())["refresh_token"] == [f"{CANARY}-refresh-{count}"]
        answer = {
            "access_token": f"{CANARY}-fresh-{count}",
            "refresh_token": f"{CANARY}-refresh-{count + 1}",
            "token_type": "bearer",
            "expires_in": 3600,
        }
        return 200, json.dumps(answer).encode()

    def of(self, path: str) -> list[tuple[dict[str, str], bytes]]:
        """What came to *path*."""
        return [(fields, body) for where, fields, body in tuple(self.requests) if where == path]

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class World:
    """A server, its peer, another party, and everything that the server answered."""

    def __init__(self, folder: Path, peer: Peer, other: Peer) -> None:
        self.folder = folder
        self.peer = peer
        self.other = other
        self.heard: list[tuple[str, bytes]] = []
        self.server = self.with_key(KEY)

    def with_key(self, key: str) -> RunningServer:
        """A server on the same data, with this key."""
        self.server = RunningServer(
            self.folder / "data",
            flags=["--log-level", "debug", "--error-data", "all"],
            environ=clean_environ()
            | {
                "DISTRIBUTARY_CREDENTIAL_KEY": key,
                "DISTRIBUTARY_SPARK_CONF": f"spark.hadoop.fs.s3a.secret.key={CANARY}-spark",
            },
        )
        return self.server

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """One request of the API; what it answers is kept."""
        text = None if body is None else json.dumps(body).encode()
        answer = self.server.request(method, path, text, JSON if text else {})
        self.heard.append((path, answer.body + repr(answer.headers).encode()))
        return answer

    def put(self, name: str, sink: str, credential: Any = None, **members: Any) -> Answer:
        """Create or replace the subscription *name* for events of the source ``/name``."""
        sink = sink if "://" in sink else self.peer.url + sink
        body = {"sink": sink, "protocol": "HTTP", "source": f"/{name}", **members}
        if credential is not None:
            body["sinkCredential"] = credential
        return self.ask("PUT", f"/subscriptions/{name}", body)

    def publish(self, *names: str) -> None:
        """One event for each of these subscriptions."""
        for name in names:
            attributes = {"specversion": "1.0", "id": "1", "source": f"/{name}", "type": "t"}
            headers = {f"ce-{key}": value for key, value in attributes.items()}
            assert self.server.request("POST", "/events", b"{}", headers | JSON).status == 202

    def arrived(self, path: str, count: int = 1) -> list[tuple[dict[str, str], bytes]]:
        """Wait for so many requests at *path*."""
        what = f"{count} requests at {path}"
        wait_until(lambda: len(self.peer.of(path)) >= count, ARRIVE_S_MAX, what)
        return self.peer.of(path)

    def look_everywhere(self) -> list[str]:
        """Where a canary stands: answers, command lines, files."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        said = [
            ("requests to another party", repr(self.other.requests).encode()),
            *self.heard,
            *((f"arguments of {each.pid}", _arguments(each)) for each in self.server.tree()),
            *((str(path.relative_to(self.folder)), path.read_bytes()) for path in files),
        ]
        found = [(where, what) for where, text in said for what in FORBIDDEN if _in(what, text)]
        # A query is part of the subscription, which shows it and stands in its store.
        return [
            f"{what} in {where}"
            for where, what in found
            if what != QUERY or not where.startswith(("/subscriptions", "data/state.db"))
        ]


def _arguments(process: psutil.Process) -> bytes:
    try:
        return repr(process.cmdline()).encode()
    except psutil.Error:  # it ended just now
        return b""


def basic(identifier: str, secret: str) -> str:
    """What Basic authentication sends."""
    return base64.b64encode(f"{identifier}:{secret}".encode()).decode()


SECRET = f"{CANARY}-secret"
QUERY = "qu3ry-secret"
KEYS = {"X-Api-Key": f"{CANARY}-header", "Cookie": f"a={CANARY}-cookie", "X-Plain": "plain"}
FORBIDDEN = (
    CANARY,
    basic("me", SECRET),
    base64.b64encode(CANARY.encode()).decode()[:8],
    KEY,
    QUERY,
)


def _in(what: str, text: bytes) -> bool:
    return what.encode() in text


PLAIN = {"credentialType": "PLAIN", "identifier": "me", "secret": SECRET}
ACCESS = {
    "credentialtype": "ACCESSTOKEN",
    "accesstoken": f"{CANARY}-access",
    "accesstokentype": "Bearer",
    "accesstokenexpiresutc": FAR,
}


def refresh(endpoint: str, number: int = 1) -> dict[str, str]:
    """A credential that has expired and can be renewed at *endpoint*."""
    return {
        "credentialType": "REFRESHTOKEN",
        "accessToken": f"{CANARY}-stale",
        "accessTokenType": "Bearer",
        "accessTokenExpiresUtc": "2020-01-01T00:00:00Z",
        "refreshToken": f"{CANARY}-refresh-{number}",
        "refreshTokenEndpoint": endpoint,
    }


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server with a key of its own, a peer, and a party that gets no secret."""
    peer, other = Peer(), Peer()
    made = World(tmp_path, peer, other)
    try:
        with made.server:
            yield made
    finally:
        made.server.kill_all()
        peer.close()
        other.close()


def deliver_all_kinds(world: World) -> None:
    """Each kind of credential, successful and not; every way in which one could be told."""
    dead = {"delivery": QUICK | {"deadLetterSink": world.peer.url + "/sink/dead"}}
    quick = {"delivery": QUICK}
    assert world.put("plain", "/sink/plain", PLAIN).status == 201
    assert world.put("access", "/sink/access", ACCESS).status == 201
    assert world.put("renewed", "/sink/renewed", refresh(world.peer.url + "/token")).status == 201
    world.put("broken", "/sink/broken", refresh(world.peer.url + "/broken"), protocolsettings=quick)
    world.put("told", "/echo/told", PLAIN, protocolsettings=dead)
    world.put("kept", "/echo/kept", ACCESS, protocolsettings=quick)
    stale = ACCESS | {"accesstokenexpiresutc": "2020-01-01T00:00:00Z"}
    assert world.put("expired", "/sink/expired", stale, protocolsettings=dead).status == 400
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=EXPIRES_S)
    stale = ACCESS | {"accesstokenexpiresutc": soon.isoformat()}
    assert world.put("expired", "/sink/expired", stale, protocolsettings=dead).status == 201
    wait_until(lambda: dt.datetime.now(dt.UTC) > soon, ARRIVE_S_MAX, "the token has expired")
    world.publish("plain", "access", "renewed", "broken", "told", "kept", "expired")
    ((fields, _),) = world.arrived("/sink/plain")
    assert fields["authorization"] == "Basic " + basic("me", SECRET)
    ((fields, _),) = world.arrived("/sink/access")
    assert fields["authorization"] == f"Bearer {CANARY}-access"
    ((fields, _),) = world.arrived("/sink/renewed")
    assert fields["authorization"] == f"Bearer {CANARY}-fresh-1"
    dead_letters = world.arrived("/sink/dead", 2)
    assert {dead_letter["ce-id"] for dead_letter, _ in dead_letters} == {"1"}
    assert not any("authorization" in dead_letter for dead_letter, _ in dead_letters)
    assert CANARY not in repr(dead_letters)
    assert basic("me", SECRET) not in repr(
        [
            base64.b64decode(dead_letter.get("ce-knativeerrordata", ""))
            for dead_letter, _ in dead_letters
        ]
    )
    world.arrived("/echo/kept")
    wait_until(lambda: bool(world.peer.of("/broken")), ARRIVE_S_MAX, "the broken endpoint")
    assert world.peer.of("/sink/expired") == world.peer.of("/sink/broken") == []


def deliver_with_settings(world: World) -> None:
    """Keys in headers and in a query; they fail, their letters and their heirs go elsewhere."""
    dead = world.other.url + "/sink/dead"
    keyed = {"headers": KEYS, "delivery": QUICK | {"deadLetterSink": dead}}
    assert world.put("keyed", "/sink/keyed", protocolsettings=keyed).status == 201
    where = f"/moved?access_token={QUERY}"
    assert world.put("query", where, protocolsettings=keyed).status == 201
    kept = {"headers": KEYS, "delivery": QUICK}
    assert world.put("stored", where, protocolsettings=kept).status == 201
    world.publish("keyed", "query", "stored", "stored", "stored")
    ((fields, _),) = world.arrived("/sink/keyed")
    assert {name: fields[name.lower()] for name in KEYS} == KEYS
    wait_until(lambda: bool(world.other.of("/sink/dead")), ARRIVE_S_MAX, "the dead letter")
    ((dead_letter, _),) = world.other.of("/sink/dead")
    assert dead_letter["ce-knativeerrordest"] == world.peer.url + "/moved"
    told = base64.b64decode(dead_letter["ce-knativeerrordata"])
    assert told.startswith(b"no /moved?***")
    assert CANARY.encode() not in told
    assert QUERY.encode() not in told
    failing = world.folder / "data" / "run"
    wait_until(
        lambda: any(b"/moved" in path.read_bytes() for path in failing.glob("failing-*.json")),
        ARRIVE_S_MAX,
        "the failing route is told",
    )


def move_secrets(world: World) -> None:
    """Whoever may change a subscription does not get its secrets."""
    there = world.other.url + "/sink/moved"
    kept = {"credentialType": "PLAIN", "identifier": "me"}
    assert world.put("plain", there, kept).status == 400
    elsewhere = {
        "credentialType": "REFRESHTOKEN",
        "refreshTokenEndpoint": world.other.url + "/token",
        "accessTokenExpiresUtc": "2020-01-01T00:00:00Z",
    }
    assert world.put("renewed", "/sink/renewed", elsewhere).status == 400
    read_back = world.ask("GET", "/subscriptions/keyed").json()
    headers = read_back["protocolsettings"]["headers"]
    assert headers == KEYS | {"X-Api-Key": "***", "Cookie": "***"}
    assert world.ask("PUT", "/subscriptions/keyed", read_back | {"sink": there}).status == 400
    assert world.ask("PUT", "/subscriptions/keyed", read_back).status == 200
    world.publish("keyed")
    (*_, (fields, _)) = world.arrived("/sink/keyed", 2)
    assert {name: fields[name.lower()] for name in KEYS} == KEYS
    assert world.other.of("/sink/moved") == world.other.of("/token") == []


def ask_for_everything(world: World) -> None:
    """Answers of all kinds, and faults with secrets in every wrong place."""
    assert world.put("plain", "/sink/plain", {"credentialType": "PLAIN"}).status == 400
    for credential in (
        CANARY,
        [CANARY],
        {**PLAIN, "accessToken": CANARY},
        {**PLAIN, "identifier": f"{CANARY}:"},
        {**PLAIN, "secret": f"{CANARY}\n"},
        {**ACCESS, "accesstokenexpiresutc": CANARY},
        {**ACCESS, "accesstokentype": f"{CANARY} {CANARY}"},
        refresh(f"https://{CANARY}@example.com/"),
        {"credentialType": CANARY},
    ):
        assert world.put("faulty", "/sink/x", credential).status == 400
    kept = {"credentialType": "PLAIN", "identifier": "me"}
    assert world.put("plain", "/sink/plain", kept).status == 200
    found = world.ask("GET", "/subscriptions/plain").json()
    assert found["sinkCredential"] == kept
    shown = world.ask("GET", "/subscriptions/renewed").json()["sinkCredential"]
    assert set(shown) == {
        "credentialType",
        "accessTokenType",
        "accessTokenExpiresUtc",
        "refreshTokenEndpoint",
    }
    for path in ("/subscriptions", "/", "/metrics", "/openapi.json", "/readyz", "/docs"):
        assert world.ask("GET", path).status == 200
    wait_until(
        lambda: world.server.metric("credential_refreshes_total") >= 2,
        ARRIVE_S_MAX,
        "the refreshes are counted",
    )


def test_secrets_reach_their_sinks_and_stand_nowhere_else(world: World) -> None:
    """Deliveries, renewals, dead letters, faults, a wrong key: 0 canaries in all that is left."""
    deliver_all_kinds(world)
    ask_for_everything(world)
    deliver_with_settings(world)
    move_secrets(world)
    world.publish("plain")
    assert [fields["authorization"] for fields, _ in world.arrived("/sink/plain", 2)] == [
        "Basic " + basic("me", SECRET)
    ] * 2
    assert world.look_everywhere() == []
    world.put("plain", "/sink/plain", PLAIN, protocolsettings={"delivery": STEADFAST})
    world.put("open", "/sink/open")
    world.server.stop()

    with world.with_key(OTHER_KEY) as server:
        world.publish("plain", "open")
        world.arrived("/sink/open")
        wait_until(
            lambda: "subscription-unusable" in server.log.read_text(errors="replace"),
            ARRIVE_S_MAX,
            "a line about the key",
        )
        time.sleep(1.0)  # attempts are made, and none of them leaves
        assert len(world.peer.of("/sink/plain")) == 2
        assert "put that key back" in server.log.read_text(errors="replace")
        assert world.ask("GET", "/subscriptions/plain").status == 200
        assert world.put("plain", "/sink/plain", PLAIN | {"identifier": "you"}).status == 200
        (*_, (fields, _)) = world.arrived("/sink/plain", 3)
        assert fields["authorization"] == "Basic " + basic("you", SECRET)
        assert world.look_everywhere() == []
        server.stop()

    with world.with_key(f"{KEY},{OTHER_KEY}"):
        world.publish("renewed", "plain")
        world.arrived("/sink/plain", 4)
        (*_, (fields, _)) = world.arrived("/sink/renewed", 2)
        assert fields["authorization"] == f"Bearer {CANARY}-fresh-1"
        for name in ("plain", "renewed"):
            assert world.ask("DELETE", f"/subscriptions/{name}").status == 200
        assert world.look_everywhere() == []
