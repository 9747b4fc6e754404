"""How long one tenant's events take, alone and beside a tenant at its limits.

    PYTHONPATH=src:tests python benchmarks/tenants.py [requests a second of the other] [rounds]

The other tenant publishes more than its quota from one process, to a sink that hangs and to a slow
one. Prints the time from publishing to arrival and the CPU of both sides, in turns of three cases:
alone, beside the other tenant, and beside the same process publishing to a port that is not this
server's. On few cores the last one tells what the publisher itself takes.
"""

import http.client
import http.server
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from distributary.cli._behaviour import Behaviour
from kit.running_server import RunningServer
from kit.traffic import Sink, Traffic

QUOTAS = '[[namespaces]]\nname = "shop"\nevents_per_s = 300\n'
CASES = ("alone", "beside", "elsewhere")
ROUNDS, OTHERS_RATE_PER_S = 3, 400
if len(sys.argv) > 1 and sys.argv[1] != "publish":
    OTHERS_RATE_PER_S, ROUNDS = int(sys.argv[1]), int(sys.argv[2])
PHASES = ("warm", *CASES * ROUNDS)
PHASE_S = 15.0
RATE_PER_S = 50


def publish(port: int, namespace: str, prefix: str, rate_per_s: float, until_s: float) -> list:
    """Publish one by one at a rate; returns id, start and status of each event."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent: list[tuple[str, float, int]] = []
    fields = {"content-type": "application/cloudevents+json"}
    due_s = time.monotonic()
    while due_s < until_s and time.monotonic() < until_s:
        id_ = f"{prefix}{len(sent)}"
        body = json.dumps({"specversion": "1.0", "id": id_, "source": "/x", "type": "t"})
        began_s = time.monotonic()
        connection.request("POST", f"/namespaces/{namespace}/events", body, fields)
        answer = connection.getresponse()
        answer.read()
        sent.append((id_, began_s, answer.status))
        due_s += 1 / rate_per_s
        time.sleep(max(0.0, due_s - time.monotonic()))
    return sent


def arrivals(sink: Sink, until_s: float) -> dict[str, float]:
    """When each event arrived, looked at each millisecond."""
    found: dict[str, float] = {}
    seen = len(sink.requests)
    while (now_s := time.monotonic()) < until_s:
        for request in sink.requests[seen:]:
            found[dict(request.headers)[b"ce-id"].decode()] = now_s
            seen += 1
        time.sleep(0.001)
    return found


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Answers as a server does that refuses half."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read the request; answer."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


def cpu_s(server: RunningServer) -> float:
    """CPU seconds of the server's processes so far."""
    times = [process.cpu_times() for process in server.tree()]
    return sum(each.user + each.system for each in times)


def phase(server: RunningServer, sink: Sink, name: str, elsewhere: int) -> tuple[float, float]:
    """Run one phase and print its line; returns p50 and p99, in milliseconds."""
    port = {"beside": server.port, "elsewhere": elsewhere}.get(name)
    crowd = []
    if port is not None:
        command = [sys.executable, __file__, "publish", str(port), str(OTHERS_RATE_PER_S)]
        crowd = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)]
    time.sleep(2.0)
    cpu_before_s, before = cpu_s(server), resource.getrusage(resource.RUSAGE_CHILDREN)
    until_s = time.monotonic() + PHASE_S
    sent: list[tuple[str, float, int]] = []
    till = threading.Thread(
        target=lambda: sent.extend(publish(server.port, "till", name, RATE_PER_S, until_s))
    )
    till.start()
    found = arrivals(sink, until_s + 1.0)
    till.join()
    used_s = cpu_s(server) - cpu_before_s
    told = [one.communicate()[0].strip() for one in crowd]
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    crowd_s = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
    times = sorted(found[id_] - began_s for id_, began_s, _ in sent if id_ in found)
    p50, p99 = (1000 * times[int(len(times) * share)] for share in (0.5, 0.99))
    cores = f"cores: server {used_s / PHASE_S:.2f}, publisher {crowd_s / (PHASE_S + 2):.2f}"
    others = "".join(told)
    print(
        f"{name}: n={len(times)} p50={p50:.1f} ms p99={p99:.1f} ms; {cores}; {others}", flush=True
    )
    return p50, p99


def main() -> None:
    """Run all phases on one server."""
    folder = Path(tempfile.mkdtemp())
    (folder / "server.toml").write_text(QUOTAS)
    flags = ["--config", str(folder / "server.toml")]
    sinks = {"till": Behaviour(), "hangs": Behaviour(hang=True), "slow": Behaviour(delay_s=0.05)}
    with (
        Traffic(folder, sinks, keep_requests=True) as traffic,
        RunningServer(folder / "data", flags=flags) as server,
    ):
        for namespace, sink in (("till", "till"), ("shop", "hangs"), ("shop", "slow")):
            body = json.dumps({"sink": traffic.sinks[sink].url, "protocol": "HTTP"}).encode()
            path = f"/namespaces/{namespace}/subscriptions/{sink}"
            answer = server.request("PUT", path, body, {"content-type": "application/json"})
            assert answer.status == 201
        idle = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
        threading.Thread(target=idle.serve_forever, daemon=True).start()
        found: dict[str, list[tuple[float, float]]] = {}
        for name in PHASES:
            times = phase(server, traffic.sinks["till"], name, idle.server_port)
            found.setdefault(name, []).append(times)
        for name in CASES:
            p50, p99 = (statistics.median(one) for one in zip(*found[name], strict=True))
            print(f"median of {name}: p50={p50:.1f} ms p99={p99:.1f} ms")


if "publish" in sys.argv:  # the process of the other tenant
    END_S = time.monotonic() + PHASE_S + 2.0
    made = publish(int(sys.argv[2]), "shop", "o", int(sys.argv[3]), END_S)
    print(*(f"{count} x {status}" for status, count in Counter(each[2] for each in made).items()))
else:
    main()
