"""A sink that says that it is gone parks its subscription: nothing is sent, nothing is lost."""

import pytest

from distributary.core.deliver import Limits
from distributary.core.policy import DeliveryPolicy
from distributary.datadir import StatusField
from kit.simulation.partition import answers

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
POLICY = DeliveryPolicy(retry=2, timeout_s=1.0)


def sent_to(partition, uri):
    """Ids of the events that were sent there, in order."""
    return [event for _, event, to in partition.sends if to == uri]


def warned(partition, event):
    """Routes of warnings of this kind."""
    return [fields["route"] for name, fields in partition.warnings if name == event]


@pytest.fixture
def gone(make_partition):
    """A partition with a route whose sink is gone, and one whose sink is not."""
    partition = make_partition(seed=5)
    partition.put_route("r", A, types=["t"], policy=POLICY, parks=True)
    partition.put_route("q", B, policy=POLICY, parks=True)
    partition.sinks[A] = answers(410)
    partition.start()
    return partition


def test_a_sink_that_is_gone_parks_its_subscription_alone(gone):
    """After the first answer nothing is sent; what comes makes no rows; its owner is warned."""
    first = gone.publish("t")
    gone.advance(1.0)
    events = [event for _ in range(200) for event in gone.publish("t")]
    gone.advance(60.0)
    assert sent_to(gone, A) == first
    assert set(sent_to(gone, B)) == {*first, *events}
    assert warned(gone, "subscription-parked") == ["r"]
    assert not gone.store.dead_letters()
    assert len([row for row in gone.store.kept_rows.values() if not row.done]) == 1
    assert gone.status_page[StatusField.BACKFILLING] == 1
    (parked,) = gone.store.parked()
    assert (parked.route, parked.reason, parked.dest) == ("r", "status-410", A)
    gone.sinks.clear()
    gone.targets.ask("resume", "r")
    gone.advance(60.0)
    assert set(sent_to(gone, A)) == {*first, *events}
    assert gone.store.parked() == []
    gone.rest()


def test_a_parked_subscription_stays_parked_over_a_crash(gone):
    """Also what was under way, and what waited in the queue, when the answer came."""
    gone.sinks[A] = answers(410, after_s=0.05)
    events = [event for _ in range(50) for event in gone.publish("t")]
    for _ in range(4):
        gone.advance(0.06)
        gone.crash()
        gone.start()
    gone.advance(5.0)
    before = len(sent_to(gone, A))
    for _ in range(5):
        gone.crash()
        gone.start()
        events += gone.publish("t")
        gone.advance(5.0)
    assert len(sent_to(gone, A)) == before
    assert len(gone.store.parked()) == 1
    gone.sinks.clear()
    gone.targets.ask("resume", "r")
    gone.advance(60.0)
    assert set(sent_to(gone, A)) == set(events)
    gone.rest()


def test_a_demand_to_resume_that_came_while_nobody_owned_the_partition_is_met(gone):
    """And one that was met is not met again after the next answer 410."""
    gone.publish("t")
    gone.advance(1.0)
    gone.crash()
    gone.targets.ask("resume", "r")
    gone.start()
    gone.advance(5.0)
    assert len(sent_to(gone, A)) == 2  # It went on, met 410 again, and is parked again.
    gone.crash()
    gone.start()
    gone.advance(5.0)
    assert len(sent_to(gone, A)) == 2
    gone.sinks.clear()
    gone.targets.ask("resume", "r")
    gone.advance(5.0)
    gone.rest()


def test_a_change_of_the_subscription_resumes_it(gone):
    """A new sink gets what waited, each event once."""
    gone.publish("t")
    gone.advance(1.0)
    events = [event for _ in range(20) for event in gone.publish("t")]
    gone.put_route("r", DEAD, types=["t"], policy=POLICY, parks=True)
    gone.advance(30.0)
    assert len(sent_to(gone, A)) == 1
    assert set(events) <= set(sent_to(gone, DEAD))
    gone.rest()


def test_what_waits_for_a_parked_subscription_goes_with_it(gone):
    """It is deleted: nothing holds the log any more."""
    gone.publish("t", "t")
    gone.advance(1.0)
    gone.publish("t")
    gone.advance(1.0)
    gone.delete_route("r")
    gone.advance(5.0)
    gone.rest()
    assert gone.store.parked() == []
    assert {fate.final for fate in gone.checker.fates() if fate.route == "r"} <= {"dropped", None}


def test_another_subscription_of_the_same_sink_is_not_held_up_by_the_queue(make_partition):
    """What it has in the queue is sent (and finds for itself that the sink is gone, or not)."""
    partition = make_partition(limits=Limits())
    partition.put_route("r", A, types=["t"], policy=POLICY, parks=True)
    partition.put_route("q", A, types=["u"], policy=POLICY)
    partition.sinks[A] = answers(410, after_s=0.05)
    partition.start()
    for _ in range(100):
        partition.publish("t")
        partition.publish("u")
    partition.advance(20.0)
    kept = {dead_letter.key.route for dead_letter in partition.store.dead_letters()}
    assert kept == {"q"}
    assert len(partition.store.dead_letters()) == 100
    assert len([1 for event in sent_to(partition, A)]) < 100 + 70
    partition.sinks.clear()
    partition.targets.ask("resume", "r")
    partition.advance(20.0)
    partition.rest()


def test_triggers_get_a_dead_letter_from_a_sink_that_is_gone(make_partition):
    """Knative's table says so: no retry, the dead letter sink has it."""
    partition = make_partition()
    partition.put_route("r", A, policy=POLICY, dead_letter=DEAD)
    partition.sinks[A] = answers(410)
    partition.start()
    events = [event for _ in range(3) for event in partition.publish("t")]
    partition.advance(5.0)
    assert sent_to(partition, DEAD) == events
    assert not partition.store.parked()
    partition.rest()


def test_a_late_answer_of_a_sink_that_was_replaced_parks_nothing(make_partition):
    """The new sink is not gone, and it gets what the old one did not take."""
    partition = make_partition(seed=6)
    patient = DeliveryPolicy(retry=2, timeout_s=30.0)
    partition.put_route("r", A, policy=patient, parks=True)
    partition.sinks[A] = answers(410, after_s=5.0)
    partition.start()
    events = partition.publish("t")
    partition.advance(1.0)
    partition.put_route("r", B, policy=patient, parks=True)
    partition.advance(20.0)
    events += partition.publish("t")
    partition.advance(20.0)
    assert sorted(sent_to(partition, B)) == sorted(events)
    assert partition.store.parked() == []
    partition.rest()
