"""A subscription manager as a client meets it: its HTTP API."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from distributary.api import Description, create_app
from distributary.clock import SystemClock
from distributary.control import Store, Subscriptions, rules, store_url
from distributary.resource import SinkRule
from distributary.testing.asgi_client import Answer, AsgiClient
from distributary.testing.memory_routes import MemoryRouteAppender


class AlwaysReady:
    """Health that is of no interest here."""

    def ready(self) -> tuple[bool, list[str]]:
        """Ready."""
        return True, []

    def metrics(self) -> bytes:
        """None."""
        return b""


class SubscriptionManager:
    """Asks the API; ``proposal`` is a good subscription with some members changed."""

    def __init__(self, client: AsgiClient) -> None:
        self._client = client

    def ask(self, method: str, target: str, value: Any = None) -> Answer:
        """One request, with *value* as JSON."""
        body = b"" if value is None else json.dumps(value).encode()
        headers = [("content-type", "application/json")] if body else []
        return self._client.request(method, target, body, headers)

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


@pytest.fixture
def subscription_manager(tmp_path) -> Iterator[SubscriptionManager]:
    """A manager without subscriptions."""
    with asyncio.Runner() as runner:
        store = Store(store_url(tmp_path / "control.db"))
        sinks = rules(SinkRule(local_allowed=True))
        subscriptions = Subscriptions(store, MemoryRouteAppender(), sinks, SystemClock())
        runner.run(subscriptions.start())
        app = create_app(subscriptions, AlwaysReady(), Description())
        yield SubscriptionManager(AsgiClient(app, runner))
        runner.run(subscriptions.close())
        store.close()


@pytest.fixture
def sut(subscription_manager) -> SubscriptionManager:
    """Short for it."""
    return subscription_manager
