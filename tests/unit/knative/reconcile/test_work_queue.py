"""The order in which the reconciler looks at objects."""

import asyncio

import pytest

from distributary.knative.apiserver.machinery import Key
from distributary.knative.kinds import NAMESPACE
from distributary.knative.reconcile._work_queue import WorkQueue


def keys_of(namespace: str, count: int) -> list[Key]:
    """Keys of so many Triggers."""
    return [Key("triggers", namespace, f"t{number}") for number in range(count)]


def turn(queue: WorkQueue, count: int, now_s: float = 100.0) -> list[Key]:
    """Reconcile at most so many objects."""
    taken = queue.take(count, now_s)
    queue.finish([], now_s)
    return taken


def test_a_namespace_with_many_changes_delays_no_other():
    """Each has its turn; within a namespace what changed first is first."""
    many, few = keys_of("many", 1000), keys_of("few", 3)
    queue = WorkQueue()
    queue.add_all([*many, *few])
    assert turn(queue, 4) == [many[0], few[0], many[1], few[1]]
    assert turn(queue, 3) == [many[2], few[2], many[3]]
    assert turn(queue, 3) == many[4:7]


def test_more_namespaces_than_a_turn_has_room_for_take_turns():
    """Those that were left out are first in the next one."""
    queue = WorkQueue()
    queue.add_all(key for name in "abcde" for key in keys_of(name, 2))
    turns = [[key.namespace for key in turn(queue, 2)] for _ in range(5)]
    assert ["".join(names) for names in turns] == ["ab", "cd", "ea", "bc", "de"]
    assert queue.empty


def test_those_without_room_are_the_first_of_the_next_turn():
    """Their namespaces are, in their order; within one of them, its other objects are."""
    queue = WorkQueue()
    queue.add_all(key for name in "abc" for key in keys_of(name, 3))
    taken = queue.take(5, 100.0)
    assert [(key.namespace, key.name) for key in taken] == [
        ("a", "t0"),
        ("b", "t0"),
        ("c", "t0"),
        ("a", "t1"),
        ("b", "t1"),
    ]
    queue.put_back([taken[1], taken[4]])
    assert queue.finish([taken[0]], 100.0) == 2
    assert [(key.namespace, key.name) for key in turn(queue, 6)] == [
        ("b", "t2"),
        ("c", "t1"),
        ("a", "t2"),
        ("b", "t0"),
        ("c", "t2"),
        ("b", "t1"),
    ]
    assert turn(queue, 9, 200.0) == [taken[0]]


def test_who_waits_for_an_object_that_was_put_back_waits_on():
    """It is not done."""
    (key,) = keys_of("shop", 1)
    queue = WorkQueue()
    queue.add(key)
    queue.put_back(queue.take(1, 100.0))
    assert queue.finish([], 100.0) == 0
    assert not asyncio.run(queue.settled(key, 0.0))


@pytest.mark.parametrize("let_go", [WorkQueue.release, WorkQueue.add_all])
def test_what_is_held_is_not_done_until_it_is_released_or_changes(let_go):
    """Who waits for it, or for its namespace, waits on; nobody else does."""
    held, other = keys_of("shop", 2)
    queue = WorkQueue()
    queue.add_all([held, other])
    queue.hold([held for held in queue.take(2, 100.0) if held != other])
    assert queue.finish([], 100.0) == 1
    assert not queue.empty
    assert not queue.more
    assert asyncio.run(queue.settled(other, 0.0))
    assert not asyncio.run(queue.settled(held, 0.0))
    assert not asyncio.run(queue.settled(Key(NAMESPACE.resource, "", "shop"), 0.0))
    let_go(queue, [held])
    assert turn(queue, 2) == [held]
    assert queue.empty
    assert asyncio.run(queue.settled(held, 0.0))


def test_what_is_not_held_is_not_released():
    """It has changed and been looked at meanwhile."""
    (key,) = keys_of("shop", 1)
    queue = WorkQueue()
    queue.release([key])
    assert queue.empty


def test_retries_take_turns_with_what_is_new():
    """A namespace whose many objects cannot be finished delays no other."""
    broken, good = keys_of("broken", 10), keys_of("good", 1)
    queue = WorkQueue()
    queue.add_all(broken)
    queue.finish(queue.take(10, 100.0), 100.0)
    queue.add_all(good)
    assert good[0] in turn(queue, 2, 200.0)


def test_who_waits_for_a_namespace_waits_for_each_of_its_objects():
    """Queued, taken or to be tried again."""
    (key,) = keys_of("shop", 1)
    queue, namespace = WorkQueue(), Key(NAMESPACE.resource, "", "shop")

    def settled() -> bool:
        return asyncio.run(queue.settled(namespace, 0.0))

    queue.add_all([key, *keys_of("other", 1)])
    assert not settled()
    queue.take(1, 100.0)
    assert not settled()
    queue.finish([key], 100.0)
    assert not settled()
    turn(queue, 2, 200.0)
    assert settled()
