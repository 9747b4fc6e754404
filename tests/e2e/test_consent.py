"""The whole server and a sink that must consent: it waits, asks, and keeps the rate."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from kit.running_server import RunningServer, total, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S_MAX = 60.0
ORIGIN = "events.example"
FLAGS = (
    *("--consent", "always", "--public-url", f"https://{ORIGIN}"),
    *("--private-sinks", "allow", "--partitions", "2"),
)


class Sink:
    """A sink on loopback that consents, or does not, as the test says; and counts what came."""

    def __init__(self) -> None:
        self.permission: dict[str, str] = {}
        self.status = 204
        self.asked: list[dict[str, str]] = []
        self.came: list[dict[str, str]] = []
        self.came_s: list[float] = []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_OPTIONS(self) -> None:
                sink.asked.append({name.lower(): value for name, value in self.headers.items()})
                self.answer(200, sink.permission)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                sink.came_s.append(time.monotonic())
                sink.came.append({name.lower(): value for name, value in self.headers.items()})
                self.answer(sink.status, {})

            def answer(self, status: int, fields: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A sink that consents to nothing yet."""
    made = Sink()
    yield made
    made.close()


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that asks every sink."""
    with RunningServer(tmp_path_factory.mktemp("asking") / "data", flags=FLAGS) as server:
        yield server


def publish(server: RunningServer, count: int, source: str) -> None:
    """So many events."""
    for number in range(count):
        headers = {
            "ce-specversion": "1.0",
            "ce-id": str(number),
            "ce-source": source,
            "ce-type": "t",
        }
        assert server.request("POST", "/events", b"", headers).status == 202


def status(server: RunningServer, id_: str) -> dict:
    """What the server says of a subscription."""
    found: dict = server.request("GET", f"/subscriptions/{id_}/status").json()
    return found


def state_of(server: RunningServer, id_: str) -> str:
    """Of the consent of its sink, once that is known."""
    told = status(server, id_).get("consent")
    return told[0]["state"] if told else ""


def waiting_in_lists(server: RunningServer) -> tuple[list[str], int]:
    """Ids of subscriptions that are listed as awaiting consent, and how many are counted."""
    listed = server.request("GET", "/subscriptions?state=awaiting-consent").json()
    counted = server.request("GET", "/status").json()["awaiting-consent"]
    return [one["id"] for one in listed], counted


def test_the_allowed_rate_is_kept_by_all_partitions(asking: RunningServer, sink: Sink) -> None:
    """However many events wait: the sink, which counts, sees no more."""
    sink.permission = {"WebHook-Allowed-Origin": ORIGIN, "WebHook-Allowed-Rate": "60"}
    server = asking
    id_ = server.subscribe(sink.url, source="/rated")
    wait_until(lambda: state_of(server, id_) == "given", WAIT_S_MAX, "the consent")
    assert status(server, id_)["consent"][0]["ratePerMinute"] == 60
    publish(server, 200, "/rated")
    wait_until(lambda: len(sink.came) >= 8, WAIT_S_MAX, "some arrive")
    # Two partitions with 30 a minute each, one every two seconds, take six seconds; with 60
    # each they would take three. A slow machine makes it longer.
    assert sink.came_s[7] - sink.came_s[0] > 4.5
    assert server.request("DELETE", f"/subscriptions/{id_}").status == 200


def test_nothing_is_delivered_without_consent(asking: RunningServer, sink: Sink) -> None:
    """By callback it is given; it survives a restart; a sink that allows another gets no more."""
    server = asking
    body = {"sink": sink.url, "protocol": "HTTP", "source": "/s"}
    json = {"content-type": "application/json"}
    made = server.request("PUT", "/subscriptions/s", msgspec.json.encode(body), json)
    assert made.status == 201
    wait_until(lambda: state_of(server, "s") == "refused", WAIT_S_MAX, "an answer")
    assert status(server, "s")["state"] == "awaiting-consent"
    # Lists and counts say it too, though no event waits yet.
    wait_until(lambda: waiting_in_lists(server) == (["s"], 1), WAIT_S_MAX, "the list")
    publish(server, 5, "/s")
    assert sink.asked[0]["webhook-request-origin"] == ORIGIN
    callback = urlsplit(sink.asked[0]["webhook-request-callback"])
    assert callback.netloc == ORIGIN
    assert sink.came == []

    wrong = server.request("GET", f"{callback.path}?key=wrong")
    assert (wrong.status, sink.came) == (404, [])
    given = server.request("GET", f"{callback.path}?{callback.query}")
    assert given.status == 200, given.body
    wait_until(lambda: len(sink.came) == 5, WAIT_S_MAX, "what waited arrives")
    assert {fields["webhook-request-origin"] for fields in sink.came} == {ORIGIN}
    wait_until(lambda: status(server, "s")["state"] == "ready", WAIT_S_MAX, "it says so")
    wait_until(server.settled, WAIT_S_MAX, "everything settles")
    assert total(server.metrics(), "dead_lettered_total") == 0
    asked = len(sink.asked)
    assert server.stop() == 0

    server.start()
    server.wait_ready()
    publish(server, 3, "/s")
    wait_until(lambda: len(sink.came) == 8, WAIT_S_MAX, "the consent is still there")
    assert len(sink.asked) == asked

    sink.permission = {"WebHook-Allowed-Origin": "other.example"}
    assert server.request("POST", "/subscriptions/s/resume").status == 202
    wait_until(lambda: state_of(server, "s") == "refused", WAIT_S_MAX, "it is withdrawn")

    # The consumers of the partitions read of it a moment later than the status does, each in
    # its own time: nothing of a round of events for all of them may come.
    def waits() -> bool:
        came = len(sink.came)
        publish(server, 4, "/s")
        time.sleep(0.5)
        return bool(status(server, "s")["lagging"]) and len(sink.came) == came

    wait_until(waits, WAIT_S_MAX, "what is published waits")
    came = len(sink.came)
    publish(server, 4, "/s")
    assert not server.settled()
    assert len(sink.came) == came
    lines = server.paths.audit.read_text(encoding="utf-8").splitlines()
    consents = [line for line in lines if "/consent/" in line]
    assert len(consents) == 1
    assert "key" not in consents[0]
    assert server.stop() == 0


def test_a_private_sink_need_not_be_asked(tmp_path: Path, sink: Sink) -> None:
    """``public`` leaves loopback alone: as without the setting."""
    flags = ("--consent", "public", "--private-sinks", "allow")
    with RunningServer(tmp_path / "data", flags=flags) as server:
        server.subscribe(sink.url)
        publish(server, 3, "/s")
        wait_until(lambda: len(sink.came) == 3, WAIT_S_MAX, "all arrive")
    assert sink.asked == []
    assert all("webhook-request-origin" not in fields for fields in sink.came)
