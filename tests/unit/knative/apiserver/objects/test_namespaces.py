"""Namespaces begin with their first object and end with all that is in them; Events end by age."""

import pytest

from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import EVENT_KEPT_S, Objects
from distributary.knative.kinds import BROKER, EVENT, NAMESPACE, SERVICE, TRIGGER


def ns(name):
    """Key of a namespace."""
    return Key(NAMESPACE.resource, "", name)


def test_the_first_object_makes_its_namespace(world):
    """In the same batch, in a version before its own."""
    made = world.trigger("t", "new")
    namespace = world.objects.find(ns("new"))
    assert namespace.version == made.version - 1
    assert namespace.content["status"] == {"phase": "Active"}
    assert namespace.content["metadata"]["labels"] == {"kubernetes.io/metadata.name": "new"}
    assert world.trigger("u", "new").version == made.version + 1


def test_a_namespace_can_be_made_by_itself(world):
    """With its own labels kept."""
    made = world.make(NAMESPACE, "new", "", metadata={"labels": {"a": "b"}})
    assert made.content["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "new"}


def test_a_namespace_that_is_no_dns_label_is_refused(world):
    """Nothing is made in it either."""
    content = {"metadata": {"name": "t"}}
    for name in ("Not_A_Label", "a.b", "x" * 64):
        assert world.refused(world.objects.create(TRIGGER, name, content)).reason == "Invalid"
    assert world.names(TRIGGER) == []


@pytest.mark.slow
def test_a_deleted_namespace_takes_all_that_is_in_it(world):
    """First marked, then emptied in turns, then gone; others stay."""
    for number in range(450):
        world.trigger(f"t{number}", "old")
    world.make(BROKER, "b", "old")
    world.trigger("t", "other")
    marked = world.delete(ns("old"))
    assert marked.content["status"] == {"phase": "Terminating"}
    assert "deletionTimestamp" in marked.content["metadata"]
    world.until(lambda: world.objects.get(ns("old")) is None)
    assert world.names(TRIGGER) == [("other", "t")]
    assert world.names(BROKER) == [("default", "default")]
    deleted = [change for change in world.told if change.type == "DELETED"]
    assert len(deleted) == 452
    assert deleted[-1].stored.key == ns("old")


def test_nothing_is_made_in_a_namespace_that_ends(world):
    """Forbidden, as Kubernetes says it."""
    world.make(TRIGGER, "t", "old", metadata={"finalizers": ["a.b/c"]})
    world.delete(ns("old"))
    error = world.refused(world.objects.create(SERVICE, "old", {"metadata": {"name": "s"}}))
    assert error.reason == "Forbidden"
    assert "because it is being terminated" in str(error)


def test_a_finalizer_holds_its_namespace(world):
    """Until somebody takes it away."""
    held = world.make(TRIGGER, "t", "old", metadata={"finalizers": ["a.b/c"]})
    world.trigger("u", "old")
    world.delete(ns("old"))
    world.until(lambda: world.names(TRIGGER) == [("old", "t")])
    assert "deletionTimestamp" in world.objects.find(held.key).content["metadata"]

    def let_go(content):
        return {**content, "metadata": {**content["metadata"], "finalizers": []}}

    world.edit(held.key, let_go)
    world.until(lambda: world.objects.get(ns("old")) is None)


def test_a_restart_goes_on_with_a_namespace_that_ends(world, monkeypatch):
    """What a crash interrupted is taken up."""
    world.trigger("t", "old")
    with monkeypatch.context() as patch:
        patch.setattr("distributary.knative.apiserver.objects._sweeper._DELETES_AT_ONCE", 0)
        world.delete(ns("old"))
        world.stop()
        assert world.names(TRIGGER) == [("old", "t")]
    world._start()
    world.until(lambda: world.objects.get(ns("old")) is None)
    assert world.names(TRIGGER) == []


def test_a_namespace_ends_when_the_store_is_back(world, monkeypatch):
    """A failed turn is taken again."""
    monkeypatch.setattr("distributary.knative.apiserver.objects._sweeper._AGAIN_S", 0.0)
    rows = world.objects._rows
    write, failures = rows.write, []

    def fail_twice(changes, *rest):
        if changes[0].type == "DELETED" and len(failures) < 2:
            failures.append(1)
            raise StoreError("disk")
        write(changes, *rest)

    monkeypatch.setattr(rows, "write", fail_twice)
    world.trigger("t", "old")
    world.delete(ns("old"))
    world.until(lambda: world.objects.get(ns("old")) is None)
    assert len(failures) == 2


def test_the_default_namespace_stays(world):
    """Forbidden."""
    error = world.refused(world.objects.delete(ns("default")))
    assert error.reason == "Forbidden"


def test_old_events_end(make_world, monkeypatch):
    """An hour after their last write; also those from before a restart."""
    monkeypatch.setattr("distributary.knative.apiserver.objects._sweeper.SWEEP_S", 0.0)
    world = make_world()
    for name in ("a", "b", "c"):
        world.make(EVENT, name, count=1)
    world.restart()
    world.clock.move_to(EVENT_KEPT_S - 1)
    world.edit(Key(EVENT.resource, "default", "b"), lambda content: {**content, "count": 2})
    assert len(world.names(EVENT)) == 3
    world.clock.move_to(EVENT_KEPT_S + 1)
    world.until(lambda: world.names(EVENT) == [("default", "b")])


def few_events(monkeypatch, count):
    """Keep so many."""
    monkeypatch.setattr("distributary.knative.apiserver.objects._kept_events.EVENTS_MAX", count)


def test_there_are_few_events(make_world, monkeypatch):
    """The oldest go first."""
    few_events(monkeypatch, 3)
    world = make_world()
    for name in "abcde":
        world.make(EVENT, name)
    world.until(lambda: len(world.names(EVENT)) == 3)
    assert world.names(EVENT) == [("default", name) for name in "cde"]


def test_a_namespace_with_many_events_pushes_out_its_own(make_world, monkeypatch):
    """The older ones of others stay: they have no more than their share; after a restart too."""
    few_events(monkeypatch, 6)
    world = make_world()
    modest = [("modest", "a"), ("modest", "b")]
    for namespace, name in modest:
        world.make(EVENT, name, namespace)
    for number in range(9):
        world.clock.move_to(1.0 + number)
        world.make(EVENT, f"e{number}", "noisy")
    world.until(lambda: len(world.names(EVENT)) == 6)
    assert world.names(EVENT) == [*modest, *(("noisy", f"e{number}") for number in range(5, 9))]
    few_events(monkeypatch, 4)
    world.restart()
    world.until(lambda: len(world.names(EVENT)) == 4)
    assert world.names(EVENT) == [*modest, ("noisy", "e7"), ("noisy", "e8")]


def test_namespaces_with_as_many_events_take_turns(make_world, monkeypatch):
    """That with the oldest one first; none falls below its share."""
    world = make_world()
    for number in range(4):
        for at, namespace in enumerate(("a", "b", "c")):
            world.clock.move_to(3.0 * number + at)
            world.make(EVENT, f"e{number}", namespace)
    few_events(monkeypatch, 8)
    world.restart()
    world.until(lambda: len(world.names(EVENT)) == 8)
    kept = [world.names(EVENT, namespace) for namespace in ("a", "b", "c")]
    assert [len(names) for names in kept] == [2, 3, 3]
    assert kept[0] == [("a", "e2"), ("a", "e3")]


def test_an_event_that_waits_for_a_finalizer_is_left_alone_after_a_restart(world, monkeypatch):
    """It is marked already: deleting it again would change nothing, over and over."""
    held = world.make(EVENT, "e", metadata={"finalizers": ["a.b/c"]})
    world.delete(held.key)
    world.clock.move_to(2 * EVENT_KEPT_S)
    swept = []
    sweep = Objects._sweep

    async def counted(objects, deletes):
        swept.append(len(deletes))
        return await sweep(objects, deletes)

    monkeypatch.setattr(Objects, "_sweep", counted)
    world.restart()
    world.trigger("t", broker="default")  # the loop has had its turns
    assert swept == []
    assert world.objects.get(held.key) is not None
