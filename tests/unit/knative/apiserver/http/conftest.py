"""The Kubernetes-shaped API over objects in a temporary store, without a socket."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from distributary.access import Gate
from distributary.core import filter as filter_room
from distributary.core.database import sqlite_url
from distributary.knative import kinds as knative
from distributary.knative.apiserver.http import KubernetesApi
from distributary.knative.apiserver.objects import Objects
from distributary.testing.virtual import VirtualClock
from kit.asgi_client import Answer, AsgiClient

RULES = filter_room.check
WAIT_S = 10
"""A watch that says nothing for so long has hung."""


class Half:
    """Chance without any."""

    def unit(self) -> float:
        """The middle."""
        return 0.5


class Stream:
    """An answer under way, piece by piece."""

    def __init__(self, api: KubernetesApi, target: str, accept: str) -> None:
        path, _, query = target.partition("?")
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"host", b"h"), (b"accept", accept.encode())],
        }
        self.pieces: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.left = asyncio.Event()
        self.held = asyncio.Event()
        self.held.set()
        self.rest = b""
        self.task = asyncio.ensure_future(api(self.scope, self.receive, self.send))

    async def receive(self) -> dict[str, Any]:
        """Nothing, until the client leaves."""
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        """Takes a piece; waits where the client does not read."""
        await self.held.wait()
        self.pieces.put_nowait(message)

    async def line(self) -> dict[str, Any] | None:
        """The next line; None: the answer is whole."""
        while b"\n" not in self.rest:
            message = await asyncio.wait_for(self.pieces.get(), WAIT_S)
            self.rest += message.get("body", b"")
            if not message.get("more_body", True):
                assert not self.rest
                return None
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)


class Cluster:
    """A server's objects and the API that shows them."""

    def __init__(self, url: Any, runner: asyncio.Runner, **limits: int) -> None:
        self.runner = runner
        self.clock = VirtualClock()
        uids = (f"uid-{number:05}" for number in itertools.count(1))
        self.objects = Objects(
            url,
            kinds=knative.KINDS,
            admit=lambda kind, new, old: knative.admit(kind, new, old, RULES),
            default=knative.defaulted,
            clock=self.clock,
            new_uid=lambda: next(uids),
            **limits,
        )
        self.settled: list[tuple[Any, float]] = []
        self.gate = Gate(self.clock.wall_ms)
        self.api = KubernetesApi(self.objects, self._settle, self.clock, Half(), self.gate)
        self.client = AsgiClient(self.api, runner)
        runner.run(self.objects.start())

    async def _settle(self, key: Any, wait_s: float) -> None:
        self.settled.append((key, wait_s))

    def run(self, coroutine: Any) -> Any:
        """Run *coroutine* on the loop."""
        return self.runner.run(coroutine)

    def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        content_type: str = "application/json",
        **headers: str,
    ) -> Answer:
        """The answer to a request with *body* as JSON; bytes are sent as they are."""
        sent = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        fields = [("content-type", content_type)] if sent else []
        fields += [(name.replace("_", "-"), value) for name, value in headers.items()]
        return self.client.request(method, target, sent, fields)

    def get(self, target: str, status: int = 200, **headers: str) -> Any:
        """The JSON at *target*."""
        answer = self.ask("GET", target, **headers)
        assert answer.status == status, answer.body
        return answer.json()

    def trigger(self, name: str, **metadata: Any) -> Any:
        """Make a Trigger."""
        answer = self.ask("POST", TRIGGERS, trigger(name, **metadata))
        assert answer.status == 201, answer.body
        return answer.json()

    def watch(self, target: str, accept: str = "application/json") -> Stream:
        """Begin a watch."""

        async def begin() -> Stream:
            return Stream(self.api, target, accept)

        return self.run(begin())

    def lines(self, stream: Stream, count: int) -> list[Any]:
        """The next *count* lines of *stream*."""

        async def read() -> list[Any]:
            return [await stream.line() for _ in range(count)]

        return self.run(read())


TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"


def trigger(name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    """A good Trigger."""
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name, **metadata},
        "spec": {"broker": "default", "subscriber": {"uri": "http://a.example/"}, **(spec or {})},
    }


@pytest.fixture
def good():
    """Make a good Trigger."""
    return trigger


@pytest.fixture
def make_cluster(tmp_path) -> Iterator:
    """Make a server with these limits of its objects."""
    with asyncio.Runner() as runner:
        made = []

        def make(**limits):
            made.append(Cluster(sqlite_url(tmp_path / f"{len(made)}.db"), runner, **limits))
            return made[-1]

        yield make
        for one in made:
            runner.run(one.api.close())
            runner.run(one.objects.close())


@pytest.fixture
def cluster(make_cluster) -> Cluster:
    """A server with what it makes by itself: the default namespace and its Broker."""
    return make_cluster()
