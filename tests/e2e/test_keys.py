"""API keys of a server that asks for them: the first one, revocation, rotation, and no trace."""

import asyncio
import contextlib
import http.client
import itertools
import json
import re
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

import psutil
import pytest

from distributary.cli._http import Client, Token, parse_address
from distributary.cli._tls import ClientTls, choose
from kit.certificates import Authority, write_pair
from kit.running_server import RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

REVOKED_S_MAX = 5.0
"""A revoked key is refused everywhere after so long."""
ANSWERED_S_MAX = 60.0
"""Patience with an answer for which nothing is promised."""
RATE_PER_S = 500
EVENT = {
    "ce-specversion": "1.0",
    "ce-source": "/keys",
    "ce-type": "com.example.key",
    "content-type": "application/json",
}


class Ran(NamedTuple):
    """A command that ended.

    Attributes:
        code: Exit code.
        out: Standard output.
        err: Standard error.
    """

    code: int
    out: str
    err: str


class Guarded:
    """A server that asks who its clients are, and commands for it."""

    def __init__(self, server: RunningServer, authority: Path) -> None:
        self.server = server
        self.tls = ClientTls(ca=authority)
        self.keys: list[str] = []

    def run(self, *words: str, key: str = "") -> Ran:
        """Run a command with *key* in its environment."""
        environ = clean_environ() | {
            "DISTRIBUTARY_URL": self.server.url,
            "DISTRIBUTARY_CA_FILE": str(self.tls.ca),
        }
        if key:
            environ["DISTRIBUTARY_TOKEN"] = key
        done = subprocess.run(
            [sys.executable, "-m", "distributary.cli", *words],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def as_operator(self, *words: str) -> Ran:
        """Run a command as who runs the server."""
        done = self.run(*words, "--data-dir", str(self.server.data_dir))
        assert done.code == 0, done.err
        return done

    def make(self, name: str, may: str, namespace: str = "default", *more: str) -> str:
        """A new key."""
        words = ("--name", name, "--may", may, "--namespace", namespace, *more)
        key = self.as_operator("key", "create", *words).out.strip()
        self.keys.append(key)
        return key

    def status(self, method: str, path: str, key: str = "") -> int:
        """Status of a request with *key*."""
        fields = dict(EVENT, **{"ce-id": str(time.monotonic_ns())}) if method == "POST" else {}
        if key:
            fields["authorization"] = f"Bearer {key}"
        return self.server.request(method, path, b"{}" if fields else None, fields).status


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with TLS that nobody has a key of yet."""
    folder = tmp_path_factory.mktemp("keys")
    authority = Authority()
    ca = authority.write(folder / "ca.pem")
    pair = write_pair(folder, "server", authority.server("localhost", "127.0.0.1"))
    flags = ["--auth", "required", "--log-format", "json", "--receivers", "2"]
    flags += ["--tls-cert-file", str(pair[0]), "--tls-key-file", str(pair[1])]
    tls = ssl.create_default_context(cafile=ca)
    with RunningServer(folder / "data", flags=flags, tls=tls) as server:
        yield Guarded(server, ca)


def test_a_server_that_nobody_can_use_says_how_to_begin(guarded: Guarded) -> None:
    """The command of its warning makes the first key, which works at once."""
    lines = [json.loads(line) for line in guarded.server.log.read_text().splitlines() if line]
    (command,) = [line["make_one"] for line in lines if line["event"] == "nobody-has-access"]
    assert guarded.status("GET", "/subscriptions") == 401
    words = command.replace("'*'", "*").split()[1:]
    done = guarded.run(*words)
    assert done.code == 0, done.err
    key = done.out.strip()
    guarded.keys.append(key)
    assert guarded.status("GET", "/subscriptions", key) == 200
    assert guarded.run("can", "admin", "keys", "--namespace", "*", key=key).out == "yes\n"


def test_a_key_allows_what_it_names_and_nothing_else(guarded: Guarded) -> None:
    """Publishing to one Broker, over the wire."""
    key = guarded.make("till", "publish", "default", "--names", "brokers/default")
    assert [guarded.status("POST", "/events", each) for each in (key, "", key[:-1] + "!")] == [
        202,
        401,
        401,
    ]
    for method, path in (
        ("GET", "/subscriptions"),
        ("GET", "/metrics"),
        ("GET", "/keys"),
        ("POST", "/namespaces/shop/events"),
        ("POST", "/channels/default/orders"),
    ):
        assert guarded.status(method, path, key) == 403, path
    done = guarded.run("whoami", key=key)
    assert done.out == "key:till (key)\n  publish to brokers/default in default\n"
    done = guarded.run("can", "publish", "brokers/shop/default", key=key)
    assert (done.code, done.out) == (
        1,
        "no: key:till may not publish to brokers/default in namespace shop\n",
    )
    assert guarded.run("send", "--type", "com.example.key", key=key).code == 0
    assert guarded.run("send", "--type", "com.example.key").code == 1


def test_administrators_of_a_namespace_keep_to_it(guarded: Guarded) -> None:
    """Over the port, with a key of their own."""
    boss = guarded.make("boss", "admin", "shop")
    words = ("key", "create", "--name", "shop-till", "--may", "publish", "--namespace")
    done = guarded.run(*words, "default", key=boss)
    assert (done.code, done.out) == (1, "")
    assert "403" in done.err
    done = guarded.run(*words, "shop", key=boss)
    assert done.code == 0, done.err
    guarded.keys.append(done.out.strip())
    listed = guarded.run("key", "list", "--json", key=boss).out.splitlines()
    assert {json.loads(line)["name"] for line in listed} == {"boss", "shop-till"}
    assert guarded.run("key", "revoke", "till", key=boss).code == 1
    assert guarded.run("key", "revoke", "shop-till", key=boss).code == 0


class Stream:
    """One connection that publishes with a key, one event after another, until told to stop."""

    def __init__(self, guarded: Guarded, key: str) -> None:
        self._guarded = guarded
        self._key = key
        self._stop = threading.Event()
        self.statuses: list[int] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        choose(self._guarded.tls)
        address = parse_address(self._guarded.server.url)._replace(token=Token(self._key))
        client = Client(address)
        number = 0
        while not self._stop.is_set():
            number += 1
            fields = (*EVENT.items(), ("ce-id", f"{id(self)}-{number}"))
            self.statuses.append((await client.request("POST", "/events", fields, b"{}")).status)
        client.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join()


def test_a_revoked_key_is_refused_under_a_stream_of_requests(guarded: Guarded) -> None:
    """On every connection, of every receiver, within five seconds; other keys go on."""
    key, other = guarded.make("leaked", "publish"), guarded.make("other", "publish")
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(Stream(guarded, key)) for _ in range(6)]
        going_on = stack.enter_context(Stream(guarded, other))
        for stream in streams:
            wait_until(lambda one=stream: len(one.statuses) > 50, 30.0, "events are accepted")
        assert {status for stream in streams for status in stream.statuses} == {202}
        guarded.as_operator("key", "revoke", "leaked")
        for stream in streams:
            wait_until(lambda one=stream: one.statuses[-1] == 401, REVOKED_S_MAX, "it is refused")
        count = len(going_on.statuses)
        wait_until(lambda: len(going_on.statuses) > count + 50, 30.0, "the other key goes on")
    for stream in streams:
        refused = stream.statuses.index(401)
        assert set(stream.statuses[refused:]) == {401}
    assert set(going_on.statuses) == {202}
    assert guarded.status("POST", "/events", key) == 401


def test_kubectl_reads_a_key_from_its_file(guarded: Guarded, tmp_path: Path) -> None:
    """What it may do is what the key allows; another key in the file takes its place."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("NOT RUN: there is no kubectl")
    config, path = tmp_path / "config", tmp_path / "key"
    path.write_text(guarded.make("reader", "read", "shop"))
    words = ("--namespace", "shop", "--token-from", f"file:{path}")
    config.write_text(guarded.run("kubeconfig", *words).out)

    def can(verb: str) -> str:
        command = [kubectl, "--kubeconfig", str(config), "auth", "can-i", verb, "triggers"]
        environ = clean_environ() | {"HOME": str(tmp_path)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr

    assert (can("list"), can("create")) == (
        "yes",
        "no - key:reader may not write in namespace shop",
    )
    path.write_text(guarded.make("writer", "write", "shop"))
    assert (can("list"), can("create")) == ("yes", "yes")


def test_an_open_watch_ends_with_its_key(guarded: Guarded) -> None:
    """In order: the client asks again, and is refused."""
    key = guarded.make("watcher", "read")
    connection = http.client.HTTPSConnection(
        "127.0.0.1", guarded.server.port, timeout=ANSWERED_S_MAX, context=guarded.server.tls
    )
    path = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
    connection.request("GET", f"{path}?watch=1", headers={"authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    assert answer.status == 200
    guarded.as_operator("key", "revoke", "watcher")
    answer.read()  # to the last chunk; a watch that goes on would time out
    connection.close()
    assert guarded.status("GET", path, key) == 401


async def _publish(
    guarded: Guarded, key_now: Callable[[], str], statuses: list[int], over: threading.Event
) -> None:
    """Publish at ``RATE_PER_S`` over four connections until it is *over*."""
    choose(guarded.tls)
    connections = 4
    began_s = time.monotonic()

    async def one(index: int) -> None:
        clients: dict[str, Client] = {}
        for number in itertools.takewhile(lambda _: not over.is_set(), itertools.count()):
            due_s = began_s + (number * connections + index) / RATE_PER_S
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            key = key_now()
            if key not in clients:
                clients[key] = Client(parse_address(guarded.server.url)._replace(token=Token(key)))
            fields = (*EVENT.items(), ("ce-id", f"rotation-{index}-{number}"))
            answer = await clients[key].request("POST", "/events", fields, b"{}")
            statuses.append(answer.status)
        for client in clients.values():
            client.close()

    await asyncio.gather(*(one(index) for index in range(connections)))


def test_a_key_is_rotated_without_a_refused_event(guarded: Guarded) -> None:
    """Both are valid for a while: the new one from its answer on, the old one until the end."""
    keys = [guarded.make("press-1", "publish")]
    statuses: list[int] = []
    over = threading.Event()
    publishing = threading.Thread(
        target=lambda: asyncio.run(_publish(guarded, lambda: keys[-1], statuses, over))
    )

    def more(what: str) -> None:
        used = len(statuses)
        wait_until(lambda: len(statuses) > used + RATE_PER_S, 60.0, what)

    publishing.start()
    try:
        more("the old key is used")
        keys.append(guarded.make("press-2", "publish"))
        more("the new key is used")
        guarded.as_operator("key", "revoke", "press-1")
        more("the new key is used alone")
    finally:
        over.set()
        publishing.join()
    assert set(statuses) == {202}
    assert guarded.status("POST", "/events", keys[0]) == 401


def test_the_last_use_of_a_key_survives_a_restart(guarded: Guarded) -> None:
    """Receivers note it, and it is stored at the latest when the server stops."""
    key = guarded.make("used", "publish")
    guarded.make("unused", "publish")
    assert guarded.status("POST", "/events", key) == 202
    server = guarded.server
    assert server.stop() == 0
    server.start()
    server.wait_ready()
    listed = guarded.as_operator("key", "list", "--json").out.splitlines()
    found = {row["name"]: row.get("lastused") for row in map(json.loads, listed)}
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:00\.000\+00:00", found["used"])
    assert found["unused"] is None
    assert guarded.status("POST", "/events", key) == 202


def test_no_key_is_left_anywhere(guarded: Guarded) -> None:
    """Not in the data directory, the log, metrics, answers, command lines or environments."""
    key = guarded.make("canary", "admin", "*")
    assert guarded.status("POST", "/events", key) == 202
    fields = {"authorization": f"Bearer {key}"}
    answers = [
        guarded.server.request("GET", path, None, fields).body.decode()
        for path in ("/keys", "/metrics", "/subscriptions", "/whoami", "/nowhere", "/")
    ]
    lines = [answer.partition("\n")[0] for answer in answers]
    assert all(lines)
    folder = guarded.server.data_dir
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "audit.jsonl" for path in files)
    texts = [_content(path) for path in files]
    texts += [guarded.server.log.read_bytes(), *(answer.encode() for answer in answers)]
    for process in guarded.server.tree():
        with contextlib.suppress(psutil.Error):
            texts += [" ".join(process.cmdline()).encode(), repr(process.environ()).encode()]
    secrets = [each[20:].encode() for each in guarded.keys]  # what follows the id
    assert len(secrets) >= 5
    assert [secret for secret in secrets if any(secret in text for text in texts)] == []


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it was removed meanwhile
        return b""
