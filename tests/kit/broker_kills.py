"""Scenario: kills (``kill -9``) and silent connections of brokers under load, with a verdict.

One server, steady traffic, one subscription for each broker. Each broker is killed with messages in
flight and restarted; the relay before it stays closed until its checker is back. Then the relay
passes nothing, in both directions or in one, with connections open. Brokers run concurrently, each
with its own timing, so that the others keep working. At the end traffic stops, the server settles,
and the checker compares what was sent with what each broker's own client found: nothing is lost,
and only events in flight at a kill or during a silence arrived twice.

Callers: ``tests/crash`` (a kill of each), the soak run (twenty). Hides: the scenario.
"""

import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from distributary.cli.ledger import Arrival, attributes_sha256, data_sha256, read_sent
from distributary.core.event import Event, canonical
from distributary.datadir import StatusField
from distributary.testing.ledger_checker import Report, RouteEvidence, check
from kit.broker_scenarios import SCENARIOS, BrokerScenario
from kit.cutting_proxy import Fate, Way
from kit.running_server import RunningServer, ServerError, wait_until
from kit.servers import Authority, ServerNotHadError
from kit.traffic import Traffic

__all__ = ["BrokerKill", "BrokerKillReport", "BrokerSilence", "Silence", "run_broker_kills"]

RATE_PER_S: Final = 200.0
"""Events: each goes to every broker. Enough to be in flight at every kill, and the machine has
time for two JVMs that start again and again."""

PATIENT: Final = {"retry": 1000, "backoffDelay": "PT0.1S", "backoffMax": "PT0.5S"}
"""Retries that outlast every restart of a broker."""

LIVE_S: Final = (1.0, 3.0)
"""How long a broker lives between two kills, seconds."""

RECONNECT_S_MAX: Final = 60.0
"""A reconnection that takes longer hangs. The figures themselves are reported."""

SETTLE_S_MAX: Final = 180.0
"""Longest wait for the last outcome, when all brokers are back."""

QUIET_S: Final = 5.0
"""Before a silence: by then every owner has dialled again after the trouble before it."""

LOOK_S: Final = 0.05
"""Between two looks during a silence."""

FLUSH_S: Final = 0.25
"""An outcome is on its way to the status page for so long, at most: what was answered just
before."""


@dataclass(frozen=True, slots=True)
class BrokerKill:
    """Measurements of one kill.

    Attributes:
        broker: The killed broker.
        in_flight: Attempts in flight just before, to all brokers, by the status pages.
        away_s: From the kill until the broker accepted connections again, seconds.
        reconnected_s: From then until the server had reconnected, seconds.
    """

    broker: str
    in_flight: int
    away_s: float
    reconnected_s: float

    def __str__(self) -> str:
        """A line for people."""
        return (
            f"{self.broker:<10} in flight {self.in_flight:>4}  away {self.away_s:6.2f} s"
            f"  reconnected after {self.reconnected_s:5.2f} s"
        )


class Silence(NamedTuple):
    """A planned time in which a relay passes nothing, with connections open.

    Attributes:
        lasts_s: Duration, seconds; then the held bytes arrive.
        answers_only: Only answers are held: what the server sends still arrives (half open).
    """

    lasts_s: float
    answers_only: bool = False


@dataclass(frozen=True, slots=True)
class BrokerSilence:
    """Measurements of one silence.

    Attributes:
        broker: The broker.
        silence: The plan.
        in_flight: Most attempts in flight meanwhile, to all brokers, by the status pages.
        noticed_s: From its beginning until the server redialled, seconds; None: it did not.
    """

    broker: str
    silence: Silence
    in_flight: int
    noticed_s: float | None

    def __str__(self) -> str:
        """A line for people."""
        lasts_s, answers_only = self.silence
        noticed = (
            "not noticed" if self.noticed_s is None else f"noticed after {self.noticed_s:.2f} s"
        )
        return (
            f"{self.broker:<10} in flight {self.in_flight:>4}"
            f"  {'half-open' if answers_only else 'silent'} for {lasts_s:.0f} s  {noticed}"
        )


Watch: TypeAlias = Callable[[BrokerKill | BrokerSilence], None]
"""Receives progress messages, on the thread of the broker."""


@dataclass(slots=True)
class BrokerKillReport:
    """The result of a run.

    Attributes:
        seed: Reproduces the times, as far as the machine does.
        kills: All kills, in the order of their end.
        silences: All silences, likewise.
        not_had: Unavailable brokers -> why.
        acked: Events acknowledged by the server.
        verdicts: Broker -> the checker's verdict.
        settled: Whether every accepted event had its outcome before the last check.
        stop_code: Exit code of the server.
        took_s: Duration of the whole run, seconds.
    """

    seed: int
    kills: list[BrokerKill] = field(default_factory=list)
    silences: list[BrokerSilence] = field(default_factory=list)
    not_had: dict[str, str] = field(default_factory=dict)
    acked: int = 0
    verdicts: dict[str, Report] = field(default_factory=dict)
    settled: bool = False
    stop_code: int = 0
    took_s: float = 0.0

    def copies(self, broker: str) -> int:
        """Events that the broker has beyond the first time."""
        return self.verdicts[broker].routes[broker]["extra"]


def run_broker_kills(
    folder: Path,
    kills: int,
    seed: int,
    silences: Mapping[str, Sequence[Silence]],
    *,
    brokers: Sequence[str] = tuple(SCENARIOS),
    rate_per_s: float = RATE_PER_S,
    watch: Watch = print,
) -> BrokerKillReport:
    """Kill each of *brokers* so many times, have its wire fall silent, settle, check.

    Args:
        folder: For the data directory and the ledgers; empty.
        kills: Of each broker.
        seed: Of the moments.
        silences: Broker -> those of the wire before it, one after another.
        brokers: Names in ``SCENARIOS``; those that cannot be had are left out, and named.
        rate_per_s: Events a second.
        watch: Told of each kill and each silence as it is over; a long run shows that it lives.

    Raises:
        ServerError: Something hung: it did not come back, or never connected again.
    """
    began_s = time.monotonic()
    report = BrokerKillReport(seed)
    authority = Authority(folder / "tls")
    with _Started(report, authority, brokers) as scenarios:
        if scenarios:
            _Scenario(folder, report, scenarios, rate_per_s, watch).run(kills, silences)
    report.took_s = time.monotonic() - began_s
    return report


class _Started:
    """The scenarios of all available brokers, started concurrently."""

    def __init__(
        self, report: BrokerKillReport, authority: Authority, brokers: Sequence[str]
    ) -> None:
        self._report = report
        self._authority = authority
        self._brokers = brokers
        self._scenarios: dict[str, BrokerScenario] = {}

    def __enter__(self) -> Mapping[str, BrokerScenario]:
        try:
            with ThreadPoolExecutor(len(self._brokers)) as threads:
                list(threads.map(self._start, self._brokers))
        except BaseException:
            self._end()
            raise
        # In the order in which they were asked for, not in that of their starts.
        return {name: self._scenarios[name] for name in self._brokers if name in self._scenarios}

    def _start(self, name: str) -> None:
        try:
            scenario = SCENARIOS[name](self._authority)
            self._scenarios[name] = scenario.__enter__()
        except ServerNotHadError as error:
            self._report.not_had[name] = str(error)

    def __exit__(self, *_exception: object) -> None:
        self._end()

    def _end(self) -> None:
        for scenario in self._scenarios.values():
            scenario.__exit__(None, None, None)


class _Scenario:
    """One run."""

    def __init__(
        self,
        folder: Path,
        report: BrokerKillReport,
        scenarios: Mapping[str, BrokerScenario],
        rate_per_s: float,
        watch: Watch,
    ) -> None:
        self._report = report
        self._rate_per_s = rate_per_s
        self._watch = watch
        self._scenarios = scenarios
        self._server = RunningServer(folder / "data")
        self._traffic = Traffic(folder, {})

    def run(self, kills: int, silences: Mapping[str, Sequence[Silence]]) -> None:
        """Kill, cut off, settle, check."""

        def trouble(scenario: BrokerScenario) -> None:
            self._kill(scenario, kills)
            for silence in silences.get(scenario.name, ()):
                self._silence(scenario, silence)

        report = self._report
        with self._traffic, self._server:
            for scenario in self._scenarios.values():
                subscription = scenario.subscription(PATIENT)
                self._server.subscribe(subscription.pop("sink"), **subscription)
            self._traffic.publish(self._server.url, _event, self._rate_per_s)
            with ThreadPoolExecutor(len(self._scenarios)) as threads:
                list(threads.map(trouble, self._scenarios.values()))
            self._traffic.finish()
            self._settle()
            report.stop_code = self._server.stop()
        report.acked = len(self._traffic.acked)
        for name, scenario in self._scenarios.items():
            report.verdicts[name] = self._judge(name, scenario.events())

    def _kill(self, scenario: BrokerScenario, kills: int) -> None:
        """Kill one broker repeatedly; runs on a separate thread."""
        chance = random.Random(f"{self._report.seed} {scenario.name}")  # noqa: S311 - no secret
        for _ in range(kills):
            time.sleep(chance.uniform(*LIVE_S))
            in_flight = self._in_flight()
            killed_s = time.monotonic()
            scenario.kill()
            scenario.restart()
            connections = scenario.cut.connections
            scenario.cut.mend()
            back_s = time.monotonic()
            reconnected_s = _until_connected(scenario, connections)
            kill = BrokerKill(scenario.name, in_flight, back_s - killed_s, reconnected_s)
            self._report.kills.append(kill)
            self._watch(kill)

    def _silence(self, scenario: BrokerScenario, silence: Silence) -> None:
        """Silence the relay of one broker; runs on a separate thread."""
        time.sleep(QUIET_S)
        began_s = time.monotonic()
        connections = scenario.cut.connections
        scenario.cut.cut(Fate.HOLD, Way.BACK if silence.answers_only else Way.BOTH)
        in_flight, noticed_s = 0, None
        while (lasted_s := time.monotonic() - began_s) < silence.lasts_s:
            in_flight = max(in_flight, self._in_flight())
            if noticed_s is None and scenario.cut.connections > connections:
                noticed_s = lasted_s
            time.sleep(LOOK_S)
        scenario.cut.mend()
        found = BrokerSilence(scenario.name, silence, in_flight, noticed_s)
        self._report.silences.append(found)
        self._watch(found)

    def _in_flight(self) -> int:
        server = self._server
        return sum(
            server.look(number, StatusField.IN_FLIGHT) for number in range(server.partition_count())
        )

    def _settle(self) -> None:
        """Wait until the server reports twice in a row that nothing is in flight."""
        seen = 0

        def settled() -> bool:
            nonlocal seen
            seen = seen + 1 if self._server.settled() else 0
            return seen > 1

        try:
            wait_until(settled, SETTLE_S_MAX, "everything settles", 0.3)
            self._report.settled = True
        except ServerError:
            self._report.settled = False  # what is missing then is counted as lost

    def _judge(self, name: str, events: Sequence[Event]) -> Report:
        """The verdict on one broker; only events in flight in its outages may be duplicates."""
        arrivals = [_arrival(event) for event in events]
        evidence = RouteEvidence(matches=lambda _: True, arrivals=arrivals)
        return check(
            read_sent(self._traffic.sent),
            {name: evidence},
            duplicates_max=sum(
                trouble.in_flight + int(self._rate_per_s * FLUSH_S)
                for trouble in itertools.chain[BrokerKill | BrokerSilence](
                    self._report.kills, self._report.silences
                )
                if trouble.broker == self._scenarios[name].name
            ),
        )


def _until_connected(scenario: BrokerScenario, connections: int) -> float:
    """Wait for a connection beyond *connections*; how long it took, seconds."""
    return wait_until(
        lambda: scenario.cut.connections > connections,
        RECONNECT_S_MAX,
        f"{scenario.name} is connected again",
        0.01,
    )


def _event(number: int) -> Event:
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": str(number),
        "source": "/broker-kills",
        "type": "com.example.kill",
        "datacontenttype": "application/json",
    }
    return Event(attributes, b'{"n": %d, "pad": "%s"}' % (number, b"x" * 900))


def _arrival(event: Event) -> Arrival:
    attributes = {name: canonical(value) for name, value in event.attributes.items()}
    return Arrival(
        id=attributes["id"],
        source=attributes["source"],
        t=0,
        status=200,
        data_sha256=data_sha256(event.data),
        attributes_sha256=attributes_sha256(attributes),
    )
