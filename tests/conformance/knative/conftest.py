"""One running server for the whole folder; every test has a namespace and sinks of its own."""

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator

import pytest

from distributary.event import record as event_record
from distributary.resource.knative import NAMESPACE
from distributary.testing.answering_sinks import Answering, AnsweringSink, AnsweringSinks
from distributary.testing.knative_client import KnativeClient
from distributary.testing.running_server import RunningServer, free_port

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
        places = self.server.places
        found = []
        for partition in range(self.server.partition_count()):
            store = sqlite3.connect(f"file:{places.delivery_db(partition)}?mode=ro", uri=True)
            with contextlib.closing(store):
                found += store.execute("SELECT event FROM dead_letter").fetchall()
        events = [event for (row,) in found for event in event_record.decode(row)]
        return {str(event.attributes["id"]) for event in events}

    def metric(self, name: str) -> float:
        """A number of the server, of all namespaces together."""
        return self.server.metric(name)

    def prompt(self, retry: int = 1, **more: object) -> dict[str, object]:
        """Delivery options with quick retries."""
        return {"retry": retry, **PROMPT, **more}


@pytest.fixture(scope="session")
def knative_server(tmp_path_factory) -> Iterator[RunningServer]:
    """A server of its own."""
    with RunningServer(tmp_path_factory.mktemp("knative") / "data") as server:
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
