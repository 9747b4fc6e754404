"""The application over a store in a temporary folder and a log in memory."""

import asyncio
import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from distributary.access import Gate
from distributary.core.database import sqlite_url
from distributary.core.journal_blocks import read_blocks
from distributary.core.journal_frames import HistoryBlock
from distributary.core.log.finder import FileLog
from distributary.core.log.indexed import Index
from distributary.core.outcome import DeliveryReader
from distributary.datadir.seen import SeenNames
from distributary.resource import SinkRule
from distributary.subscriptions.api_keys import ApiKeys, ApiKeyStore
from distributary.subscriptions.events import EventPlaces, Events
from distributary.subscriptions.http import create_app
from distributary.subscriptions.service import Deliveries, Statuses, Subscriptions, rules
from distributary.subscriptions.store.store import Store
from distributary.testing.memory_tallies import MemoryTallies, MemoryTallyReader
from kit.announcer import CountingAnnouncer
from kit.asgi_client import Answer, AsgiClient
from kit.event_log import EventLog, ListedRoutes
from kit.memory_routes import MemoryRouteAppender
from kit.standing import watcher_of

JSON = (("content-type", "application/json"),)


class StillClock:
    """Time that stands still."""

    def monotonic_s(self) -> float:
        """Seconds."""
        return 0.0

    def wall_ms(self) -> int:
        """Milliseconds."""
        return 0


class FakeHealth:
    """Health as a test wants it."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def ready(self) -> tuple[bool, list[str]]:
        """Ready without reasons to the contrary."""
        return not self.reasons, self.reasons

    def metrics(self, namespaces: AbstractSet[str] | None = None) -> bytes:
        """One metric, and of which namespaces it was asked for."""
        return b"up 1\n" if namespaces is None else " ".join(sorted(namespaces)).encode()


class Api:
    """The application and what stands behind it."""

    def __init__(self, store: Store, runner: asyncio.Runner, folder: Path) -> None:
        self.store = store
        self.appender = MemoryRouteAppender()
        self.health = FakeHealth()
        self.seen = SeenNames()
        self.subscriptions = Subscriptions(
            store, self.appender, rules(SinkRule(local_allowed=True)), StillClock()
        )
        self.databases = [folder / "0.db", folder / "1.db"]
        self.failing = [folder / "0.json", folder / "1.json"]
        self.tallies = MemoryTallies()
        self.watcher = watcher_of(store, StillClock(), MemoryTallyReader(self.tallies))
        readers = self.readers = [
            DeliveryReader(path, at) for at, path in enumerate(self.databases)
        ]
        self.awaited: dict[tuple[int, int], str] = {}

        def awaited(partition: int, offset: int) -> str:
            return self.awaited.get((partition, offset), "")

        deliveries = Deliveries(store, StillClock(), readers, awaited)
        self.routes = ListedRoutes()
        self.log = EventLog(folder / "log")
        self.folder = folder
        self.key_store = ApiKeyStore(sqlite_url(folder / "control.db"))
        self.announcer = CountingAnnouncer()
        self.gate = Gate(lambda: 0)
        app = create_app(
            self.subscriptions,
            self.health,
            lambda: self.seen,
            deliveries,
            events=Events(self.places(folder), store, self.routes),
            statuses=Statuses(
                store,
                readers,
                self.failing,
                self.watcher,
                clock=StillClock(),
                awaited=awaited,
            ),
            keys=ApiKeys(self.key_store, self.announcer, StillClock()),
            gate=self.gate,
        )
        self.client = AsgiClient(app, runner)
        self.request = self.client.request

    @staticmethod
    def places(folder: Path) -> EventPlaces:
        """Two partitions, of which the first has an index."""
        log = FileLog(folder / "log", [Index(folder / "index"), Index(None)])

        def waiting(partition: int) -> list[HistoryBlock]:
            return read_blocks(folder / f"journal-{partition}")

        return EventPlaces(log, [folder / "history"], waiting, lambda: "all")

    def send(self, method: str, target: str, value: Any, *headers: tuple[str, str]) -> Answer:
        """Send *value* as JSON."""
        return self.request(method, target, json.dumps(value).encode(), (*JSON, *headers))

    def put(self, id_: str, *headers: tuple[str, str], **members: Any) -> Answer:
        """Put a good subscription with some members changed."""
        return self.send("PUT", f"/subscriptions/{id_}", proposal(**members), *headers)


def proposal(**members: Any) -> dict[str, Any]:
    """A good proposal with some members changed."""
    return {"sink": "http://127.0.0.1:9/", "protocol": "HTTP", **members}


@pytest.fixture
def api(tmp_path) -> Iterator[Api]:
    """A started application."""
    with asyncio.Runner() as runner:
        store = Store(sqlite_url(tmp_path / "control.db"))
        made = Api(store, runner, tmp_path)
        runner.run(made.subscriptions.start())
        yield made
        made.log.close()
        runner.run(made.subscriptions.close())
        made.key_store.close()
        store.close()
