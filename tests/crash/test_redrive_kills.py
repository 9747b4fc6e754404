"""A redrive of many dead letters while processes are killed: each once more, none lost.

``DISTRIBUTARY_LETTERS=100000`` makes it large; it prints how fast it was.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kit.running_server import Role, RunningServer, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.slow]

LETTERS = int(os.environ.get("DISTRIBUTARY_LETTERS", "8000"))
KILLS = int(os.environ.get("DISTRIBUTARY_KILLS", "2"))
BATCH = 500
WAIT_S_MAX = 600.0
"""Longest wait for what must come, on a busy machine with many dead letters."""
IN_FLIGHT_MAX = 2_500
"""Copies of one kill at most: what was under way, or delivered and not written down (2,048). An
owner that began anew after a kill would make 3,000 and 3,500, so late are the kills."""


class Quiet(ThreadingHTTPServer):
    """A server whose clients may be killed."""

    daemon_threads = True

    def handle_error(self, *_args: object) -> None:
        """Nothing: a connection was cut."""


class Sink:
    """Refuses, and later takes; counts what it took, by id."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.takes = False
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", "0")))
                if outer.takes:
                    with outer._lock:
                        outer.taken[self.headers["ce-id"]] += 1
                status = b"204 No Content" if outer.takes else b"400 Bad Request"
                self.wfile.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")

            def log_message(self, *_args: object) -> None:
                """Nothing."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def count(self) -> int:
        """Different events that it took."""
        return len(self.taken)


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A sink that refuses at first."""
    made = Sink()
    yield made
    made.close()


def publish(server: RunningServer, count: int) -> None:
    """Events with these numbers as their ids."""
    headers = {"content-type": "application/cloudevents-batch+json"}
    for start in range(0, count, BATCH):
        events = ",".join(
            f'{{"specversion":"1.0","id":"{n}","source":"/h","type":"t","data":{{"n":{n}}}}}'
            for n in range(start, min(start + BATCH, count))
        )
        assert server.request("POST", "/events", f"[{events}]".encode(), headers).status == 202


def test_a_redrive_sends_each_dead_letter_once_more_over_two_kills(tmp_path, sink: Sink) -> None:
    """Copies are of attempts that were under way; the run counts each dead letter once."""
    with RunningServer(tmp_path / "data") as server:
        id_ = server.subscribe(sink.url)
        publish(server, LETTERS)

        def kept() -> int:
            status = server.request("GET", f"/subscriptions/{id_}/status").json()
            return int(status["kept"]["count"])

        wait_until(lambda: kept() == LETTERS, WAIT_S_MAX, f"{LETTERS} dead letters")
        began_s = time.monotonic()
        assert server.request("GET", f"/dead-letters?subscription={id_}&limit=100").status == 200
        listed_s = time.monotonic() - began_s
        sink.takes = True
        began_s = time.monotonic()
        body = f'{{"subscription":"{id_}","run":"again"}}'.encode()
        headers = {"content-type": "application/json"}
        assert server.request("POST", "/dead-letters/redrive", body, headers).status == 202
        killed: set[int] = set()
        for number in range(KILLS):
            enough = LETTERS * (number + 6) // (KILLS + 6)
            wait_until(lambda enough=enough: sink.count >= enough, WAIT_S_MAX, f"{enough} taken")
            wait_until(
                lambda: any(p.pid not in killed for p in server.processes(Role.WRITER)),
                WAIT_S_MAX,
                "an owner runs",
            )
            killed.add(server.kill(Role.WRITER, number))
        wait_until(lambda: sink.count == LETTERS, WAIT_S_MAX, "each is taken")
        took_s = time.monotonic() - began_s

        def done() -> bool:
            return bool(server.request("GET", "/runs/again").json()["state"] == "done")

        wait_until(done, WAIT_S_MAX, "the run is done")
        run = server.request("GET", "/runs/again").json()
        copies = sum(sink.taken.values()) - LETTERS
        rate = f"{LETTERS / took_s:.0f}/s in {took_s:.1f} s"
        print(f"redrive: {rate}, {copies} copies; a list {listed_s:.3f} s")
        assert (run["selected"], run["handled"], run["passed"]) == (LETTERS, LETTERS, 0)
        assert kept() == 0
        assert copies <= KILLS * IN_FLIGHT_MAX
        if not KILLS:
            assert copies == 0
