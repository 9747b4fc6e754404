"""The application over a store in a temporary folder and a log in memory."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distributary.core.sqlite import sqlite_url
from distributary.datadir.seen import SeenNames
from distributary.resource import SinkRule
from distributary.subscriptions.http import create_app
from distributary.subscriptions.service import Deliveries, Subscriptions, rules
from distributary.subscriptions.store.store import Store
from kit.asgi_client import Answer, AsgiClient
from kit.memory_routes import MemoryRouteAppender

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

    def metrics(self) -> bytes:
        """One metric."""
        return b"up 1\n"


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
        deliveries = Deliveries(store, StillClock(), self.databases, self.failing)
        app = create_app(self.subscriptions, self.health, lambda: self.seen, deliveries)
        self.client = AsgiClient(app, runner)
        self.request = self.client.request

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
        runner.run(made.subscriptions.close())
        store.close()
