"""One running server for the whole folder; every test has a namespace and sinks of its own."""

import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from distributary.core.event import record as event_record
from distributary.knative.kinds import NAMESPACE
from kit.answering_sinks import (
    Answering,
    AnsweringSink,
    AnsweringSinks,
    by_turns,
    respond,
)
from kit.knative_client import KnativeClient
from kit.ports import free_port
from kit.running_server import RunningServer, wait_until

Options = tuple[int, str | None]
Hub = Callable[..., str]
Route = Callable[..., object]

_numbers = itertools.count(1)

PROMPT = {"backoffDelay": "PT0.01S", "backoffPolicy": "linear"}
"""Delivery options whose retries do not keep a test waiting."""


class World(KnativeClient):
    """What a test needs: the API in a namespace, and sinks."""

    def __init__(self, server: RunningServer, sinks: AnsweringSinks, namespace: str) -> None:
        super().__init__(server, namespace)
        self.sinks = sinks
        self.nowhere = f"http://127.0.0.1:{free_port()}/{namespace}"
        """Nobody listens here."""

    def sink(self, answer: Answering | None = None, name: str = "sink") -> AnsweringSink:
        """A sink that answers 200 where *answer* says nothing else."""
        return self.sinks.sink(f"/{self.namespace}/{name}", answer)

    def elsewhere(self, suffix: str = "-too") -> "World":
        """The same in another namespace."""
        return World(self.server, self.sinks, self.namespace + suffix)

    def kept_ids(self) -> set[str]:
        """Ids of the events that could not be delivered and are kept for that."""
        paths = self.server.paths
        found = []
        for partition in range(self.server.partition_count()):
            store = sqlite3.connect(f"file:{paths.delivery_db(partition)}?mode=ro", uri=True)
            with contextlib.closing(store):
                query = "SELECT event FROM letter_body WHERE id IN (SELECT body FROM letter)"
                found += store.execute(query).fetchall()
        events = [event for (row,) in found for event in event_record.decode(row)]
        return {str(event.attributes["id"]) for event in events}

    def metric(self, name: str) -> float:
        """A number of the server, of all namespaces together."""
        return self.server.metric(name)

    def prompt(self, retry: int = 1, **more: object) -> dict[str, object]:
        """Delivery options with quick retries."""
        return {"retry": retry, **PROMPT, **more}

    def check_precedence(self, hub: Hub, route: Route, *of_case: Any) -> None:
        """An event of *hub* goes to a sink that fails at first.

        Args:
            hub: Makes a Broker or Channel with these members of its spec; its address.
            route: Makes its Trigger or Subscription, with the subscriber's URL.
            of_case: The members of a ``Precedence``: what both want, and what must follow.
        """
        case = Precedence(*of_case)
        both = (case.of_hub, case.of_route)
        dead = {
            options[1]: self.sink(name=options[1]) for options in both if options and options[1]
        }
        members = [self._delivery(options, dead) for options in both]
        sink = self.sink(by_turns(*[respond(500)] * case.failures, respond(200)))
        address = hub(**members[0])
        route(sink.url, **members[1])
        id_ = self.publish(address, id=f"precedence-{self.namespace}")
        sink.wait(case.attempts)
        if case.dead_letter:
            dead[case.dead_letter].wait_for(id_)
        elif case.attempts <= case.failures:
            wait_until(lambda: id_ in self.kept_ids(), 20.0, "it is kept")
        assert sink.ids == [id_] * case.attempts
        told = {name for name, each in dead.items() if each.ids}
        assert told == ({case.dead_letter} if case.dead_letter else set())

    def _delivery(
        self, chosen: Options | None, dead: dict[str, AnsweringSink]
    ) -> dict[str, object]:
        if chosen is None:
            return {}
        retry, sink = chosen
        more = {"deadLetterSink": {"uri": dead[sink].url}} if sink else {}
        return {"delivery": self.prompt(retry, **more)}


class Precedence(NamedTuple):
    """Which of two delivery options counts.

    Attributes:
        of_hub: Options of the Broker or Channel: retries, and the name of a dead letter sink.
        of_route: Options of the Trigger or Subscription.
        failures: How often the sink fails before it takes the event.
        attempts: How often it is tried.
        dead_letter: The dead letter sink that gets it.
    """

    of_hub: Options | None
    of_route: Options | None
    failures: int
    attempts: int
    dead_letter: str | None


@pytest.fixture(scope="session")
def knative_server(tmp_path_factory) -> Iterator[RunningServer]:
    """A server of its own."""
    with RunningServer(
        tmp_path_factory.mktemp("knative") / "data", flags=["--error-data", "all"]
    ) as server:
        yield server


@pytest.fixture(scope="session")
def answering_sinks() -> Iterator[AnsweringSinks]:
    """Sinks of all tests."""
    with AnsweringSinks() as sinks:
        yield sinks


@pytest.fixture
def world(knative_server, answering_sinks) -> Iterator[World]:
    """A namespace that is there for one test; what it leaves is deleted with it."""
    world = World(knative_server, answering_sinks, f"n{next(_numbers)}")
    yield world
    for namespace in (world.namespace, f"{world.namespace}-too"):
        world.send("DELETE", world.path(NAMESPACE, namespace))
