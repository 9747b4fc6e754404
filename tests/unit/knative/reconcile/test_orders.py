"""Annotations pause, replay and retry: each order is carried out once, and conditions tell."""

import asyncio
import threading

import pytest

from distributary.core.errors import RequestError, StoreError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.reconcile._failures import FailureFiles
from distributary.knative.reconcile._pass import ORDERS_MAX
from distributary.subscriptions.store.lifecycle_rows import LifecycleOutbox
from distributary.subscriptions.store.store import Store


def annotated(world, **orders):
    """Apply the Trigger with these annotations and no others."""
    notes = {f"distributary.dev/{name}": text for name, text in orders.items()}
    spec = {"broker": "default", "subscriber": world.to()}
    return world.apply("Trigger", "t", spec, annotations=notes)


def demands(world):
    """What was asked of owners: kind and route."""
    found = world.store.page_demands("default", None, 100)
    return [(demand.kind, demand.route) for demand in reversed(found)]


def steering(world, made):
    """What is set about the deliveries of an object."""
    return world.store.steering([made["metadata"]["uid"]]).get(made["metadata"]["uid"])


def test_an_annotation_pauses_and_its_removal_resumes(world):
    """The Trigger stays ready: its route stands, and what matches waits."""
    made = annotated(world, paused="true")
    assert steering(world, made).halted
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesEnabled") == ("False", "Paused")
    assert world.ready(told) == "True"
    annotated(world)
    assert not steering(world, made).halted
    assert world.condition(world.get("Trigger", "t"), "DeliveriesEnabled") == ("True", "")
    assert steering(world, annotated(world, paused="false")).paused_ms is None


@pytest.fixture
def order(world, monkeypatch):
    """What becomes of a route, in order: its records in the log, and how its deliveries are set."""
    order, store = [], world.store
    append = world.appender.append_routes

    async def appended(bodies):
        order.append("route")
        await append(bodies)

    def note(name):
        call = getattr(store, name)
        monkeypatch.setattr(store, name, lambda *args: (order.append(name), call(*args))[1])

    monkeypatch.setattr(world.appender, "append_routes", appended)
    for name in ("pause", "resume", "disable", "enable"):
        note(name)
    return order


@pytest.mark.parametrize(("name", "call"), [("paused", "pause"), ("disabled", "disable")])
def test_a_trigger_that_is_made_halted_is_never_sent_an_event(world, order, name, call):
    """It is halted before its route is there, and before the route leads to a new subscriber."""
    annotated(world, **{name: "true"})
    assert order == [call, "route"]
    annotated(world)
    order.clear()
    notes = {f"distributary.dev/{name}": "true"}
    other = {"broker": "default", "subscriber": world.to("http://127.0.0.1:9/other")}
    world.apply("Trigger", "t", other, annotations=notes)
    assert order == [call, "route"]


@pytest.fixture
def outbox(world):
    """The lifecycle events that wait; a Trigger listens."""
    listening = {"broker": "lifecycle", "subscriber": world.to()}
    world.apply("Trigger", "ear", listening)
    made = LifecycleOutbox(world.url)
    yield made
    made.close()


def told(outbox):
    """What the events say: transition, by whom or why, and when."""
    members = [(row.transition, row.members, row.at_ms) for row in outbox.waiting()]
    return [(of, said.get("by") or said.get("reason"), at_ms) for of, said, at_ms in members]


@pytest.mark.parametrize("name", ["paused", "disabled"])
def test_a_trigger_that_is_made_halted_is_told_to_be_so_after_its_start(world, outbox, name):
    """Once: whoever listens knows its state, and is told of the end of the halt later."""
    now_ms = world.clock.now_ms
    annotated(world, **{name: "true"})
    world.restart()
    world.settle()
    assert told(outbox) == [("started", "created", now_ms), (name, "annotation", now_ms)]
    assert outbox.waiting()[1].event_id.endswith(f"/1/{name}/{now_ms}")
    world.clock.now_ms += 1_000
    annotated(world)
    end = {"paused": "resumed", "disabled": "enabled"}[name]
    assert told(outbox)[2:] == [(end, "annotation", now_ms + 1_000)]


def test_a_halt_that_ends_before_the_start_is_told_of_by_nothing(world, outbox):
    """A Trigger whose Broker comes later starts as it is then, at that time."""
    spec = {"broker": "late", "subscriber": world.to()}
    made = world.apply("Trigger", "t", spec, annotations={"distributary.dev/paused": "true"})
    world.apply("Trigger", "t", spec, annotations={"distributary.dev/disabled": "true"})
    assert steering(world, made).halted
    assert told(outbox) == []
    world.clock.now_ms += 5_000
    now_ms = world.clock.now_ms
    world.apply("Broker", "late")
    assert told(outbox) == [("started", "created", now_ms), ("disabled", "annotation", now_ms)]
    assert outbox.waiting()[1].members["reason"] == "by its annotation"


def test_its_own_subscriber_is_told_of_a_halt_before_the_start(world):
    """Where the Trigger asks for it."""
    annotated(world, paused="true", lifecycle="true")
    outbox = LifecycleOutbox(world.url)
    assert [(row.transition, row.to_broker, row.to_sink) for row in outbox.waiting()] == [
        ("started", False, True),
        ("paused", False, True),
    ]
    outbox.close()


@pytest.mark.parametrize(("name", "call"), [("paused", "resume"), ("disabled", "enable")])
def test_a_trigger_goes_on_with_its_new_subscriber(world, order, name, call):
    """What waited is sent to that one alone."""
    annotated(world, **{name: "true"})
    order.clear()
    world.apply(
        "Trigger",
        "t",
        {"broker": "default", "subscriber": world.to("http://127.0.0.1:9/other")},
        annotations={},
    )
    assert order == ["route", call]


def test_a_trigger_that_moves_to_a_recreated_broker_is_halted_first(world, order):
    """The route that moves leads to its new subscriber already."""
    world.apply("Broker", "b")
    world.apply("Trigger", "t", {"broker": "b", "subscriber": world.to()})
    world.delete("Broker", "b")
    order.clear()

    async def both():
        key = Key(world.kinds["Trigger"].resource, "default", "t")
        notes = {"distributary.dev/paused": "true"}
        spec = {"broker": "b", "subscriber": world.to("http://127.0.0.1:9/other")}
        broker = Key(world.kinds["Broker"].resource, "default", "b")
        await asyncio.gather(
            world.objects.put(broker, lambda _: {"metadata": {"name": "b"}, "spec": {}}),
            world.objects.edit(
                key,
                lambda old: {
                    **old,
                    "metadata": {**old["metadata"], "annotations": notes},
                    "spec": spec,
                },
            ),
        )

    world.runner.run(both())
    world.settle()
    assert order[:2] == ["pause", "route"]


def test_of_disabled_and_a_new_enable_at_once_the_first_counts(world):
    """It is disabled before its route is there, and stays so."""
    assert steering(world, annotated(world, disabled="true", enable="1")).halted
    world.restart()
    world.settle()
    assert steering(world, world.get("Trigger", "t")).halted


def test_what_people_set_otherwise_stands_over_a_restart(world):
    """The annotation is an order when it appears, and none while it stays."""
    made = annotated(world, paused="true")
    world.store.resume(made["metadata"]["uid"], "anna", 5)
    world.restart()
    world.settle()
    annotated(world, paused="true")
    assert not steering(world, made).halted


def test_the_server_disables_and_an_annotation_enables(world):
    """A new value each time."""
    made = annotated(world)
    uid = made["metadata"]["uid"]
    world.store.disable(uid, "it failed for a day", "server", 5)
    world.fail()
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesEnabled") == ("False", "Disabled")
    for value in ("1", "2"):
        world.store.disable(uid, "again", "server", 6)
        annotated(world, enable=value)
        assert not steering(world, made).halted
    world.store.disable(uid, "again", "server", 7)
    annotated(world, enable="2")
    assert steering(world, made).halted
    assert steering(world, annotated(world, disabled="true")).disabled_reason == "again"


def test_an_order_of_one_hides_no_news_of_another(world):
    """The server disables one Trigger just before an annotation of another one is carried out."""
    annotated(world)
    spec = {"broker": "default", "subscriber": world.to()}
    other = world.apply("Trigger", "other", spec)["metadata"]["uid"]
    world.store.disable(other, "it failed for a day", "server", 5)
    annotated(world, paused="true")
    world.fail()
    told = world.get("Trigger", "other")
    assert world.condition(told, "DeliveriesEnabled") == ("False", "Disabled")


def test_a_start_changes_no_status_of_what_is_halted(world, monkeypatch):
    """It is known when the first status is written, though nobody has looked for news yet."""
    annotated(world, paused="true")
    before, settled = world.get("Trigger", "t"), threading.Event()
    monkeypatch.setattr(FailureFiles, "look", lambda _: settled.wait(10) and None)
    world.restart()
    world.settle()
    assert world.get("Trigger", "t") == before
    settled.set()


def test_an_order_reads_nothing_of_other_objects(world, monkeypatch):
    """However many are halted, or had orders: what was carried out is read once, at the start."""
    annotated(world, retry="1")
    for name in ("obeyed", "halted"):
        monkeypatch.setattr(world.store, name, None)
    assert steering(world, annotated(world, paused="true")).halted
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesEnabled") == ("False", "Paused")
    world.fail()
    assert world.get("Trigger", "t") == told


@pytest.mark.parametrize("orders", [{}, {"retry": "1"}], ids=["plain", "orders-too"])
def test_many_orders_of_one_namespace_delay_no_other(world, monkeypatch, orders):
    """A pass carries out some: a Trigger of another namespace is ready after one or two passes."""
    world.apply("Broker", "b", namespace="few")
    note, done, ready = world.store.note_obeyed, [], []
    monkeypatch.setattr(world.store, "note_obeyed", lambda *of: (done.append(of), note(*of)))

    def put(namespace, broker, name, annotations):
        notes = {f"distributary.dev/{order}": text for order, text in annotations.items()}
        spec = {"broker": broker, "subscriber": world.to()}
        content = {"metadata": {"name": name, "annotations": notes}, "spec": spec}
        key = Key(world.kinds["Trigger"].resource, namespace, name)
        return world.objects.put(key, lambda _: content)

    async def both():
        many = (put("default", "default", f"t{n}", {"enable": "1"}) for n in range(100))
        await asyncio.gather(*many)
        await put("few", "b", "t", orders)
        before = len(done)

        def look(change):
            stored = change.stored
            if stored.key.namespace == "few" and world.ready(stored.content) == "True":
                ready.append(len(done) - before)

        world.objects.on_change(look)

    world.runner.run(both())
    world.settle(all_of="few")
    assert ready[0] <= 2 * ORDERS_MAX
    world.settle()
    assert len({uid for uid, _ in done}) == 100 + bool(orders)
    assert len(done) == 100 + bool(orders)


def test_a_value_is_carried_out_once(world):
    """Also over a restart; a new one is another run."""
    made = annotated(world, retry="1", redrive="a", replay="from=2026-01-01T00:00:00Z,rate=50")
    uid = made["metadata"]["uid"]
    every = [("retry", uid), ("redrive", uid), ("replay", uid)]
    assert demands(world) == every
    replay = world.store.page_demands("default", None, 1)[0]
    assert (replay.details.rate, replay.details.partitions) == (50.0, 2)
    assert replay.details.since_ms == 1_767_225_600_000
    world.restart()
    world.settle()
    annotated(world, retry="1", redrive="a", replay="from=2026-01-01T00:00:00Z,rate=50")
    assert demands(world) == every
    annotated(world, retry="2")
    assert demands(world) == [*every, ("retry", uid)]


def test_runs_wait_for_the_route(world):
    """Where the Broker comes later: partitions end runs of routes that they do not know."""
    notes = {"retry": "1", "redrive": "a", "replay": "from=2026-01-01T00:00:00Z", "paused": "true"}
    annotations = {f"distributary.dev/{name}": text for name, text in notes.items()}
    spec = {"broker": "late", "subscriber": world.to()}
    made = world.apply("Trigger", "t", spec, annotations=annotations)
    assert steering(world, made).halted
    assert demands(world) == []
    world.restart()
    world.settle()
    assert demands(world) == []
    world.apply("Broker", "late")
    uid = made["metadata"]["uid"]
    every = [("retry", uid), ("redrive", uid), ("replay", uid)]
    assert demands(world) == every
    world.restart()
    world.settle()
    assert demands(world) == every


@pytest.mark.parametrize("between", [{}, {"retry": "2"}], ids=["removed", "another"])
def test_a_value_that_returns_is_carried_out_again(world, between):
    """After its removal, and after another value; also where a restart lies between."""
    made = annotated(world, retry="1")
    annotated(world, **between)
    count = len(demands(world))
    world.restart()
    world.settle()
    assert len(demands(world)) == count
    annotated(world, retry="1")
    assert demands(world) == [("retry", made["metadata"]["uid"])] * (count + 1)


def test_an_order_that_was_not_noted_is_the_same_run(world, monkeypatch):
    """The store fails between the run and the note of it: the order is carried out once."""
    made = annotated(world)
    noted = world.store.note_obeyed
    faults = [StoreError("the disk is full")]

    def note(*said):
        if faults:
            raise faults.pop()
        noted(*said)

    monkeypatch.setattr(world.store, "note_obeyed", note)
    annotated(world, retry="1")
    assert not faults
    assert demands(world) == [("retry", made["metadata"]["uid"])]


def refusing(monkeypatch, refused):
    """Have a store refuse runs while *refused* is not empty."""
    demand = Store.demand

    def ask(*said, **details):
        if refused:
            raise RequestError("unavailable", "too many runs were asked for")
        return demand(*said, **details)

    monkeypatch.setattr(Store, "demand", ask)


def test_a_refused_order_is_carried_out_once_it_can_be(world, monkeypatch):
    """At most once a minute it is tried again; what stands beside it is done at once."""
    refused = ["all"]
    refusing(monkeypatch, refused)
    made = annotated(world, redrive="monday", paused="true")
    assert steering(world, made).halted
    made = annotated(world, redrive="monday")
    assert not steering(world, made).halted
    refused.clear()
    world.fail()
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesEnabled") == ("True", "OrderRefused")
    assert demands(world) == []
    world.clock.now_ms += 60_000
    for _ in range(2):
        world.fail()
        assert demands(world) == [("redrive", made["metadata"]["uid"])]
        world.clock.now_ms += 60_000
    assert world.condition(world.get("Trigger", "t"), "DeliveriesEnabled") == ("True", "")


def test_a_refused_order_that_was_replaced_is_not_carried_out(world, monkeypatch):
    """Its Trigger is paused with the same change, which is done first."""
    refused = ["all"]
    refusing(monkeypatch, refused)
    made = annotated(world, redrive="monday")
    refused.clear()
    annotated(world, redrive="tuesday", paused="true")
    assert demands(world) == [("redrive", made["metadata"]["uid"])]


def test_a_refused_order_outlives_a_restart(world, monkeypatch):
    """While it is refused the condition says so; afterwards it is carried out."""
    refused = ["all"]
    refusing(monkeypatch, refused)
    made = annotated(world, redrive="monday")
    world.restart()
    world.settle()
    told = world.get("Trigger", "t")
    assert world.condition(told, "DeliveriesEnabled") == ("True", "OrderRefused")
    refused.clear()
    world.restart()
    world.settle()
    assert demands(world) == [("redrive", made["metadata"]["uid"])]
    assert world.condition(world.get("Trigger", "t"), "DeliveriesEnabled") == ("True", "")


def test_nothing_remains_of_a_refused_order_whose_object_is_deleted_meanwhile(world, monkeypatch):
    """While the store refuses it the object goes, and is forgotten before the refusal is noted."""
    loop = world.runner.get_loop()

    def refuse(*_said, **_details):
        gone = world.objects.delete(Key(world.kinds["Trigger"].resource, "default", "t"))
        asyncio.run_coroutine_threadsafe(gone, loop).result(10)
        raise RequestError("unavailable", "too many runs were asked for")

    monkeypatch.setattr(Store, "demand", refuse)
    assert annotated(world, retry="1") is None
    world.clock.now_ms += 60_000
    assert world.runner.run(world.reconciler._pass.steered.news()) == []


def test_an_object_that_is_made_again_begins_anew(world):
    """Its uid is another, and so are its runs."""
    first = annotated(world, retry="1", paused="true")
    world.delete("Trigger", "t")
    second = annotated(world, retry="1")
    assert [uid for _, uid in demands(world)] == [
        first["metadata"]["uid"],
        second["metadata"]["uid"],
    ]
    assert not steering(world, second).halted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("paused", "yes"),
        ("disabled", ""),
        ("retry", ""),
        ("retry", "x" * 129),
        ("replay", "now"),
        ("replay", "from=yesterday"),
        ("replay", "to=2026-01-01T00:00:00Z"),
        ("replay", "from=2026-01-02T00:00:00Z,to=2026-01-01T00:00:00Z"),
        ("replay", "from=2026-01-02T00:00:00Z,rate=0"),
        ("replay", "from=2026-01-02T00:00:00Z,rate=1e-300"),
        ("replay", "from=2026-01-02T00:00:00Z,rate=1e300"),
        ("replay", "from=2026-01-02T00:00:00Z,rate=nan"),
        ("replay", "from=2026-01-02T00:00:00Z,from=2026-01-02T00:00:00Z"),
    ],
)
def test_a_wrong_order_is_refused_at_its_place(world, name, text):
    """By admission, so that nothing is half done."""
    with pytest.raises(Exception, match=rf"annotations\[distributary.dev/{name}\]"):
        annotated(world, **{name: text})
    assert demands(world) == []
