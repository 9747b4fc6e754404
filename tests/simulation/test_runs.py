"""Kept dead letters that are sent again, or deleted: each once for a run, whatever crashes."""

import pytest

from distributary.core.demand import DemandDetails
from distributary.core.engine import EngineLimits
from distributary.core.flow import Stage
from distributary.core.outcome import Changes, DeliveryStore, LetterChoice
from distributary.core.policy import DeliveryPolicy
from kit.simulation import partition as simulation
from kit.simulation.partition import answers, hangs, replies

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
ONCE = DeliveryPolicy(retry=1, backoff_delay_s=0.1, timeout_s=1.0)


def arrivals(partition, uri):
    """Ids of the events that were sent to *uri*, in order."""
    return [event for _, event, to in partition.sends if to == uri]


@pytest.fixture
def refused(make_partition):
    """A partition with dead letters of two routes."""
    partition = make_partition(seed=11)
    partition.put_route("r", A, policy=ONCE)
    partition.put_route("q", B, policy=ONCE)
    partition.sinks[A] = partition.sinks[B] = answers(400)
    partition.start()
    partition.events = [event for _ in range(150) for event in partition.publish("t")]
    partition.advance(5.0)
    assert len(partition.store.dead_letters(1_000)) == 300
    return partition


def ask(partition, kind, route):
    """Ask the owner for something."""
    if kind == "redrive":
        partition.checker.redriven(route)
    return partition.targets.ask(kind, route)


def test_a_redrive_delivers_the_dead_letters_of_its_route(refused):
    """Each once, the event as it was published; the others stay."""
    refused.sinks.clear()
    before = len(arrivals(refused, A))
    ask(refused, "redrive", "r")
    refused.advance(30.0)
    assert sorted(arrivals(refused, A)[before:]) == sorted(refused.events)
    assert {dead_letter.key.route for dead_letter in refused.store.dead_letters(1_000)} == {"q"}
    assert ("redrive-done", {"run": "run-1", "count": 150, "passed": 0}) in refused.reports
    refused.rest()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_redrives_of_the_same_dead_letters_send_each_once(make_partition, monkeypatch, seed):
    """The second finds those that the first sent, and whose end a slow disk has not taken."""
    partition = make_partition(seed=seed)
    partition.put_route("r", A, policy=ONCE, parks=True)
    partition.sinks[A] = answers(400)
    partition.start()
    events = [event for _ in range(150) for event in partition.publish("t")]
    partition.advance(5.0)
    partition.sinks.clear()
    monkeypatch.setattr(simulation, "FLUSH_S_MAX", 0.5)
    before = len(arrivals(partition, A))
    ask(partition, "redrive", "r")
    partition.targets.ask("redrive", "r")
    partition.advance(30.0)
    assert sorted(arrivals(partition, A)[before:]) == sorted(events)
    assert partition.store.dead_letters(1_000) == []
    partition.rest()


def test_a_redrive_survives_a_crash_wherever_it_stands(refused):
    """Nothing is lost, and a dead letter that was delivered is not sent by the run again."""
    refused.sinks.clear()
    ask(refused, "redrive", "r")
    for _ in range(30):
        refused.advance(0.11)
        refused.crash()
        refused.start()
    refused.advance(30.0)
    ended = [fate for fate in refused.checker.fates() if fate.route == "r"]
    assert {fate.final for fate in ended} == {"delivered"}
    assert {dead_letter.key.route for dead_letter in refused.store.dead_letters(1_000)} == {"q"}
    refused.rest()


@pytest.mark.parametrize(
    ("fails", "ending"), [(answers(400), ""), (replies(), ".reply")], ids=["event", "reply"]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_dead_letter_of_a_redriven_one_is_never_what_was_redriven(
    make_partition, seed, fails, ending
):
    """Its row had an event already, which is the older one until the next flush."""
    partition = make_partition(seed=seed)
    partition.engine_limits = EngineLimits(row_events_bytes_max=0)
    partition.put_route("r", A, policy=ONCE, reply=B)
    partition.sinks[A] = partition.sinks[B] = answers(400)
    partition.start()
    events = [event for _ in range(5) for event in partition.publish("t")]
    partition.advance(5.0)
    partition.put_route("r", A, policy=ONCE, reply=B, dead_letter=DEAD)
    partition.sinks[A] = fails
    ask(partition, "redrive", "r")
    partition.advance(10.0)
    assert sorted(arrivals(partition, DEAD)) == [f"{event}{ending}" for event in events]
    assert partition.store.dead_letters(1_000) == []
    partition.rest()


def test_what_fails_again_is_a_dead_letter_again_and_no_more_of_the_run(refused):
    """One run sends a dead letter once."""
    before = len(arrivals(refused, A))
    ask(refused, "redrive", "r")
    refused.advance(60.0)
    assert len(arrivals(refused, A)) == before + 150
    dead_letters = refused.store.dead_letters(1_000)
    assert len([1 for dead_letter in dead_letters if dead_letter.key.route == "r"]) == 150
    refused.rest()


def test_a_redrive_goes_by_the_newest_filters_and_sink(refused):
    """What they do not match stays a dead letter."""
    refused.publish("other")
    refused.advance(2.0)
    refused.put_route("r", DEAD, types=["other"], policy=ONCE)
    refused.sinks.clear()
    refused.advance(1.0)
    ask(refused, "redrive", "r")
    refused.advance(20.0)
    assert len(arrivals(refused, DEAD)) == 1
    mine = [1 for dead_letter in refused.store.dead_letters(1_000) if dead_letter.key.route == "r"]
    assert len(mine) == 150
    refused.rest()


def test_a_dead_letter_whose_record_is_gone_is_sent_from_the_store(refused):
    """Retention does not wait for dead letters, nor for those that are sent again."""
    refused.put_route("r", A, policy=ONCE, dead_letter=DEAD)
    refused.advance(1.0)
    for _ in range(5):
        refused.publish("t")
        refused.advance(1.0)
    refused.retain()
    assert refused.log.start() > 150
    refused.sinks[A] = answers(404)
    ask(refused, "redrive", "r")
    for _ in range(10):
        refused.advance(0.3)
        refused.crash()
        refused.start()
    refused.advance(60.0)
    assert set(refused.events) <= set(arrivals(refused, DEAD))
    finals = {fate.final for fate in refused.checker.fates() if fate.route == "r"}
    assert finals <= {"dead-lettered", "kept"}
    assert Stage.DEAD_LETTER not in {row.stage for row in refused.store.rows() if not row.done}
    refused.rest()


def test_a_purge_deletes_the_dead_letters_of_its_route_or_all(refused):
    """Those that were kept when it began; each run is done once."""
    ask(refused, "purge", "r")
    refused.advance(5.0)
    assert {dead_letter.key.route for dead_letter in refused.store.dead_letters(1_000)} == {"q"}
    refused.crash()
    ask(refused, "purge", "")
    refused.start()
    refused.advance(5.0)
    assert refused.store.dead_letters() == []
    refused.publish("t")
    refused.advance(5.0)
    refused.crash()
    refused.start()
    refused.advance(5.0)
    assert len(refused.store.dead_letters()) == 2
    refused.rest()


def test_runs_that_are_done_keep_no_new_one_waiting(refused):
    """Each owner meets all that were asked for within a week."""
    for _ in range(300):
        ask(refused, "purge", "nobody")
    refused.advance(120.0)
    refused.crash()
    refused.start()
    refused.sinks.clear()
    ask(refused, "redrive", "r")
    refused.advance(5.0)
    assert {dead_letter.key.route for dead_letter in refused.store.dead_letters(1_000)} == {"q"}
    refused.rest()


def test_a_redrive_of_all_routes_makes_no_more_rows_than_there_may_be(refused):
    """What their sinks do not take at once waits as dead letters, which cost no memory."""
    refused.rollover()
    refused.engine_limits = EngineLimits(rows_max=100)
    refused.start()
    refused.sinks[A] = refused.sinks[B] = answers(503)
    patient = DeliveryPolicy(retry=9, backoff_delay_s=30.0)
    refused.put_route("r", A, policy=patient)
    refused.put_route("q", B, policy=patient)
    refused.advance(1.0)
    for route in ("r", "q"):
        refused.checker.redriven(route)
    refused.targets.ask("redrive", "")
    refused.advance(10.0)
    assert 50 <= len([row for row in refused.store.rows() if not row.done]) < 50 + 64
    refused.sinks.clear()
    refused.advance(600.0)
    assert refused.store.dead_letters() == []
    refused.rest()


def test_a_redrive_of_all_routes_leaves_what_is_paused(refused):
    """It makes no rows that wait for the resume: it ends, and other runs go on."""
    refused.rollover()
    refused.engine_limits = EngineLimits(rows_max=100)
    refused.start()
    refused.sinks.clear()
    refused.targets.halt("r")
    refused.advance(2.0)
    before = len(arrivals(refused, B))
    refused.checker.redriven("q")
    refused.targets.ask("redrive", "", DemandDetails(dry=True))
    refused.targets.ask("redrive", "")
    refused.advance(30.0)
    done = {"count": 150, "passed": 150}
    assert ("redrive-done", {"run": "run-1", "dry": True} | done) in refused.reports
    assert ("redrive-done", {"run": "run-2"} | done) in refused.reports
    assert len(arrivals(refused, B)) == before + 150
    assert {dead_letter.key.route for dead_letter in refused.store.dead_letters(1_000)} == {"r"}
    assert not [row for row in refused.store.rows() if row.key.route == "r"]
    refused.targets.unhalt("r")
    ask(refused, "redrive", "r")
    refused.advance(30.0)
    assert refused.store.dead_letters() == []
    refused.rest()


def test_a_pause_that_is_learned_after_the_deletion_holds_no_run(refused):
    """Both came in one look, and the record of the deletion before it: nothing would resume it."""
    refused.checker.redriven("r")
    refused.targets.ask("redrive", "r", DemandDetails(rate=0.2))
    refused.advance(3.0)
    refused.delete_route("r")
    refused.advance(0.05)
    refused.targets.halt("r")
    refused.advance(600.0)
    assert [event for event, _ in refused.reports if event == "redrive-ended-early"]
    refused.sinks.clear()
    refused.rest()


def test_a_redrive_of_chosen_dead_letters_waits_for_a_paused_route(refused):
    """Who names them wants them sent: as with a redrive of that route."""
    refused.sinks.clear()
    refused.targets.halt("r")
    refused.advance(2.0)
    refused.checker.redriven("r")
    numbers = [kept.id for kept in refused.store.chosen_letters(LetterChoice("r"), 3, 0, 1e9)]
    ids = tuple(f"0-{number}" for number in numbers)
    refused.targets.ask("redrive", "", DemandDetails(ids=ids))
    refused.advance(30.0)
    assert not [event for event, _ in refused.reports if event == "redrive-done"]
    refused.targets.unhalt("r")
    refused.advance(30.0)
    assert ("redrive-done", {"run": "run-1", "count": 3, "passed": 0}) in refused.reports
    refused.rest()


@pytest.mark.parametrize("paused", [False, True], ids=["it fails", "it is paused meanwhile"])
def test_a_redrive_of_all_routes_keeps_no_other_run_waiting(refused, paused):
    """A route of it takes its share of the rows, and no more."""
    refused.rollover()
    refused.engine_limits = EngineLimits(rows_max=100, rows_per_route_max=40)
    refused.start()
    refused.sinks[A] = answers(503)
    refused.sinks[B] = answers()
    refused.put_route("r", A, policy=DeliveryPolicy(retry=9, backoff_delay_s=30.0))
    refused.advance(1.0)
    for route in ("r", "q"):
        refused.checker.redriven(route)
    refused.targets.ask("redrive", "")
    refused.advance(3.0)
    assert 0 < len([row for row in refused.store.rows() if row.key.route == "r"]) <= 20
    if paused:
        refused.targets.halt("r")
    refused.targets.ask("redrive", "q")
    refused.advance(10.0)
    assert {dead_letter.key.route for dead_letter in refused.store.dead_letters(1_000)} == {"r"}
    refused.sinks.clear()
    refused.targets.unhalt_all()
    refused.advance(600.0)
    if paused:
        ask(refused, "redrive", "r")  # the run of all has left them
        refused.advance(600.0)
    assert refused.store.dead_letters() == []
    refused.rest()


def test_a_damaged_dead_letter_stays_and_stops_nobody(refused):
    """Its run passes it."""
    (dead_letter,) = refused.store.dead_letters(1)
    refused.store.apply(Changes(dead_letters=[dead_letter._replace(event=b"\xff")]))
    refused.store.new_dead_letters.clear()  # the checker reads what it hears of
    refused.sinks.clear()
    ask(refused, "redrive", dead_letter.key.route)
    refused.advance(30.0)
    assert ("redrive-done", {"run": "run-1", "count": 149, "passed": 1}) in refused.reports
    assert dead_letter.key in {kept.key for kept in refused.store.dead_letters(1_000)}


def test_a_redrive_that_waits_for_the_cursor_reads_its_dead_letters_once(refused, monkeypatch):
    """An attempt may hold the cursor for ten minutes, and a dead letter may have 1 MiB."""
    refused.put_route("slow", DEAD, types=["s"], policy=DeliveryPolicy(timeout_s=600.0))
    refused.sinks[DEAD] = hangs
    refused.advance(1.0)
    ask(refused, "purge", "")
    refused.publish("s")
    refused.advance(1.0)
    refused.publish("t")
    refused.advance(5.0)
    reads = []
    read = DeliveryStore.chosen_letters

    def noted(store, *args):
        reads.append(args)
        return read(store, *args)

    monkeypatch.setattr(DeliveryStore, "chosen_letters", noted)
    ask(refused, "redrive", "r")
    refused.advance(60.0)
    assert 0 < len(reads) < 5
    refused.sinks.clear()
    refused.crash()
    refused.start()
    refused.rest()


def test_a_redrive_to_a_sink_that_takes_nothing_keeps_no_other_run_waiting(refused):
    """It waits for days, perhaps; the others are done meanwhile, and then it goes on."""
    refused.rollover()
    refused.engine_limits = EngineLimits(rows_per_route_max=20)
    refused.start()
    refused.sinks[A] = answers(503)
    refused.put_route("r", A, policy=DeliveryPolicy(retry=9, backoff_delay_s=30.0))
    refused.advance(1.0)
    ask(refused, "redrive", "r")
    refused.advance(3.0)
    ask(refused, "purge", "q")
    refused.advance(5.0)
    assert {dead_letter.key.route for dead_letter in refused.store.dead_letters(1_000)} == {"r"}
    refused.sinks.clear()
    refused.advance(600.0)
    assert refused.store.dead_letters() == []
    refused.rest()
