"""A cluster under load: one kill of each role, one cut, one half-open cut, sleeps, a stop.

``make soak`` has the whole table: twenty kills of each role and five cuts of each wire.
"""

from typing import Final, NamedTuple

import pytest

from kit.cluster.cluster import PARTITIONS
from kit.cluster.faults import CUTS, KILLS, LEFT
from kit.cluster.runs import Woken, faulted, slept, under_load
from kit.cluster.trial import TrialReport, table
from kit.servers import ServerNotHadError
from kit.servers.fixtures import not_run

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

FAULTS: Final = (
    *KILLS,
    *(each for each in CUTS if each.name == "cut: executor and PostgreSQL"),
    *(each for each in CUTS if each.name == "half-open: leader and PostgreSQL"),
)


RATE_PER_S: Final = 200.0
"""Less than ``make soak`` has: two cores run all members, and who is busy comes back late."""

SLEEP_S: Final = 9.0
"""At least, and until others deliver; ``make soak`` has a minute."""


class Found(NamedTuple):
    """What the witnesses and the database say.

    Attributes:
        report: Of the trial.
        woken: Of owners that slept.
    """

    report: TrialReport
    woken: Woken


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """One cluster, every fault once."""
    folder = tmp_path_factory.mktemp("cluster")
    try:
        with under_load(folder, rate_per_s=RATE_PER_S, say=print) as (cluster, trial):
            for fault in FAULTS:
                print(f"{fault.name}: {faulted(cluster, trial, fault, apart=False)}")
            woken = slept(cluster, trial, SLEEP_S)
            print(f"{LEFT.name}: {faulted(cluster, trial, LEFT, whole=False)}")
            report = trial.conclude()
    except ServerNotHadError as error:
        not_run("cluster", str(error))
        raise
    print(f"\n{table(report)}")
    return Found(report, woken)


def test_nothing_acknowledged_is_lost(found: Found) -> None:
    """Each event is where it must be, once and whole, whoever was killed or cut off."""
    assert found.report.verdict.passed, found.report.verdict.examples[:5]


def test_copies_are_of_what_was_in_flight(found: Found) -> None:
    """An event comes twice only if it first came about the time of a fault."""
    assert not found.report.unexplained


def test_deliveries_outlive_the_driver_and_its_node(found: Found) -> None:
    """Owners on executors that have ended deliver until those of the next driver ask.

    Whether the node was killed or was asked to stop.
    """
    outlived = {seen.fault: seen.outlived for seen in found.report.seen}
    lost = "kill: driver", "kill: leading node", LEFT.name
    assert [outlived[each] for each in lost] == [PARTITIONS] * 3


def test_every_fault_happened_under_load(found: Found) -> None:
    """The run was a run."""
    assert [seen.fault for seen in found.report.seen][: len(FAULTS)] == [f.name for f in FAULTS]
    assert found.report.acked > 1_000
    assert any(seen.copies for seen in found.report.seen)


def test_a_former_owner_that_wakes_stops_at_once(found: Found) -> None:
    """It writes nothing, and a second later nothing of what it had in hand arrives any more."""
    assert found.woken.stopped
    assert not found.woken.late
