"""Scenario: ``kill -9`` of parts of a server at random points under load, with a verdict.

One server, steady traffic, five subscriptions (all events, a filter, a sink that fails for a while,
a refusing sink with a dead letter sink, a refusing one without). After the last kill traffic stops,
the server settles and stops, and the checker compares the ledgers with the server's state dump.

Callers: ``tests/crash`` (6 kills), the soak run (100). Hides: the scenario.
"""

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from distributary.cli._behaviour import Behaviour, StatusChance
from distributary.core.event import Event
from distributary.datadir import StatusField
from distributary.testing.check_ledgers import RouteSpec, matches_of
from kit.dump_state import dump_state, route_uids
from kit.history_rows import history_rows
from kit.running_server import Role, RunningServer, ServerError, wait_until
from kit.traffic import Traffic

__all__ = ["KillReport", "Killed", "Victim", "run_kills", "victims"]

RATE_PER_S = 500.0
"""Load during the kills: in-flight attempts at every kill, and room for the rest of the machine."""

RECOVER_S_MAX = 120.0
"""A recovery that takes longer hangs. The figures themselves are reported, not asserted."""

SETTLE_S_MAX = 120.0
"""Longest wait for the last outcome, when all sinks are well again."""

PROBES = 100
"""Deliveries go on again when so many events that were sent after a kill have arrived: enough
for every partition to be among them."""

FLUSH_S = 0.25
"""An outcome is durable so long after its answer, at the latest: 10 ms by design, more on a
machine where eight other things run."""

STOPS_DELIVERY = {None, Role.SERVE, Role.DRIVER, Role.JVM, Role.DAEMON}
"""Victims without which no partition delivers. After the others some partition goes on, and
deliveries count as going on when every partition has delivered."""

ORPHAN_S = 1.5
"""An owner whose parent was killed may deliver for so long: until it looks, and then finishes."""

DURABLE_S = 2.0
"""An outcome that is not durable so long after its answer is late by any measure: a copy of an
older delivery has another cause than the kill."""

SOURCE = "/crash"
TYPES = ("a", "b", "a", "c")
KEYS = 7
"""Every other event has one of so many keys: with several receivers some belong to each."""
RARE = 50
"""One event in so many is of the type ``rare``, that the route without a dead letter sink gets."""

FILTERS: dict[str, list[dict[str, Any]]] = {
    "everything": [],
    "filtered": [{"any": [{"exact": {"type": "b"}}, {"suffix": {"id": "7"}}]}],
    "failing": [{"exact": {"type": "c"}}],
    "refused": [{"exact": {"type": "rare"}}],
    "kept": [{"exact": {"type": "rare"}}, {"suffix": {"id": "0"}}],
}
"""Route -> its filters. The sink of each has the same name."""

PATIENT = {"retry": 1000, "backoffDelay": "PT0.1S", "backoffMax": "PT0.5S"}
"""Retries that outlast every bad time of a sink and every restart of the server."""

REFUSE = Behaviour(statuses=(StatusChance(400),))
FAIL = Behaviour(statuses=(StatusChance(503),))


class Victim(msgspec.Struct, frozen=True):
    """The target of a kill.

    Attributes:
        name: For people.
        role: The process to kill; None: all at once.
    """

    name: str
    role: Role | None


EVERYTHING = Victim("everything", None)
PARTS = tuple(
    Victim(role.value, role)
    for role in (
        Role.INGEST,
        Role.WRITER,
        Role.DAEMON,
        Role.JVM,
        Role.DRIVER,
        Role.SERVE,
    )
)

FEW = (
    EVERYTHING,
    *(Victim(role.value, role) for role in (Role.INGEST, Role.WRITER, Role.JVM, Role.DRIVER)),
)


@dataclass(frozen=True, slots=True)
class Killed:
    """Measurements of one kill.

    Attributes:
        victim: The target.
        in_flight: Attempts in flight just before, by the status pages.
        at_s: Time, monotonic seconds.
        accepting_s: Until an event sent after the kill was acknowledged, seconds.
        delivering_s: Until deliveries to the sink of all events resumed, seconds.
        caught_up_s: Until events sent after the kill had arrived there, seconds: the backlog is
            delivered before them.
    """

    victim: str
    in_flight: int
    at_s: float
    accepting_s: float
    delivering_s: float
    caught_up_s: float


@dataclass(slots=True)
class KillReport:
    """The result of a run.

    Attributes:
        seed: Reproduces the choice of victims and times.
        kills: All kills, in order.
        acked: Events acknowledged.
        copies: Deliveries to the sink of all events beyond the first, of events sent once.
        unexplained: Those whose first delivery was not in flight, or just over, at a kill.
        untold: Deliveries to that sink of which the history has no outcome.
        stop_code: Exit code of the last stop.
        passed: The checker found no broken promise.
        checker: Its output.
    """

    seed: int
    kills: list[Killed] = field(default_factory=list)
    acked: int = 0
    copies: int = 0
    unexplained: int = 0
    untold: int = 0
    stop_code: int = 0
    passed: bool = False
    checker: str = ""


def victims(count: int, seed: int) -> list[Victim]:
    """*count* victims in a seeded order; the parts that come back quickly more often.

    Few are those whose ends differ most: each process that holds what others do not know yet, the
    JVM under all of them, the driver, and everything at once.
    """
    if count <= len(FEW):
        few = list(FEW[:count])
        random.Random(seed).shuffle(few)  # noqa: S311 - a scenario is no secret
        return few
    quick, slow = PARTS[:2], (*PARTS[2:], EVERYTHING)
    chosen = [
        quick[i % 2] if i % 3 < 2 or i % 2 else slow[i // 3 % len(slow)] for i in range(count)
    ]
    if count >= len(slow):
        chosen[-len(slow) :] = slow
    random.Random(seed).shuffle(chosen)  # noqa: S311 - a scenario is no secret
    return chosen


def run_kills(
    folder: Path,
    count: int,
    seed: int,
    *,
    flags: Sequence[str] = (),
    rate_per_s: float = RATE_PER_S,
) -> KillReport:
    """Run the scenario with *count* kills in *folder*.

    Raises:
        ServerError: Something hung: it did not come back, or never settled.
    """
    return _Scenario(folder, seed, flags, rate_per_s).run(count)


class _Scenario:
    """One run."""

    def __init__(self, folder: Path, seed: int, flags: Sequence[str], rate_per_s: float) -> None:
        self._folder = folder
        self._rate_per_s = rate_per_s
        self._chance = random.Random(seed)  # noqa: S311 - a scenario is no secret
        self._report = KillReport(seed)
        self._server = RunningServer(folder / "data", flags=flags)
        sinks = {"everything": Behaviour(), "filtered": Behaviour(), "failing": FAIL}
        sinks |= {"refused": REFUSE, "kept": REFUSE, "dead": Behaviour()}
        self._traffic = Traffic(folder, sinks)
        self._ids: dict[str, str] = {}

    def run(self, count: int) -> KillReport:
        """Kill *count* times, settle, check."""
        with self._traffic, self._server:
            for name, filters in FILTERS.items():
                self._subscribe(name, filters)
            self._traffic.publish(self._server.url, self._event, self._rate_per_s)
            self._arrived(0)
            for number, victim in enumerate(victims(count, self._report.seed)):
                if number == count // 2:
                    self._traffic.behave("failing", Behaviour())
                self._kill(victim)
            self._traffic.behave("failing", Behaviour())
            self._traffic.finish()
            self._server.wait_ready()
            self._settle()
            self._report.stop_code = self._server.stop()
        self._conclude()
        return self._report

    def _subscribe(self, name: str, filters: list[dict[str, Any]]) -> None:
        delivery: dict[str, Any] = dict(PATIENT)
        if name == "refused":
            delivery["deadLetterSink"] = self._traffic.sinks["dead"].url
        id_ = self._server.subscribe(
            self._traffic.sinks[name].url,
            filters=filters,
            protocolsettings={"delivery": delivery},
        )
        self._ids[id_] = name

    def _event(self, number: int) -> Event:
        kind = "rare" if number % RARE == 0 else TYPES[number % len(TYPES)]
        attributes: dict[str, str | int | bool] = {
            "specversion": "1.0",
            "id": str(number),
            "source": SOURCE,
            "type": kind,
            "datacontenttype": "application/json",
        }
        if number % 2:
            attributes["partitionkey"] = str(number % KEYS)
        return Event(attributes, b'{"n": %d, "pad": "%s"}' % (number, b"x" * (number % 700)))

    def _kill(self, victim: Victim) -> None:
        time.sleep(self._chance.uniform(0.2, 1.5))
        server = self._server
        in_flight = sum(
            server.look(number, StatusField.IN_FLIGHT) for number in range(server.partition_count())
        )
        if victim.role is None:
            server.kill_all()
        else:
            self._kill_part(victim.role)
        at_s = time.monotonic()
        first = self._traffic.begun
        if victim.role in {None, Role.SERVE}:
            server.wait(RECOVER_S_MAX)
            server.start()
        accepting_s = self._acked_since(first) - at_s
        caught_up_s = self._arrived(first) - at_s
        delivering_s = caught_up_s
        if victim.role in STOPS_DELIVERY:
            times = tuple(self._traffic.sinks["everything"].taken.values())
            later = (found_s for found_s in times if found_s > at_s + ORPHAN_S)
            # Without one nothing was sent since: on a busy machine the probes came before the kill
            # was felt.
            delivering_s = min(later, default=at_s + caught_up_s) - at_s
        self._report.kills.append(
            Killed(victim.name, in_flight, at_s, accepting_s, delivering_s, caught_up_s)
        )

    def _kill_part(self, role: Role) -> None:
        """Kill one process of *role*; between two epochs it may take a moment to be there."""
        number = self._chance.randrange(8)
        if role is Role.DAEMON and not self._server.processes(role):
            # Owners do without it; Spark starts another one for the next worker.
            self._server.kill(Role.WRITER, number)

        def killed() -> bool:
            with contextlib.suppress(ServerError, ProcessLookupError):
                self._server.kill(role, number)
                return True
            return False

        wait_until(killed, RECOVER_S_MAX, f"a {role} is running")

    def _acked_since(self, first: int) -> float:
        """When an event with a number of *first* or above was first acknowledged."""
        acked = self._traffic.acked
        times: list[float] = []

        def any_acked() -> bool:
            end = self._traffic.begun
            times[:] = [acked[number] for number in range(first, end) if number in acked]
            return bool(times)

        wait_until(any_acked, RECOVER_S_MAX, f"an event is accepted\n{self._server.log_tail()}")
        return min(times)

    def _arrived(self, first: int) -> float:
        """When the first acknowledged events from *first* on had all arrived."""
        acked, taken = self._traffic.acked, self._traffic.sinks["everything"].taken
        names: list[str] = []

        def all_arrived() -> bool:
            if len(names) < PROBES:
                end = self._traffic.begun
                names[:] = [str(n) for n in range(first, end) if n in acked][:PROBES]
            return len(names) == PROBES and all(name in taken for name in names)

        wait_until(all_arrived, RECOVER_S_MAX, f"deliveries go on\n{self._server.log_tail()}")
        return max(taken[name] for name in names)

    def _settle(self) -> None:
        """Wait until the server reports twice in a row that nothing is in flight."""
        seen = [0]

        def settled() -> bool:
            seen[0] = seen[0] + 1 if self._server.settled() else 0
            return seen[0] > 2

        try:
            wait_until(settled, SETTLE_S_MAX, "everything settles", 0.3)
        except ServerError as error:
            # What is left is in the state dump, and the checker judges it there.
            print(error, file=sys.stderr)

    # -- the verdict --------------------------------------------------------------------------

    def _conclude(self) -> None:
        report = self._report
        report.acked = len(self._traffic.acked)
        resent = self._traffic.resent
        found = self._traffic.sinks["everything"].copies
        copies = [copy for copy in found if copy[0] not in resent]
        report.copies = len(copies)
        report.unexplained = sum(not self._explained(first_s) for _, first_s, _ in copies)
        report.untold = self._count_untold()
        checker = self._check()
        report.passed = checker.returncode == 0
        report.checker = checker.stdout + checker.stderr

    def _explained(self, first_s: float) -> bool:
        """True where the first answer's outcome was not durable yet when a kill came.

        Or where it came just after the kill, from a process that lived on for a moment.
        """
        kills = self._report.kills
        return any(-DURABLE_S <= first_s - kill.at_s <= ORPHAN_S for kill in kills)

    def _count_untold(self) -> int:
        rows = history_rows(self._server.data_dir)
        names = route_uids(self._server.paths, self._ids)
        told = {
            row["event_id"]
            for row in rows
            if row["outcome"] == "delivered" and names[row["uid"]] == "everything"
        }
        return sum(name not in told for name in self._traffic.sinks["everything"].taken)

    def _check(self) -> subprocess.CompletedProcess[str]:
        folder, sinks = self._folder, self._traffic.sinks
        specs = {
            name: RouteSpec(filters=tuple(filters), sink=sinks[name].url)
            for name, filters in FILTERS.items()
        }
        routes, state = folder / "routes.json", folder / "state.json"
        routes.write_bytes(msgspec.json.encode(specs))
        uids = route_uids(self._server.paths, self._ids)
        predicates = {name: matches_of(spec) for name, spec in specs.items()}
        state.write_bytes(dump_state(self._server.data_dir, uids, predicates))
        words = ["--routes", routes, "--sent", self._traffic.sent, "--state", state]
        for name in FILTERS:
            words += ["--delivered", f"{name}={sinks[name].ledger}"]
        words += ["--dead", f"refused={sinks['dead'].ledger}"]
        words += ["--duplicates", str(self._duplicates_max())]
        command = [sys.executable, "-m", "distributary.testing.check_ledgers", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _duplicates_max(self) -> int:
        """Attempts whose outcome may have been missing at the kills.

        Those under way by the status pages, and those whose outcome was on its way to the disk.
        """
        flushing = int(self._rate_per_s * FLUSH_S)
        return sum(kill.in_flight + flushing for kill in self._report.kills)
