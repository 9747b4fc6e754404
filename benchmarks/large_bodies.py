"""The line of large bodies: 350 objects in YAML of 2 MB in 20 s, and what they leave behind.

Run by itself it prints its figures: ``python benchmarks/large_bodies.py``.
"""

import http.client
import json
import threading
import time
from collections import Counter

import psutil

import _kit  # noqa: F401 - for the imports of kit
from _rig import Rig
from kit.running_server import Role

COUNT = 350
SPREAD_S = 20.0
SETTLE_S = 60.0
BODY_BYTES = 2_000_000
PATH = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
PROPOSAL = b'{"sink": "http://127.0.0.1:1/", "protocol": "HTTP", "source": "/nobody"}'
ROLES = {"serve": Role.SERVE, "ingest": Role.INGEST}
LOOK_S = 0.05
BEFORE_S = 5.0


def measure(_scale=1.0):
    """Large bodies: 350 objects in YAML of 2 MB in 20 s, and what they leave behind."""
    found = figures()
    slowest = [found[f"slowest_call_{call}"] for call in _Others.CALLS]
    left = {name: found[f"{name}_after"] / found[f"{name}_before"] - 1 for name in ROLES}
    return {
        "large_bodies_slowest": max(slowest),
        **{f"large_bodies_{name}_left": 100 * share for name, share in left.items()},
    }


def figures():
    """Memory of both processes before, at most and a minute later; the slowest call of others."""
    with Rig() as rig:
        watched = {name: rig.server.processes(role)[0] for name, role in ROLES.items()}
        others = _Others(rig.server.port)
        others.start()
        time.sleep(BEFORE_S)
        before = {name: _rss_mib(process) for name, process in watched.items()}
        most = dict(before)
        statuses = _send(rig.server.port, watched, most)
        others.end()
        time.sleep(SETTLE_S)
        after = {name: _rss_mib(process) for name, process in watched.items()}
    found = {f"slowest_call_{call}": slowest for call, slowest in others.slowest_s.items()}
    for name in ROLES:
        found[f"{name}_before"] = before[name]
        found[f"{name}_most"] = most[name]
        found[f"{name}_after"] = after[name]
    return found | {f"answers_{status}": count for status, count in statuses.items()}


def _send(port, watched, most):
    body = _body()
    statuses = Counter()
    senders = []
    began_s = time.monotonic()
    for number in range(COUNT):
        sender = threading.Thread(target=_post, args=(port, body, statuses))
        sender.start()
        senders.append(sender)
        while time.monotonic() < began_s + (number + 1) * SPREAD_S / COUNT:
            _note(watched, most)
            time.sleep(LOOK_S / 5)
    while any(sender.is_alive() for sender in senders):
        _note(watched, most)
        time.sleep(LOOK_S)
    return statuses


def _body():
    lines = [b"spec:", b"  broker: default", b"  x:"]
    head = b"apiVersion: eventing.knative.dev/v1\nkind: Trigger\nmetadata: {generateName: large-}\n"
    line = b"  - {name: a-name, value: 'some words of a value'}"
    count = min((BODY_BYTES - len(head)) // (len(line) + 1) - 3, 15_000)
    filled = head + b"\n".join([*lines, *[line] * count]) + b"\n"
    return filled + b"#" * (BODY_BYTES - len(filled) - 1) + b"\n"


def _post(port, body, statuses):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("POST", PATH, body, {"content-type": "application/yaml"})
        statuses[connection.getresponse().status] += 1
    except OSError:
        statuses["none"] += 1
    finally:
        connection.close()


def _note(watched, most):
    for name, process in watched.items():
        most[name] = max(most[name], _rss_mib(process))


def _rss_mib(process: psutil.Process):
    return process.memory_info().rss / 2**20


class _Others(threading.Thread):
    """Calls of others meanwhile: a change, a read, an event."""

    CALLS = ("change", "read", "event")

    def __init__(self, port):
        super().__init__()
        self._port = port
        self._ended = threading.Event()
        self.slowest_s = dict.fromkeys(self.CALLS, 0.0)

    def run(self):
        number = 0
        while not self._ended.wait(LOOK_S):
            number += 1
            self._call("change", "PUT", f"/subscriptions/other-{number % 50}", PROPOSAL, {})
            self._call("read", "GET", "/subscriptions?limit=10", b"", {})
            fields = {"ce-specversion": "1.0", "ce-id": str(number), "ce-source": "/s"}
            self._call("event", "POST", "/events", b"{}", {**fields, "ce-type": "t"})

    def end(self):
        self._ended.set()
        self.join()

    def _call(self, name, method, path, body, fields):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        began_s = time.monotonic()
        connection.request(method, path, body, {"content-type": "application/json", **fields})
        answer = connection.getresponse()
        answer.read()
        self.slowest_s[name] = max(self.slowest_s[name], time.monotonic() - began_s)
        assert answer.status < 300, (name, answer.status)
        connection.close()


if __name__ == "__main__":
    print(json.dumps(figures(), indent=1))
