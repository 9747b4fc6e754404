"""Objects over a real store in a temporary folder, on a loop of their own and a virtual clock."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from distributary.core.database import sqlite_url
from distributary.knative.apiserver.machinery import Cause, Object, StatusError, invalid
from distributary.knative.apiserver.objects import Objects
from distributary.knative.kinds import BROKER, KINDS, TRIGGER
from distributary.testing.virtual import VirtualClock


def admit(kind, new, _old) -> None:
    """Refuses what says that it is bad."""
    spec = new.get("spec") or {}
    if spec.get("bad"):
        cause = Cause("spec.bad", "FieldValueInvalid", "must not be")
        raise invalid(kind, new["metadata"].get("name", ""), [cause])
    if spec.get("bug"):
        raise ZeroDivisionError("a bug")


def default(kind, new, _old) -> Object:
    """Brokers get a class."""
    if kind is not BROKER:
        return new
    return {**new, "spec": {"class": "usual", **(new.get("spec") or {})}}


class World:
    """A server's objects; ``restart`` begins another process on the same store."""

    def __init__(self, url, runner, **limits):
        self.url = url
        self.runner = runner
        self.clock = VirtualClock()
        self.limits = limits
        self.uids = (f"uid-{number}" for number in itertools.count(1))
        self.told = []
        self._start()

    def _start(self):
        self.objects = Objects(
            self.url,
            kinds=KINDS,
            admit=admit,
            default=default,
            clock=self.clock,
            new_uid=lambda: next(self.uids),
            **self.limits,
        )
        self.objects.on_change(self.told.append)
        self.runner.run(self.objects.start())

    def stop(self):
        self.runner.run(self.objects.close())

    def restart(self):
        self.stop()
        self._start()

    def run(self, coroutine):
        return self.runner.run(coroutine)

    def make(self, kind, name, namespace="default", write=None, **content):
        """Create an object."""
        body = {"metadata": {"name": name, **content.pop("metadata", {})}, **content}
        rest = () if write is None else (write,)
        return self.run(self.objects.create(kind, namespace, body, *rest))

    def trigger(self, name, namespace="default", write=None, **spec):
        """Create a Trigger."""
        return self.make(TRIGGER, name, namespace, write, spec=spec)

    def open(self, *made):
        """Open the addresses of Brokers or Channels, as the reconciler does."""
        self.run(self.objects.open_addresses({stored.uid: stored.key for stored in made}))

    def edit(self, key, change, *write):
        """Edit an object."""
        return self.run(self.objects.edit(key, change, *write))

    def delete(self, key, *write):
        """Delete an object."""
        return self.run(self.objects.delete(key, *write))

    def refused(self, coroutine) -> StatusError:
        """How *coroutine* is refused."""
        with pytest.raises(StatusError) as caught:
            self.run(coroutine)
        return caught.value

    def until(self, reached) -> None:
        """Let background work run until *reached*."""

        async def wait():
            while not reached():  # noqa: ASYNC110 - it looks at what background tasks do
                await asyncio.sleep(0)

        self.run(asyncio.wait_for(wait(), 10))

    def names(self, kind, namespace=None):
        """Names of a kind's objects, with their namespaces."""
        found, _ = self.objects.list(kind, namespace)
        return [(stored.key.namespace, stored.key.name) for stored in found]


@pytest.fixture
def url(tmp_path):
    """Where the store is."""
    return sqlite_url(tmp_path / "control.db")


@pytest.fixture
def make_world(url) -> Iterator:
    """Make a world with these limits."""
    with asyncio.Runner() as runner:
        made = []

        def make(**limits):
            made.append(World(url, runner, **limits))
            return made[-1]

        yield make
        for world in made:
            world.stop()


@pytest.fixture
def world(make_world) -> World:
    """An empty server."""
    return make_world()
