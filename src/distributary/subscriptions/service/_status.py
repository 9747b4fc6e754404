"""Status of subscriptions: what partition consumers tell of deliveries, and consents."""

import enum
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from distributary.core.clock import Clock
from distributary.core.deliver.consent import AWAITS_CONSENT
from distributary.core.outcome import (
    DeliveryRowsReader,
    FailingRoute,
    RouteDeliveries,
    Tally,
    read_failing,
)
from distributary.core.shown import shown_uri
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.resource import Reach
from distributary.subscriptions.consent import targets_of
from distributary.subscriptions.resource import restore
from distributary.subscriptions.service._runs import Awaited, nothing_awaited
from distributary.subscriptions.status import Point, Standing, Watcher, fails
from distributary.subscriptions.store import Listed
from distributary.subscriptions.store.consent_rows import ConsentRow
from distributary.subscriptions.store.steering import Steering
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import StoredSubscription

SLICE: Final = 500
"""Subscriptions read at once: the store bounds the parameters of a statement."""
SLICES_MAX: Final = 20
"""Slices that one request for those in a state looks through: 10,000 that stand otherwise, whose
ids take some 20 ms to read. The next request goes on behind them."""
KEPT_S: Final = 5.0
"""Interval at which dead letters are counted: 100,000 of them take a tenth of a second."""
NAMESPACES_MAX: Final = 1_000
"""Most namespaces whose count is remembered so long."""


class TargetConsent(NamedTuple):
    """The consent of one target.

    Attributes:
        sink: Its URI, for people.
        row: What is known.
    """

    sink: str
    row: ConsentRow


class Word(enum.StrEnum):
    """One word for how a subscription stands; the first that fits counts."""

    DISABLED = "disabled"
    PAUSED = "paused"
    PARKED = "parked"
    AWAITING_CONSENT = "awaiting-consent"
    FAILING = "failing"
    LAGGING = "lagging"
    READY = "ready"


class Failures(NamedTuple):
    """Why deliveries fail.

    Attributes:
        since_ms: First failure since the last delivery.
        last_ms: Last one.
        attempts: How many.
        reason: Short reason of the last one.
        sink: Where, without its query.
    """

    since_ms: int
    last_ms: int
    attempts: int
    reason: str
    sink: str


class Brief(NamedTuple):
    """How a subscription stands, in short.

    Attributes:
        subscription: Its newest revision.
        word: One word for it.
        standing: Its numbers.
        failing: Why its deliveries fail; None: they do not.
        steering: What people, or the server, have set; None: nothing.
        consents: What is known of its HTTP targets' consent, the sink first; empty where nobody is
            asked. In lists only where ``word`` is that it awaits a consent.
    """

    subscription: StoredSubscription
    word: Word
    standing: Standing
    failing: Failures | None
    steering: Steering | None
    consents: Sequence[TargetConsent] = ()


class RouteState(NamedTuple):
    """Delivery status of a subscription.

    Attributes:
        brief: In short.
        partitions: Its status in each of them, in their order.
        ends: Where the live path of each of them is: a backfill ends there.
        waits_for: What its backfill waits for, in words; empty: nothing.
    """

    brief: Brief
    partitions: list[RouteDeliveries]
    ends: list[int]
    waits_for: str = ""


class Overview(NamedTuple):
    """The numbers of a namespace.

    Attributes:
        namespace: Which.
        wall_ms: When.
        states: Subscriptions and Triggers by their word, without those that are ready.
        waiting: Retry rows.
        in_flight: Attempts under way.
        kept: Kept dead letters.
        kept_bytes: Of their events.
        seconds: Points of the last two minutes, the oldest first.
        minutes: Points of the last hour.
    """

    namespace: str
    wall_ms: int
    states: Counter[Word]
    waiting: int
    in_flight: int
    kept: int
    kept_bytes: int
    seconds: list[Point]
    minutes: list[Point]


class Statuses:
    """Reads the status of subscriptions in all partitions. Blocking; safe from any thread.

    Args:
        store: Resources, consents and what is paused.
        readers: Of the deliveries of each partition, in their order.
        failing: For each partition, the file that lists failing subscriptions.
        watcher: Knows the numbers of each subscription.
        clock: For stamps.
        live: Returns where the live path of a partition is.
        awaited: See ``Runs``.
    """

    def __init__(
        self,
        store: Store,
        readers: Sequence[DeliveryRowsReader],
        failing: Sequence[Path],
        watcher: Watcher,
        *,
        clock: Clock,
        live: Callable[[int], int] = lambda _partition: 0,
        awaited: Awaited = nothing_awaited,
    ) -> None:
        self._store = store
        self._watcher = watcher
        self._readers = readers
        self._failing = failing
        self._clock = clock
        self._live = live
        self._awaited = awaited
        self._kept: dict[str, tuple[float, tuple[int, int]]] = {}

    # -- one subscription ----------------------------------------------------------------------

    def state(self, id_: str, namespace: str = DEFAULT_NAMESPACE) -> RouteState:
        """Delivery status of the subscription with this id.

        Raises:
            NotFoundError: It does not exist in this namespace.
            StoreError: It cannot be read now.
        """
        found = self._store.find(id_, namespace)
        (brief,) = self._briefs([found])
        partitions = [reader.standing(found.uid) for reader in self._readers]
        (consents,) = self._consents([found])
        rows = [row for path in self._failing for row in read_failing(path)]
        # What waits for consent has not failed; the consents tell it, and sooner.
        rows = [row for row in rows if row.route == found.uid and row.reason != AWAITS_CONSENT]
        if rows and found.uid not in self._watcher.standings.over():
            brief = brief._replace(failing=_sum_of(rows))
        tally = brief.standing.tally.copy()
        tally.parked = any(one.parked is not None for one in partitions)
        tally.backfilling = any(one.backfilling for one in partitions)
        tally.waiting = sum(one.waiting for one in partitions)
        awaits = self._awaits(found.uid, tally)
        word = _word(tally, brief.steering, awaits=awaits, fails=brief.failing is not None)
        standing = brief.standing._replace(tally=tally)
        brief = brief._replace(word=word, standing=standing, consents=consents)
        ends = [self._live(number) for number in range(len(self._readers))]
        waits = (
            self._awaited(number, one.backfill_from)
            for number, one in enumerate(partitions)
            if one.backfill_from is not None
        )
        return RouteState(brief, partitions, ends, next(filter(None, waits), ""))

    def _consents(self, found: Sequence[StoredSubscription]) -> list[list[TargetConsent]]:
        """What is known of the consents of the targets of each of these, ``SLICE`` at most."""
        reach = Reach()
        targets = [
            {
                target.key: shown_uri(target.destination.uri)
                for target in targets_of(
                    Listed(one.id, one.revision, restore(one.realized), one.namespace), reach
                )
            }
            for one in found
        ]
        rows = self._store.consents({key for each in targets for key in each})
        return [
            [TargetConsent(sink, rows[key]) for key, sink in each.items() if key in rows]
            for each in targets
        ]

    # -- many ----------------------------------------------------------------------------------

    def briefs(self, found: Sequence[StoredSubscription]) -> list[Brief]:
        """How these subscriptions stand, in their order.

        Raises:
            StoreError: It cannot be read now.
        """
        briefs = self._briefs(found)
        awaiting = [place for place, one in enumerate(briefs) if one.word is Word.AWAITING_CONSENT]
        for first in range(0, len(awaiting), SLICE):
            places = awaiting[first : first + SLICE]
            consents = self._consents([found[place] for place in places])
            for place, known in zip(places, consents, strict=True):
                briefs[place] = briefs[place]._replace(consents=known)
        return briefs

    def _briefs(self, found: Sequence[StoredSubscription]) -> list[Brief]:
        """The same without consents."""
        steering: dict[str, Steering] = {}
        for first in range(0, len(found), SLICE):
            uids = [one.uid for one in found[first : first + SLICE]]
            steering |= self._store.steering(uids)
        return [self._brief(one, steering.get(one.uid)) for one in found]

    def _brief(self, found: StoredSubscription, steering: Steering | None) -> Brief:
        standing = self._watcher.standings.of(found.uid)
        tally, failing = standing.tally, None
        if standing.failing:
            failing = Failures(
                tally.failing_since_ms,
                tally.failing_last_ms,
                tally.failing_count,
                tally.failing_reason,
                self._watcher.sink(found.uid) or shown_uri(restore(found.realized).sink),
            )
        awaits = self._awaits(found.uid, tally)
        word = _word(tally, steering, awaits=awaits, fails=failing is not None)
        return Brief(found, word, standing, failing, steering)

    def _awaits(self, uid: str, tally: Tally) -> bool:
        """Whether what is for the route waits for the consent of a target.

        Owners of partitions hold it back as well where the keeper of consents has not looked yet,
        or never asks.
        """
        agreements = self._watcher.agreements
        return uid in agreements.awaited() or (
            tally.failing_reason == AWAITS_CONSENT and not agreements.agreed(uid)
        )

    def _word_of(self, uid: str, tally: Tally, steering: Steering | None) -> Word:
        return _word(tally, steering, awaits=self._awaits(uid, tally), fails=fails(tally))

    def in_state(
        self, word: Word, namespace: str, limit: int, after: str
    ) -> tuple[list[StoredSubscription], str | None]:
        """Subscriptions that stand so, in the order of ids, after the id *after*.

        Args:
            word: How.
            namespace: Where.
            limit: Most of them, from 1.
            after: Empty: from the first.

        Returns:
            Them, and the id after which to go on; None: there are no more. A call that has looked
            at ``SLICES_MAX`` slices returns what it has found, which may be nothing.

        Raises:
            StoreError: They cannot be read now.
        """
        found: list[StoredSubscription] = []
        slices = self._ids_in_state(word, namespace, after)
        for looked, (ids, last) in enumerate(slices):
            if looked == SLICES_MAX:
                return found, after
            for first in range(0, len(ids), limit + 1):
                stored = self._store.some(ids[first : first + limit + 1], namespace)
                found += [one.subscription for one in self._briefs(stored) if one.word is word]
                if len(found) > limit:
                    return found[:limit], found[limit - 1].id
            after = last
        return found, None

    def _ids_in_state(
        self, word: Word, namespace: str, after: str
    ) -> Iterator[tuple[Sequence[str], str]]:
        """Slices of ids that stand so by what is in memory, and the last id that each covers.

        A hundred thousand that stand otherwise are not read.
        """
        tallies, halted = self._watcher.standings.unresting(), self._watcher.halted()
        restless = tallies.keys() | halted.keys() | self._watcher.agreements.awaited().keys()

        def stands(uid: str) -> bool:
            if uid not in restless:
                return word is Word.READY
            return self._word_of(uid, tallies.get(uid, Tally()), halted.get(uid)) is word

        if word is Word.READY:
            while keys := self._store.keys(after, SLICE, namespace):
                after = keys[-1][0]
                yield [id_ for id_, uid in keys if stands(uid)], after
            return
        names = self._watcher.names()
        ids = sorted(
            name.text
            for uid in restless
            if (name := names.get(uid)) is not None
            and (name.kind, name.namespace) == ("subscription", namespace)
            and name.text > after
            and stands(uid)
        )
        for first in range(0, len(ids), SLICE):
            part = ids[first : first + SLICE]
            yield part, part[-1]

    # -- a namespace ---------------------------------------------------------------------------

    def overview(self, namespace: str = DEFAULT_NAMESPACE) -> Overview:
        """The numbers of a namespace.

        Raises:
            StoreError: They cannot be read now.
        """
        names, halted = self._watcher.names(), self._watcher.halted()
        tallies = self._watcher.standings.unresting()
        states: Counter[Word] = Counter()
        waiting = in_flight = 0
        for uid in tallies.keys() | halted.keys() | self._watcher.agreements.awaited().keys():
            name = names.get(uid)
            if name is None or name.namespace != namespace:
                continue
            tally = tallies.get(uid, Tally())
            waiting, in_flight = waiting + tally.waiting, in_flight + tally.in_flight
            word = self._word_of(uid, tally, halted.get(uid))
            states[word] += word is not Word.READY
        kept, kept_bytes = self._kept_of(namespace)
        seconds, minutes = self._watcher.past(namespace)
        return Overview(
            namespace,
            self._clock.wall_ms(),
            states,
            waiting,
            in_flight,
            kept,
            kept_bytes,
            seconds,
            minutes,
        )

    def _kept_of(self, namespace: str) -> tuple[int, int]:
        now_s = self._clock.monotonic_s()
        looked_s, found = self._kept.get(namespace, (float("-inf"), (0, 0)))
        if now_s - looked_s >= KEPT_S:
            counts = [reader.kept(namespace) for reader in self._readers]
            found = sum(count for count, _ in counts), sum(size for _, size in counts)
            if len(self._kept) >= NAMESPACES_MAX:
                self._kept.clear()
            self._kept[namespace] = now_s, found
        return found


def _word(tally: Tally, steering: Steering | None, *, awaits: bool, fails: bool) -> Word:
    if steering is not None and steering.disabled_ms is not None:
        return Word.DISABLED
    if steering is not None and steering.paused_ms is not None:
        return Word.PAUSED
    if tally.parked:
        return Word.PARKED
    if awaits:
        return Word.AWAITING_CONSENT
    if fails:
        return Word.FAILING
    return Word.LAGGING if tally.backfilling else Word.READY


def _sum_of(rows: Sequence[FailingRoute]) -> Failures:
    last = max(rows, key=lambda row: row.last_ms)
    return Failures(
        min(row.since_ms for row in rows),
        last.last_ms,
        sum(row.count for row in rows),
        last.reason,
        last.dest,
    )
