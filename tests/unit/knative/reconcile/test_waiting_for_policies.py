"""Brokers open, and policies are ready, once receivers decide by the policies; nobody else waits.

In virtual time: what is awaited is written with its seconds.
"""

import asyncio
import itertools

import pytest

from distributary.knative.apiserver.machinery import Key
from distributary.knative.reconcile._reconciler import DECIDED_LOOK_S
from kit.virtual_threads import virtual_loop

LOOK_S = 0.25
"""Interval of looks of receivers, seconds."""

AT_ONCE_S = 0.015
"""What waits for nobody is done by the next look of a test, in seconds of a clock that rounds."""


class Receivers:
    """Decide by the policies that they have read: four times a second, unless one hangs.

    Attributes:
        told: Names of the policies of each change.
        hang: Whether one of them reads none.
    """

    required = True

    def __init__(self) -> None:
        self.told: list[set[str]] = []
        self.hang = False
        self._seen = 0
        self._look = 0

    def change_policies(self, policies) -> int:
        self.decided()
        self.told.append({policy.name for policy in policies})
        return len(self.told)

    def decided(self) -> int:
        look = int(asyncio.get_running_loop().time() / LOOK_S)
        if look > self._look and not self.hang:
            self._look, self._seen = look, len(self.told)
        return self._seen


@pytest.fixture
def receivers() -> Receivers:
    """They have read all that they were told, which is nothing yet."""
    return Receivers()


@pytest.fixture
def world(make_world, receivers):
    """A started server with the default broker, in virtual time."""
    with asyncio.Runner(loop_factory=virtual_loop) as runner:
        made = make_world(runner, receivers)
        made.settle()
        yield made
        made.stop()


def put(world, kind, name, namespace="default", **spec):
    """Create an object, or replace its spec."""
    key = Key(world.kinds[kind].resource, namespace, name)
    return world.objects.put(
        key, lambda old: {**(old or {"metadata": {"name": name}}), "spec": spec}
    )


async def ready_after(world, kind, name, namespace="default", wait_s=30.0) -> float | None:
    """Seconds until it is ready; None: it is not."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    while loop.time() < start_s + wait_s:
        found = world.get(kind, name, namespace)
        if "status" in found and world.ready(found) == "True":
            return loop.time() - start_s
        await asyncio.sleep(0.01)
    return None


async def change_for_ever(world, namespace):
    """Change a policy twenty times a second."""
    for number in itertools.count():
        await put(world, "EventPolicy", "p", namespace, **{"from": [{"sub": f"key:{number}"}]})
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("hang", [False, True], ids=["receivers-look", "one-hangs"])
def test_who_changes_a_policy_often_makes_no_other_namespace_wait(world, receivers, hang):
    """Neither its Triggers nor its Brokers nor what is deleted: none of its policies changed."""
    world.apply("EventPolicy", "p", {"from": [{"sub": "key:a"}]}, namespace="few")

    async def meanwhile():
        changing = asyncio.create_task(change_for_ever(world, "many"))
        await asyncio.sleep(1.0)
        receivers.hang = hang
        await asyncio.sleep(1.0)
        for number in range(5):
            await put(world, "Broker", f"b{number}", "few")
            sink = {"broker": f"b{number}", "subscriber": world.to()}
            await put(world, "Trigger", f"t{number}", "few", **sink)
            assert await ready_after(world, "Broker", f"b{number}", "few") <= AT_ONCE_S
            assert await ready_after(world, "Trigger", f"t{number}", "few") <= AT_ONCE_S
            key = Key(world.kinds["Trigger"].resource, "few", f"t{number}")
            await world.objects.delete(key)
            assert await world.reconciler.settled(key, AT_ONCE_S)
        changing.cancel()

    world.runner.run(meanwhile())
    assert len(receivers.told) > 20


def test_a_broker_that_no_policy_selects_waits_for_none(world, receivers):
    """Though there is one that could select it, and another namespace's changes at that moment."""
    gold = {"kind": "Broker", "apiVersion": "eventing.knative.dev/v1", "matchLabels": {"a": "b"}}
    world.apply("EventPolicy", "p", {"to": [{"selector": gold}]}, namespace="few")
    receivers.hang = True

    async def both():
        await asyncio.gather(
            put(world, "EventPolicy", "p", "many"), put(world, "Broker", "b", "few")
        )
        assert await ready_after(world, "Broker", "b", "few") <= AT_ONCE_S

    world.runner.run(both())
    assert receivers.told[-1] == {"few/p", "many/p"}


@pytest.mark.parametrize("first", ["EventPolicy", "Broker"])
def test_a_broker_opens_once_its_policies_are_decided_by(world, receivers, first):
    """Not before, though its Triggers have their routes already; then at once."""
    world.apply("Broker", "old")
    receivers.hang = True

    async def both():
        policy, broker = put(world, "EventPolicy", "p"), put(world, "Broker", "b")
        pair = [broker, policy] if first == "Broker" else [policy, broker]
        await asyncio.gather(*pair, put(world, "Trigger", "t", broker="old", subscriber=world.to()))
        assert await ready_after(world, "Trigger", "t") <= AT_ONCE_S
        return await world.reconciler.settled(Key("namespaces", "", "default"), 60.0)

    assert not world.runner.run(both())
    assert "EventPolicies" in world.reconciler.behind
    assert "brokers/default/b" not in world.addresses()
    assert "status" not in world.get("Broker", "b")
    assert "status" not in world.get("EventPolicy", "p")
    receivers.hang = False
    assert world.runner.run(ready_after(world, "Broker", "b")) <= DECIDED_LOOK_S + AT_ONCE_S
    world.settle()
    assert world.ready(world.get("EventPolicy", "p")) == "True"
    assert "brokers/default/b" in world.addresses()
    assert world.reconciler.behind is None


def test_a_deleted_broker_waits_for_no_policy(world, receivers):
    """Whoever deletes it knows that it is gone, also one that never opened."""
    world.apply("Broker", "open")
    receivers.hang = True

    async def delete():
        await put(world, "EventPolicy", "p")
        await put(world, "Broker", "closed")
        await asyncio.sleep(1.0)
        for name in ("open", "closed"):
            key = Key(world.kinds["Broker"].resource, "default", name)
            await world.objects.delete(key)
            assert await world.reconciler.settled(key, AT_ONCE_S)

    looks = world.ingress.looks
    world.runner.run(delete())
    assert world.ingress.looks == looks + 2
    assert world.ingress.known.keys() == {"brokers/default/default", "namespaces/default/events"}


def test_a_broker_that_is_recreated_accepts_nothing_while_its_policies_are_waited_for(
    world, receivers
):
    """Receivers know at once that the former one is gone, and the new one only then."""
    former = world.apply("Broker", "b")["metadata"]["uid"]
    receivers.hang = True

    async def recreate():
        await put(world, "EventPolicy", "p")
        await world.objects.delete(Key(world.kinds["Broker"].resource, "default", "b"))
        await put(world, "Broker", "b")
        await asyncio.sleep(AT_ONCE_S)

    assert former in world.ingress.known.values()
    world.runner.run(recreate())
    assert "brokers/default/b" not in world.ingress.known
    receivers.hang = False
    assert world.runner.run(ready_after(world, "Broker", "b")) is not None
    assert world.ingress.known["brokers/default/b"] not in (former, None)


def test_a_policy_is_deleted_once_receivers_decide_without_it(world, receivers):
    """Until then somebody may send whom only it allows."""
    world.apply("EventPolicy", "p")
    receivers.hang = True
    key = Key(world.kinds["EventPolicy"].resource, "default", "p")

    async def delete():
        await world.objects.delete(key)
        assert not await world.reconciler.settled(key, 1.0)
        receivers.hang = False
        assert await world.reconciler.settled(key, DECIDED_LOOK_S + AT_ONCE_S)

    world.runner.run(delete())
    assert receivers.told[-1] == set()


def test_a_policy_that_changes_while_it_is_waited_for_is_not_ready(world, receivers):
    """Receivers decide by the old one: its status follows the newest."""
    receivers.hang = True

    async def change_twice():
        await put(world, "EventPolicy", "p", **{"from": [{"sub": "key:a"}]})
        await asyncio.sleep(1.0)
        receivers.hang = False
        receivers.decided()
        receivers.hang = True
        await put(world, "EventPolicy", "p", **{"from": [{"sub": "key:b"}]})
        await asyncio.sleep(1.0)
        assert "status" not in world.get("EventPolicy", "p")
        receivers.hang = False
        assert await ready_after(world, "EventPolicy", "p") <= DECIDED_LOOK_S + AT_ONCE_S

    world.runner.run(change_twice())
    assert world.get("EventPolicy", "p")["status"]["from"] == ["key:b"]


def test_where_another_process_leads_nothing_opens_before_receivers_decide_by_what_it_read(
    world, receivers
):
    """A policy that the former one had not told yet, or whose Broker it had not opened."""
    receivers.hang = True
    world.runner.run(put(world, "EventPolicy", "p"))
    world.runner.run(world.reconciler.close())
    world.runner.run(put(world, "EventPolicy", "q"))
    world.runner.run(put(world, "Broker", "b"))
    world.restart()
    assert world.runner.run(ready_after(world, "Broker", "b", wait_s=60.0)) is None
    assert receivers.told[-1] == {"default/p", "default/q"}
    assert "brokers/default/b" not in world.addresses()
    assert "status" not in world.get("EventPolicy", "q")
    receivers.hang = False
    assert world.runner.run(ready_after(world, "Broker", "b")) <= DECIDED_LOOK_S + AT_ONCE_S
    world.settle()
    assert world.ready(world.get("EventPolicy", "q")) == "True"
