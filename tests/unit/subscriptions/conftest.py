"""A store in a temporary folder, a log in memory, and a service on a loop of its own."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distributary.core.database import sqlite_url
from distributary.resource import ResourceRules, SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import ApiSubscriptionSpec
from distributary.subscriptions.service import Subscriptions, rules
from distributary.subscriptions.store import Directory, Keys, Sealer
from distributary.subscriptions.store.credentials_rows import CredentialRows
from distributary.subscriptions.store.store import Store
from kit.memory_routes import MemoryRouteAppender


class StillClock:
    """Time that stands still until a test moves it."""

    now_ms = 1_000_000

    def monotonic_s(self) -> float:
        """Seconds."""
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        """Milliseconds."""
        return self.now_ms


def counting_uuids() -> Callable[[], uuid.UUID]:
    """UUIDs 1, 2, 3..."""
    numbers = itertools.count(1)
    return lambda: uuid.UUID(int=next(numbers))


@pytest.fixture
def clock() -> StillClock:
    """A clock for stamps."""
    return StillClock()


@pytest.fixture
def good() -> Callable[..., dict[str, Any]]:
    """Make a good proposal, with some members changed."""
    return lambda **members: {"sink": "http://127.0.0.1:9/", "protocol": "HTTP", **members}


@pytest.fixture
def url(tmp_path):
    """Where the store is."""
    return sqlite_url(tmp_path / "control.db")


@pytest.fixture
def store(url) -> Iterator[Store]:
    """An empty store."""
    made = Store(url)
    yield made
    made.close()


@pytest.fixture
def local_rules() -> ResourceRules:
    """Local sinks allowed."""
    return rules(SinkRule(local_allowed=True))


@pytest.fixture
def proposal() -> Callable[..., dict[str, Any]]:
    """A good proposal with some members changed."""
    return lambda **members: {"sink": "http://127.0.0.1:9/", "protocol": "HTTP", **members}


@pytest.fixture
def spec(local_rules, proposal) -> Callable[..., ApiSubscriptionSpec]:
    """The spec of such a proposal."""
    return lambda **members: api_subscription.parse(proposal(**members), local_rules)


@pytest.fixture
def kept(local_rules, proposal) -> Callable[..., ApiSubscriptionSpec]:
    """The spec of a proposal that replaces one."""
    return lambda **members: api_subscription.parse(
        proposal(**members), local_rules, secrets_kept=True
    )


@pytest.fixture
def rows(url, store, tmp_path):  # noqa: ARG001 - it makes the file
    """The credentials of the store."""
    made = CredentialRows(url, Sealer(Keys(tmp_path / "credentials.key")))
    yield made
    made.close()


@pytest.fixture
def directory(url, store):  # noqa: ARG001 - it makes the file
    """A reader of the store."""
    made = Directory(url)
    yield made
    made.close()


@pytest.fixture
def appender() -> MemoryRouteAppender:
    """A log of two partitions."""
    return MemoryRouteAppender()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """A loop that keeps running between calls."""
    with asyncio.Runner() as made:
        yield made


@pytest.fixture
def make_service(store, appender, local_rules, clock, runner) -> Iterator[Callable[..., Any]]:
    """Start a service over the store; all are closed at the end."""
    made: list[Subscriptions] = []

    def make(**options: Any) -> Subscriptions:
        new_uuid = counting_uuids()
        service = Subscriptions(
            options.pop("store", store),
            options.pop("appender", appender),
            local_rules,
            clock,
            new_uuid=new_uuid,
            **options,
        )
        made.append(service)
        runner.run(service.start())
        return service

    yield make
    for service in made:
        runner.run(service.close())


@pytest.fixture
def service(make_service) -> Subscriptions:
    """A started service."""
    return make_service()
