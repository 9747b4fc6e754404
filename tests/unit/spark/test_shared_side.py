"""Which leases the driver takes away when Spark has lost an executor."""

from distributary.core.postgres_lease import LeaseRow, partition_lease
from distributary.partitions._executor import LeaseHolder
from distributary.spark.shared_side import SILENT_S, Silence, taken_from

APPLICATION = "app-1"


def row(partition, executor, *, application=APPLICATION, left_s=4.0, generation=7, released=False):
    """A lease that a worker of *executor* holds."""
    holder = LeaseHolder(host="m", pid=1, application=application, executor=executor)
    return LeaseRow(partition_lease(partition), generation, holder.encode(), left_s, released)


def test_what_a_lost_executor_held_is_free():
    """With the generation that it held: a later holder keeps what it has."""
    rows = [row(0, "0"), row(1, "1", generation=9), row(2, "0")]
    assert taken_from(rows, APPLICATION, {"0"}) == [(1, 9, "1")]


def test_executors_of_another_application_are_left_alone():
    """Their numbers mean nothing here; they end with their driver, or their leases do."""
    assert taken_from([row(0, "9", application="app-0")], APPLICATION, {"0"}) == []


def test_a_lease_that_has_run_out_needs_no_help():
    """The next task has it already, or gets it."""
    assert taken_from([row(0, "9", left_s=0.0)], APPLICATION, {"0"}) == []


def test_leases_of_others_are_not_understood():
    """The leader's, and those whose holder said nothing of an executor."""
    rows = [
        LeaseRow("control", 3, '{"host":"m","pid":1,"application":"app-1","executor":"9"}', 4.0),
        LeaseRow(partition_lease(0), 3, "", 4.0),
        LeaseRow(partition_lease(1), 3, "node-1", 4.0),
    ]
    assert taken_from(rows, APPLICATION, {"0"}) == []


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
