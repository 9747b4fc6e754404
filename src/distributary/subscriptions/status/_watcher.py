"""Looks at all routes once a second: transitions, log lines, the past, and disabling."""

import enum
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from distributary.core.clock import Clock
from distributary.core.errors import NotFoundError, StoreError
from distributary.core.outcome import FAILURES_MIN, Tally
from distributary.subscriptions.consent import Agreements, AwaitedConsent
from distributary.subscriptions.status._lines import Failing, FailureLines
from distributary.subscriptions.status._past import FINE_S, Now, Past, Point, Totals
from distributary.subscriptions.status._standings import Change, Standings, fails
from distributary.subscriptions.store.demands import RouteName
from distributary.subscriptions.store.steering import Steering

LOOK_S: Final = 1.0
"""Interval of looks: owners put their tallies once a second."""
NAMES_SLICE: Final = 500
"""Routes whose names are read at once: the store bounds the parameters of a statement."""
SETTLE_S: Final = 10.0
"""How long a route that goes on is not disabled: its owner begins to count failures anew."""
GOES_ON_MS: Final = 60_000
"""How old the last failure of a route may be that is disabled: nothing is disabled of which nothing
fails at that time. A breaker that is open tries its sink within half a minute."""
SERVER: Final = "server"
"""Who disables what has failed for too long."""


class TransitionKind(enum.StrEnum):
    """What has happened to a route."""

    FAILING = "failing"
    RECOVERED = "recovered"
    PAUSED = "paused"
    RESUMED = "resumed"
    DISABLED = "disabled"
    ENABLED = "enabled"


class Transition(NamedTuple):
    """One thing that has happened to a route.

    Attributes:
        kind: What.
        route: Its uid.
        name: Whose route it is: a subscription, or an object of the Kubernetes API.
        since_ms: Since when, wall clock, milliseconds: the first failure, the pause, the disabling;
            of ``RECOVERED`` since when it had failed. Of ``RESUMED`` and ``ENABLED``: now.
        reason: The failure's short reason; why it was disabled; empty: there is none.
        by: Who paused or disabled it; empty: nobody in particular.
        sink: Where deliveries fail, without its query; empty: unknown.
        tally: Its numbers.
        begun: False: it was so before this process looked for the first time.
    """

    kind: TransitionKind
    route: str
    name: RouteName
    since_ms: int
    reason: str
    by: str
    sink: str
    tally: Tally
    begun: bool = True


class ServerNumbers(NamedTuple):
    """Numbers of the whole server that are not a route's.

    Attributes:
        accepted: Events published since ever, by namespace.
        backlog: Records of the log that the pipeline has not taken.
        bounds: Upper bounds of the buckets of latency, seconds.
        counts: Deliveries by bucket, since ever; one more than bounds.
    """

    accepted: Mapping[str, float]
    backlog: int
    bounds: Sequence[float]
    counts: Sequence[int]


class Steered(Protocol):
    """What the watcher needs of the store."""

    def route_names(self, uids: Collection[str]) -> dict[str, RouteName]:
        """Names of these routes' owners, those that exist."""

    def halted(self) -> list[Steering]:
        """Every route that is paused or disabled, and is not deleted."""

    def disable(self, uid: str, reason: str, by: str, now_ms: int) -> object:
        """Send nothing of this route until it is enabled."""


class Watcher:
    """Watches all routes. ``turn`` blocks, and is for one thread; the others are safe from any.

    Args:
        standings: The numbers of all routes.
        store: Names, and what is paused or disabled.
        clock: For the past and for lines.
        log: Takes lines.
        server: Returns the numbers of the server.
        sinks: Returns where deliveries of these routes fail, those that are known.
        disable_after_s: Disable what has failed for so long, seconds; 0: never.
        may_have_news: Whether the store may have changed since its last call: cheap.

    Attributes:
        agreements: Which routes wait for a consent; whoever asks targets notes it there.
    """

    def __init__(
        self,
        standings: Standings,
        store: Steered,
        clock: Clock,
        log: Any,
        *,
        server: Callable[[], ServerNumbers],
        sinks: Callable[[], Mapping[str, str]] = dict,
        disable_after_s: float = 0.0,
        may_have_news: Callable[[], bool] = lambda: True,
    ) -> None:
        self.standings = standings
        self.disable_after_s = disable_after_s
        self.agreements = Agreements()
        self._store = store
        self._clock = clock
        self._log = log
        self._server = server
        self._sinks = sinks
        self._may_have_news = may_have_news
        self._unread = True
        self._lines = FailureLines(log)
        self._listeners: list[Callable[[Sequence[Transition]], None]] = []
        self._lock = threading.Lock()
        self._names: dict[str, RouteName] = {}
        self._failing: dict[str, Tally] = {}
        self._told: dict[str, Tally] = {}  # as failing, and not yet as recovered
        self._halted: dict[str, Steering] = {}
        self._awaited: Mapping[str, AwaitedConsent] = {}
        self._settling: dict[str, float] = {}
        self._totals: dict[str, Totals] = {}
        self._past = Past()
        self._past_s = float("-inf")
        self._looked = False
        self._refused = False
        self._left: list[Change] = []
        self._known_sinks: Mapping[str, str] = {}
        self._unread_sinks = True

    def listen(self, listener: Callable[[Sequence[Transition]], None]) -> None:
        """Call *listener* with the transitions of each look that has some."""
        self._listeners.append(listener)

    # -- what it knows -------------------------------------------------------------------------

    def failing(self) -> dict[str, Tally]:
        """Failing routes, by uid; without those that are paused or disabled."""
        with self._lock:
            return {uid: one for uid, one in self._failing.items() if uid not in self._halted}

    def halted(self) -> dict[str, Steering]:
        """Routes that are paused or disabled, by uid."""
        with self._lock:
            return dict(self._halted)

    def name(self, route: str) -> RouteName | None:
        """Whose route it is; None: nothing is known of it yet, or it is deleted."""
        with self._lock:
            return self._names.get(route)

    def names(self) -> dict[str, RouteName]:
        """Names of all routes of which something is known, besides that they exist."""
        with self._lock:
            return dict(self._names)

    def sink(self, route: str) -> str:
        """Where deliveries of *route* fail, without its query; empty: unknown."""
        return self._known_sinks.get(route, "")

    def past(self, namespace: str) -> tuple[list[Point], list[Point]]:
        """The last two minutes and the last hour of *namespace*, the oldest point first."""
        with self._lock:
            return self._past.fine(namespace), self._past.coarse(namespace)

    # -- a look --------------------------------------------------------------------------------

    def turn(self) -> list[Transition]:
        """Look once; returns the transitions, after the listeners have had them."""
        changes = self._left + self.standings.look()
        self._left = changes  # seen again if the store cannot be read now
        try:
            # All that may fail comes before what is taken note of: a look that fails loses nothing.
            self._learn_names([one.route for one in changes if one.tally is not None])
            self._follow_agreements()
            steered = self._steered()
        except StoreError as error:
            self._refuse(error)
            return []
        self._left, self._unread_sinks = [], True
        found = self._take(changes) + steered
        try:
            self._disable()
            self._refused = False
        except StoreError as error:
            self._refuse(error)  # the next look disables it
        self._look_back(changes)
        now_s = self._clock.monotonic_s()
        sinks = self._known_sinks = self._sinks()
        failing = self.failing()
        self._lines.look(
            {
                uid: Failing(name, sinks.get(uid, ""), tally)
                for uid, tally in failing.items()
                if (name := self.name(uid)) is not None
            },
            now_s,
        )
        for one in found:
            if one.kind is TransitionKind.RECOVERED:
                self._lines.recovered(one.name, one.since_ms, one.tally.failing_count)
        self._looked = True
        if found:
            for listener in self._listeners:
                listener(found)
        return found

    def _refuse(self, error: StoreError) -> None:
        if not self._refused:
            self._log.warning("status-not-followed", reason=str(error))
        self._refused = True

    def _learn_names(self, routes: Sequence[str]) -> None:
        unknown = [route for route in routes if route not in self._names]
        for first in range(0, len(unknown), NAMES_SLICE):
            names = self._store.route_names(unknown[first : first + NAMES_SLICE])
            with self._lock:
                self._names.update(names)

    def _take(self, changes: Sequence[Change]) -> list[Transition]:
        found: list[Transition] = []
        with self._lock:
            for change in changes:
                route, tally = change.route, change.tally
                name = self._names.get(route)
                if tally is None:
                    for known in (self._failing, self._told, self._names):
                        known.pop(route, None)
                elif fails(tally):
                    if route not in self._failing and name is not None:
                        found.append(self._begun(route, name, tally))
                    self._failing[route] = self._told[route] = tally
                else:
                    self._failing.pop(route, None)
                    told = self._told.get(route)
                    if told is not None and tally.success_ms >= told.failing_since_ms:
                        del self._told[route]
                        if name is not None:
                            found.append(_recovered(route, name, told, tally))
        return found

    def _begun(self, route: str, name: RouteName, tally: Tally) -> Transition:
        if self._unread_sinks:
            self._known_sinks, self._unread_sinks = self._sinks(), False
        sink, why = self._known_sinks.get(route, ""), tally.failing_reason
        since_ms = tally.failing_since_ms
        kind = TransitionKind.FAILING
        return Transition(kind, route, name, since_ms, why, "", sink, tally, self._looked)

    def _steered(self) -> list[Transition]:
        """Note what is paused and disabled now."""
        self._unread |= self._may_have_news()
        if not self._unread:
            return []
        now = {one.uid: one for one in self._store.halted()}
        with self._lock:
            before = self._halted
        if now == before:
            self._unread = False
            return []
        changed = [uid for uid in before.keys() | now.keys() if before.get(uid) != now.get(uid)]
        self._learn_names(changed)
        self._forget_deleted([uid for uid in changed if uid not in now])
        with self._lock:
            self._halted = now
        self._unread = False
        found: list[Transition] = []
        for uid in changed:
            name = self.name(uid)
            if uid not in now:
                self._settling[uid] = self._clock.monotonic_s() + SETTLE_S
            if name is not None:
                was, is_ = before.get(uid, Steering(uid)), now.get(uid, Steering(uid))
                found += self._compare(name, was, is_)
        return found

    def _follow_agreements(self) -> None:
        """Learn the names of those that wait for a consent: they may have had no outcome."""
        now, before = self.agreements.awaited(), self._awaited
        if now is not before:
            self._learn_names([uid for uid in now if uid not in before])
            self._forget_deleted([uid for uid in before if uid not in now])
            self._awaited = now

    def _forget_deleted(self, ended: Sequence[str]) -> None:
        """Forget the names of those of *ended* that no longer exist."""
        deleted = set(ended)
        for first in range(0, len(ended), NAMES_SLICE):
            deleted -= self._store.route_names(ended[first : first + NAMES_SLICE]).keys()
        with self._lock:
            for uid in deleted:
                self._names.pop(uid, None)

    def _compare(self, name: RouteName, was: Steering, now: Steering) -> list[Transition]:
        tally, found = self.standings.of(now.uid).tally, []
        wall_ms = self._clock.wall_ms()
        if was.paused_ms != now.paused_ms:
            kind = TransitionKind.RESUMED if now.paused_ms is None else TransitionKind.PAUSED
            since_ms, by = now.paused_ms or wall_ms, now.paused_by or ""
            found.append(Transition(kind, now.uid, name, since_ms, "", by, "", tally, self._looked))
        if was.disabled_ms != now.disabled_ms:
            kind = TransitionKind.ENABLED if now.disabled_ms is None else TransitionKind.DISABLED
            since_ms, by = now.disabled_ms or wall_ms, now.disabled_by or ""
            why = now.disabled_reason or ""
            found.append(
                Transition(kind, now.uid, name, since_ms, why, by, "", tally, self._looked)
            )
        return found

    def _disable(self) -> None:
        """Disable what has failed for longer than the operator allows."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        self._settling = {uid: until for uid, until in self._settling.items() if until > now_s}
        if not self.disable_after_s:
            return
        for uid, tally in self.failing().items():
            # One partition may fail on while another delivers.
            failed_s = (now_ms - max(tally.failing_since_ms, tally.success_ms)) / 1000
            if failed_s < self.disable_after_s or uid in self._settling:
                continue
            if tally.failing_count < FAILURES_MIN or now_ms - tally.failing_last_ms > GOES_ON_MS:
                continue  # Nothing fails now: it may be that nothing is sent.
            reason = f"failing for {int(failed_s)} s: {tally.failing_reason}"
            try:
                self._store.disable(uid, reason, SERVER, now_ms)
            except NotFoundError:
                continue  # deleted meanwhile
            name = self.name(uid)
            about = {} if name is None else {name.kind: name.text, "namespace": name.namespace}
            self._log.warning("subscription-disabled", **about, reason=reason)

    def _look_back(self, changes: Sequence[Change]) -> None:
        """Add to the totals, and note a point of the past where one is due."""
        with self._lock:
            for change in changes:
                name = self._names.get(change.route)
                if name is not None and any(change[2:]):
                    before = self._totals.get(name.namespace, Totals())
                    more = Totals(0, *change[2:])
                    self._totals[name.namespace] = Totals(
                        *(a + b for a, b in zip(before, more, strict=True))
                    )
        now_s = self._clock.monotonic_s()
        if now_s - self._past_s < FINE_S * 0.99:
            return
        self._past_s = now_s
        server = self._server()
        now = Now(self._clock.wall_ms(), now_s, server.backlog, server.bounds, server.counts)
        with self._lock:
            for namespace, accepted in server.accepted.items():
                mine = self._totals.get(namespace, Totals())
                self._totals[namespace] = mine._replace(accepted=accepted)
            self._past.take(now, self._totals, self._standing())

    def _standing(self) -> dict[str, tuple[int, int]]:
        """Failing routes and waiting rows, by namespace."""
        found: dict[str, tuple[int, int]] = {}
        for uid, tally in self.standings.unrest.items():
            name = self._names.get(uid)
            if name is not None:
                failing, waiting = found.get(name.namespace, (0, 0))
                counted = fails(tally) and uid not in self._halted
                found[name.namespace] = failing + counted, waiting + tally.waiting
        return found


def _recovered(route: str, name: RouteName, told: Tally, tally: Tally) -> Transition:
    """Deliveries of *route* have recovered that were *told* to fail."""
    tally.failing_count = told.failing_count
    kind = TransitionKind.RECOVERED
    return Transition(kind, route, name, told.failing_since_ms, "", "", "", tally)
