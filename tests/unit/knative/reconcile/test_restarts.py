"""What a restart finds, what an outage keeps, and what waits for it to end."""

import asyncio
import contextlib
import sqlite3

import pytest

from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.reconcile import _reconciler, _routes
from distributary.knative.reconcile._work_queue import WorkQueue
from distributary.routes.changes import PutRoute

TRIGGERS = "triggers.eventing.knative.dev"
KEY = Key(TRIGGERS, "default", "t")


def trigger(world, name="t", **spec):
    """Apply a Trigger of the default broker."""
    return world.apply("Trigger", name, {"broker": "default", "subscriber": world.to(), **spec})


def test_a_restart_changes_nothing(world):
    """Everything is compared anew; nothing differs, so nothing is written."""
    made = trigger(world)
    world.apply("Channel", "c")
    version, count = world.objects.version, len(world.records())
    world.restart()
    world.settle()
    assert (world.objects.version, len(world.records())) == (version, count)
    assert world.get("Trigger", "t") == made


def test_a_route_whose_object_went_unseen_is_dropped_at_the_start(world):
    """A crash between the delete of an object and the end of its route."""
    made = trigger(world)
    world.runner.run(world.reconciler.close())
    world.runner.run(world.objects.delete(Key(TRIGGERS, "default", "t")))
    assert list(world.standing()) == [made["metadata"]["uid"]]
    world.restart()
    world.settle(all_of="")  # nobody knows any more whose it was
    assert world.standing() == {}


def test_a_fault_of_the_reconciler_is_told_and_its_objects_are_tried_again(world, monkeypatch):
    """Only this loop creates routes: it goes on."""
    told, edit_all = [], world.objects.edit_all

    async def edit_all_but_the_first(*arguments):
        told.append(world.reconciler.behind)
        if len(told) == 1:
            raise RuntimeError("canary")
        return await edit_all(*arguments)

    monkeypatch.setattr(world.objects, "edit_all", edit_all_but_the_first)
    made = trigger(world)
    assert told[:2] == [None, "reconciling failed: RuntimeError"]
    assert world.ready(made) == "True"
    assert world.reconciler.behind is None


def test_deletes_in_one_namespace_delay_no_other(world, monkeypatch):
    """A pass ends the routes of the objects that it has taken; the others take turns."""
    monkeypatch.setattr(_reconciler, "TURN_MAX", 8)
    world.apply("Broker", "b", namespace="few")
    keys = [Key(TRIGGERS, "default", f"t{number}") for number in range(40)]
    content = {"metadata": {"name": "t"}, "spec": {"broker": "b", "subscriber": world.to()}}

    async def make_all():
        spec = {"broker": "default", "subscriber": world.to()}
        made = {key: {"metadata": {"name": key.name}, "spec": spec} for key in keys}
        puts = (world.objects.put(key, lambda _, one=one: one) for key, one in made.items())
        await asyncio.gather(*puts)

    async def delete_all():
        few = world.objects.put(Key(TRIGGERS, "few", "t"), lambda _: content)
        await asyncio.gather(*(world.objects.delete(key) for key in keys), few)

    world.runner.run(make_all())
    world.settle()
    world.runner.run(delete_all())
    world.settle(all_of="few")
    world.settle()
    few = world.get("Trigger", "t", "few")["metadata"]["uid"]
    after = [record.uid for record in world.records()][40:]
    assert len(after) == 41
    assert after.index(few) <= 16


def test_an_object_that_came_unseen_gets_its_route_at_the_start(world):
    """A crash before the reconciler saw it."""
    world.runner.run(world.reconciler.close())
    content = {"metadata": {"name": "t"}, "spec": {"broker": "default", "subscriber": world.to()}}
    world.runner.run(world.objects.create(world.kinds["Trigger"], "default", content))
    world.restart()
    world.settle()
    assert world.ready(world.get("Trigger", "t")) == "True"
    assert len(world.standing()) == 1


def test_nothing_is_ready_while_the_log_takes_no_route(world):
    """It says so, and is ready once the record stands in every partition."""
    world.appender.failing = True
    world.appender.partial = 1
    content = {"metadata": {"name": "t"}, "spec": {"broker": "default", "subscriber": world.to()}}
    world.runner.run(world.objects.create(world.kinds["Trigger"], "default", content))
    wait_for_pending(world)
    assert not world.runner.run(world.reconciler.settled(Key(TRIGGERS, "default", "t"), 0.05))
    waiting = world.get("Trigger", "t")
    assert world.condition(waiting, "RouteReady") == ("Unknown", "Pending")
    assert world.ready(waiting) == "Unknown"
    assert world.reconciler.behind is not None
    world.appender.failing = False
    world.settle()
    assert world.ready(world.get("Trigger", "t")) == "True"
    assert len(world.standing()) == 1
    assert world.reconciler.behind is None


def test_nothing_is_ready_after_a_restart_whose_record_is_missing_in_the_log(world):
    """A crash between the store and the log, and a log that is still away."""
    world.appender.failing = True
    world.appender.partial = 1
    create(world, world.to())
    wait_for_pending(world)
    world.restart()
    assert not world.runner.run(world.reconciler.settled(KEY, 0.05))
    assert world.ready(world.get("Trigger", "t")) == "Unknown"
    assert world.reconciler.behind is not None
    world.appender.failing = False
    world.settle()
    assert world.ready(world.get("Trigger", "t")) == "True"
    assert len(world.standing()) == 1


def test_a_change_that_is_taken_back_during_an_outage_is_taken_back_in_the_log(world):
    """What was stored and is not in the log yet comes there, so it does not stand as before."""
    exact = [[{"exact": {"type": type_}}] for type_ in "ab"]
    trigger(world, filters=exact[0])
    world.appender.failing = True
    for filters in (exact[1], exact[0]):
        world.runner.run(world.objects.edit(KEY, with_filters(filters)))
        wait_for_pending(world)
    world.appender.failing = False
    world.settle()
    assert [list(route.filters) for route in world.standing().values()] == [exact[0]]
    assert world.ready(world.get("Trigger", "t")) == "True"


def test_a_route_that_may_stand_is_treated_as_one_that_does(world):
    """Its record comes to the log when that is back; what it leads to went meanwhile."""
    world.service("s")
    world.appender.failing = True
    create(world, world.at("Service", "s"))
    wait_for_pending(world)
    world.runner.run(world.objects.delete(Key("services", "default", "s")))
    assert not world.runner.run(world.reconciler.settled(KEY, 0.05))
    world.appender.failing = False
    world.settle()
    found = world.get("Trigger", "t")
    assert world.condition(found, "RouteReady") == ("True", "")
    assert world.ready(found) == "False"
    assert "not found" in world.settings(found).unusable


def test_a_commit_that_failed_at_its_end_is_in_the_log_before_what_follows(world, monkeypatch):
    """Nobody knew whether it was stored; it was."""
    apply = world.store.apply

    def fail_late(changes, now_ms):
        apply(changes, now_ms)
        monkeypatch.undo()
        raise StoreError("the disk failed")

    monkeypatch.setattr(world.store, "apply", fail_late)
    first, second = trigger(world), trigger(world, "u")
    assert list(world.standing()) == [made["metadata"]["uid"] for made in (first, second)]
    assert world.ready(first) == "True"


def create(world, subscriber):
    """A Trigger of the default broker; nothing is waited for."""
    content = {"metadata": {"name": "t"}, "spec": {"broker": "default", "subscriber": subscriber}}
    world.runner.run(world.objects.create(world.kinds["Trigger"], "default", content))


def wait_for_pending(world):
    """Until the newest Trigger is said to wait for the log."""
    wait_for(world, "Trigger", "t", "RouteReady", ("Unknown", "Pending"))


def wait_for(world, kind, name, condition, wanted):
    """Until the newest generation of an object is said to be so, however busy the machine is."""

    def told():
        found = world.get(kind, name)
        status = found.get("status", {})
        newest = status.get("observedGeneration") == found["metadata"]["generation"]
        return newest and world.condition(found, condition) == wanted

    async def look():
        async with asyncio.timeout(10.0):
            while not told():  # noqa: ASYNC110 - a status, no event here
                await asyncio.sleep(0.001)

    world.runner.run(look())


def with_filters(filters):
    """The change of a Trigger to other filters."""
    return lambda content: {**content, "spec": content["spec"] | {"filters": filters}}


@pytest.mark.slow
def test_a_delete_waits_until_the_log_has_it(world):
    """Whoever asked for the delete is told that it has not settled."""
    trigger(world)
    world.appender.failing = True
    key = Key(TRIGGERS, "default", "t")
    world.runner.run(world.objects.delete(key))
    assert not world.runner.run(world.reconciler.settled(key, 0.05))
    world.appender.failing = False
    world.settle(key)
    assert world.standing() == {}


def test_a_broker_is_not_ready_before_the_receiver_knows_it(world):
    """Its URL would answer 404."""
    world.ingress.failing = True
    key = Key("brokers.eventing.knative.dev", "default", "b")
    world.runner.run(
        world.objects.create(world.kinds["Broker"], "default", {"metadata": {"name": "b"}})
    )
    wait_for(world, "Broker", "b", "Ready", ("Unknown", "NotAnnounced"))
    assert not world.runner.run(world.reconciler.settled(key, 0.05))
    broker = world.get("Broker", "b")
    assert "address" not in broker["status"]
    world.ingress.failing = False
    world.settle(key)
    assert world.ready(world.get("Broker", "b")) == "True"
    assert "brokers/default/b" in world.ingress.known


def test_a_restart_before_the_receiver_leaves_statuses_alone(world):
    """What it knew it reads again at its own start."""
    made = trigger(world)
    world.stop()
    world.ingress.failing = True
    world.start()
    assert not world.runner.run(world.reconciler.settled(Key("namespaces", "", "default"), 0.05))
    assert world.get("Trigger", "t") == made
    assert world.ready(world.get("Broker", "default")) == "True"


@pytest.mark.slow
def test_an_object_that_cannot_be_understood_stops_nobody(world, monkeypatch):
    """It is told and tried again; the others get what they want."""
    read = _routes.trigger_spec

    def damaged(content, **more):
        if content["metadata"]["name"] == "bad":
            raise KeyError("spec")
        return read(content, **more)

    monkeypatch.setattr(_routes, "trigger_spec", damaged)
    for name in ("bad", "good"):
        content = {
            "metadata": {"name": name},
            "spec": {"broker": "default", "subscriber": world.to()},
        }
        world.runner.run(world.objects.create(world.kinds["Trigger"], "default", content))
    world.settle(Key(TRIGGERS, "default", "good"))
    assert world.ready(world.get("Trigger", "good")) == "True"
    assert "bad" in world.reconciler.behind


@pytest.mark.slow
def test_the_most_routes_are_counted_with_the_subscriptions(world):
    """The one too many says why it has none."""
    world.store._subscriptions_max = 1
    trigger(world, "one")
    content = {"metadata": {"name": "two"}, "spec": {"broker": "default", "subscriber": world.to()}}
    world.runner.run(world.objects.create(world.kinds["Trigger"], "default", content))
    wait_for(world, "Trigger", "two", "RouteReady", ("False", "TooManyRoutes"))
    assert not world.runner.run(world.reconciler.settled(Key(TRIGGERS, "default", "two"), 0.05))
    world.delete("Trigger", "one")
    assert world.ready(world.get("Trigger", "two")) == "True"


def test_waits_before_another_try_grow_and_begin_again():
    """Never busy; and what is new does not wait."""
    queue, key = WorkQueue(), Key("a", "b", "c")
    waits, now_s = [], 100.0
    queue.add(key)
    for _ in range(8):
        assert queue.take(9, now_s) == [key]
        queue.finish([key], now_s)
        waits.append(round(queue._later_s - now_s, 3))
        assert queue.take(9, queue._later_s - 0.01) == []
        queue.finish([], now_s)
        now_s = queue._later_s
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert queue.take(9, now_s) == [key]
    queue.finish([], now_s)
    queue.add(key)
    assert queue.take(9, now_s) == [key]
    queue.finish([key], now_s)
    assert round(queue._later_s - now_s, 3) == 0.1


def test_the_same_route_again_writes_nothing(world):
    """A crash after the route stood, and before that was said: it is asked for once more."""
    made = trigger(world)
    change = PutRoute(made["metadata"]["uid"], "", (), (), world.settings(made))
    applied = world.runner.run(world.leader.submit(change))
    assert (applied.op, applied.record) == ("unchanged", None)
    assert len(world.records()) == 1


def _of_version_3(world):
    """Leave the store as version 3 wrote it: nothing says by which rules objects were written."""
    store = sqlite3.connect(world.url.database)
    with contextlib.closing(store), store:
        store.execute("ALTER TABLE object DROP COLUMN delivery_rules")
        store.execute("UPDATE control_schema SET version = 3")


def test_what_an_older_version_stored_keeps_its_policy_until_it_is_written(world):
    """A delivery without ``retry`` meant ten retries; since then it means none."""
    world.apply("Broker", "b", {"delivery": {"timeout": "PT6S"}})
    of_broker = world.apply("Trigger", "plain", {"broker": "b", "subscriber": world.to()})
    made = trigger(world, delivery={"timeout": "PT5S"})
    assert [world.settings(each).policy.retry for each in (of_broker, made)] == [0, 0]
    world.stop()
    _of_version_3(world)
    world.start()
    world.settle()
    assert [world.settings(each).policy.retry for each in (of_broker, made)] == [10, 10]
    world.forge("Trigger", "t", {"observedGeneration": 1})
    world.restart()
    world.settle()
    assert [world.settings(each).policy.retry for each in (of_broker, made)] == [10, 10]
    trigger(world, delivery={"timeout": "PT5S"}, filter={"attributes": {"type": "a"}})
    world.apply("Broker", "b", {"delivery": {"timeout": "PT6S"}}, labels={"only": "this"})
    assert [world.settings(each).policy.retry for each in (of_broker, made)] == [0, 0]
    world.apply("Broker", "b", {"delivery": {"timeout": "PT7S"}})
    assert [world.settings(each).policy.retry for each in (of_broker, made)] == [0, 0]
    assert world.settings(of_broker).policy.timeout_s == 7.0
    world.restart()
    world.settle()
    assert [world.settings(each).policy.retry for each in (of_broker, made)] == [0, 0]
