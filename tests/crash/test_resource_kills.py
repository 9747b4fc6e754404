"""Objects of Knative change while the server is killed.

``make soak`` makes a thousand changes and kills every part of it.
"""

import os

import pytest

from kit.resource_kills import ResourceKillReport, run_resource_kills
from kit.running_server import Role

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

SEED = int(os.environ.get("KILLS_SEED", "20"))
"""Decides about the changes; the variable ``KILLS_SEED`` repeats those of a failure."""

CHANGES = 200
"""By all clients together."""

VICTIMS = (Role.INGEST, None)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ResourceKillReport:
    """One server, killed in parts and whole while its objects change."""
    found = run_resource_kills(tmp_path_factory.mktemp("kills"), CHANGES, VICTIMS, SEED)
    print(f"\n{found}")
    return found


def test_what_was_answered_stands_and_everything_follows_from_it(
    report: ResourceKillReport,
) -> None:
    """Objects are as answered; statuses, addresses, store, log and deliveries follow from them."""
    assert not report.faults, "\n".join(report.faults)


def test_the_run_was_a_run(report: ResourceKillReport) -> None:
    """So many changes and kills, some of them in the middle of a request; some routes stand."""
    assert report.changes == CHANGES
    assert report.victims == ["ingest", "everything"]
    assert report.broken
    assert report.ready
    assert report.acked


def test_the_survivor_stops_in_good_order(report: ResourceKillReport) -> None:
    """After all that, SIGTERM still ends the server with exit code 0."""
    assert report.stop_code == 0
