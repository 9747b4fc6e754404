"""Data directories of earlier versions, killed with everything under way, open and go on.

What stands in them is told by ``tests/directories/write_directory.py``: in the newest all of it,
in the others what its README says. Today's server listens on another port; ``public_url`` says
that the old address is still its own.
"""

import base64
import contextlib
import hmac
import importlib.util
import json
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Self

import pytest

from distributary.knative.kinds import SUBSCRIPTION, TRIGGER
from kit.knative_client import KnativeClient
from kit.running_server import RunningServer, wait_until
from kit.tarballs import unpack

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DIRECTORIES = Path(__file__).parents[1] / "directories"
ALL = ("state-3", "state-4", "state-10")
SINCE_4 = pytest.mark.parametrize("archive", ALL[1:], indirect=True)
"""What archives before ``state-4`` do not hold."""
SINCE_10 = pytest.mark.parametrize("archive", ALL[2:], indirect=True)
"""What archives before ``state-10`` do not hold."""

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
    body: bytes


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
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                fields = {name.lower(): value for name, value in self.headers.items()}
                well = failing.get(self.path, 0) == 0
                if well:
                    arrivals.append(Arrival(self.path, fields["ce-id"], fields, body))
                else:
                    failing[self.path] -= 1
                self.send_response(204 if well else 503)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        closed_port = int(WRITTEN.CLOSED.rpartition(":")[2].partition("/")[0])
        paths = (WRITTEN.SINKS, (WRITTEN.SINKS[0], closed_port))
        self._servers = [ThreadingHTTPServer(place, Handler) for place in paths]

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


class Before(NamedTuple):
    """What was there when the server was killed.

    Attributes:
        arrived: Path of each sink -> ids of the events that it had taken.
        objects: Path of a list of the API -> its objects.
        formats: Path of a file of the directory -> its version and tables.
        secret: What signs the deliveries of ``signed``.
    """

    arrived: dict[str, set[str]]
    objects: dict[str, list[dict[str, Any]]]
    formats: dict[str, list[object]]
    secret: str


def formats_of(data: Path, scratch: Path) -> dict[str, list[object]]:
    """What the files of a directory are: *scratch* is for copies, since reading a store writes."""
    found: dict[str, list[object]] = {"log/FORMAT": [(data / "log" / "FORMAT").read_text()]}
    for path in sorted(data.rglob("*.db")):
        for part in path.parent.glob(f"{path.name}*"):
            shutil.copy(part, scratch)
        with contextlib.closing(sqlite3.connect(scratch / path.name)) as store:
            tables = store.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
            (schema,) = (name for name, _ in tables if name.endswith("_schema"))
            versions = store.execute(f"SELECT version FROM {schema}").fetchall()
        found[str(path.relative_to(data))] = [*versions, *tables]
        for part in scratch.glob(f"{path.name}*"):
            part.unlink()
    return found


@pytest.fixture(scope="module", params=ALL)
def archive(request: pytest.FixtureRequest) -> str:
    """Name of an archive."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def data_dir(archive: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory, unpacked."""
    folder = tmp_path_factory.mktemp("earlier")
    unpack(DIRECTORIES / f"{archive}.tar.xz", folder)
    return folder / "data"


@pytest.fixture(scope="module")
def before(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Before:
    """What was there when the server was killed; earlier archives tell the formats alone."""
    place = data_dir.parent / "before.json"
    told = json.loads(place.read_text()) if place.exists() else {"arrived": [], "objects": {}}
    formats = formats_of(data_dir, tmp_path_factory.mktemp("scratch"))
    arrived: dict[str, set[str]] = {}
    for path, id_ in told["arrived"]:
        arrived.setdefault(path, set()).add(id_)
    return Before(arrived, told["objects"], formats, told.get("secret", ""))


@pytest.fixture(scope="module")
def sinks(archive: str) -> Iterator[Sinks]:
    """All of them, once for each directory."""
    del archive
    with Sinks() as sinks:
        yield sinks


@pytest.fixture(scope="module")
def server(data_dir: Path, before: Before, sinks: Sinks) -> Iterator[RunningServer]:
    """Today's server on it; *sinks* are there first, and what was there before is known."""
    del before, sinks
    own = f"http://{WRITTEN.SERVER[0]}:{WRITTEN.SERVER[1]}"
    flags = ("--public-url", own, "--private-sinks", "allow")
    with RunningServer(data_dir, flags=flags) as server:
        yield server


def ids_of(name: str) -> set[str]:
    """Ids of the events that were published for a subscription."""
    return {f"{name}-{number}" for number in range(WRITTEN.EVENTS[name])}


def kept_of(server: RunningServer, name: str) -> list[Any]:
    """The dead letters of a subscription that are kept."""
    listed = server.request("GET", f"/dead-letters?subscription={name}")
    assert listed.status == 200, listed.body
    letters: list[Any] = listed.json()
    return letters


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
    """Retry rows and backfilled routes of a sink that was down, and of one that answered 503."""
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
    assert len(kept_of(server, "refused")) == WRITTEN.EVENTS["refused"]
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
    assert kept_of(server, "own") == []


def test_objects_stand_as_they_were(server: RunningServer) -> None:
    """Broker, Trigger, Channel and Subscription are Ready; the timer is still there."""
    api = KnativeClient(server, "default")
    assert api.ready(TRIGGER, "slow")["spec"]["broker"] == "shop"
    assert api.ready(SUBSCRIPTION, "behind")["spec"]["channel"]["name"] == "pipe"
    timer = server.request("GET", "/subscriptions/timer").json()
    assert timer["config"]["interval"] == 86400


@SINCE_4
def test_every_object_is_answered_as_it_was(server: RunningServer, before: Before) -> None:
    """Subscriptions of all protocols, and the objects of Knative but for their status."""

    def settled(obj: dict[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in obj.items() if name != "status"}
        if "metadata" in obj:
            kept["metadata"] = dict(obj["metadata"]) | {"resourceVersion": ""}
        return kept

    used_up = {"counted", "reserved"}
    for path, objects in before.objects.items():
        answer = server.request("GET", path).json()
        now = answer if isinstance(answer, list) else answer["items"]
        then = [settled(obj) for obj in objects if obj.get("id") not in used_up]
        assert then
        assert [settled(obj) for obj in now if obj.get("id") not in used_up] == then


@SINCE_10
def test_the_formats_are_those_that_the_version_before_reads(
    server: RunningServer, data_dir: Path, before: Before, tmp_path: Path
) -> None:
    """So that it opens the directory again; who raises one says so here and in the changelog.

    Raised is the resource store's: it has an index of objects by uid. In the delivery stores, an
    earlier version keeps the index of dead letters without a date as it finds it, and leaves the
    column of runs empty that says whether their route was deleted.
    """
    del server
    found = {path: set(parts) for path, parts in formats_of(data_dir, tmp_path).items()}
    expected = {path: set(parts) for path, parts in before.formats.items()}
    expected["state.db"] -= {(10,)}
    expected["state.db"] |= {(11,), ("object_uid", "CREATE INDEX object_uid ON object (uid)")}
    undated = "CREATE INDEX letter_undated ON letter (partition) WHERE kept_ms < 1672531200000"
    last = "missing_to BIGINT, "
    for path, parts in expected.items():
        if path.endswith("delivery.db"):
            (run,) = (part for part in parts if part[0] == "run")
            added = run[1].replace(last, f"{last}route_deleted BOOLEAN, ")
            expected[path] = parts - {run} | {("run", added), ("letter_undated", undated)}
    assert found == expected


@SINCE_4
def test_a_backfill_goes_on_where_it_was(
    server: RunningServer, sinks: Sinks, before: Before
) -> None:
    """All of the history arrives, little of it twice, and what is new behind it."""
    then = before.arrived["/history"]
    everything = ids_of("history")
    assert set() < then < everything
    newer = publish(server, "history", WRITTEN.EVENTS["history"])
    everything.add(newer)
    wait_until(lambda: then | sinks.ids("/history") == everything, ARRIVE_S_MAX, "the history")
    again = then & sinks.ids("/history")
    assert len(again) <= len(then) / 2, "it began anew"


@SINCE_4
def test_a_run_that_was_under_way_comes_to_its_end(server: RunningServer, sinks: Sinks) -> None:
    """Letters that it had sent again were rows, the others were still letters."""

    def done() -> bool:
        run = server.request("GET", f"/dead-letters/runs/{WRITTEN.RUN}").json()
        return bool(run["state"] == "done")

    wait_until(done, ARRIVE_S_MAX, "the run is done")
    sinks.wait_for("/redriven", ids_of("redriven"))
    assert kept_of(server, "redriven") == []


@SINCE_4
def test_quota_that_was_reserved_is_used_by_whom_it_was_for(
    server: RunningServer, sinks: Sinks
) -> None:
    """Two of three wait for a sink that was down: both arrive, and one more."""
    for number in range(2, 6):
        publish(server, "reserved", number)
    gone = lambda: server.request("GET", "/subscriptions/reserved").status == 404  # noqa: E731
    wait_until(gone, ARRIVE_S_MAX, "the counted subscription has ended")
    arrived = [arrival.id for arrival in sinks.arrivals if arrival.path == "/reserved"]
    assert set(arrived) > ids_of("reserved")
    assert len(arrived) == 3


@SINCE_4
def test_a_parked_subscription_is_parked_until_it_is_resumed(
    server: RunningServer, sinks: Sinks
) -> None:
    """The sink that said that it is gone has all events then."""
    assert server.request("GET", "/subscriptions/gone/status").json()["state"] == "parked"
    assert sinks.ids("/gone") == set()
    assert server.request("POST", "/subscriptions/gone/resume").status == 202
    sinks.wait_for("/gone", ids_of("gone"))


@SINCE_4
def test_dead_letters_on_their_way_arrive(server: RunningServer, sinks: Sinks) -> None:
    """Of an event, and of a reply that stands nowhere but in its row."""
    del server
    sinks.wait_for("/twice-letters", ids_of("twice"))
    sinks.wait_for("/reply-letters", {"answer-0"})
    letters = [one for one in sinks.arrivals if one.path in {"/twice-letters", "/reply-letters"}]
    assert {letter.fields["ce-knativeerrorcode"] for letter in letters} == {"400"}


@SINCE_4
def test_headers_that_go_along_are_in_the_log(server: RunningServer, sinks: Sinks) -> None:
    """The newest kind of record holds those of the Broker's event."""
    del server
    wait_until(lambda: bool(sinks.ids("/trigger")), ARRIVE_S_MAX, "the Trigger's event")
    (order,) = (arrival for arrival in sinks.arrivals if arrival.path == "/trigger")
    assert order.fields["traceparent"] == WRITTEN.TRACE
    assert order.fields["kn-namespace"] == "default"


@SINCE_4
def test_a_timer_goes_on_with_numbers_that_were_never_used(
    server: RunningServer, sinks: Sinks, before: Before
) -> None:
    """Ticks come again, and none has an id of before."""
    del server
    wait_until(lambda: len(sinks.ids("/beat")) > 1, ARRIVE_S_MAX, "the timer")
    number_of = lambda id_: int(id_.rpartition("/")[2])  # noqa: E731
    last = max(map(number_of, before.arrived["/beat"]))
    assert min(map(number_of, sinks.ids("/beat"))) >= last


@SINCE_10
def test_deliveries_are_signed_by_the_key_of_before(
    server: RunningServer, sinks: Sinks, before: Before
) -> None:
    """Receivers have its secret, and nobody is told it again."""
    del server
    sinks.wait_for("/signed", ids_of("signed"))
    key = base64.b64decode(before.secret.removeprefix("whsec_"))
    for arrival in sinks.arrivals:
        if arrival.path == "/signed":
            words = (arrival.fields["webhook-id"], arrival.fields["webhook-timestamp"], "")
            content = ".".join(words).encode() + arrival.body
            signed = base64.b64encode(hmac.digest(key, content, "sha256")).decode()
            assert arrival.fields["webhook-signature"] == f"v1,{signed}"


@SINCE_10
def test_a_paused_subscription_is_paused_until_it_is_resumed(
    server: RunningServer, sinks: Sinks
) -> None:
    """What waited arrives then."""
    assert server.request("GET", "/subscriptions/paused/status").json()["state"] == "paused"
    assert sinks.ids("/paused") == set()
    assert server.request("POST", "/subscriptions/paused/resume").status == 202
    sinks.wait_for("/paused", ids_of("paused"))


@SINCE_10
def test_a_tenant_has_what_is_its_own(server: RunningServer, sinks: Sinks) -> None:
    """Its event, which waited, and its subscription, which no other namespace lists."""
    sinks.wait_for("/till", {"till-0"})
    (till,) = server.request("GET", f"{WRITTEN.TENANT}/subscriptions").json()
    assert till["id"] == "till"
    assert server.request("GET", "/subscriptions/till").status == 404
