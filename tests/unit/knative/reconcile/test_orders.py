"""Annotations pause, replay and retry: each order is carried out once, and conditions tell."""

import pytest

from distributary.core.errors import StoreError


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
        ("replay", "from=2026-01-02T00:00:00Z,from=2026-01-02T00:00:00Z"),
    ],
)
def test_a_wrong_order_is_refused_at_its_place(world, name, text):
    """By admission, so that nothing is half done."""
    with pytest.raises(Exception, match=rf"annotations\[distributary.dev/{name}\]"):
        annotated(world, **{name: text})
    assert demands(world) == []
