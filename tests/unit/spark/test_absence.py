"""Which leases the driver takes away when Spark has lost an executor."""

from distributary.core.postgres_lease import TTL_S, LeaseRow, partition_lease
from distributary.partitions.executor import LeaseHolder
from distributary.spark._absence import GIVEN_S, RENEWED_S, SILENT_S, Left, Silence
from distributary.spark._desertion import Desertion
from distributary.spark._patience import WAIT_S

APPLICATION = "app-1"


def row(partition, executor, *, application=APPLICATION, left_s=4.0, generation=7, **more):
    """A lease that a worker of *executor* holds."""
    holder = LeaseHolder(host="m", pid=1, application=application, executor=executor)
    return LeaseRow(partition_lease(partition), generation, holder.encode(), left_s, **more)


FRESH_S = TTL_S - RENEWED_S
"""Left of a lease that was renewed in time."""


def left(rows, *, asked=(), now_s=50.0, before=None):
    """What a look at *rows* finds, with the executor ``0`` alive."""
    return (before or Left()).look(rows, APPLICATION, {"0"}, lambda p: p in asked, now_s)


def test_partitions_of_a_lost_executor_are_found_once():
    """With the generation that it held: a later holder keeps what it has."""
    rows, seen = [row(0, "0"), row(1, "1", generation=9), row(2, "0")], Left()
    assert left(rows, before=seen) == ([(1, 9, "1")], [])
    assert left(rows, before=seen) == ([], [])
    later = [row(1, "1", generation=12)]
    assert left(later, before=seen) == ([(1, 12, "1")], [])


def test_an_owner_that_lives_on_delivers_until_it_is_asked():
    """However long no other task begins."""
    rows, seen = [row(0, "9", left_s=FRESH_S)], Left()
    for now_s in (50.0, 50.0 + GIVEN_S, 50.0 + 9 * GIVEN_S):
        assert left(rows, before=seen, now_s=now_s)[1] == []


def test_an_owner_that_is_gone_with_its_executor_is_fenced():
    """It has not renewed its lease, and another owner waits: else its lease runs out."""
    rows = [row(number, "9", left_s=FRESH_S - 0.1) for number in (0, 1)]
    assert left([*rows, row(2, "9", left_s=FRESH_S)], asked={0, 2})[1] == [(0, 7, "9")]


def test_an_owner_that_is_gone_with_its_connection_is_fenced_at_once():
    """Asked or not; one look may fall into a moment in which all connect anew."""
    cut, seen = row(0, "9", left_s=FRESH_S + 1, connected=False), Left()
    assert left([cut], before=seen)[1] == []
    assert left([row(0, "9")], before=seen)[1] == []
    assert left([cut], before=seen)[1] == []
    assert left([cut, row(1, "0", connected=False)], before=seen)[1] == [(0, 7, "9")]


def test_an_owner_that_does_not_let_go_is_fenced():
    """Its loop may hang, while its lease is renewed in a thread."""
    rows, seen = [row(0, "9"), row(1, "9")], Left()
    assert left(rows, asked={0}, before=seen)[1] == []
    assert left(rows, asked={0}, before=seen, now_s=50.0 + GIVEN_S - 0.1)[1] == []
    assert left(rows, asked={0}, before=seen, now_s=50.0 + GIVEN_S)[1] == [(0, 7, "9")]


def test_an_owner_that_is_asked_late_has_its_time_to_let_go():
    """A task may start long after the loss; what is in flight would be sent twice."""
    rows, seen = [row(0, "9")], Left()
    assert left(rows, before=seen)[1] == []
    asked_s = 50.0 + 9 * GIVEN_S
    assert left(rows, asked={0}, before=seen, now_s=asked_s)[1] == []
    assert left(rows, before=seen, now_s=asked_s + 1)[1] == []  # it asks no more
    assert left(rows, asked={0}, before=seen, now_s=asked_s + GIVEN_S)[1] == []
    assert left(rows, asked={0}, before=seen, now_s=asked_s + 2 * GIVEN_S)[1] == [(0, 7, "9")]


def test_executors_of_another_application_are_left_alone():
    """Their numbers mean nothing here; they end with their driver, or their leases do."""
    assert left([row(0, "9", application="app-0")]) == ([], [])


def test_a_lease_that_has_run_out_needs_no_help():
    """The next task has it already, or gets it."""
    assert left([row(0, "9", left_s=0.0)]) == ([], [])


def test_leases_of_others_are_not_understood():
    """The leader's, and those whose holder said nothing of an executor."""
    rows = [
        LeaseRow("control", 3, '{"host":"m","pid":1,"application":"app-1","executor":"9"}', 4.0),
        LeaseRow(partition_lease(0), 3, "", 4.0),
        LeaseRow(partition_lease(1), 3, "node-1", 4.0),
    ]
    assert left(rows) == ([], [])


def silent(*looks):
    """What the last of *looks* finds, ``SILENT_S / 2`` apart; each is the rows that it reads."""
    silence, found = Silence(), []
    for number, rows in enumerate(looks):
        found = silence.look(rows, APPLICATION, {"0", "1"}, 50 + number * SILENT_S / 2)
    return found


def test_an_executor_is_silent_when_a_lease_stays_run_out():
    """From the first look at it on, whatever the clock of the database says."""
    late = [row(0, "0", left_s=-90.0), row(1, "1")]
    assert silent(late, late) == []
    assert silent(late, late, late) == [(0, 7, "0")]


def test_a_renewal_or_another_holder_ends_the_silence():
    """It is counted anew."""
    late = [row(0, "0", left_s=-1.0)]
    assert silent(late, late, [row(0, "0")], late) == []
    assert silent(late, late, [row(0, "1", left_s=-1.0, generation=8)]) == []


def test_only_owners_of_this_application_that_run_are_silent():
    """Not one that has ended its lease, nor one whose executor Spark knows to be gone."""
    rows = [
        row(0, "0", left_s=-1.0, released=True),
        row(1, "9", left_s=-1.0),
        row(2, "0", left_s=-1.0, application="app-0"),
    ]
    assert silent(rows, rows, rows) == []


def test_an_application_without_executors_is_deserted():
    """After a while; one executor is enough for Spark's master to place others."""
    seen = Desertion(WAIT_S)
    late_s = 50.0 + WAIT_S + 1.0
    assert not seen.look(set(), 50.0)
    assert not seen.look({"3"}, 51.0)
    assert not seen.look(set(), 52.0)
    assert not seen.look(set(), late_s)
    assert seen.look(set(), late_s + 2.0)


def test_a_driver_that_slept_blames_nobody():
    """The clock went on meanwhile, and executors are there."""
    seen = Desertion(WAIT_S)
    assert not seen.look({"0"}, 50.0)
    assert not seen.look(set(), 50.0 + 10 * WAIT_S)
