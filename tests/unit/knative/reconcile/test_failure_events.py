"""Whose Kubernetes events are written when: namespaces share the places."""

import asyncio
from collections import Counter

import pytest

from distributary.core.outcome import FailingRoute
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import Stored
from distributary.knative.kinds import TRIGGER
from distributary.knative.reconcile import _failure_events
from distributary.knative.reconcile._failure_events import FailureEvents
from distributary.knative.reconcile._failures import Failures


class Clock:
    """Stands still."""

    def monotonic_s(self):
        """Seconds."""
        return 0.0


class SlowObjects:
    """A Trigger of each name, with the name as its uid; events wait in the namespaces *slow*."""

    def __init__(self, slow):
        self.slow = slow
        self.uids = {}
        self.free = asyncio.Event()
        self.begun, self.written = [], []

    def get(self, key):
        """The Trigger."""
        uid = self.uids.get(key.name, key.name)
        metadata = {"namespace": key.namespace, "name": key.name, "uid": uid}
        content = {"apiVersion": TRIGGER.api_version, "kind": "Trigger", "metadata": metadata}
        return Stored(key, uid, 1, content, b"")

    async def put(self, key, change):
        """Write an event once it may be written."""
        self.begun.append(key.namespace)
        if key.namespace in self.slow:
            await self.free.wait()
        self.written.append(change(None)["involvedObject"]["name"])


@pytest.fixture
def make():
    """Makes slow objects, and the writer of events about failing *triggers*, by namespace."""

    def made(slow, triggers):
        keys = {
            name: Key(TRIGGER.resource, namespace, name)
            for namespace, names in triggers.items()
            for name in names
        }
        failures, objects = Failures(Clock()), SlowObjects(slow)
        found = {
            uid: FailingRoute(
                route=uid, since_ms=0, last_ms=0, count=1, reason="status-503", dest="http://a/"
            )
            for uid in keys
        }
        failures.news(found, keys.__contains__)
        return objects, FailureEvents(objects, failures), keys

    return made


async def turns():
    """Let tasks go on until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_namespaces_whose_writes_wait_leave_room_for_another(make):
    """However many events they have; those are written in the end."""
    slow = {f"n{number}": [f"n{number}-{each}" for each in range(20)] for number in range(16)}

    async def run():
        objects, writer, keys = make(slow, {**slow, "shop": ["t"]})
        last = keys.pop("t")
        writer.tell(keys)
        await turns()
        assert Counter(objects.begun) == dict.fromkeys(slow, 8)
        writer.tell({"t": last})
        await turns()
        assert objects.written == ["t"]
        objects.free.set()
        await writer.told()
        assert sorted(objects.written) == sorted([*keys, "t"])

    asyncio.run(run())


def test_so_many_are_under_way(make, monkeypatch):
    """The next ones take the places that become free."""
    monkeypatch.setattr(_failure_events, "AT_ONCE_MAX", 2)

    async def run():
        objects, writer, keys = make("abc", {each: [each] for each in "abc"})
        writer.tell(keys)
        await turns()
        assert len(objects.begun) == 2
        objects.free.set()
        await writer.told()
        assert sorted(objects.written) == ["a", "b", "c"]

    asyncio.run(run())


def test_an_object_made_again_meanwhile_is_not_told_of(make, monkeypatch):
    """What failed is the one before it."""
    monkeypatch.setattr(_failure_events, "AT_ONCE_MAX", 1)

    async def run():
        objects, writer, keys = make("a", {"a": ["first", "again"]})
        writer.tell(keys)
        await turns()
        assert objects.begun == ["a"]
        objects.uids["again"] = "another"
        objects.free.set()
        await writer.told()
        assert objects.written == ["first"]

    asyncio.run(run())


def test_what_is_told_during_its_write_is_written_after_it(make):
    """The write has what was told before."""

    async def run():
        objects, writer, keys = make("a", {"a": ["t"]})
        for _ in range(3):
            writer.tell(keys)
            await turns()
            assert len(objects.begun) == 1
        objects.free.set()
        await writer.told()
        assert objects.written == ["t", "t"]

    asyncio.run(run())


def test_a_stop_begins_no_other(make, monkeypatch):
    """Nor does it leave one in line."""
    monkeypatch.setattr(_failure_events, "AT_ONCE_MAX", 1)
    faults = []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        objects, writer, keys = make("a", {"a": ["first", "next"]})
        writer.tell(keys)
        await turns()
        await writer.close()
        await turns()
        assert (objects.begun, objects.written) == (["a"], [])

    asyncio.run(run())
    assert faults == []
