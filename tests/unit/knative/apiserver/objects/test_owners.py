"""Owners: what ends with an object that is deleted, what is left, and what a restart changes."""

import sqlite3

import pytest

from distributary.core.errors import StoreError
from distributary.knative.apiserver.objects import Write
from distributary.knative.kinds import BROKER, CONFIG_MAP, TRIGGER

ORPHAN = Write(orphan=True)


def reference(stored, kind=BROKER):
    """An owner reference to *stored*."""
    named = {"apiVersion": kind.api_version, "kind": kind.kind}
    return named | {"name": stored.key.name, "uid": stored.uid}


def owned(world, name, *owners, kind=TRIGGER, namespace="default", **metadata):
    """Create an object with these owners (pairs of object and kind)."""
    references = [reference(owner, of) for owner, of in owners]
    return world.make(
        kind, name, namespace, metadata={"ownerReferences": references, **metadata}, spec={}
    )


@pytest.fixture
def owner(world):
    """A Broker."""
    return world.make(BROKER, "owner", spec={})


def test_what_an_object_owns_ends_with_it(world, owner):
    """All the way down, in one transaction; watchers see each of them go."""
    child = owned(world, "child", (owner, BROKER))
    grandchild = owned(world, "grandchild", (child, TRIGGER), kind=CONFIG_MAP)
    other = world.trigger("other")
    world.told.clear()
    version = world.objects.version
    world.delete(owner.key)
    assert world.objects.version == version + 3
    gone = [(change.type, change.stored.key) for change in world.told]
    assert gone == [("DELETED", each.key) for each in (owner, child, grandchild)]
    assert world.objects.get(other.key) is not None
    world.restart()
    assert world.names(TRIGGER) == [("default", "other")]
    assert world.names(CONFIG_MAP) == []


def test_what_has_another_owner_loses_the_one_that_is_gone(world, owner):
    """It ends with the last of them."""
    second = world.make(BROKER, "second", spec={})
    child = owned(world, "child", (owner, BROKER), (second, BROKER))
    world.delete(owner.key)
    kept = world.objects.get(child.key).content["metadata"]
    assert kept["ownerReferences"] == [reference(second)]
    world.delete(second.key)
    assert world.objects.get(child.key) is None


def test_orphans_stay_without_their_owner(world, owner):
    """``kubectl delete --cascade=orphan``."""
    child = owned(world, "child", (owner, BROKER))
    world.delete(owner.key, ORPHAN)
    assert "ownerReferences" not in world.objects.get(child.key).content["metadata"]
    world.restart()
    assert world.names(TRIGGER) == [("default", "child")]


def test_what_waits_for_a_finalizer_is_marked(world, owner):
    """It ends when that is taken away, and takes along what it owns itself."""
    child = owned(world, "child", (owner, BROKER), finalizers=["example.com/x"])
    grandchild = owned(world, "grandchild", (child, TRIGGER))
    world.delete(owner.key)
    assert "deletionTimestamp" in world.objects.get(child.key).content["metadata"]
    assert world.objects.get(grandchild.key) is not None
    world.edit(child.key, lambda old: {**old, "metadata": {**old["metadata"], "finalizers": []}})
    assert world.names(TRIGGER) == []


def test_an_owner_that_is_gone_already_ends_nobody(world):
    """What is applied from elsewhere may name the owners that it had there."""
    elsewhere = {**reference(world.make(BROKER, "owner", spec={})), "uid": "another-cluster's"}
    child = world.make(TRIGGER, "child", metadata={"ownerReferences": [elsewhere]}, spec={})
    world.delete(world.objects.list(BROKER)[0][-1].key)
    world.restart()
    assert world.objects.get(child.key) is not None


def test_an_owner_of_another_namespace_is_none(world, owner):
    """As in Kubernetes: references do not cross namespaces."""
    child = owned(world, "child", (owner, BROKER), namespace="elsewhere")
    world.delete(owner.key)
    assert world.objects.get(child.key) is not None


def test_a_dry_run_ends_nothing(world, owner):
    """Neither the object nor what it owns."""
    child = owned(world, "child", (owner, BROKER))
    version = world.objects.version
    world.delete(owner.key, Write(dry_run=True))
    assert world.objects.version == version
    assert world.objects.get(child.key) is not None


def test_owners_in_a_circle_end_once(world, owner):
    """And each of them, whoever was deleted."""
    child = owned(world, "child", (owner, BROKER))
    references = {"ownerReferences": [reference(child, TRIGGER)]}
    world.edit(owner.key, lambda old: {**old, "metadata": {**old["metadata"], **references}})
    world.delete(child.key)
    assert world.objects.get(owner.key) is None
    assert world.names(TRIGGER) == []


def test_a_crash_ends_all_or_none_of_them(world, owner, monkeypatch):
    """The store takes them in one transaction, or refuses it."""
    for number in range(20):
        owned(world, f"child-{number}", (owner, BROKER))

    def full(*_arguments):
        raise sqlite3.OperationalError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("distributary.knative.apiserver.objects._rows._write_addresses", full)
        with pytest.raises(StoreError, match="disk full"):
            world.delete(owner.key)
    world.restart()
    assert len(world.names(TRIGGER)) == 20
    assert world.objects.get(owner.key) is not None
