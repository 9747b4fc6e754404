"""Write the directory of a server that was killed with everything under way; see README.md.

    python tests/directories/write_directory.py SOURCE TARGET.tar.xz

SOURCE is the ``src`` folder of the version that is to write it. Uses what every version has:
``serve``, HTTP and the standard library. Tests that open a directory read the addresses from here,
and what was there before the kill from ``before.json`` in the archive.
"""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
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
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"""Came with the Broker's event, and goes along with it."""

STEADFAST = {"retry": 1000, "backoffDelay": "PT1S", "backoffMax": "PT2S"}
EVENTS = {
    "closed": 40,
    "refused": 5,
    "sealed": 3,
    "counted": 2,
    "reserved": 2,
    "gone": 3,
    "twice": 2,
    "history": 60,
    "redriven": 400,
    "signed": 2,
    "paused": 3,
}
"""Subscription -> how many events of type ``com.example.<name>`` were published for it."""

BATCH = 50
"""Most events of a request."""

ANSWERS = {
    "/refused": 400,
    "/sealed": 503,
    "/reserved": 503,
    "/gone": 410,
    "/twice": 400,
    "/twice-letters": 503,
    "/redriven": 400,
    "/trigger": 503,
    "/reply-refused": 400,
    "/reply-letters": 503,
    "/signed": 503,
    "/till": 503,
}
"""What the sinks answered while the directory was written; all other paths: 200."""

HISTORY_SEEN = 20
"""So many events of the history had arrived when the server was killed."""

RUN = "run-under-way"
"""Name of a run that sends letters again; some of them had become rows."""

RATE = 50
"""Letters that it sends again in a second; without a rate, as before ``state-10``, all are sent at
once by the versions of today."""


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
    "reserved": {
        "sink": _sink("/reserved"),
        "config": {"maxevents": 3},
        "protocolsettings": _http(**STEADFAST),
    },
    "gone": {"sink": _sink("/gone")},
    "twice": {
        "sink": _sink("/twice"),
        "protocolsettings": _http(deadLetterSink=_sink("/twice-letters"), **STEADFAST),
    },
    "redriven": {"sink": _sink("/redriven"), "protocolsettings": _http(**STEADFAST)},
    "signed": {
        "sink": _sink("/signed"),
        "protocolsettings": {"signature": {"scheme": "v1"}, **_http(**STEADFAST)},
    },
    "paused": {"sink": _sink("/paused")},
    "timer": {
        "sink": _sink("/timer"),
        "source": "/timer",
        "types": ["com.example.tick"],
        "config": {"interval": 86400, "data": {"wake": True}, "expires": "2126-01-01T00:00:00Z"},
    },
    "beat": {"sink": _sink("/beat"), "types": ["com.example.beat"], "config": {"interval": 1}},
    "mqtt3": {
        "sink": "mqtt://127.83.7.1:1",
        "protocol": "MQTT3",
        "protocolsettings": {"topicname": "a/b", "qos": 2},
    },
    "mqtt5": {
        "sink": "ws://127.83.7.1:1/mqtt",
        "protocol": "MQTT5",
        "protocolsettings": {
            "topicname": "a/b",
            "expiry": 60,
            "userproperties": {"token": "sealed", "colour": "blue"},
        },
    },
    "amqp": {
        "sink": "amqp://127.83.7.1:1/queue",
        "protocol": "AMQP",
        "protocolsettings": {"linkproperties": {"a": "b"}, "linkname": "link"},
    },
    "kafka": {
        "sink": "kafka://127.83.7.1:1/topic",
        "protocol": "KAFKA",
        "protocolsettings": {"partitionkeyextractor": "subject", "acks": "1"},
        "filters": [
            {"any": [{"exact": {"subject": "s"}}, {"not": {"prefix": {"subject": "t"}}}]},
            {"sql": "subject LIKE 'a%' AND EXISTS key"},
        ],
    },
    "nats": {
        "sink": "nats://127.83.7.1:1",
        "protocol": "NATS",
        "protocolsettings": {"subject": "a.b", "jetstream": True},
        "sinkCredential": {
            "credentialType": "ACCESSTOKEN",
            "accessToken": "sealed",
            "accessTokenType": "bearer",
            "accessTokenExpiresUtc": "2126-01-01T00:00:00Z",
        },
    },
}
TENANT = "/namespaces/shop"
"""A namespace beside ``default``."""

TILL = {
    "sink": _sink("/till"),
    "protocol": "HTTP",
    "types": ["com.example.till"],
    "protocolsettings": _http(**STEADFAST),
}
"""Its only subscription, ``till``."""

HISTORY = {
    "sink": _sink("/history"),
    "config": {"start": "earliest"},
    "protocolsettings": _http(rateLimit=4, **STEADFAST),
}
"""A subscription to what was published before it, sent slowly: its backfill is under way."""

WAITS = {"backoffDelay": "PT1S", "backoffPolicy": "linear"}
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
            "delivery": {"deadLetterSink": {"uri": _sink("/letters")}, "retry": 1000, **WAITS},
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
    (
        f"{MESSAGING}/subscriptions",
        "messaging.knative.dev/v1",
        "Subscription",
        "answering",
        {
            "channel": {
                "apiVersion": "messaging.knative.dev/v1",
                "kind": "Channel",
                "name": "pipe",
            },
            "subscriber": {"uri": _sink("/replies")},
            "reply": {"uri": _sink("/reply-refused")},
            "delivery": {
                "deadLetterSink": {"uri": _sink("/reply-letters")},
                "retry": 1000,
                **WAITS,
            },
        },
    ),
)


class _Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list = []  # noqa: RUF012 - one process, one run
    taken: list = []  # noqa: RUF012 - path, id of what was answered 200

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append(self.path)
        status = ANSWERS.get(self.path, 200)
        if status == 200:
            self.taken.append((self.path, self.headers["ce-id"]))
        self.send_response(status)
        if self.path == "/replies":
            for name, value in _attributes("answer", 0).items():
                self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def _attributes(kind, number):
    return {
        "ce-specversion": "1.0",
        "ce-id": f"{kind}-{number}",
        "ce-source": "/earlier",
        "ce-type": f"com.example.{kind}",
    }


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
    return body


def _until(holds, what, seconds=180):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, (what, _missing())
        time.sleep(0.1)


def _ready():
    try:
        return _ask("GET", "/readyz")[0] == 200
    except OSError:
        return False


def _publish(path, kind, number, **fields):
    _must("POST", path, {"number": number}, _attributes(kind, number) | fields)


def _publish_all(kind):
    attributes = [_attributes(kind, number) for number in range(EVENTS[kind])]
    events = [{name[3:]: value for name, value in each.items()} for each in attributes]
    for first in range(0, len(events), BATCH):
        fields = {"content-type": "application/cloudevents-batch+json"}
        _must("POST", "/events", events[first : first + BATCH], fields)


def _subscribe(name, spec):
    types = [f"com.example.{name}"]
    made = _must("PUT", f"/subscriptions/{name}", {"protocol": "HTTP", "types": types} | spec)
    return json.loads(made)


def _fill():
    """Returns the secret that signs deliveries, which nobody is told again."""
    made = {name: _subscribe(name, spec) for name, spec in SUBSCRIPTIONS.items()}
    _must("POST", "/subscriptions/paused/pause")
    _must("PUT", f"{TENANT}/subscriptions/till", TILL)
    for path, version, kind, name, spec in OBJECTS:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        _must("POST", path, body)
    time.sleep(1)  # until the Trigger and the Subscriptions listen
    for kind, count in EVENTS.items():
        if count > BATCH:
            _publish_all(kind)
            continue
        for number in range(count):
            _publish("/events", kind, number)
    _publish("/brokers/default/shop", "order", 0, traceparent=TRACE)
    _publish("/channels/default/pipe", "piped", 0)
    _publish(f"{TENANT}/events", "till", 0)
    _until(lambda: not _missing(), "all sinks were asked")
    time.sleep(3)  # outcomes on disk; the breaker of the closed sink opens and its route lags
    return made["signed"]["protocolsettings"]["signature"]["secret"]


def _missing():
    """What has not been seen yet."""
    seen = Counter(_Sink.seen)
    at_least = {"/refused", "/sealed", "/counted", "/reserved", "/signed"}
    found = {path for path in at_least if seen[path] < EVENTS[path[1:]]}
    once = ("/trigger", "/gone", "/twice-letters", "/reply-letters", "/beat", "/till")
    found |= {path for path in once if not seen[path]}
    if _kept("redriven") != EVENTS["redriven"]:
        found.add("letters")
    return found


def _kept(subscription):
    return json.loads(_ask("GET", f"/subscriptions/{subscription}/status")[1])["kept"]["count"]


def _leave_under_way():
    """A backfill and a run have begun, and neither is done."""
    _subscribe("history", HISTORY)
    _until(lambda: _Sink.seen.count("/history") >= HISTORY_SEEN, "some of the history")
    ANSWERS["/redriven"] = 503
    before = {"objects": _objects()}  # Nothing takes its time once the run has begun.
    _must(
        "POST", "/dead-letters/redrive", {"subscription": "redriven", "run": RUN, "rateLimit": RATE}
    )
    _until(_run_under_way, "the run has begun")
    return before


def _run_under_way():
    found = json.loads(_ask("GET", f"/dead-letters/runs/{RUN}")[1])
    assert found["state"] == "running", found
    return found["handled"] > 0


def _objects():
    """All that can be asked for, as it is answered."""
    paths = {path for path, *_ in OBJECTS}
    listed = {path: json.loads(_ask("GET", path)[1])["items"] for path in sorted(paths)}
    return {"/subscriptions": json.loads(_ask("GET", "/subscriptions")[1])} | listed


def main(source, target):
    """Start, fill, kill, pack."""
    sinks = ThreadingHTTPServer(SINKS, _Sink)
    threading.Thread(target=sinks.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        command = [sys.executable, "-m", "distributary.cli", "serve", "--data-dir", str(data)]
        command += ["--host", SERVER[0], "--port", str(SERVER[1]), "--own-sinks", "1"]
        environ = os.environ | {"PYTHONPATH": source}
        server = subprocess.Popen(command, env=environ, start_new_session=True)
        try:
            _until(_ready, "ready")
            secret = _fill()
            before = _leave_under_way() | {"secret": secret}
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        time.sleep(2)  # its children end with it
        for scratch in ("run", "spark", "logs"):
            shutil.rmtree(data / scratch)
        told = Path(folder) / "before.json"
        told.write_text(json.dumps(before | {"arrived": _Sink.taken}))
        with tarfile.open(target, "w:xz", preset=9) as archive:
            archive.add(data, arcname="data", filter=_plain)
            archive.add(told, arcname=told.name, filter=_plain)
    sinks.shutdown()


def _plain(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(*sys.argv[1:])
