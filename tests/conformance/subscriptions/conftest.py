"""A subscription manager as its clients and its sinks meet it."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from distributary.api import Description, create_app
from distributary.clock import SystemClock
from distributary.control import Store, Subscriptions, rules, store_url
from distributary.deliver import Destination
from distributary.event import Event
from distributary.event import record as event_record
from distributary.flow import Kind, Position, RouteRecord
from distributary.pipeline import RouteTarget
from distributary.policy import DeliveryPolicy
from distributary.resource import SinkRule
from distributary.testing.asgi_client import Answer, AsgiClient
from distributary.testing.memory_routes import MemoryRouteAppender
from distributary.testing.simulation import Partition

SPECIFICATIONS = Path(__file__).parents[3] / ".." / "shared" / "spec"
"""The texts stand beside the repository; they are never copied into it."""


class AlwaysReady:
    """Health that is of no interest here."""

    def ready(self) -> tuple[bool, list[str]]:
        """Ready."""
        return True, []

    def metrics(self) -> bytes:
        """None."""
        return b""


class SubscriptionManager:
    """Asks the API; ``proposal`` is a good subscription with some members changed.

    Attributes:
        routes: What it wrote into the log.
    """

    def __init__(self, client: AsgiClient, routes: MemoryRouteAppender) -> None:
        self._client = client
        self.routes = routes

    def ask(
        self, method: str, target: str, value: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request, with *value* as JSON."""
        if value is not None:
            return self.ask_raw(method, target, json.dumps(value).encode(), headers)
        return self._client.request(method, target, b"", (headers or {}).items())

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


@pytest.fixture
def subscription_manager(tmp_path) -> Iterator[SubscriptionManager]:
    """A manager without subscriptions."""
    with asyncio.Runner() as runner:
        store = Store(store_url(tmp_path / "control.db"))
        sinks = rules(SinkRule(local_allowed=True))
        routes = MemoryRouteAppender()
        subscriptions = Subscriptions(store, routes, sinks, SystemClock())
        runner.run(subscriptions.start())
        app = create_app(subscriptions, AlwaysReady(), Description())
        yield SubscriptionManager(AsgiClient(app, runner), routes)
        runner.run(subscriptions.close())
        store.close()


@pytest.fixture
def sut(subscription_manager) -> SubscriptionManager:
    """Short for it."""
    return subscription_manager


class Deliveries:
    """Events on their way: a subscription is made over HTTP, a real owner matches and sends.

    The simulation's witness fails at an attempt that was not expected, and at one that is missing.
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
                self._partition.witness.expect(position, record.uid, event)
                expected.append((event.attributes["id"], sink))
        self._partition.rest()
        assert [send[1:] for send in self._partition.sends[before:]] == expected
        self._manager.ask("DELETE", answer.headers["location"])
        self._partition.targets.delete(record.uid)
        self._partition._append_change(self._manager.routes.applied(0)[-1])

    def _stand(self, record: RouteRecord, sink: str) -> None:
        """The route as the control process hands it over: a target, then the record in the log."""
        headers = ((b"route", record.uid.encode()), (b"leg", b"1"))
        destination = Destination(sink, headers=headers, policy=DeliveryPolicy(retry=0))
        self._partition.targets.put(record.uid, RouteTarget(record.revision, destination, None))
        self._partition._append_change(record)
        if not self._partition.lives:
            self._partition.start()

    def _append(self, attributes: Mapping[str, Any]) -> tuple[Position, Event]:
        self._count += 1
        required = {"specversion": "1.0", "id": f"c{self._count}", "source": "/s", "type": "t"}
        event = Event(required | dict(attributes), b"")
        offset = self._partition.log.append([(Kind.EVENTS, event_record.encode([event]))])
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
    """The folder of the texts; skips where it is absent."""
    if not SPECIFICATIONS.is_dir():
        pytest.skip("the texts of the specifications are not beside this repository")
    return SPECIFICATIONS
