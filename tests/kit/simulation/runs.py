"""Random runs of a ``simulation.Partition``, each generated from a seed.

Called by tests and soaks. The same seed gives the same run: sinks that change their behaviour,
created and deleted routes, batches, crashes, rollovers, failing media, retention, clock jumps,
pauses, replays, redrives and their ends.
"""

import random
from collections.abc import Callable
from pathlib import Path

from distributary.core.deliver import Answer
from distributary.core.demand import DemandDetails
from distributary.core.engine import EngineLimits
from distributary.core.errors import TransportError
from distributary.core.flow import TTL_DEFAULT
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step
from kit.simulation.once import OncePartition
from kit.simulation.partition import Behaviour, Partition, answers, hangs, replies
from kit.simulation.shared import SharedPartition

__all__ = ["play", "play_once", "play_shared"]

URIS = tuple(f"http://sink-{number}.example/" for number in range(4))
DEAD_URIS = ("http://dead-0.example/", "http://dead-1.example/")
TYPES = ("a", "b", "c")
REPLY_URIS = ("http://reply.example/", "http://broker.example/")
"""Destinations of a Subscription's replies, and of a Trigger's."""
ADDRESSES = ("", "", "broker-1", "broker-2")


def _flaky(chance: random.Random) -> Step:
    answer: Answer
    draw = chance.random()
    if draw < 0.5:
        answer = Reply(204, None, None, b"")
    elif draw < 0.7:
        answer = Reply(503, chance.choice([None, "0", "1", "x"]), None, b"busy")
    elif draw < 0.8:
        answer = Reply(400, None, None, b"no")
    else:
        answer = TransportError("reset", "The sink closed the connection")
    return Step(answer, chance.random() ** 3, taken=chance.random() < 0.7)


BEHAVIOURS: tuple[Behaviour, ...] = (
    answers(),
    answers(202, after_s=0.3),
    answers(204, after_s=0.8),
    answers(503),
    answers(503, retry_after="2"),
    answers(400, body=b"bad"),
    answers(404, after_s=0.05),
    hangs,
    replies(),
    replies(after_s=0.4),
    replies(fault="no type"),
    lambda _chance: Step(TransportError("refused", "Nobody listens"), 0.001, taken=False),
    _flaky,
    _flaky,
)


class _Run:
    """A partition, with seeded random actions on it."""

    def __init__(self, partition: Partition, seed: int, limits: EngineLimits) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - repeatable chance for tests
        self.partition = partition
        self.partition.engine_limits = limits
        self._created = 0
        self._steps: tuple[tuple[int, Callable[[], None]], ...] = (
            (30, self._publish),
            (30, self._pass_time),
            (12, self._change_sink),
            (5, self._create),
            (5, self._update),
            (2, self._delete),
            (4, self._timer_event),
            (6, self._end_used_up),
            (5, self._pause),
            (5, self._resume),
            (4, self._replay),
            (3, self._redrive),
            (2, self._cancel),
            (2, self._retry),
            (4, self._crash),
            (3, self._hand_over),
            (3, self._arm_fault),
            (3, self._retain),
            (1, self._jump),
        )

    def play(self, step_count: int) -> None:
        partition = self.partition
        self._create()
        self._create()
        partition.start()
        weights = [weight for weight, _ in self._steps]
        actions = [action for _, action in self._steps]
        for action in self.chance.choices(actions, weights, k=step_count):
            if not partition.lives:
                partition.replace()
            action()
        if not partition.lives:
            partition.replace()
        partition.rest()
        partition.close()

    def _publish(self) -> None:
        for _ in range(self.chance.choice([1, 1, 2, 5, 20])):
            batch = self.chance.choice([1, 1, 1, 1, 2, 4])
            self.partition.publish(
                *self.chance.choices(TYPES, k=batch),
                address=self.chance.choice(ADDRESSES),
                ttl=self.chance.choice([TTL_DEFAULT, TTL_DEFAULT, 1]),
            )

    def _pass_time(self) -> None:
        self.partition.advance(10 ** self.chance.uniform(-3, 0.5))

    def _change_sink(self) -> None:
        uri = self.chance.choice(URIS + URIS + DEAD_URIS + REPLY_URIS)
        self.partition.sinks[uri] = self.chance.choice(BEHAVIOURS)

    def _create(self) -> None:
        if len(self.partition.routes) < 6:
            self._created += 1
            self._put(f"r{self._created}")

    def _update(self) -> None:
        if self.partition.routes:
            self._put(self.chance.choice(self.partition.routes))

    def _put(self, route: str) -> None:
        chance = self.chance
        # A route of the Subscriptions API, a Subscription's or a Trigger's, for good.
        kind = int(route.removeprefix("r")) % 3
        self.partition.put_route(
            route,
            chance.choice(URIS),
            types=chance.choice([(), ("a",), ("b",), ("a", "c")]),
            address=chance.choice(ADDRESSES),
            begin_ms=self._begin_ms(),
            events_max=chance.choice([None, None, None, 1, 3, 20]),
            dead_letter=chance.choice([None, *DEAD_URIS]),
            reply=None if kind == 0 else REPLY_URIS[kind - 1],
            reply_kept=kind == 2,
            policy=DeliveryPolicy(
                retry=chance.randrange(4),
                backoff_delay_s=chance.choice([0.0, 0.02, 0.3]),
                backoff_max_s=chance.choice([0.5, 3.0]),
                timeout_s=chance.choice([0.2, 1.0, 3.0]),
            ),
        )

    def _begin_ms(self) -> int | None:
        back_ms = self.chance.choice([None, None, 0, 100, 5_000, -5_000])
        return back_ms and self.partition.clock.wall_ms() - back_ms

    def _timer_event(self) -> None:
        gone = f"r{self._created}"
        route = self.chance.choice([*self.partition.routes, gone])
        for _ in range(self.chance.choice([1, 3])):
            self.partition.timer_event(route, self.chance.choice(TYPES))

    def _end_used_up(self) -> None:
        self.partition.end_used_up()

    def _pause(self) -> None:
        if self.partition.routes:
            self.partition.targets.halt(self.chance.choice(self.partition.routes))

    def _resume(self) -> None:
        halted = sorted(self.partition.targets.halted)
        if halted:
            self.partition.targets.unhalt(self.chance.choice(halted))

    def _replay(self) -> None:
        if not self.partition.routes:
            return
        chance, partition = self.chance, self.partition
        route = chance.choice(partition.routes)
        partition.checker.replayed(route)
        since_ms = chance.choice([None, partition.clock.wall_ms() - 1_000])
        rate = chance.choice([None, None, 5.0, 200.0])
        details = DemandDetails(since_ms=since_ms, rate=rate, dry=chance.random() < 0.1)
        partition.targets.ask("replay", route, details, partition.clock.wall_ms())

    def _redrive(self) -> None:
        if not self.partition.routes:
            return
        route = self.chance.choice(self.partition.routes)
        rate = self.chance.choice([None, 20.0])
        self.partition.checker.may_redrive(route)
        self.partition.targets.ask("redrive", route, DemandDetails(rate=rate))

    def _cancel(self) -> None:
        runs = [demand.run for demand in self.partition.targets.asked if demand.kind != "cancel"]
        if runs:
            self.partition.targets.cancel(self.chance.choice(runs))

    def _retry(self) -> None:
        if self.partition.routes:
            self.partition.targets.ask("retry", self.chance.choice(self.partition.routes))

    def _delete(self) -> None:
        if self.partition.routes:
            self.partition.delete_route(self.chance.choice(self.partition.routes))

    def _crash(self) -> None:
        self.partition.crash()
        self.partition.start()

    def _hand_over(self) -> None:
        self.partition.rollover(self.chance.choice([0.0, 0.1, 5.0]))
        if not self.partition.lives:
            self.partition.replace()

    def _arm_fault(self) -> None:
        fault = self.chance.randrange(6)
        if fault == 0:
            self.partition.store.crash_after = self.chance.randrange(3)
        elif fault == 1:
            self.partition.files.torn_bytes = self.chance.randrange(60)
        elif fault == 2:
            self.partition.files.failing = True
        elif fault == 3:
            self.partition.store.failing = True
        elif fault == 4:
            self.partition.reservations.crash_after = self.chance.randrange(3)
            self.partition.reservations.crash_before = self.chance.random() < 0.5
        else:
            self.partition.reservations.failing = not self.partition.reservations.failing

    def _retain(self) -> None:
        self.partition.retain()

    def _jump(self) -> None:
        self.partition.clock.jump(self.chance.choice([-1, 1]) * 86_400_000)


class _SharedRun(_Run):
    """The same with owners on several machines, and failures of what they share."""

    def __init__(self, partition: SharedPartition, seed: int, limits: EngineLimits) -> None:
        super().__init__(partition, seed, limits)
        self.shared = partition
        self._steps = (
            *self._steps,
            (4, self._go_away),
            (5, self._doubt),
            (4, self._stop_for_a_while),
            (4, self._stop_for_long),
            (4, self._believe_dead),
            (4, self._lag),
            (8, self._catch_up),
            (3, self._append_twice),
            (3, self._read_slowly),
            (3, self._lose_the_log),
        )

    def _go_away(self) -> None:
        """The database restarts, or another machine takes its place."""
        away_s = 10 ** self.chance.uniform(-1, 1.3)
        self.shared.database.away_until_s = self.shared.clock.monotonic_s() + away_s

    def _doubt(self) -> None:
        self.shared.database.doubt = self.chance.choice([True, False])

    def _stop_for_a_while(self) -> None:
        self.shared.stop(self.chance.uniform(0.1, 3.0))

    def _stop_for_long(self) -> None:
        seconds = self.chance.uniform(6.5, 60.0)
        woken_s = self.shared.clock.monotonic_s() + seconds
        self.shared.stop(seconds)
        left_s = woken_s - self.shared.clock.monotonic_s()
        if left_s > 0 and self.chance.random() < 0.4:
            # It wakes while the database cannot tell it that there is another owner.
            self.shared.advance(max(0.0, left_s - 0.5))
            self.shared.database.away_until_s = woken_s + self.chance.uniform(0.5, 8.0)

    def _believe_dead(self) -> None:
        self.shared.believe_dead()

    def _lag(self) -> None:
        self.shared.log.lag()

    def _catch_up(self) -> None:
        self.shared.log.catch_up()

    def _append_twice(self) -> None:
        self.shared.twice = True

    def _read_slowly(self) -> None:
        self.shared.read_s_max = self.chance.choice([0.02, 0.02, 1.0, 40.0])

    def _lose_the_log(self) -> None:
        away_s = 10 ** self.chance.uniform(-1, 1.5)
        self.shared.log.away_until_s = self.shared.clock.monotonic_s() + away_s

    def _arm_fault(self) -> None:
        fault = self.chance.randrange(4)
        if fault == 0:
            self.partition.store.crash_after = self.chance.randrange(3)
        elif fault == 1:
            self.partition.store.failing = True
        elif fault == 2:
            self.partition.reservations.crash_after = self.chance.randrange(3)
            self.partition.reservations.crash_before = self.chance.random() < 0.5
        else:
            self.partition.reservations.failing = not self.partition.reservations.failing


class _OnceRun(_SharedRun):
    """The same with a window: publishers repeat, and appends are stored twice."""

    def __init__(self, partition: OncePartition, seed: int, limits: EngineLimits) -> None:
        super().__init__(partition, seed, limits)
        self.once = partition
        self._steps = (*self._steps, (20, self._publish_again), (6, self._store_twice))

    def _publish_again(self) -> None:
        for _ in range(self.chance.choice([1, 3, 20])):
            self.once.log.publish_again()

    def _store_twice(self) -> None:
        self.once.log.stored_twice = self.chance.randrange(1, 5)


def play(
    folder: Path,
    seed: int,
    step_count: int = 60,
    limits: EngineLimits = EngineLimits(),  # noqa: B008 - a value
    *,
    in_memory: bool = False,
) -> list[tuple[str, dict[str, object]]]:
    """Run *seed* to its end in the empty *folder*; raises ``AssertionError`` on a failure.

    Returns:
        The reports of the owners.
    """
    run = _Run(Partition(folder, seed, in_memory=in_memory), seed, limits)
    run.play(step_count)
    return run.partition.reports


def play_shared(
    folder: Path,
    seed: int,
    step_count: int = 60,
    limits: EngineLimits = EngineLimits(),  # noqa: B008 - a value
) -> SharedPartition:
    """As ``play``, with owners on several machines.

    Returns:
        The partition, which is closed.
    """
    partition = SharedPartition(folder, seed)
    _SharedRun(partition, seed, limits).play(step_count)
    return partition


def play_once(
    folder: Path,
    seed: int,
    step_count: int = 60,
    limits: EngineLimits = EngineLimits(),  # noqa: B008 - a value
) -> OncePartition:
    """As ``play_shared``, with a window in which an event is taken once.

    Returns:
        The partition, which is closed.
    """
    partition = OncePartition(folder, seed)
    _OnceRun(partition, seed, limits).play(step_count)
    return partition
