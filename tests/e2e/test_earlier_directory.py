"""A data directory of the state before, killed with everything under way, opens and goes on.

What stands in it is told by ``tests/directories/write_directory.py``. Today's server listens on
another port; ``public_url`` says that the old address is still its own.
"""

import base64
import importlib.util
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Self

import pytest

from distributary.knative.kinds import SUBSCRIPTION, TRIGGER
from kit.knative_client import KnativeClient
from kit.running_server import RunningServer, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DIRECTORIES = Path(__file__).parents[1] / "directories"
ARRIVE_S_MAX = 60.0
"""Longest wait for what was waiting: longer means that it was lost."""


def _written() -> ModuleType:
    """The program that wrote the directory."""
    place = DIRECTORIES / "write_directory.py"
    spec = importlib.util.spec_from_file_location("write_directory", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITTEN = _written()


class Arrival(NamedTuple):
    """One request at a sink."""

    path: str
    id: str
    fields: dict[str, str]


class Sinks:
    """The sinks of the directory, at their old addresses, now all well; a context manager.

    The Trigger's fails once more: its policy of that time goes on after a failure.
    """

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        failing = {"/trigger": 1}
        arrivals = self.arrivals

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                fields = {name.lower(): value for name, value in self.headers.items()}
                well = failing.get(self.path, 0) == 0
                if well:
                    arrivals.append(Arrival(self.path, fields["ce-id"], fields))
                else:
                    failing[self.path] -= 1
                self.send_response(204 if well else 503)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        closed_port = int(WRITTEN.CLOSED.rpartition(":")[2].partition("/")[0])
        places = (WRITTEN.SINKS, (WRITTEN.SINKS[0], closed_port))
        self._servers = [ThreadingHTTPServer(place, Handler) for place in places]

    def __enter__(self) -> Self:
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def ids(self, path: str) -> set[str]:
        """Ids of the events that arrived at a path."""
        return {arrival.id for arrival in self.arrivals if arrival.path == path}

    def wait_for(self, path: str, ids: set[str]) -> None:
        """Wait until these have arrived, and see that nothing else did."""
        wait_until(lambda: self.ids(path) >= ids, ARRIVE_S_MAX, f"{ids} at {path}")
        assert self.ids(path) == ids


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory, unpacked."""
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(DIRECTORIES / "state-3.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "data"


@pytest.fixture(scope="module")
def sinks() -> Iterator[Sinks]:
    """All of them."""
    with Sinks() as sinks:
        yield sinks


@pytest.fixture(scope="module")
def server(data_dir: Path, sinks: Sinks) -> Iterator[RunningServer]:
    """Today's server on it; *sinks* are there first."""
    del sinks
    own = f"http://{WRITTEN.SERVER[0]}:{WRITTEN.SERVER[1]}"
    flags = ("--public-url", own, "--private-sinks", "allow")
    with RunningServer(data_dir, flags=flags) as server:
        yield server


def ids_of(name: str) -> set[str]:
    """Ids of the events that were published for a subscription."""
    return {f"{name}-{number}" for number in range(WRITTEN.EVENTS[name])}


def publish(server: RunningServer, name: str, number: int) -> str:
    """Publish one more event for a subscription; its id."""
    id_ = f"{name}-{number}"
    fields = {
        "ce-specversion": "1.0",
        "ce-id": id_,
        "ce-source": "/earlier",
        "ce-type": f"com.example.{name}",
        "content-type": "application/json",
    }
    assert server.request("POST", "/events", b"{}", fields).status == 202
    return id_


def test_what_waited_arrives(server: RunningServer, sinks: Sinks) -> None:
    """Retry rows and lagging routes of a sink that was down, and of one that answered 503."""
    del server
    sinks.wait_for("/closed", ids_of("closed") | {"piped-0"})
    sinks.wait_for("/sealed", ids_of("sealed"))


def test_a_stored_credential_and_a_stored_header_still_authorize(
    server: RunningServer, sinks: Sinks, data_dir: Path
) -> None:
    """The header that was stored in plain is sealed now: no file and no answer holds it."""
    sinks.wait_for("/sealed", ids_of("sealed"))
    expected = base64.b64encode(f"somebody:{WRITTEN.PASSWORD}".encode()).decode()
    for arrival in sinks.arrivals:
        if arrival.path == "/sealed":
            assert arrival.fields["authorization"] == f"Basic {expected}"
            assert arrival.fields["x-api-key"] == WRITTEN.SECRET_HEADER
    answer = server.request("GET", "/subscriptions/sealed")
    assert answer.status == 200
    for secret in (WRITTEN.SECRET_HEADER, WRITTEN.PASSWORD):
        assert secret.encode() not in answer.body
        for place in data_dir.rglob("*"):
            if place.is_file() and place.suffix != ".board":
                assert secret.encode() not in place.read_bytes(), place


def test_a_trigger_keeps_the_policy_it_was_stored_with(server: RunningServer, sinks: Sinks) -> None:
    """Its ``delivery`` says no ``retry``: that meant ten then, and means none when written now."""
    del server
    wait_until(lambda: bool(sinks.ids("/trigger")), ARRIVE_S_MAX, "the Trigger's event")
    assert sinks.ids("/letters") == set()


def test_kept_dead_letters_are_listed_and_sent_again(server: RunningServer, sinks: Sinks) -> None:
    """None of them was lost by the new form of the store."""
    listed = server.request("GET", "/dead-letters?subscription=refused")
    assert listed.status == 200, listed.body
    assert len(listed.json()) == WRITTEN.EVENTS["refused"]
    body = b'{"subscription": "refused"}'
    asked = server.request(
        "POST", "/dead-letters/redrive", body, {"content-type": "application/json"}
    )
    assert asked.status in (200, 202), asked.body
    sinks.wait_for("/refused", ids_of("refused"))


def test_a_count_goes_on_where_it_was(server: RunningServer, sinks: Sinks) -> None:
    """Two of five were delivered before: three more, and the subscription is gone."""
    for number in range(2, 8):
        publish(server, "counted", number)
    gone = lambda: server.request("GET", "/subscriptions/counted").status == 404  # noqa: E731
    wait_until(gone, ARRIVE_S_MAX, "the counted subscription has ended")
    count = Counter(arrival.path for arrival in sinks.arrivals)["/counted"]
    assert count == 3


def test_a_sink_at_our_own_address_waits_and_is_no_dead_letter(server: RunningServer) -> None:
    """What a stricter rule refuses now keeps its events, with a warning that says why."""
    publish(server, "own", 0)
    wait_until(lambda: b"sink-refused" in server.log.read_bytes(), ARRIVE_S_MAX, "the warning")

    def waits() -> bool:
        status = server.request("GET", "/subscriptions/own/status").json()
        return bool(status["waiting"] or status["lagging"])

    wait_until(waits, ARRIVE_S_MAX, "the event waits")
    assert server.request("GET", "/dead-letters?subscription=own").json() == []


def test_objects_stand_as_they_were(server: RunningServer) -> None:
    """Broker, Trigger, Channel and Subscription are Ready; the timer is still there."""
    api = KnativeClient(server, "default")
    assert api.ready(TRIGGER, "slow")["spec"]["broker"] == "shop"
    assert api.ready(SUBSCRIPTION, "behind")["spec"]["channel"]["name"] == "pipe"
    timer = server.request("GET", "/subscriptions/timer").json()
    assert timer["config"]["interval"] == 86400
