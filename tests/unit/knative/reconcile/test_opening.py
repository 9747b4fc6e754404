"""An address takes events only once the routes of its Triggers listen there, whoever looks when."""

import asyncio

import pytest

from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import Key

NAMES = ("b1", "b2")


@pytest.fixture
def listening(world):
    """Triggers of two Brokers that are gone."""
    for name in NAMES:
        world.apply("Broker", name)
        world.apply("Trigger", f"t-{name}", {"broker": name, "subscriber": world.to()})
    for name in NAMES:
        world.delete("Broker", name)
    return world


async def _recreate(world, name):
    key = Key(world.kinds["Broker"].resource, "default", name)
    await world.objects.put(key, lambda _: {"metadata": {"name": name}, "spec": {}})


def _unheard(world) -> list[str]:
    """Brokers that a receiver which looks now accepts events for, and whose route is elsewhere."""
    known, routes = world.addresses(), world.standing()
    found = ((name, world.get("Trigger", f"t-{name}")["metadata"]["uid"]) for name in NAMES)
    return [
        name
        for name, uid in found
        if f"brokers/default/{name}" in known
        and routes[uid].address != known[f"brokers/default/{name}"]
    ]


def test_a_receiver_that_looks_at_any_time_finds_no_address_before_its_routes(
    listening, monkeypatch
):
    """It looks for another Broker, by itself, or because it starts; the log is slow meanwhile."""
    world, unheard = listening, []
    append, look = world.appender.append_routes, world.ingress.look_again

    async def slow(bodies):
        unheard.append(_unheard(world))
        await asyncio.sleep(0.05)
        await append(bodies)

    async def looking():
        await look()
        unheard.append(_unheard(world))

    monkeypatch.setattr(world.appender, "append_routes", slow)
    monkeypatch.setattr(world.ingress, "look_again", looking)
    world.objects.on_change(lambda _change: unheard.append(_unheard(world)))

    async def one_within_the_pass_of_the_other():
        await _recreate(world, "b1")
        await asyncio.sleep(0.02)
        await _recreate(world, "b2")

    world.runner.run(one_within_the_pass_of_the_other())
    world.settle()
    assert len(unheard) > len(NAMES)
    assert not any(unheard)
    assert world.addresses().keys() >= {f"brokers/default/{name}" for name in NAMES}
    assert all(world.ready(world.get("Broker", name)) == "True" for name in NAMES)


def test_a_broker_is_not_ready_while_its_address_cannot_be_opened(listening, monkeypatch):
    """The store is full: it is tried again, and nothing says that it accepts events meanwhile."""
    world, fails = listening, [True]
    opening = world.objects.open_addresses

    async def failing(uids):
        if uids and fails:
            raise StoreError("full")
        await opening(uids)

    monkeypatch.setattr(world.objects, "open_addresses", failing)
    world.runner.run(_recreate(world, "b1"))
    assert not world.runner.run(world.reconciler.settled(Key("namespaces", "", "default"), 0.3))
    assert world.ready(world.get("Broker", "b1")) == "Unknown"
    assert "brokers/default/b1" not in world.addresses()
    fails.clear()
    world.settle()
    assert world.ready(world.get("Broker", "b1")) == "True"
    assert "brokers/default/b1" in world.addresses()


@pytest.mark.parametrize("forged", [False, True], ids=["plain", "says-that-it-is-addressable"])
def test_a_broker_of_which_a_crash_left_the_routes_elsewhere_opens_after_them(
    listening, monkeypatch, forged
):
    """The next start asks every Trigger first; it believes no status."""
    world, unheard = listening, []
    world.runner.run(world.reconciler.close())
    world.runner.run(_recreate(world, "b1"))
    if forged:
        key = Key(world.kinds["Broker"].resource, "default", "b1")
        status = {"conditions": [{"type": "Addressable", "status": "True"}]}
        world.runner.run(world.objects.edit(key, lambda old: {**old, "status": status}))
    append, look = world.appender.append_routes, world.ingress.look_again

    async def slow(bodies):
        unheard.append(_unheard(world))
        await append(bodies)

    async def looking():
        await look()
        unheard.append(_unheard(world))

    monkeypatch.setattr(world.appender, "append_routes", slow)
    monkeypatch.setattr(world.ingress, "look_again", looking)
    world.restart()
    world.settle()
    assert len(unheard) > 1
    assert not any(unheard)
    assert "brokers/default/b1" in world.addresses()
