"""Write the directory of a server that was killed with everything under way; see README.md.

    python tests/directories/write_directory.py SOURCE TARGET.tar.xz

SOURCE is the ``src`` folder of the version that is to write it. Uses what every version has:
``serve``, HTTP and the standard library. What stands in the directory is told by ``CONTENT``;
tests that open it read the addresses from here.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SERVER = ("127.0.0.1", 18970)
"""Where the server listened: its own address at that time."""

SINKS = ("127.83.7.1", 18971)
"""Where the sinks are: a loopback address that nobody else takes."""

CLOSED = "http://127.83.7.1:18972/closed"
"""Nobody listens there."""

SECRET_HEADER = "stored-header-secret"
PASSWORD = "stored-password"

STEADFAST = {"retry": 1000, "backoffDelay": "PT1S", "backoffMax": "PT2S"}
EVENTS = {"closed": 40, "refused": 5, "sealed": 3, "counted": 2}
"""Subscription -> how many events of type ``com.example.<name>`` were published for it."""

ANSWERS = {"/refused": 400, "/sealed": 503, "/trigger": 503}
"""What the sinks answered while the directory was written; all other paths: 200."""


def _sink(path):
    return f"http://{SINKS[0]}:{SINKS[1]}{path}"


def _http(**delivery):
    return {"delivery": delivery}


SUBSCRIPTIONS = {
    "closed": {"sink": CLOSED, "protocolsettings": _http(**STEADFAST)},
    "refused": {"sink": _sink("/refused"), "protocolsettings": _http(retry=0)},
    "sealed": {
        "sink": _sink("/sealed"),
        "protocolsettings": {"headers": {"X-Api-Key": SECRET_HEADER}, **_http(**STEADFAST)},
        "sinkCredential": {
            "credentialType": "PLAIN",
            "identifier": "somebody",
            "secret": PASSWORD,
        },
    },
    "own": {"sink": f"http://{SERVER[0]}:{SERVER[1]}/brokers/default/aside"},
    "counted": {"sink": _sink("/counted"), "config": {"maxevents": 5}},
    "timer": {
        "sink": _sink("/timer"),
        "source": "/timer",
        "types": ["com.example.tick"],
        "config": {"interval": 86400},
    },
}
EVENTING = "/apis/eventing.knative.dev/v1/namespaces/default"
MESSAGING = "/apis/messaging.knative.dev/v1/namespaces/default"
OBJECTS = (
    (f"{EVENTING}/brokers", "eventing.knative.dev/v1", "Broker", "aside", {}),
    (f"{EVENTING}/brokers", "eventing.knative.dev/v1", "Broker", "shop", {}),
    (
        f"{EVENTING}/triggers",
        "eventing.knative.dev/v1",
        "Trigger",
        "slow",
        {
            "broker": "shop",
            "subscriber": {"uri": _sink("/trigger")},
            "delivery": {"deadLetterSink": {"uri": _sink("/letters")}},
        },
    ),
    (f"{MESSAGING}/channels", "messaging.knative.dev/v1", "Channel", "pipe", {}),
    (
        f"{MESSAGING}/subscriptions",
        "messaging.knative.dev/v1",
        "Subscription",
        "behind",
        {
            "channel": {
                "apiVersion": "messaging.knative.dev/v1",
                "kind": "Channel",
                "name": "pipe",
            },
            "subscriber": {"uri": CLOSED},
        },
    ),
)


class _Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list = []  # noqa: RUF012 - one process, one run

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append(self.path)
        self.send_response(ANSWERS.get(self.path, 200))
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def _ask(method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(*SERVER, timeout=30)
    text = json.dumps(body) if body is not None else None
    connection.request(method, path, text, {"content-type": "application/json"} | (headers or {}))
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer.status, read


def _must(*args, **more):
    status, body = _ask(*args, **more)
    assert 200 <= status < 300, (args, status, body)


def _until(holds, what, seconds=180):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def _ready():
    try:
        return _ask("GET", "/readyz")[0] == 200
    except OSError:
        return False


def _publish(path, kind, number):
    _must(
        "POST",
        path,
        {"number": number},
        {
            "ce-specversion": "1.0",
            "ce-id": f"{kind}-{number}",
            "ce-source": "/earlier",
            "ce-type": f"com.example.{kind}",
        },
    )


def _fill():
    for name, spec in SUBSCRIPTIONS.items():
        types = {} if "types" in spec else {"types": [f"com.example.{name}"]}
        _must("PUT", f"/subscriptions/{name}", {"protocol": "HTTP", **types, **spec})
    for path, version, kind, name, spec in OBJECTS:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        _must("POST", path, body)
    time.sleep(1)  # until the Trigger and the Subscription listen
    for kind, count in EVENTS.items():
        for number in range(count):
            _publish("/events", kind, number)
    _publish("/brokers/default/shop", "order", 0)
    _publish("/channels/default/pipe", "piped", 0)
    _until(
        lambda: (
            _Sink.seen.count("/refused") >= EVENTS["refused"]
            and _Sink.seen.count("/sealed") >= EVENTS["sealed"]
            and _Sink.seen.count("/counted") == EVENTS["counted"]
            and "/trigger" in _Sink.seen
        ),
        "all sinks were asked",
    )
    time.sleep(3)  # outcomes on disk; the breaker of the closed sink opens and its route lags


def main(source, target):
    """Start, fill, kill, pack."""
    sinks = ThreadingHTTPServer(SINKS, _Sink)
    threading.Thread(target=sinks.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        command = [sys.executable, "-m", "distributary.cli", "serve", "--data-dir", str(data)]
        command += ["--host", SERVER[0], "--port", str(SERVER[1])]
        environ = os.environ | {"PYTHONPATH": source}
        server = subprocess.Popen(command, env=environ, start_new_session=True)
        try:
            _until(_ready, "ready")
            _fill()
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        time.sleep(2)  # its children end with it
        for scratch in ("run", "spark", "logs"):
            subprocess.run(["rm", "-rf", str(data / scratch)], check=True)
        with tarfile.open(target, "w:xz", preset=9) as archive:
            archive.add(data, arcname="data", filter=_plain)
    sinks.shutdown()


def _plain(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(*sys.argv[1:])
