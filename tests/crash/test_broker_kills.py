"""A kill of each broker under load, and silent wires; ``make soak`` makes twenty."""

import os

import pytest

from kit.broker_kills import BrokerKillReport, Silence, run_broker_kills
from kit.servers.fixtures import not_run

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = 1
SEED = int(os.environ.get("KILLS_SEED", "20"))
"""Decides about the moments; the variable ``KILLS_SEED`` repeats those of a failure."""

RATE_PER_S = 100.0
"""Half of what ``make soak`` has: some are in flight at every kill, and other tests run beside."""

BROKERS = ("mosquitto", "nats", "rabbitmq", "artemis", "kafka")

SHORT = Silence(1.0)
"""Nobody need notice it."""

HALF_OPEN = Silence(25.0, answers_only=True)
"""Lasts longer than two keepalives of any protocol."""

SILENCES = {broker: (SHORT, HALF_OPEN) for broker in BROKERS if broker != "kafka"} | {
    "kafka": (SHORT,)  # its starts take all the time there is; the soak has the other
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> BrokerKillReport:
    """One server, all brokers that can be had, and what each of them holds at the end."""
    found = run_broker_kills(
        tmp_path_factory.mktemp("kills"),
        KILLS,
        SEED,
        SILENCES,
        brokers=BROKERS,
        rate_per_s=RATE_PER_S,
    )
    print(f"\nseed {found.seed}: {found.acked} events, {found.took_s:.0f} s")
    return found


@pytest.mark.parametrize("broker", BROKERS)
def test_nothing_that_was_accepted_is_lost(report: BrokerKillReport, broker: str) -> None:
    """Every event is at the broker, whole; twice only what was in flight at a kill."""
    if broker in report.not_had:
        not_run(broker, report.not_had[broker])
    verdict = report.verdicts[broker]
    print(f"{broker}: {verdict.routes[broker]}, {report.copies(broker)} copies")
    assert verdict.passed, f"{verdict.counts}, seed {report.seed}: {verdict.examples[:5]}"


@pytest.mark.parametrize("broker", BROKERS)
def test_every_kill_was_survived(report: BrokerKillReport, broker: str) -> None:
    """The run was a run: so many kills, and the server connected again after each."""
    if broker in report.not_had:
        not_run(broker, report.not_had[broker])
    assert sum(kill.broker == broker for kill in report.kills) == KILLS


@pytest.mark.parametrize("broker", [name for name in BROKERS if HALF_OPEN in SILENCES[name]])
def test_a_half_open_wire_is_noticed(report: BrokerKillReport, broker: str) -> None:
    """The server dials anew while the old connection is open and says nothing."""
    if broker in report.not_had:
        not_run(broker, report.not_had[broker])
    (found,) = [
        each for each in report.silences if (each.broker, each.silence) == (broker, HALF_OPEN)
    ]
    assert found.noticed_s is not None


def test_the_run_was_a_run(report: BrokerKillReport) -> None:
    """Events flowed, some were in flight at kills, and all came to their end."""
    _need_a_broker(report)
    assert report.acked > 1_000
    assert any(kill.in_flight for kill in report.kills)
    assert report.settled


def test_the_server_stops_in_good_order(report: BrokerKillReport) -> None:
    """After all that, SIGTERM still ends it with exit code 0."""
    _need_a_broker(report)
    assert report.stop_code == 0


def _need_a_broker(report: BrokerKillReport) -> None:
    if len(report.not_had) == len(BROKERS):
        pytest.skip("NOT RUN: no broker can be had here")
