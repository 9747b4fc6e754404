"""What the pages of the console cost a server with many subscriptions.

Starts a server, makes COUNT subscriptions, publishes some events, and makes the requests of each
page, one after another as a browser would at least. Prints for each page the median and the
slowest of its requests together, and the CPU of the server for them.
Run: ``python benchmarks/console_pages.py [COUNT]``.
"""

import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from kit.running_server import Role, RunningServer  # noqa: E402 - by the line above

ROUNDS = 20
MAKERS = 16
EVENTS = 200
SETTLE_S = 10

TRIAL = {"filters": [{"prefix": {"type": "t"}}], "recent": 25}
PAGES = {
    "overview": ["/status", "/subscriptions?limit=20&state=failing"],
    "subscriptions": ["/subscriptions?limit=50"],
    "subscriptions, none in the state": ["/subscriptions?limit=50&state=parked"],
    "subscriptions, failing": ["/subscriptions?limit=50&state=failing"],
    "subscriptions, ready": ["/subscriptions?limit=50&state=ready"],
    "subscription": ["/subscriptions/s-77", "/subscriptions/s-77/status"],
    "events": ["/events?limit=50"],
    "event": ["/events/{position}"],
    "dead letters": ["/dead-letters?limit=50"],
    "runs": ["/runs?limit=50"],
    "graph": [
        "/apis/eventing.knative.dev/v1/namespaces/default/brokers?limit=500",
        "/apis/eventing.knative.dev/v1/namespaces/default/triggers?limit=500",
        "/apis/messaging.knative.dev/v1/namespaces/default/channels?limit=500",
        "/apis/messaging.knative.dev/v1/namespaces/default/subscriptions?limit=500",
    ],
    "publish": ["/apis/eventing.knative.dev/v1/namespaces/default/brokers?limit=100"],
    "filter": ["POST /filters/try"],
}
"""Page -> its requests."""


def main() -> None:
    """Make it all, look, and print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with (
        tempfile.TemporaryDirectory() as folder,
        RunningServer(Path(folder) / "data") as server,
    ):
        server.wait_ready()
        began_s = time.monotonic()
        makers = [
            threading.Thread(target=_make, args=(server.port, range(first, count, MAKERS)))
            for first in range(MAKERS)
        ]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        print(f"{count:,} subscriptions in {time.monotonic() - began_s:.0f} s")
        client = http.client.HTTPConnection("127.0.0.1", server.port)
        for number in range(EVENTS):
            _ask(client, "POST", "/events", _event(number), "application/cloudevents+json")
        # All of the first half fail: who looks for others has to pass them by.
        for number in sorted(map(str, range(count)))[: count // 2]:
            event = _event(int(number)) | {"type": f"t-{number}"}
            _ask(client, "POST", "/events", event, "application/cloudevents+json")
        time.sleep(SETTLE_S)
        told = json.loads(_ask(client, "GET", "/status"))
        print(f"{told['failing']:,} of them fail")
        position = json.loads(_ask(client, "GET", "/events?limit=1"))[0]["position"]
        for name, paths in PAGES.items():
            cpu_s = _cpu_s(server)
            taken = [_page(client, paths, position) for _ in range(ROUNDS)]
            cpu_s = (_cpu_s(server) - cpu_s) / ROUNDS
            median, most = statistics.median(taken) * 1e3, max(taken) * 1e3
            figures = f"median {median:6.1f} ms, slowest {most:6.1f} ms, CPU {cpu_s * 1e3:6.1f} ms"
            print(f"{name:34} {figures}")


def _cpu_s(server: RunningServer) -> float:
    """CPU of the processes that answer, seconds."""
    found = [*server.processes(Role.SERVE), *server.processes(Role.INGEST)]
    return sum(sum(process.cpu_times()[:2]) for process in found)


def _make(port: int, numbers: range) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port)
    for number in numbers:
        proposal = {
            "sink": f"http://127.0.0.1:9/{number}",
            "protocol": "HTTP",
            "filters": [{"exact": {"type": f"t-{number}"}}],
        }
        _ask(client, "PUT", f"/subscriptions/s-{number}", proposal)


def _event(number: int) -> dict[str, str]:
    return {"specversion": "1.0", "id": f"e-{number}", "source": "/s", "type": "t"}


def _page(client: http.client.HTTPConnection, paths: list[str], position: str) -> float:
    began_s = time.perf_counter()
    for path in paths:
        if path.startswith("POST "):
            _ask(client, "POST", path.removeprefix("POST "), TRIAL)
        else:
            _ask(client, "GET", path.format(position=position))
    return time.perf_counter() - began_s


def _ask(
    client: http.client.HTTPConnection,
    method: str,
    path: str,
    value: object = None,
    kind: str = "application/json",
) -> bytes:
    body = None if value is None else json.dumps(value).encode()
    client.request(method, path, body, {"content-type": kind} if body else {})
    answer = client.getresponse()
    found = answer.read()
    assert answer.status < 300, (method, path, answer.status, found[:300])
    return found


if __name__ == "__main__":
    main()
