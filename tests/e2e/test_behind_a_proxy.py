"""The configurations of the guide about proxies, run by the proxies themselves."""

import contextlib
import http.client
import json
import re
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from kit.certificates import Authority, write_pair
from kit.ports import free_port
from kit.running_server import RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "how-to" / "behind-a-proxy.md"
SEEN_S_MAX = 60.0
"""Longest wait for something that takes a second."""
WATCH_S = 600
"""A watch ends by itself so late: a proxy that waits for it hangs."""
MIB = 1024 * 1024
EVENT_FIELDS = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/s",
    "ce-type": "t",
    "content-type": "application/octet-stream",
}
SPOOFED = {
    "x-forwarded-for": "203.0.113.66",
    "x-forwarded-proto": "http",
    "forwarded": "for=1.1.1.1",
}


class Proxy(NamedTuple):
    """A proxy in front of a server.

    Attributes:
        server: The server.
        port: Of the proxy, with TLS.
        tls: Trusts it.
    """

    server: RunningServer
    port: int
    tls: ssl.SSLContext

    @contextlib.contextmanager
    def connection(self) -> Iterator[http.client.HTTPSConnection]:
        """A connection to the proxy."""
        made = http.client.HTTPSConnection(
            "localhost", self.port, context=self.tls, timeout=SEEN_S_MAX
        )
        with contextlib.closing(made):
            yield made

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        fields: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, header and body of the answer to one request."""
        with self.connection() as connection:
            connection.request(method, path, body, fields or {})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()


def configuration(language: str, folder: Path, port: int) -> str:
    """The block of the guide in *language*, for files and a port of the test."""
    [block] = re.findall(rf"```{language} run-proxy\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    text = block.replace("/run/distributary/http.sock", str(folder / "http.sock"))
    text = text.replace("/etc/ssl/events", str(folder / "events"))
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}")
    text = text.replace(
        "address: 0.0.0.0, port_value: 443", f"address: 127.0.0.1, port_value: {port}"
    )
    tls = f"localhost:{port} {{\n    tls {folder}/events.crt {folder}/events.key"
    text = text.replace("events.example.com {", tls)
    assert str(port) in text
    return text.replace("events.example.com", "localhost")


def nginx(folder: Path, port: int) -> list[str]:
    """Arguments that run nginx."""
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nuser root;\n"
        "events {}\nhttp {\naccess_log off;\n"
        f"{temporary}{configuration('nginx', folder, port)}}}\n"
    )
    return ["-p", str(folder), "-c", str(folder / "nginx.conf")]


def caddy(folder: Path, port: int) -> list[str]:
    """Arguments that run Caddy."""
    options = "{\n    admin off\n    auto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(options + configuration("caddyfile", folder, port))
    return ["run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


def envoy(folder: Path, port: int) -> list[str]:
    """Arguments that run Envoy."""
    (folder / "envoy.yaml").write_text(configuration("yaml", folder, port))
    return ["-c", str(folder / "envoy.yaml"), "--use-dynamic-base-id"]


ARGUMENTS = {"nginx": nginx, "caddy": caddy, "envoy": envoy}


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    """The proxies of this machine, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        import proxies  # noqa: PLC0415 - found by the line above

        found: dict[str, Path] = proxies.found()
    if not found:
        pytest.skip("NOT RUN: no proxy is here: `scripts/proxies.py fetch` fetches them")
    return found


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, programs: dict[str, Path]
) -> Iterator[tuple[RunningServer, Path]]:
    """A server behind a Unix socket, and the folder of the socket."""
    assert programs, "without a proxy no server is started"
    folder = tmp_path_factory.mktemp("proxied")
    flags = ["--listen-unix", str(folder / "http.sock"), "--trusted-proxies", "unix"]
    flags += ["--partitions", "1", "--private-sinks", "allow"]
    flags += ["--public-url", "https://localhost"]
    with RunningServer(folder / "data", flags=flags) as running:
        yield running, folder


@pytest.fixture(scope="module", params=ARGUMENTS)
def proxy(
    request: pytest.FixtureRequest,
    programs: dict[str, Path],
    server: tuple[RunningServer, Path],
) -> Iterator[Proxy]:
    """Each proxy that is here, in front of the server."""
    if request.param not in programs:
        pytest.skip(f"NOT RUN: {request.param}: `scripts/proxies.py fetch` could not fetch it")
    running, folder = server
    authority, port = Authority(), free_port()
    write_pair(folder, "events", authority.server("localhost", "127.0.0.1"))
    tls = ssl.create_default_context(cadata=authority.pem.decode())
    command = [str(programs[request.param]), *ARGUMENTS[request.param](folder, port)]
    log = (folder / f"{request.param}.log").open("wb")
    environ = clean_environ() | {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
    found = Proxy(running, port, tls)

    def answers() -> bool:
        assert process.poll() is None, (folder / f"{request.param}.log").read_text()
        with contextlib.suppress(OSError):
            return found.ask("GET", "/readyz")[0] == 200
        return False

    try:
        wait_until(answers, SEEN_S_MAX, f"{request.param} answers")
        yield found
    finally:
        process.terminate()
        try:
            # The watch of a client that has gone must not keep it.
            process.wait(SEEN_S_MAX)
        finally:
            process.kill()
            process.wait()
            log.close()


def test_events_pass_on_connections_that_stay(proxy: Proxy) -> None:
    """More than a connection has idle time for; each is answered by the server itself."""
    before = proxy.server.metric("accepted_events_total")
    with proxy.connection() as connection:
        for _ in range(200):
            connection.request("POST", "/events", b"{}", {**EVENT_FIELDS, **SPOOFED})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 202
    seen = proxy.server.metric
    wait_until(lambda: seen("accepted_events_total") >= before + 200, SEEN_S_MAX, "they count")


def test_the_server_s_own_limits_answer(proxy: Proxy) -> None:
    """A body of the largest size passes; a larger one gets problem details from the server."""
    assert proxy.ask("POST", "/events", b"x" * MIB, EVENT_FIELDS)[0] == 202
    status, fields, body = proxy.ask("POST", "/events", b"x" * (MIB + 1), EVENT_FIELDS)
    assert status == 413
    assert fields["content-type"] == "application/problem+json"
    assert json.loads(body)["code"] == "content-too-large"


def addresses_of_this_machine() -> set[str]:
    """Every address of its interfaces."""
    return {found.address for each in psutil.net_if_addrs().values() for found in each}


def test_the_client_is_who_asked_the_proxy(proxy: Proxy) -> None:
    """Not the proxy, and not whom it claims to be: the audit log says so.

    For a client on loopback Envoy writes the address of the machine.
    """
    name = f"proxied-{proxy.port}"
    body = json.dumps({"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}).encode()
    fields = {"content-type": "application/json", **SPOOFED}
    assert proxy.ask("PUT", f"/subscriptions/{name}", body, fields)[0] == 201
    [line] = [
        found
        for found in map(json.loads, proxy.server.paths.audit.read_text().splitlines())
        if name in found["object"]
    ]
    assert line["origin"] in {"127.0.0.1", *addresses_of_this_machine()}
    proxy.ask("DELETE", f"/subscriptions/{name}")


def test_a_page_of_the_proxy_s_host_may_change_something(proxy: Proxy) -> None:
    """A page of another one may not."""
    body = json.dumps({"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}).encode()
    for origin, status in ((f"https://localhost:{proxy.port}", 201), ("https://evil.example", 403)):
        fields = {"content-type": "application/json", "origin": origin}
        assert proxy.ask("PUT", f"/subscriptions/page-{proxy.port}", body, fields)[0] == status
    proxy.ask("DELETE", f"/subscriptions/page-{proxy.port}")


def test_a_watch_is_passed_on_as_it_comes(proxy: Proxy) -> None:
    """Each change within a moment, although the response has no end."""
    path = "/apis/eventing.knative.dev/v1/namespaces/default/brokers"
    name = f"watched-{proxy.port}"
    with proxy.connection() as connection:
        connection.request("GET", f"{path}?watch=1&timeoutSeconds={WATCH_S}")
        answer = connection.getresponse()
        assert answer.status == 200
        made = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker"}
        body = json.dumps({**made, "metadata": {"name": name}}).encode()
        began_s = time.monotonic()
        assert proxy.ask("POST", path, body, {"content-type": "application/json"})[0] == 201
        while name not in answer.readline().decode():
            assert time.monotonic() - began_s < 40, "the change came with the end of the watch"
    proxy.ask("DELETE", f"{path}/{name}")


def test_browsers_are_kept_to_tls(proxy: Proxy) -> None:
    """The proxy says so, since the server does not know of its TLS; the rest is the server's."""
    _, fields, _ = proxy.ask("GET", "/docs")
    assert fields["strict-transport-security"] == "max-age=31536000"
    assert fields["x-content-type-options"] == "nosniff"
    assert fields["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in fields["content-security-policy"]
