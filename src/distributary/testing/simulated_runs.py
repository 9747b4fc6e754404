"""Random runs of a ``simulation.Partition``, each generated from a seed.

Called by tests and soaks. The same seed gives the same run: sinks that change their behaviour,
created and deleted routes, batches, crashes, rollovers, failing media, retention, clock jumps.
"""

import random
from collections.abc import Callable
from pathlib import Path

from distributary.core.deliver import Answer
from distributary.core.engine import EngineLimits
from distributary.core.errors import TransportError
from distributary.core.flow import TTL_DEFAULT
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step
from distributary.testing.simulation import Behaviour, Partition, answers, hangs, replies

__all__ = ["play"]

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

    def __init__(self, folder: Path, seed: int, limits: EngineLimits, *, in_memory: bool) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - repeatable chance for tests
        self.partition = Partition(folder, seed, in_memory=in_memory)
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
            self.partition.quotas.crash_after = self.chance.randrange(3)
            self.partition.quotas.crash_before = self.chance.random() < 0.5
        else:
            self.partition.quotas.failing = not self.partition.quotas.failing

    def _retain(self) -> None:
        self.partition.retain()

    def _jump(self) -> None:
        self.partition.clock.jump(self.chance.choice([-1, 1]) * 86_400_000)


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
    run = _Run(folder, seed, limits, in_memory=in_memory)
    run.play(step_count)
    return run.partition.reports
