"""What watchers see: every change of their kind once, in order, or that they were too slow."""

import asyncio

import pytest

from distributary.knative.apiserver.machinery import Key, StatusError
from distributary.knative.apiserver.objects import BATCH_MAX, Write
from distributary.knative.apiserver.objects._values import ObjectChange, Stored
from distributary.knative.apiserver.objects._watch import Watch
from distributary.knative.apiserver.objects._watch_window import WatchWindow
from distributary.knative.kinds import BROKER, CONFIG_MAP, TRIGGER


def seen(changes):
    """Types and names."""
    return [(change.type, change.stored.key.name) for change in changes]


def spec(**members):
    """A change that sets the spec."""
    return lambda content: {**content, "spec": members}


def test_a_watch_gives_what_follows_its_version(world):
    """Of its kind alone, in order, each once."""
    before = world.trigger("before")
    watch = world.objects.watch(TRIGGER, None, before.version)
    made = world.trigger("t")
    world.make(CONFIG_MAP, "other")
    world.edit(made.key, spec(a=1))
    world.delete(made.key)
    assert seen(world.run(watch.changes(1))) == [
        ("ADDED", "t"), ("MODIFIED", "t"), ("DELETED", "t"),
    ]  # fmt: skip
    assert world.run(watch.changes(0)) == []


def test_a_watch_from_an_older_version_begins_there(world):
    """What lies in the window is given."""
    versions = [world.trigger(name).version for name in "abc"]
    watch = world.objects.watch(TRIGGER, None, versions[0])
    assert seen(world.run(watch.changes(0))) == [("ADDED", "b"), ("ADDED", "c")]


def test_a_watch_of_a_namespace_sees_no_other(world):
    """Changes elsewhere neither show nor end its wait."""
    watch = world.objects.watch(TRIGGER, "a", world.objects.version)

    async def look():
        waiting = asyncio.ensure_future(watch.changes(10))
        await world.objects.create(TRIGGER, "b", {"metadata": {"name": "x"}})
        await asyncio.sleep(0)
        assert not waiting.done()
        await world.objects.create(TRIGGER, "a", {"metadata": {"name": "y"}})
        return await waiting

    assert seen(world.run(look())) == [("ADDED", "y")]


def test_a_waiting_watch_is_woken(world):
    """By the first change."""
    watch = world.objects.watch(TRIGGER, None, world.objects.version)

    async def look():
        waiting = asyncio.ensure_future(watch.changes(10))
        await asyncio.sleep(0)
        await world.objects.create(TRIGGER, "a", {"metadata": {"name": "x"}})
        return await waiting

    assert seen(world.run(look())) == [("ADDED", "x")]


def test_one_call_gives_a_bounded_number(world):
    """The rest comes with the next ones."""
    made = world.trigger("t")
    watch = world.objects.watch(TRIGGER, None, made.version)

    async def edit_often():
        for first in range(0, BATCH_MAX + 10, 128):
            edits = [
                (made.key, spec(n=number))
                for number in range(first, min(first + 128, BATCH_MAX + 10))
            ]
            await world.objects.edit_all(edits, Write(by_server=True))

    world.run(edit_often())
    first, second = world.run(watch.changes(1)), world.run(watch.changes(1))
    assert [len(first), len(second)] == [BATCH_MAX, 10]
    numbers = [change.stored.content["spec"]["n"] for change in first + second]
    assert numbers == list(range(BATCH_MAX + 10))


def test_bookmarks_say_up_to_where_everything_was_given(world):
    """Changes of other kinds move them; those that wait do not."""
    watch = world.objects.watch(TRIGGER, None, world.objects.version)
    world.make(CONFIG_MAP, "c")
    assert watch.version == world.objects.version == 3
    world.trigger("t")
    world.make(CONFIG_MAP, "d")
    assert watch.version == 3
    world.run(watch.changes(1))
    assert watch.version == world.objects.version == 5


def test_a_version_from_before_a_restart_is_too_old(world):
    """The newest one alone can be watched from."""
    old = world.trigger("a").version
    new = world.trigger("b").version
    world.restart()
    with pytest.raises(StatusError, match=rf"too old resource version: {old} \({new}\)") as caught:
        world.objects.watch(TRIGGER, None, old)
    assert (caught.value.reason, caught.value.status) == ("Expired", 410)
    watch = world.objects.watch(TRIGGER, None, new)
    world.trigger("c")
    assert seen(world.run(watch.changes(1))) == [("ADDED", "c")]


def test_a_version_that_is_not_there_yet_is_refused(world):
    """In the words of the API server."""
    with pytest.raises(StatusError, match="Too large resource version: 99, current: 2"):
        world.objects.watch(TRIGGER, None, 99)


def test_a_watch_that_is_overtaken_expires(make_world):
    """The window is bounded; who is behind lists anew."""
    world = make_world(changes_kept_max=5)
    slow = world.objects.watch(TRIGGER, None, world.objects.version)
    quick = world.objects.watch(TRIGGER, None, world.objects.version)
    names = []
    for number in range(8):
        world.trigger(f"t{number}")
        names += seen(world.run(quick.changes(1)))
    assert names == [("ADDED", f"t{number}") for number in range(8)]
    error = world.refused(slow.changes(0))
    assert (error.reason, str(error)) == ("Expired", "too old resource version: 2 (5)")
    with pytest.raises(StatusError, match="too old"):
        world.objects.watch(TRIGGER, None, 4)
    world.objects.watch(TRIGGER, None, 5)


def test_changes_of_another_kind_overtake_nobody_who_has_seen_all(make_world):
    """Expired means that a change of the kind was missed, not that time passed."""
    world = make_world(changes_kept_max=5)
    version = world.objects.version
    for number in range(8):
        world.make(CONFIG_MAP, f"c{number}")
    watch = world.objects.watch(BROKER, None, version)
    assert world.run(watch.changes(0)) == []


def test_the_window_is_bounded_in_bytes(make_world):
    """Large objects push older ones out."""
    world = make_world(kept_bytes_max=10_000)
    watch = world.objects.watch(TRIGGER, None, world.objects.version)
    for number in range(4):
        world.trigger(f"t{number}", text="x" * 4_000)
    assert world.refused(watch.changes(0)).reason == "Expired"
    assert world.objects._ring._size_bytes <= 10_000


def test_a_stop_ends_waiting_watches(make_world):
    """They are told so at once."""
    world = make_world()
    watch = world.objects.watch(TRIGGER, None, world.objects.version)

    async def look():
        waiting = asyncio.ensure_future(watch.changes(60))
        await asyncio.sleep(0)
        await world.objects.close()
        return await waiting

    assert world.refused(look()).reason == "ServiceUnavailable"


def test_a_watcher_that_leaves_is_forgotten(world):
    """Cancelled while it waits, and closed twice."""
    watch = world.objects.watch(TRIGGER, None, world.objects.version)

    async def look():
        waiting = asyncio.ensure_future(watch.changes(60))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    world.run(look())
    assert not watch._window._waiting
    watch.close()
    watch.close()
    assert watch._window.watchers == 0


def _change(version):
    key = Key("r", "n", "o")
    return ObjectChange("MODIFIED", Stored(key, "u", version, {}, b"{}"), None)


class _Loop(asyncio.SelectorEventLoop):
    """Time stands still until it is moved; nobody sleeps."""

    now_s = 100.0

    def time(self):
        return self.now_s


@pytest.fixture
def still():
    """A runner whose clock stands still."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        yield runner


def test_changes_that_follow_closely_wake_many_watchers_once(still):
    """With 1,000 watchers, announcements are 0.25 s apart; what came meanwhile comes together."""

    async def look():
        watch_window = WatchWindow(["r"])
        watches = [Watch(watch_window, "r", None, 0) for _ in range(1_000)]
        watch_window.publish([_change(1)], 1)
        for watch in watches:
            assert len(await watch.changes(0)) == 1
        loop = asyncio.get_running_loop()
        waiting = [asyncio.ensure_future(watch.changes(60)) for watch in watches]
        await asyncio.sleep(0)
        for version in range(2, 12):
            watch_window.publish([_change(version)], version)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        assert await watches[0].changes(0) == []
        _Loop.now_s += 0.25
        gathered = await asyncio.gather(*waiting)
        assert {len(found) for found in gathered} == {10}
        return loop

    try:
        still.run(look())
    finally:
        _Loop.now_s = 100.0


def test_a_lone_watcher_is_woken_at_once(still):
    """After a quiet time, and whenever nobody else watches."""

    async def look():
        watch_window = WatchWindow(["r"])
        watch = Watch(watch_window, "r", None, 0)
        waiting = asyncio.ensure_future(watch.changes(60))
        await asyncio.sleep(0)
        watch_window.publish([_change(1)], 1)
        assert len(await waiting) == 1

    still.run(look())
