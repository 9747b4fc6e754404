"""Whatever fails or dies: no timer event repeats a number or leaves its phase."""

import asyncio
import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.database import sqlite_url
from distributary.core.errors import LogUnavailableError, StoreError
from distributary.core.flow import TimerEvent, decode_timer_event
from distributary.resource import SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service import rules
from distributary.subscriptions.store.schedule import Schedule
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put
from distributary.subscriptions.timers import SubscriptionTimers
from distributary.testing.virtual import VirtualClock

RULES = rules(SinkRule(local_allowed=True))
IDS = ("a", "b")
INTERVALS = (1.0, 2.5, 7.0)
SLACK_S = 0.06
"""Timer events are gathered for 50 ms; the phase is stored in whole milliseconds."""

steps = st.lists(
    st.tuples(st.just("pass"), st.floats(0.1, 9.0))
    | st.tuples(st.just("pass"), st.floats(1.0, 3.0))
    | st.tuples(st.just("put"), st.sampled_from(IDS), st.sampled_from((None, *INTERVALS)))
    | st.tuples(st.just("delete"), st.sampled_from(IDS))
    | st.tuples(st.just("log"), st.sampled_from(("takes", "refuses", "takes some, dies")))
    | st.tuples(st.just("store"), st.sampled_from(("works", "refuses", "commits, then fails")))
    | st.tuples(st.just("crash"), st.floats(0.0, 9.0))
    | st.tuples(st.just("jump"), st.sampled_from((-86_400_000, 3_600_000))),
    min_size=4,
    max_size=20,
)


class _Log:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.way = "takes"
        self.timer_events: list[tuple[float, TimerEvent]] = []

    async def append_timer_events(self, timer_events) -> int:
        """Timer events that were taken before the log died count: somebody may read them."""
        count = {"takes": len(timer_events), "refuses": 0}.get(self.way, 1)
        now_s = self.clock.monotonic_s()
        self.timer_events += [(now_s, decode_timer_event(body)) for _, body in timer_events[:count]]
        if self.way == "takes some, dies":
            raise LogUnavailableError("gone")
        return count


class _Schedule(Schedule):
    way = "works"

    def reserve(self, uids, count):
        """Numbers; or an error, before or after the commit."""
        if self.way == "refuses":
            raise StoreError("locked")
        numbers = super().reserve(uids, count)
        if self.way != "works":
            raise StoreError("the answer was lost")
        return numbers


class _Player:
    """Plays a script and remembers what it did."""

    def __init__(self, url) -> None:
        self.clock = VirtualClock()
        self.log = _Log(self.clock)
        self.jumped = False
        self.made = 0
        self.live: dict[str, tuple[str, float | None]] = {}
        self.phases: dict[tuple[str, int], tuple[float, float]] = {}
        self.ended: dict[str, float] = {}
        self._url = url
        self._revisions: dict[str, int] = {}
        self._open("works")

    def _open(self, way: str) -> None:
        self.store = Store(self._url)
        self.schedule = _Schedule(self._url)
        self.schedule.way = way
        self.timers = SubscriptionTimers(self.schedule, self.log, self.clock, partition_count=2)

    def close(self) -> None:
        self.schedule.close()
        self.store.close()

    async def play(self, script) -> None:
        await self._put("a", 1.0)
        for step, *values in script:
            await getattr(self, f"_{step}")(*values)
        self.log.way, self.schedule.way = "takes", "works"
        await self._pass(8.0)

    async def _pass(self, seconds: float) -> None:
        until_s = self.clock.monotonic_s() + seconds
        while (wait_s := await self.timers.turn()) + self.clock.monotonic_s() <= until_s:
            self.clock.move_to(self.clock.monotonic_s() + wait_s)
        self.clock.move_to(until_s)

    async def _put(self, id_: str, interval_s: float | None) -> None:
        config = {} if interval_s is None else {"interval": interval_s}
        body = {"sink": "http://127.0.0.1/", "protocol": "HTTP", "config": config}
        self.made += 1
        uid, before_s = self.live.get(id_, (f"u{self.made}", None))
        self._apply(Put(id_, api_subscription.parse(body, RULES), uid))
        revision = self._revisions[uid] = self._revisions.get(uid, 0) + 1
        self.live[id_] = uid, interval_s
        if interval_s is not None:
            begin = (self.clock.monotonic_s(), interval_s)
            kept = self.phases.get((uid, revision - 1), begin)
            self.phases[uid, revision] = kept if interval_s == before_s else begin
        await self.timers.turn()

    async def _delete(self, id_: str) -> None:
        if id_ in self.live:
            self._apply(Delete(id_))
            self.ended[self.live.pop(id_)[0]] = self.clock.monotonic_s()

    def _apply(self, change) -> None:
        (applied,) = self.store.apply([change], self.clock.wall_ms())
        self.store.mark_appended(applied.seq)

    async def _log(self, way: str) -> None:
        self.log.way = way

    async def _store(self, way: str) -> None:
        self.schedule.way = way

    async def _crash(self, downtime_s: float) -> None:
        way = self.schedule.way
        self.close()
        self.clock.move_to(self.clock.monotonic_s() + downtime_s)
        self._open(way)

    async def _jump(self, wall_ms: int) -> None:
        self.clock.jump(wall_ms)
        self.jumped = True


@given(steps)
@settings(max_examples=40, deadline=None)
@pytest.mark.slow
def test_timer_events_are_unique_in_phase_and_end_with_their_subscription(script):
    """And as soon as everything works again, every timer timer events."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(_Player(sqlite_url(Path(folder) / "state.db"))) as player,
    ):
        asyncio.run(player.play(script))
        timer_events = player.log.timer_events
        end_s = player.clock.monotonic_s()

    numbers = [
        (timer_event.uid, timer_event.revision, timer_event.number)
        for _, timer_event in timer_events
    ]
    assert len(set(numbers)) == len(numbers)
    assert len({timer_event.event.attributes["id"] for _, timer_event in timer_events}) == len(
        numbers
    )
    for at_s, timer_event in timer_events:
        assert at_s <= player.ended.get(timer_event.uid, end_s)
        origin_s, interval_s = player.phases[timer_event.uid, timer_event.revision]
        if not player.jumped:
            late_s = (at_s - origin_s + 0.001) % interval_s
            assert late_s <= min(5.0, interval_s / 2) + SLACK_S
    heard = {timer_event.uid for at_s, timer_event in timer_events if at_s >= end_s - 8.0}
    timers = {uid for uid, interval_s in player.live.values() if interval_s is not None}
    assert timers <= heard
