"""A subscription manager as its clients and its sinks meet it."""

import asyncio
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec
import pytest

from distributary.core.clock import SystemClock
from distributary.core.database import sqlite_url
from distributary.core.deliver import Destination
from distributary.core.engine import RouteTarget
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import Position, RecordKind, RouteRecord, Stage
from distributary.core.log.finder import FileLog
from distributary.core.policy import DeliveryPolicy
from distributary.datadir.seen import SeenNames
from distributary.resource import SinkRule
from distributary.subscriptions.amqp import AmqpServer
from distributary.subscriptions.api_keys import ApiKeys, ApiKeyStore
from distributary.subscriptions.events import EventPlaces, Events
from distributary.subscriptions.http import create_app
from distributary.subscriptions.service import Deliveries as StandingDeliveries
from distributary.subscriptions.service import Statuses, Subscriptions, rules
from distributary.subscriptions.store.store import Store
from kit import given
from kit.amqp_client import AmqpClient, join
from kit.announcer import CountingAnnouncer
from kit.asgi_client import Answer, AsgiClient
from kit.event_log import ListedRoutes
from kit.memory_routes import MemoryRouteAppender
from kit.simulation.partition import Partition
from kit.simulation.sinks import ScriptSettings
from kit.standing import watcher_of


class AlwaysReady:
    """Health that is of no interest here."""

    def ready(self) -> tuple[bool, list[str]]:
        """Ready."""
        return True, []

    def metrics(self, _namespaces: AbstractSet[str] | None = None) -> bytes:
        """None."""
        return b""


class Client(Protocol):
    """Asks by one binding, in HTTP's words."""

    def request(
        self, method: str, target: str, body: bytes, headers: Iterable[tuple[str, str]]
    ) -> Answer:
        """The answer to one request."""
        ...


OPERATIONS = {
    ("POST", False): "Create",
    ("GET", False): "Query",
    ("GET", True): "Retrieve",
    ("PUT", True): "Update",
    ("DELETE", True): "Delete",
}
"""Method, and whether the path names a subscription -> operation."""

CONDITIONS = {"if-match": "ifmatch", "if-none-match": "ifnonematch"}
"""Header field -> application property."""


class OverAmqp:
    """Has requests that are written in HTTP's words answered over AMQP."""

    def __init__(self, client: AmqpClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def request(
        self, method: str, target: str, body: bytes, headers: Iterable[tuple[str, str]]
    ) -> Answer:
        """The answer, as HTTP would have written it."""
        path, _, query = target.partition("?")
        id_ = path.removeprefix("/subscriptions").removeprefix("/")
        said = {CONDITIONS[name]: value for name, value in headers if name in CONDITIONS}
        said |= dict(parse_qsl(query)) | ({"id": unquote(id_)} if id_ else {})
        operation = OPERATIONS[method, bool(id_)]
        answer = self._runner.run(self._client.ask(operation, body, **said))
        found = answer.properties
        fields = {"etag": found["etag"]} if "etag" in found else {}
        if "id" in found:
            fields["location"] = f"/subscriptions/{found['id']}"
        if "next" in found:
            limit = said.get("limit", "")
            fields["link"] = f"</subscriptions?limit={limit}&cursor={found['next']}>"
        return Answer(answer.code, fields, answer.message.body, 1)


class SubscriptionManager:
    """Asks the API; ``proposal`` is a good subscription with some members changed.

    Attributes:
        routes: What it wrote into the log.
    """

    def __init__(self, client: Client, routes: MemoryRouteAppender) -> None:
        self._client = client
        self.routes = routes

    def ask(
        self, method: str, target: str, value: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request, with *value* as JSON."""
        if value is not None:
            return self.ask_raw(method, target, json.dumps(value).encode(), headers)
        return _configured(self._client.request(method, target, b"", (headers or {}).items()))

    def ask_raw(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request with *body* as it stands, said to be JSON."""
        fields = {"content-type": "application/json", **(headers or {})}
        return self._client.request(method, target, body, fields.items())

    def proposal(self, **members: Any) -> dict[str, Any]:
        """``...`` leaves a member out."""
        whole = {"sink": "https://example.com/event-processor", "protocol": "HTTP", **members}
        return {name: value for name, value in whole.items() if value is not ...}

    def create(self, **members: Any) -> Answer:
        """POST such a proposal."""
        return self.ask("POST", "/subscriptions", self.proposal(**members))

    def put(self, id_: str, **members: Any) -> Answer:
        """PUT such a proposal."""
        return self.ask("PUT", f"/subscriptions/{id_}", self.proposal(**members))

    def faults(self, answer: Answer) -> dict[str, str]:
        """Path -> code of what *answer* refuses."""
        assert (answer.status, answer.json()["code"]) == (400, "invalid"), answer.body
        return {fault["path"]: fault["code"] for fault in answer.json()["faults"]}


def _configured(answer: Answer) -> Answer:
    """*answer* without the member ``status``, which the specification leaves to the server."""
    if answer.status != 200 or not answer.body:
        return answer
    found = answer.json()
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, dict) and "sink" in each:
            each.pop("status", None)
    return answer._replace(body=msgspec.json.encode(found))


class Standing(NamedTuple):
    """What stands behind the bindings."""

    subscriptions: Subscriptions
    routes: MemoryRouteAppender
    runner: asyncio.Runner
    store: Store


@pytest.fixture
def standing(tmp_path) -> Iterator[Standing]:
    """No subscriptions yet."""
    with asyncio.Runner() as runner:
        store = Store(sqlite_url(tmp_path / "control.db"))
        # All protocols, whichever are installed here: nothing is sent by them.
        sinks = dataclasses.replace(rules(SinkRule(local_allowed=True)), protocols_absent={})
        routes = MemoryRouteAppender()
        subscriptions = Subscriptions(store, routes, sinks, SystemClock())
        runner.run(subscriptions.start())
        yield Standing(subscriptions, routes, runner, store)
        runner.run(subscriptions.close())
        store.close()


@pytest.fixture
def subscription_manager(standing, tmp_path) -> Iterator[SubscriptionManager]:
    """A manager without subscriptions."""
    deliveries = StandingDeliveries(standing.store, SystemClock(), [])
    key_store = ApiKeyStore(sqlite_url(tmp_path / "control.db"))
    keys = ApiKeys(key_store, CountingAnnouncer(), SystemClock())
    app = create_app(
        standing.subscriptions,
        AlwaysReady(),
        SeenNames,
        deliveries,
        events=Events(
            EventPlaces(FileLog(tmp_path, []), [], lambda _partition: [], lambda: "all"),
            standing.store,
            ListedRoutes(),
        ),
        statuses=Statuses(
            standing.store, [], [], watcher_of(standing.store, SystemClock()), clock=SystemClock()
        ),
        keys=keys,
    )
    yield SubscriptionManager(AsgiClient(app, standing.runner), standing.routes)
    key_store.close()


@pytest.fixture
def amqp_client(standing) -> Iterator[AmqpClient]:
    """A client of the AMQP binding, on the loop of ``standing``."""
    pytest.importorskip("cproton", reason="Qpid Proton is not installed")
    server = AmqpServer(standing.subscriptions)

    async def connect() -> AmqpClient:
        client = AmqpClient()
        join(client.engine, server.meet())
        return client

    yield standing.runner.run(connect())
    standing.runner.run(server.close())


@pytest.fixture(params=["http", "amqp"])
def either(request, standing) -> SubscriptionManager:
    """A manager without subscriptions, by each of the two bindings."""
    if request.param == "http":
        return request.getfixturevalue("subscription_manager")
    client = OverAmqp(request.getfixturevalue("amqp_client"), standing.runner)
    return SubscriptionManager(client, standing.routes)


@pytest.fixture
def sut(subscription_manager) -> SubscriptionManager:
    """Short for it."""
    return subscription_manager


class Deliveries:
    """Events on their way: a subscription is made over HTTP, a real owner matches and sends.

    The simulation's checker fails at an attempt that was not expected, and at one that is missing.
    """

    def __init__(self, manager: SubscriptionManager, partition: Partition) -> None:
        self._manager = manager
        self._partition = partition
        self._count = 0

    def check(
        self,
        subscription: Mapping[str, Any],
        sent: Sequence[Mapping[str, Any]],
        withheld: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Of events with these attributes exactly the first ones arrive at the sink, in order.

        Args:
            subscription: Members of the proposal.
            sent: Attributes of events that are delivered.
            withheld: Attributes of events that are not even attempted.
        """
        answer = self._manager.create(**subscription)
        assert answer.status == 201, answer.body
        sink = answer.json()["sink"]
        record = self._manager.routes.applied(0)[-1]
        self._stand(record, sink)
        before = len(self._partition.sends)
        expected = []
        for number in range(max(len(sent), len(withheld))):
            if number < len(withheld):
                self._append(withheld[number])
            if number < len(sent):
                position, event = self._append(sent[number])
                self._partition.checker.expect(position, record.uid, event)
                expected.append((event.attributes["id"], sink))
        self._partition.rest()
        assert [send[1:] for send in self._partition.sends[before:]] == expected
        self._manager.ask("DELETE", answer.headers["location"])
        self._partition.targets.delete(record.uid)
        self._partition._append_change(self._manager.routes.applied(0)[-1])

    def _stand(self, record: RouteRecord, sink: str) -> None:
        """The route as the control process hands it over: a target, then the record in the log."""
        settings = ScriptSettings(record.uid, Stage(1))
        destination = Destination(sink, settings=settings, policy=DeliveryPolicy(retry=0))
        self._partition.targets.put(record.uid, RouteTarget(record.revision, destination, None))
        self._partition._append_change(record)
        if not self._partition.lives:
            self._partition.start()

    def _append(self, attributes: Mapping[str, Any]) -> tuple[Position, Event]:
        self._count += 1
        required = {"specversion": "1.0", "id": f"c{self._count}", "source": "/s", "type": "t"}
        event = Event(required | dict(attributes), b"")
        offset = self._partition.log.append([(RecordKind.EVENTS, event_record.encode([event]))])
        return Position(0, offset, 0), event


@pytest.fixture
def deliveries(subscription_manager, tmp_path) -> Iterator[Deliveries]:
    """The manager's subscriptions at work."""
    (tmp_path / "partition").mkdir()
    partition = Partition(tmp_path / "partition")
    yield Deliveries(subscription_manager, partition)
    partition.close()


@pytest.fixture(scope="session")
def specifications() -> Path:
    """The folder of the texts; NOT RUN where it is absent."""
    return given.needed(given.TEXTS)
