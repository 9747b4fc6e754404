"""Objects, store, leader and reconciler of one server over a store in a temporary folder."""

import asyncio
import base64
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distributary.core import filter as filter_room
from distributary.core.database import sqlite_url
from distributary.core.errors import LogUnavailableError
from distributary.core.outcome import FailingRoute, write_failing
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import AddressBook, Objects, Write
from distributary.knative.kinds import KINDS, admit, defaulted
from distributary.knative.reconcile import Gatekeeper, Reconciler, Site
from distributary.resource import SINKS, SinkRule
from distributary.subscriptions.service import Orders
from distributary.subscriptions.store import Directory, Keys, Sealer
from distributary.subscriptions.store.leader import Leader
from distributary.subscriptions.store.store import Store
from kit.memory_routes import MemoryRouteAppender

PUBLIC = "http://events.example:8080"
SITE = Site(PUBLIC, "127.0.0.1:8080", SinkRule(local_allowed=True))
SINK = "http://127.0.0.1:9/in"
KIND_OF = {kind.kind: kind for kind in KINDS}
WAIT_S = 10.0
"""Longest wait for what a test expects; nothing waits that long."""


class Hour:
    """A clock that a test moves."""

    now_ms = 1_700_000_000_000

    def monotonic_s(self) -> float:
        """Seconds."""
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        """Milliseconds."""
        return self.now_ms


class Ingress:
    """A receiver of events that reads the addresses when it is told to look."""

    def __init__(self, url):
        self.url = url
        self.known: dict[str, str] = {}
        self.looks = 0
        self.failing = False

    async def look_again(self) -> None:
        """Read the addresses, or fail."""
        self.looks += 1
        if self.failing:
            raise LogUnavailableError("the receiver does not answer")
        self.known = addresses(self.url)


def addresses(url) -> dict[str, str]:
    """What a receiver reads that looks now."""
    book = AddressBook(url)
    try:
        return book.read()
    finally:
        book.close()


class OpenGate:
    """Lets everybody send everything."""

    required = False

    def change_policies(self, _policies: object) -> int:
        return 0

    def decided(self) -> int:
        return 0


class World:
    """A control process without the network; ``restart`` begins another on the same store."""

    kinds = KIND_OF

    def __init__(self, folder, runner, gatekeeper: Gatekeeper | None = None):
        self.gatekeeper = gatekeeper or OpenGate()
        self.folder = folder
        self.url = sqlite_url(folder / "state.db")
        self.runner = runner
        self.clock = Hour()
        self.appender = MemoryRouteAppender()
        self.ingress = Ingress(self.url)
        self.failing = folder / "failing.json"
        self.awaited: dict[str, tuple[str, int]] = {}
        self.uids = (f"uid-{number}" for number in itertools.count(1))
        self.counts: dict[str, int] = {}
        self.start()

    def start(self):
        """Begin."""
        rules = filter_room.check
        self.store = Store(self.url)
        self.leader = Leader(self.store, self.appender, self.clock, retry_wait_s=0.01)
        self.objects = Objects(
            self.url,
            kinds=KINDS,
            admit=functools.partial(admit, check=rules),
            default=defaulted,
            clock=self.clock,
            new_uid=lambda: next(self.uids),
            vault=Sealer(Keys(self.folder / "credentials.key")),
        )
        self.reconciler = Reconciler(
            self.objects,
            self.leader,
            self.ingress,
            SITE,
            self.clock,
            failing=[self.failing],
            awaited=lambda: self.awaited,
            gatekeeper=self.gatekeeper,
            steering=Orders(self.store, self.clock, 2),
            vault=Sealer(Keys(self.folder / "credentials.key")),
            count=lambda name, by: self.counts.update({name: self.counts.get(name, 0) + by}),
        )

        async def begin():
            await self.leader.start()
            await self.objects.start()
            await self.reconciler.start()

        self.runner.run(begin())

    def stop(self):
        """End, as after a signal."""

        async def end():
            await self.reconciler.close()
            await self.objects.close()
            await self.leader.close()

        self.runner.run(end())
        self.store.close()

    def restart(self):
        """End, and begin again."""
        self.stop()
        self.start()

    def settle(self, *keys: Key, all_of: str = "default") -> None:
        """Wait until all that follows is done (of *keys*, or of a namespace)."""
        for key in keys or (Key("namespaces", "", all_of),):
            assert self.runner.run(self.reconciler.settled(key, WAIT_S))

    def apply(self, kind: str, name: str, spec: Any = None, namespace: str = "default", **more):
        """Create the object or replace its spec, and wait until it is reconciled."""
        key = Key(KIND_OF[kind].resource, namespace, name)

        def change(before):
            found = before or {"metadata": {"name": name}}
            metadata = {**found["metadata"], **more}
            return {**found, "metadata": metadata, "spec": {} if spec is None else spec}

        self.runner.run(self.objects.put(key, change))
        self.settle(all_of=namespace)
        return self.get(kind, name, namespace)

    def service(self, name: str, annotations: Any = None, **spec):
        """Apply a Service."""
        metadata = {"annotations": annotations} if annotations else {}
        return self.apply("Service", name, {"ports": [{"port": 8081}], **spec}, **metadata)

    def secret(self, name: str, sinks: str = SINK, **values: str):
        """Apply a Secret with *values*."""
        data = {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}
        metadata = {"name": name, "annotations": {SINKS: sinks}}

        def change(before):
            found = (before or {}).get("metadata", {})
            return {"metadata": {**found, **metadata}, "data": data}

        self.runner.run(self.objects.put(Key(KIND_OF["Secret"].resource, "default", name), change))
        self.settle()

    def get(self, kind: str, name: str, namespace: str = "default"):
        """The object's content; None: there is none."""
        found = self.objects.get(Key(KIND_OF[kind].resource, namespace, name))
        return None if found is None else found.content

    def delete(self, kind: str, name: str, namespace: str = "default"):
        """Delete it, and wait until that is settled."""
        key = Key(KIND_OF[kind].resource, namespace, name)
        self.runner.run(self.objects.delete(key))
        self.settle(key)
        self.settle(all_of=namespace)

    def forge(self, kind: str, name: str, status: Any):
        """Write a status as a client may."""
        key = Key(KIND_OF[kind].resource, "default", name)
        write = Write(subresource="status")
        self.runner.run(self.objects.edit(key, lambda old: {**old, "status": status}, write))
        self.settle()

    def fail(self, *routes: FailingRoute):
        """Let owners say that deliveries fail, and have it looked at."""
        write_failing(self.failing, list(routes))
        self.look_at_failures()

    def look_at_failures(self):
        """Have it looked at what owners said last."""
        self.runner.run(self.reconciler._look_at_failures())
        self.runner.run(self.reconciler._events.told())
        self.settle()

    @staticmethod
    def condition(content, type_: str):
        """(status, reason) of a condition."""
        found = {each["type"]: each for each in content["status"]["conditions"]}
        return found[type_]["status"], found[type_].get("reason", "")

    @classmethod
    def ready(cls, content):
        """Status of ``Ready``."""
        return cls.condition(content, "Ready")[0]

    @staticmethod
    def to(uri: str = SINK, **more):
        """A destination."""
        return {"uri": uri, **more}

    @staticmethod
    def at(kind: str, name: str, **more):
        """A destination by reference."""
        ref = {"apiVersion": KIND_OF[kind].api_version, "kind": kind, "name": name}
        return {"ref": ref, **more}

    def addresses(self):
        """What a receiver reads that looks now."""
        return addresses(self.url)

    def records(self):
        """What a reader of the log applies."""
        return self.appender.applied(1)

    def standing(self):
        """The routes that stand in the log, by uid."""
        found = {}
        for record in self.records():
            if record.op == "put":
                found[record.uid] = record
            else:
                del found[record.uid]
        return found

    def settings(self, content):
        """How the route of an object delivers, as the pipeline reads it."""
        directory = Directory(self.url)
        try:
            directory.refresh()
            found = directory.get(content["metadata"]["uid"])
        finally:
            directory.close()
        return None if found is None else found.settings


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """A loop that keeps running between calls."""
    with asyncio.Runner() as made:
        yield made


@pytest.fixture
def make_world(tmp_path) -> Callable[..., World]:
    """Starts a server: on a runner's loop, with a gatekeeper."""
    return functools.partial(World, tmp_path)


@pytest.fixture
def world(make_world, runner) -> Iterator[World]:
    """A started server with the default broker."""
    made = make_world(runner)
    made.settle()
    yield made
    made.stop()
