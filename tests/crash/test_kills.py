"""Five kills under load of a server with two receivers; ``make soak`` runs a hundred."""

import os

import pytest

from kit.kills import KillReport, run_kills

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = 5
SEED = int(os.environ.get("KILLS_SEED", "20"))
"""Names victims and moments; ``KILLS_SEED=… pytest tests/crash/test_kills.py`` repeats a run."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> KillReport:
    """One server, killed in parts and whole, and what its ledgers say at the end."""
    found = run_kills(tmp_path_factory.mktemp("kills"), KILLS, SEED, flags=("--receivers", "2"))
    print(f"\nseed {found.seed}: {found.acked} events, {found.copies} copies")
    for kill in found.kills:
        print(
            f"{kill.victim:<11} in flight {kill.in_flight:>4}"
            f"  accepting again {kill.accepting_s:6.2f} s"
            f"  delivering again {kill.delivering_s:6.2f} s"
            f"  caught up {kill.caught_up_s:6.2f} s"
        )
    print(found.checker)
    return found


def test_nothing_acknowledged_is_lost(report: KillReport) -> None:
    """Every match is delivered, dead-lettered or pending; copies stay within their bound."""
    assert report.passed, report.checker


def test_copies_come_from_attempts_that_a_kill_cut_off(report: KillReport) -> None:
    """An event comes twice only if its first answer was not durable when a kill came."""
    assert report.unexplained == 0, f"{report.unexplained} of {report.copies}, seed {report.seed}"


def test_every_kill_hit_and_was_survived(report: KillReport) -> None:
    """The run was a run: so many kills, under load, among them the whole server."""
    assert len(report.kills) == KILLS
    victims = {"ingest", "writer", "jvm", "driver", "everything"}
    assert {kill.victim for kill in report.kills} == victims
    assert any(kill.in_flight for kill in report.kills)
    assert report.acked > 1_000


def test_the_survivor_stops_in_good_order(report: KillReport) -> None:
    """After all that, SIGTERM still ends the server with exit code 0."""
    assert report.stop_code == 0


def test_the_history_has_the_outcome_of_every_delivery(report: KillReport) -> None:
    """Each row once, whatever was killed between its outcome and its file."""
    assert report.untold == 0, f"{report.untold} of {report.acked}, seed {report.seed}"
