"""Scenario: subscriptions are created, changed and deleted while events flow.

One server, steady traffic, one sink that distinguishes subscriptions by the path of their requests.
Each subscription is created, replaced, perhaps deleted and perhaps created again under the same id,
at times drawn from a seed. When all is delivered the server stops, and the route checker compares
its log with the sink's ledger: each event must have met exactly the routes before it in the log.

Callers: ``tests/e2e/test_churn``, the soak run. Hides: the scenario.
"""

import collections
import concurrent.futures
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from distributary.cli._behaviour import Behaviour
from distributary.cli.ledger import read_arrivals
from distributary.core.event import Event
from distributary.core.filter import DIALECTS
from distributary.datadir import StatusField
from kit.check_routes import read_drops, read_logs
from kit.route_checker import SENT_NS, Evidence, Report, check, mark
from kit.running_server import Role, RunningServer, ServerError, wait_until
from kit.traffic import Traffic

__all__ = ["Change", "ChurnReport", "Plan", "changes_of", "run_churn", "selection", "types_of"]

WORKERS: Final = 4
"""Requests to the API under way at once: order is only asked of changes of one subscription."""

SETTLE_S_MAX: Final = 180.0
"""Longest wait for the last outcome; a run of a minute needs a few seconds."""

FLUSH_S: Final = 0.25
"""An outcome is durable so long after its answer, at the latest, on a machine that is busy."""

SOURCES: Final = 10
JSON: Final = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Parameters of a run.

    Attributes:
        subscriptions: Count of subscriptions, each with its own sequence of changes.
        seconds: Duration of the changes; events flow a little longer at both ends.
        rate_per_s: Events a second.
        kills: Kills of a partition's owner meanwhile.
        seed: Reproduces every choice.
    """

    subscriptions: int
    seconds: float
    rate_per_s: float
    kills: int = 0
    seed: int = 1


class Change(NamedTuple):
    """One change of one subscription.

    Attributes:
        at_s: Due time from the beginning of the run, seconds.
        number: Number of the subscription.
        op: The operation. Replace and create are the same request.
        body: The filters; None: delete.
    """

    at_s: float
    number: int
    op: Literal["put", "delete"]
    body: dict[str, Any] | None


@dataclass(slots=True)
class ChurnReport:
    """The result of a run.

    Attributes:
        plan: Its parameters.
        acked: Events acknowledged.
        rate_per_s: Measured rate of events begun, a second.
        changes: Changes with a response.
        longest_s: Longest wait for such a response, seconds.
        routes: Report of the route checker.
        stop_code: Exit code of the server.
    """

    plan: Plan
    acked: int = 0
    rate_per_s: float = 0.0
    changes: int = 0
    longest_s: float = 0.0
    routes: Report = field(default_factory=Report)
    stop_code: int = 0

    @property
    def passed(self) -> bool:
        """True when the checker found nothing, and nothing was left undone."""
        return self.routes.passed and self.routes.changes == self.changes and not self.stop_code


def selection(chance: random.Random, types: int) -> dict[str, Any]:
    """What one subscription wants: mostly one type; also prefixes, suffixes, nested, CESQL."""
    one, other = (f"com.churn.{chance.randrange(types):04d}" for _ in range(2))
    source = f"/churn/{chance.randrange(SOURCES)}"
    shape = chance.random()
    if shape < 0.5:
        return {"filters": [{"exact": {"type": one}}]}
    if shape < 0.6:
        return {"types": [one, other], "filters": []}
    if shape < 0.65:
        return {"source": source, "filters": [{"prefix": {"type": one[:-1]}}]}
    if shape < 0.7:
        return {"filters": [{"suffix": {"type": one[-3:]}}, {"exact": {"source": source}}]}
    if shape < 0.85 or "sql" not in DIALECTS:
        nested = [{"exact": {"type": one}}, {"all": [{"prefix": {"type": other}}]}]
        return {"filters": [{"any": nested}, {"not": {"exact": {"source": source}}}]}
    sql = f"type = '{one}' OR (type LIKE '%{other[-4:]}' AND source <> '{source}')"
    return {"filters": [{"sql": sql}]}


def types_of(plan: Plan) -> int:
    """How many types of events there are: so many that an event matches about two routes."""
    return max(1, plan.subscriptions // 2)


def changes_of(plan: Plan) -> list[Change]:
    """Every change of a run, by the time at which it is due."""
    chance = random.Random(plan.seed)  # noqa: S311 - a scenario is no secret
    changes: list[Change] = []
    for number in range(plan.subscriptions):
        shares = [chance.uniform(0.0, 0.4), chance.uniform(0.4, 0.7)]
        ends = chance.random() < 0.5
        if ends:
            shares += [chance.uniform(0.7, 0.9)]
        if ends and chance.random() < 0.5:
            shares += [chance.uniform(0.9, 1.0)]
        for place, share in enumerate(shares):
            gone = place == 2
            body = None if gone else selection(chance, types_of(plan))
            change = Change(share * plan.seconds, number, "delete" if gone else "put", body)
            changes.append(change)
    return sorted(changes, key=lambda change: change.at_s)


def run_churn(folder: Path, plan: Plan, *, flags: Sequence[str] = ()) -> ChurnReport:
    """Run *plan* in *folder*.

    Raises:
        ServerError: A change was refused, or something hung.
    """
    return _Run(folder, plan, flags).run()


class _Run:
    """One run."""

    def __init__(self, folder: Path, plan: Plan, flags: Sequence[str]) -> None:
        self._plan = plan
        self._types = types_of(plan)
        self._server = RunningServer(folder / "data", flags=flags)
        self._traffic = Traffic(folder, {"churn": Behaviour()})
        self._report = ChurnReport(plan)
        self._answered: dict[str, list[int]] = collections.defaultdict(list)
        self._lock = threading.Lock()
        self._in_flight = 0
        self._began_s = 0.0

    def run(self) -> ChurnReport:
        """Let it happen, settle, check."""
        with self._traffic, self._server:
            self._traffic.publish(self._server.url, self._event, self._plan.rate_per_s)
            self._began_s = time.monotonic()
            self._make_changes()
            self._traffic.finish()
            lasted_s = time.monotonic() - self._began_s
            self._server.wait_ready()
            self._settle()
            self._report.stop_code = self._server.stop()
        self._report.rate_per_s = self._traffic.begun / lasted_s
        self._report.acked = len(self._traffic.acked)
        self._report.routes = self._check()
        return self._report

    def _event(self, number: int) -> Event:
        attributes: dict[str, str | int | bool] = {
            "specversion": "1.0",
            "id": str(number),
            "source": f"/churn/{number % SOURCES}",
            "type": f"com.churn.{number * 7919 % self._types:04d}",
            SENT_NS: str(time.monotonic_ns()),
        }
        return Event(attributes, b"%d" % number)

    # -- changes ------------------------------------------------------------------------------

    def _make_changes(self) -> None:
        """Make every change when it is due; those of one subscription by one worker, in order."""
        shares: list[list[Change]] = [[] for _ in range(WORKERS)]
        for change in changes_of(self._plan):
            shares[change.number % WORKERS].append(change)
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
            working = [workers.submit(self._work, share) for share in shares]
            for number in range(self._plan.kills):
                self._wait_for((number + 1) / (self._plan.kills + 1) * self._plan.seconds)
                self._kill(number)
            for work in working:
                work.result()
        self._wait_for(self._plan.seconds)

    def _work(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._wait_for(change.at_s)
            self._make(change)

    def _make(self, change: Change) -> None:
        path = f"/churn/{change.number:04d}"
        name = f"/subscriptions/churn-{change.number:04d}"
        began_s = time.monotonic()
        if change.body is None:
            answer = self._server.request("DELETE", name)
        else:
            filters = [*change.body["filters"], mark(path)]
            target = {"sink": self._sink(path), "protocol": "HTTP"}
            body = msgspec.json.encode({**change.body, **target, "filters": filters})
            answer = self._server.request("PUT", name, body, JSON)
        if not 200 <= answer.status < 300:
            raise ServerError(f"{change.op} {name} was answered {answer.status}: {answer.body!r}")
        self._answered[path].append(time.monotonic_ns())
        with self._lock:
            self._report.changes += 1
            waited_s = time.monotonic() - began_s
            self._report.longest_s = max(self._report.longest_s, waited_s)

    def _sink(self, path: str) -> str:
        return self._traffic.sinks["churn"].url.removesuffix("/churn") + path

    def _kill(self, number: int) -> None:
        server = self._server
        self._in_flight += sum(
            server.look(partition, StatusField.IN_FLIGHT)
            for partition in range(server.partition_count())
        )
        server.kill(Role.WRITER, number)

    def _wait_for(self, share_s: float) -> None:
        time.sleep(max(0.0, self._began_s + share_s - time.monotonic()))

    # -- the verdict --------------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait until the server reports twice in a row that nothing is in flight."""
        seen = [0]

        def settled() -> bool:
            seen[0] = seen[0] + 1 if self._server.settled() else 0
            return seen[0] > 2

        wait_until(settled, SETTLE_S_MAX, f"everything settles\n{self._server.log_tail()}", 0.3)

    def _check(self) -> Report:
        flushing = int(self._plan.rate_per_s * FLUSH_S) * self._plan.kills
        evidence = Evidence(
            arrivals=read_arrivals(self._traffic.sinks["churn"].ledger),
            drops=list(read_drops(self._server.log)),
            answered=self._answered,
            copies_max=self._in_flight + flushing + len(self._traffic.resent),
        )
        return check(read_logs(self._server.paths.log), evidence)
