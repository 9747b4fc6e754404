"""Deliveries that keep failing: a condition and a Kubernetes event, and no more writes."""

import asyncio

import pytest
from structlog.testing import capture_logs

from distributary.core.deliver.consent import AWAITS_CONSENT
from distributary.core.errors import StoreError
from distributary.core.outcome import FailingRoute, write_failing
from distributary.knative.reconcile._failures import TELL_AGAIN_MS, FailureFiles


def trigger(world):
    """A Trigger whose deliveries may fail."""
    return world.apply("Trigger", "t", {"broker": "default", "subscriber": world.to()})


def failing(uid, at_ms=1_700_000_000_000, count=3, reason="status-503"):
    """What an owner says of it."""
    return FailingRoute(
        route=uid,
        since_ms=1_700_000_000_000,
        last_ms=at_ms,
        count=count,
        reason=reason,
        dest="http://127.0.0.1:9/in",
    )


def events(world):
    """All Kubernetes events."""
    return [stored.content for stored in world.objects.list(world.kinds["Event"])[0]]


def test_failing_deliveries_are_told(world):
    """The Trigger stays ready: its route stands."""
    made = trigger(world)
    assert world.condition(made, "DeliveriesSucceeding") == ("True", "")
    world.fail(failing(made["metadata"]["uid"]))
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesSucceeding") == ("False", "DeliveryFailed")
    assert world.ready(told) == "True"
    (event,) = events(world)
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Trigger", "t")
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "DeliveryFailed", 3)
    assert event["firstTimestamp"] == "2023-11-14T22:13:20Z"
    world.fail()
    assert world.condition(world.get("Trigger", "t"), "DeliveriesSucceeding") == ("True", "")


def test_a_target_that_must_consent_is_told_as_such(world):
    """Nothing failed: the condition and the event say what is waited for."""
    made = trigger(world)
    world.fail(failing(made["metadata"]["uid"], reason=AWAITS_CONSENT))
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesSucceeding") == ("False", "AwaitingConsent")
    assert world.ready(told) == "True"
    (event,) = events(world)
    assert event["reason"] == "AwaitingConsent"
    assert "has not consented" in event["message"]


def test_a_target_that_must_consent_is_told_before_any_event(world):
    """As the list of subscriptions tells it: by the consents, whatever owners say."""
    uid = trigger(world)["metadata"]["uid"]
    world.awaited = {uid: ("http://127.0.0.1:9/in", 1_700_000_000_000)}
    world.fail()
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesSucceeding") == ("False", "AwaitingConsent")
    (event,) = events(world)
    assert (event["reason"], event["count"]) == ("AwaitingConsent", 1)
    world.fail(failing(uid))
    assert world.condition(told, "DeliveriesSucceeding") == ("False", "AwaitingConsent")
    world.awaited = {}
    world.fail()
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesSucceeding") == ("True", "")


def test_a_consent_that_is_waited_for_is_told_at_once_of_a_route_that_failed(world):
    """Somebody has to give it."""
    uid = trigger(world)["metadata"]["uid"]
    world.fail(failing(uid))
    world.awaited = {uid: ("http://127.0.0.1:9/in", 1_700_000_000_000)}
    world.fail(failing(uid))
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesSucceeding") == ("False", "AwaitingConsent")
    world.awaited = {}
    world.fail(failing(uid))
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesSucceeding") == ("False", "DeliveryFailed")


def test_the_next_target_that_must_consent_is_told_at_once(world):
    """Both were asked at one moment; the first has consented since."""
    uid = trigger(world)["metadata"]["uid"]
    for sink in ("http://127.0.0.1:9/in", "http://127.0.0.1:9/dead"):
        world.awaited = {uid: (sink, 1_700_000_000_000)}
        world.fail()
        (event,) = events(world)
        assert event["message"].startswith(f"{sink} has not consented")


def test_what_goes_on_failing_is_told_once_a_minute(world):
    """Each telling is a write; a thousand routes may fail at once."""
    made = trigger(world)
    uid = made["metadata"]["uid"]
    world.fail(failing(uid))
    version = world.objects.version
    world.clock.now_ms += TELL_AGAIN_MS - 1
    world.fail(failing(uid, 1_700_000_050_000, 50, "timeout"))
    assert world.objects.version == version
    world.clock.now_ms += 1
    world.look_at_failures()  # nothing has failed since
    (event,) = events(world)
    assert (event["count"], event["lastTimestamp"]) == (50, "2023-11-14T22:14:10Z")
    assert "timeout" in event["message"]
    version = world.objects.version
    world.clock.now_ms += TELL_AGAIN_MS
    world.look_at_failures()
    assert world.objects.version == version


def test_routes_of_the_other_api_and_of_deleted_objects_are_passed_by(world):
    """There is nothing to tell it by."""
    made = trigger(world)
    version = world.objects.version
    world.fail(failing("of-a-subscription"))
    assert world.objects.version == version
    world.delete("Trigger", "t")
    world.fail(failing(made["metadata"]["uid"]))
    assert events(world) == []


@pytest.fixture
def two(world):
    """Uids of the Triggers of two namespaces: several, and one."""

    def make(namespace, name):
        spec = {"broker": "default", "subscriber": world.to()}
        return world.apply("Trigger", name, spec, namespace=namespace)["metadata"]["uid"]

    for namespace in ("busy", "shop"):
        world.apply("Broker", "default", namespace=namespace)
    return [make("busy", f"t{number}") for number in range(20)], make("shop", "t")


@pytest.fixture
def holding(world, monkeypatch):
    """Hold the Kubernetes events of ``busy``; lists those under way, and a call that lets go."""
    put, free, under_way = world.objects.put, asyncio.Event(), []

    async def held(key, change):
        if key.namespace == "busy":
            under_way.append(key)
            await free.wait()
        return await put(key, change)

    monkeypatch.setattr(world.objects, "put", held)
    return under_way, free.set


def test_what_fails_elsewhere_is_told_while_a_namespace_waits_for_its_writes(world, two, holding):
    """Its own comes when it is its turn; few of it are under way."""
    busy, shop = two
    under_way, let_go = holding
    write_failing(world.failing, [failing(uid) for uid in (*busy, shop)])

    async def look():
        await asyncio.wait_for(world.reconciler._look_at_failures(), 10)
        await asyncio.wait_for(until(lambda: events(world)), 10)

    async def until(reached):
        while not reached():  # noqa: ASYNC110 - it looks at what background tasks do
            await asyncio.sleep(0.01)

    world.runner.run(look())
    assert [event["involvedObject"]["uid"] for event in events(world)] == [shop]
    for namespace, name in (("shop", "t"), ("busy", "t0"), ("busy", "t19")):
        world.settle(all_of=namespace)
        told = world.get("Trigger", name, namespace)
        assert world.condition(told, "DeliveriesSucceeding") == ("False", "DeliveryFailed")
    assert len(under_way) == 15  # shop had one of 256: less than a sixteenth of the rest
    let_go()
    world.runner.run(asyncio.wait_for(world.reconciler._events.told(), 10))
    assert {event["involvedObject"]["uid"] for event in events(world)} == {*busy, shop}


def test_an_event_that_cannot_be_stored_loses_no_other(world, two, monkeypatch):
    """Not even by a bug."""
    busy, shop = two
    put = world.objects.put
    faults = [StoreError("the disk is full"), ZeroDivisionError()]

    async def fail(key, change):
        if key.namespace == "busy" and faults:
            raise faults.pop()
        return await put(key, change)

    monkeypatch.setattr(world.objects, "put", fail)
    with capture_logs() as logs:
        world.fail(*(failing(uid) for uid in (*busy, shop)))
    assert len(events(world)) == len(busy) + 1 - 2
    not_stored = [each for each in logs if each["event"] == "event-not-stored"]
    assert [each["exc_info"] for each in not_stored] == [True, False]


def test_a_refused_event_is_tried_again_though_nothing_changes(world, monkeypatch):
    """A route that waits for a consent is told of once; not in each look, a quota refuses many."""
    uid, put, tried = trigger(world)["metadata"]["uid"], world.objects.put, []

    async def refuse_once(key, change):
        tried.append(key)
        if len(tried) == 1:
            raise StoreError("the disk is full")
        return await put(key, change)

    monkeypatch.setattr(world.objects, "put", refuse_once)
    world.awaited = {uid: ("http://127.0.0.1:9/in", 1_700_000_000_000)}
    for later_ms, tries, stored in ((0, 1, 0), (TELL_AGAIN_MS - 1, 1, 0), (1, 2, 1)):
        world.clock.now_ms += later_ms
        world.look_at_failures()
        assert (len(tried), len(events(world))) == (tries, stored)
    world.clock.now_ms += TELL_AGAIN_MS
    world.look_at_failures()
    assert len(tried) == 2


async def task_names():
    """Names of the tasks of the loop."""
    return {task.get_name() for task in asyncio.all_tasks()}


def test_a_stop_ends_events_that_wait(world, two, holding):
    """The conditions say the same."""
    busy, shop = two
    write_failing(world.failing, [failing(uid) for uid in (*busy, shop)])
    world.runner.run(world.reconciler._look_at_failures())
    assert holding[0]
    world.stop()
    assert "failure-events" not in world.runner.run(task_names())
    world.start()
    assert {event["involvedObject"]["uid"] for event in events(world)} <= {shop}


def test_partitions_are_summed_up(tmp_path):
    """One route fails in all of them; and files that did not change are not read."""
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "none"]
    write_failing(paths[0], [failing("u", 1_700_000_005_000, 3, "old")])
    write_failing(paths[1], [failing("u", 1_700_000_009_000, 4, "new"), failing("v")])
    files = FailureFiles(paths)
    found = files.look()
    assert (found["u"].count, found["u"].reason, found["u"].last_ms) == (
        7,
        "new",
        1_700_000_009_000,
    )
    assert set(found) == {"u", "v"}
    assert files.look() is None
    write_failing(paths[0], [])
    assert files.look()["u"].count == 4


def test_what_delivers_in_another_partition_does_not_fail(tmp_path):
    """Its file stays as it is: the owner of that partition learns nothing of the delivery."""
    path, over = tmp_path / "a", set()
    write_failing(path, [failing("u"), failing("v")])
    files = FailureFiles([path], lambda: frozenset(over))
    assert set(files.look()) == {"u", "v"}
    over.add("u")
    assert set(files.look()) == {"v"}
    assert files.look() is None
    over.clear()
    assert set(files.look()) == {"u", "v"}
