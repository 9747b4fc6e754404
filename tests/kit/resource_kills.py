"""Scenario: ``kill -9`` of a server or its parts while Knative objects change, with a verdict.

Four clients create, patch and delete Brokers, Triggers, Channels, Subscriptions and Services, each
in its own namespace, so that it knows the expected state of its objects from the responses. A
request without a response may have been applied or not, but only as a whole. When all changes are
made and the last victim is back:

1. every object is as in its last response, and every status converges to what follows from the
   objects;
2. a kill and a restart, which reconciles everything, finds nothing to write;
3. ready objects get events, and addresses of deleted ones respond 404;
4. each acknowledged event of the traffic through an unchanged Broker has arrived, and so has its
   subscriber's reply at another Trigger;
5. the server stops cleanly, and store and log hold the same routes.

Callers: ``tests/crash``, benchmarks. Hides: the scenario.
"""

import concurrent.futures
import contextlib
import http.client
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from distributary.core.event import Event
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.kinds import TRIGGER
from kit.answering_sinks import AnsweringSinks, Arrival, respond_event
from kit.knative_client import KnativeClient, event_attributes
from kit.resource_changes import BACK_S_MAX, ChangingClient
from kit.resource_checker import status_faults, stored_faults
from kit.running_server import Role, RunningServer, ServerError, wait_until
from kit.traffic import Traffic

__all__ = ["ResourceKillReport", "run_resource_kills"]

NAMESPACES: Final = ("default", "kills-1", "kills-2", "kills-3")
"""One for each client. The first one has the Broker whose address is older than its object."""

SETTLE_S_MAX: Final = 120.0
"""Longest wait for the last status: the reconciler tries again after 5 s at most."""

QUIET_S: Final = 1.0
"""Nothing was written for so long: nothing is under way any more."""

STEADY: Final = "steady"
"""The namespace without changes."""

RATE_PER_S: Final = 50.0
"""Events to it: some under way at every kill, and the machine has time for the changes."""

ARRIVE_S_MAX: Final = 60.0
"""Longest wait for the last event: what a kill cut off may wait for a retry of 13 s."""

CANARY: Final = "canary"
"""A Trigger that is made after a new start: what had been found then was looked at before it."""


@dataclass(slots=True)
class ResourceKillReport:
    """The result of a run.

    Attributes:
        seed: Reproduces every choice, but not the times.
        victims: Killed processes, in order.
        changes: Requests with or without a response.
        broken: Requests without a response.
        ready: Triggers and Subscriptions that were ready at the end, and got an event each.
        acked: Events acknowledged by the unchanged Broker.
        faults: All faults found.
        stop_code: Exit code of the server.
        took_s: Duration of each part of the run, seconds.
    """

    seed: int
    victims: list[str] = field(default_factory=list)
    changes: int = 0
    broken: int = 0
    ready: int = 0
    acked: int = 0
    faults: list[str] = field(default_factory=list)
    stop_code: int = 0
    took_s: dict[str, float] = field(default_factory=dict)


def run_resource_kills(
    folder: Path, changes: int, victims: Sequence[Role | None], seed: int
) -> ResourceKillReport:
    """Make *changes* in *folder* and kill *victims* meanwhile; None: all processes at once.

    Raises:
        ServerError: Something hung: it did not come back, or never settled.
    """
    with AnsweringSinks() as sinks:
        return _Scenario(folder, sinks, seed).run(changes, victims)


class _Scenario:
    """One run."""

    def __init__(self, folder: Path, sinks: AnsweringSinks, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a scenario is no secret
        self._report = ResourceKillReport(seed)
        self._server = RunningServer(folder / "data")
        self._clients = [ChangingClient(self._server, name, sinks, seed) for name in NAMESPACES]
        self._traffic = Traffic(folder, {})
        self._asked = sinks.sink(f"/{STEADY}/ask", _answer)
        self._answered = sinks.sink(f"/{STEADY}/answer")

    def run(self, changes: int, victims: Sequence[Role | None]) -> ResourceKillReport:
        """Change and kill, settle, look."""
        report = self._report
        with self._traffic, self._begun():
            self._begin_traffic()
            with self._part("change and kill"):
                for client in self._clients:
                    client.learn()
                self._change_and_kill(changes, victims)
            self._note_changes()
            with self._part("settle"):
                settled = self._settle()
            with self._part("begin anew"):
                self._begin_anew(settled)
            with self._part("be ready"):
                self._server.wait_ready()
            with self._part("deliver"):
                self._deliver()
                self._end_traffic()
            with self._part("stop"):
                report.stop_code = self._server.stop()
        with self._part("look"):
            report.faults += stored_faults(self._server.paths)
        return report

    @contextlib.contextmanager
    def _begun(self) -> Iterator[None]:
        """Objects may change, and events come, before anything can be delivered."""
        try:
            with self._part("start"):
                self._server.start()
                self._answers()
            yield
        finally:
            self._server.kill_all()

    @contextlib.contextmanager
    def _part(self, name: str) -> Iterator[None]:
        began_s = time.monotonic()
        yield
        self._report.took_s[name] = round(time.monotonic() - began_s, 1)

    def _note_changes(self) -> None:
        report = self._report
        report.changes = self._changes()
        for client in self._clients:
            report.broken += client.broken
            report.faults += client.faults

    # -- events meanwhile ---------------------------------------------------------------------

    def _begin_traffic(self) -> None:
        """Events to a Broker, to a Trigger whose sink replies, to another Trigger."""
        steady = KnativeClient(self._server, STEADY)
        path = steady.broker()
        for sink, type_ in ((self._asked, "ask"), (self._answered, "answer")):
            steady.trigger(sink.url, type_, filter={"attributes": {"type": type_}})
        self._traffic.publish(self._server.url, _question, RATE_PER_S, path=path)

    def _end_traffic(self) -> None:
        """Wait until everything that was acknowledged has been answered."""
        self._traffic.finish()
        acked = {str(number) for number in self._traffic.acked}
        self._report.acked = len(acked)
        try:
            wait_until(
                lambda: acked <= set(self._answered.ids), ARRIVE_S_MAX, "every answer arrives", 0.5
            )
        except ServerError:
            for sink in (self._asked, self._answered):
                missing = sorted(acked.difference(sink.ids), key=int)
                if missing:
                    self._report.faults.append(f"{len(missing)} at {sink.url}: {missing[:20]}")

    # -- changes and kills --------------------------------------------------------------------

    def _change_and_kill(self, changes: int, victims: Sequence[Role | None]) -> None:
        with concurrent.futures.ThreadPoolExecutor(len(self._clients)) as workers:
            share = changes // len(self._clients)
            working = [workers.submit(_change, client, share) for client in self._clients]
            for number, victim in enumerate(victims):
                due = changes * (number + 1) // (len(victims) + 1)
                what = f"{due} changes\n{self._server.log_tail()}"
                wait_until(partial(self._made, due, working), BACK_S_MAX * 2, what, 0.002)
                time.sleep(self._chance.uniform(0.0, 0.05))
                self._kill(victim)
            for work in working:
                work.result()

    def _made(self, count: int, working: Sequence[concurrent.futures.Future[None]]) -> bool:
        """So many changes are made, or no more will be."""
        return self._changes() >= count or all(work.done() for work in working)

    def _changes(self) -> int:
        return sum(client.changes for client in self._clients)

    def _kill(self, victim: Role | None) -> None:
        server = self._server
        self._report.victims.append("everything" if victim is None else victim.value)
        if victim is None:
            server.kill_all()
            server.start()
            return

        def killed() -> bool:  # just after another kill it may not be there yet
            with contextlib.suppress(ServerError, ProcessLookupError):
                server.kill(victim, self._chance.randrange(8))
                return True
            return False

        wait_until(killed, BACK_S_MAX, f"a {victim} is running")
        if victim is Role.SERVE:
            server.wait(BACK_S_MAX)
            server.start()

    # -- what came of it ----------------------------------------------------------------------

    def _objects(self) -> dict[Key, Object]:
        found: dict[Key, Object] = {}
        for client in self._clients:
            found |= client.objects()
        return found

    def _settle(self) -> dict[Key, Object]:
        """Wait until every status is as it follows from the objects, and nothing moves; those."""
        faults: list[str] = []

        def settled() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):
                faults[:] = status_faults(self._objects())
                return not faults
            return False

        try:
            wait_until(settled, SETTLE_S_MAX, "statuses settle", 0.1)
        except ServerError:
            self._report.faults += faults
        objects = self._quiet()
        for client in self._clients:
            self._report.faults += client.differences(objects)
        return objects

    def _quiet(self) -> dict[Key, Object]:
        """Wait until nothing is written any more; the objects."""
        seen: list[dict[Key, Object]] = [{}]

        def still() -> bool:
            before, seen[0] = seen[0], self._objects()
            return bool(before) and before == seen[0]

        wait_until(still, SETTLE_S_MAX, "nothing is written any more", QUIET_S)
        return seen[0]

    def _begin_anew(self, before: Mapping[Key, Object]) -> None:
        """A server that looks at everything anew must find nothing to write."""
        self._server.kill_all()
        self._server.start()
        self._answers()
        canary = self._clients[-1]
        spec = {"broker": "none", "subscriber": {"uri": "http://127.0.0.1/"}}
        canary.create(TRIGGER, CANARY, spec)
        canary.wait_condition(TRIGGER, CANARY, "False")
        canary.delete(TRIGGER, CANARY)
        after = self._quiet()
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                change = f"{_status(before.get(key))} -> {_status(after.get(key))}"
                self._report.faults.append(f"a new start changed {key}: {change}")

    def _answers(self) -> None:
        def answered() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self._server.request("GET", "/apis").status == 200
            return False

        wait_until(answered, BACK_S_MAX, f"the API answers\n{self._server.log_tail()}")

    def _deliver(self) -> None:
        """What is ready gets its event, and no Trigger gets one of another type."""
        objects = self._objects()
        for client in self._clients:
            self._report.faults += client.unknown_addresses(objects)
            expected = client.publish_to_all(objects)
            self._report.ready += len(expected)
            for key, ids in expected.items():
                try:
                    client.sinks[key].wait_for(*ids)
                except ServerError as error:
                    self._report.faults.append(str(error))
                if key.resource == TRIGGER.resource and set(client.sinks[key].ids) != ids:
                    self._report.faults.append(f"{key} got {client.sinks[key].ids}, not {ids}")


def _status(obj: Object | None) -> object:
    return None if obj is None else (obj["metadata"]["resourceVersion"], obj.get("status"))


def _question(number: int) -> Event:
    return Event(event_attributes(id=str(number), type="ask"), b"%d" % number)


def _answer(arrival: Arrival, _number: int) -> bytes:
    return respond_event({"id": arrival.id, "type": "answer"})


def _change(client: ChangingClient, count: int) -> None:
    for _ in range(count):
        client.change()
