"""What one namespace gives a pass to do, and receivers that are slow, hold up no other namespace.

In virtual time: what is awaited is written with its seconds.
"""

import asyncio

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.reconcile import _moves, _reconciler
from distributary.knative.reconcile._announcer import NEAR_S
from distributary.knative.reconcile._work_queue import RETRY_S_MAX
from kit.virtual_threads import virtual_loop

AT_ONCE_S = 0.015
"""What waits for nobody is done by the next look of a test, in seconds of a clock that rounds."""

MANY = 30


class Slow:
    """Lets the receivers of a world answer after a while, or never.

    Attributes:
        answer_s: After how many seconds.
    """

    def __init__(self, world, monkeypatch) -> None:
        self.answer_s = 0.0
        self._look = world.ingress.look_again
        monkeypatch.setattr(world.ingress, "look_again", self.look_again)

    async def look_again(self) -> None:
        """Read the addresses as they stand when it is asked."""
        await asyncio.sleep(self.answer_s)
        await self._look()


@pytest.fixture
def world(make_world):
    """A started server with the default broker, in virtual time."""
    with asyncio.Runner(loop_factory=virtual_loop) as runner:
        made = make_world(runner)
        made.settle()
        yield made
        made.stop()


def key_of(world, kind, name, namespace="many") -> Key:
    """The key of an object."""
    return Key(world.kinds[kind].resource, namespace, name)


def put(world, kind, name, namespace="many", **spec):
    """Create an object."""
    content = {"metadata": {"name": name}, "spec": spec}
    return world.objects.put(key_of(world, kind, name, namespace), lambda _: content)


def put_trigger(world, name, namespace="many"):
    """Create a Trigger of the Broker ``b``."""
    return put(world, "Trigger", name, namespace, broker="b", subscriber=world.to())


async def ready_after(world, kind, name, namespace="many") -> float:
    """Seconds until it is ready."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    while True:
        found = world.get(kind, name, namespace)
        if "status" in found and world.ready(found) == "True":
            return loop.time() - start_s
        await asyncio.sleep(0.01)


def test_nobody_else_waits_for_receivers_that_read_an_address(world, monkeypatch):
    """A node that looks late: a Broker and what asks for it wait, and one pass, for a moment."""
    world.apply("Broker", "b", namespace="few")
    slow = Slow(world, monkeypatch)
    slow.answer_s = 6.0

    async def meanwhile():
        for number in range(5):
            await put(world, "Broker", f"b{number}")
            await put_trigger(world, f"t{number}", "few")
            limit_s = AT_ONCE_S + (NEAR_S if number == 0 else 0.0)
            assert await ready_after(world, "Trigger", f"t{number}", "few") <= limit_s
            assert world.ready(world.get("Broker", f"b{number}", "many")) == "Unknown"
        slow.answer_s = 0.0
        assert await ready_after(world, "Broker", "b4") <= 6.0 + AT_ONCE_S

    world.runner.run(meanwhile())
    world.settle(all_of="many")
    assert world.addresses().keys() >= {f"brokers/many/b{number}" for number in range(5)}


def test_receivers_that_are_quick_are_waited_for(world):
    """What depends on an address is written once, and not first as what waits for it."""
    statuses = []

    def note(change):
        if change.stored.key.namespace == "few" and "status" in change.stored.content:
            statuses.append(world.ready(change.stored.content))

    world.objects.on_change(note)

    async def at_once():
        await asyncio.gather(put(world, "Broker", "b", "few"), put_trigger(world, "t", "few"))

    world.runner.run(at_once())
    world.settle(all_of="few")
    assert statuses == ["True", "True"]


def test_a_delete_is_over_once_receivers_know_of_it(world, monkeypatch):
    """Though they fail at first, and another Broker comes meanwhile."""
    world.apply("Broker", "b", namespace="many")
    slow = Slow(world, monkeypatch)
    slow.answer_s = 1.0
    key = key_of(world, "Broker", "b")

    async def delete():
        world.ingress.failing = True
        await world.objects.delete(key)
        assert not await world.reconciler.settled(key, 3.0)
        assert "brokers/many/b" in world.ingress.known
        assert world.reconciler.behind == "the receiver does not answer"
        world.ingress.failing = False
        await put(world, "Broker", "other")
        assert await world.reconciler.settled(key, RETRY_S_MAX + 2.0)

    world.runner.run(delete())
    assert "brokers/many/b" not in world.ingress.known
    world.settle(all_of="many")
    assert "brokers/many/other" in world.ingress.known
    assert world.reconciler.behind is None


@pytest.fixture
def crowded(world, monkeypatch):
    """A Broker with many Triggers, and one of another namespace with one; both are gone."""
    monkeypatch.setattr(_moves, "MOVES_MAX", 4)
    monkeypatch.setattr(_reconciler, "TURN_MAX", 4)
    counts = {"many": MANY, "few": 1}

    async def make():
        for namespace, count in counts.items():
            await put(world, "Broker", "b", namespace)
            triggers = (put_trigger(world, f"t{number}", namespace) for number in range(count))
            await asyncio.gather(*triggers)

    world.runner.run(make())
    for namespace in counts:
        world.settle(all_of=namespace)
        world.delete("Broker", "b", namespace)
    return world


def moved(world, namespace) -> list[bool]:
    """Whether each Trigger of a namespace listens at its Broker as it is now."""
    address = world.get("Broker", "b", namespace)["metadata"]["uid"]
    standing = world.standing()
    triggers = world.objects.list(world.kinds["Trigger"], namespace)[0]
    return [
        uid in standing and standing[uid].address == address
        for uid in (each.uid for each in triggers)
    ]


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_broker_with_many_triggers_opens_after_all_of_them_and_before_nobody_else(
    crowded, restarted
):
    """A few in each pass: others have their turn meanwhile, recreated Brokers too."""
    world, at_open, at_others = crowded, [], {}
    if restarted:
        world.runner.run(world.reconciler.close())
    appended = world.appender.append_routes

    async def append(bodies):
        await appended(bodies)
        if "brokers/many/b" in world.addresses():
            at_open.append(all(moved(world, "many")))
        if all(moved(world, "few")):
            at_others.setdefault("trigger", sum(moved(world, "many")))
        if "brokers/few/b" in world.addresses():
            at_others.setdefault("broker", sum(moved(world, "many")))

    async def recreate():
        await asyncio.gather(
            put(world, "Broker", "b"),
            put(world, "Broker", "b", "few"),
            put_trigger(world, "new", "few"),
        )

    world.appender.append_routes = append
    world.runner.run(recreate())
    if restarted:
        world.start()
    world.settle(all_of="many")
    world.settle(all_of="few")
    assert all(moved(world, "many"))
    assert "brokers/many/b" in world.addresses()
    assert all(at_open)
    assert at_others["broker"] <= MANY / 2
    assert at_others["trigger"] <= MANY / 2


def test_a_broker_that_is_open_waits_for_no_routes_after_a_start(world, monkeypatch):
    """They listen there already: its status does not wait until all of its Triggers are planned."""
    monkeypatch.setattr(_moves, "MOVES_MAX", 4)
    monkeypatch.setattr(_reconciler, "TURN_MAX", 4)
    written = []

    def note(change):
        status = change.stored.content.get("status", {})
        if change.stored.key.namespace == "many" and status.get("observedGeneration") == 2:
            written.append(change.stored.key.resource)

    async def write(retry):
        kinds = {"Broker": {}, "Trigger": {"broker": "b", "subscriber": world.to()}}
        for kind, spec in kinds.items():
            for number in range(MANY if kind == "Trigger" else 1):
                key = key_of(world, kind, f"b{number}" if number else "b")
                content = {"metadata": {"name": key.name}}
                content["spec"] = {**spec, "delivery": {"retry": retry}}
                await world.objects.put(key, lambda old, new=content: {**(old or {}), **new})

    world.runner.run(write(1))
    world.settle(all_of="many")
    world.runner.run(world.reconciler.close())
    world.runner.run(write(2))
    world.restart()
    world.objects.on_change(note)
    world.settle(all_of="many")
    assert written.count(world.kinds["Trigger"].resource) == MANY
    assert written.index(world.kinds["Broker"].resource) <= MANY / 2


def test_a_broker_whose_routes_cannot_move_stays_closed(crowded):
    """The log takes none of them for a while; what has been moved already is not moved again."""
    world = crowded
    world.appender.failing = True

    async def recreate():
        await put(world, "Broker", "b")
        assert not await world.reconciler.settled(key_of(world, "Broker", "b"), 3.0)
        assert "brokers/many/b" not in world.addresses()
        world.appender.failing = False
        await ready_after(world, "Broker", "b")

    world.runner.run(recreate())
    assert all(moved(world, "many"))


def test_a_broker_that_is_gone_again_while_its_routes_move_does_not_open(crowded):
    """Nor does anything stay behind: the next one opens after they have moved on."""
    world = crowded

    async def there_and_back():
        for _ in range(3):
            await put(world, "Broker", "b")
            await asyncio.sleep(0)
            await world.objects.delete(key_of(world, "Broker", "b"))
        await put(world, "Broker", "b")
        await ready_after(world, "Broker", "b")

    world.runner.run(there_and_back())
    assert all(moved(world, "many"))


def test_a_receiver_that_fails_does_not_keep_a_pass(world, monkeypatch):
    """Each failure is tried again by itself."""

    async def failing():
        await asyncio.sleep(2.0)
        raise LogUnavailableError("a node does not take new addresses")

    world.apply("Broker", "b", namespace="few")
    monkeypatch.setattr(world.ingress, "look_again", failing)

    async def meanwhile():
        await put(world, "Broker", "b")
        await asyncio.sleep(1.0)
        for number in range(10):
            await put_trigger(world, f"t{number}", "few")
            assert await ready_after(world, "Trigger", f"t{number}", "few") <= AT_ONCE_S
            await asyncio.sleep(1.0)

    world.runner.run(meanwhile())
    assert world.ready(world.get("Broker", "b", "many")) == "Unknown"
