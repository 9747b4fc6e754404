"""Keeps the consents of HTTP targets: one loop, in the process that leads.

Made by ``server``. It asks each target that a subscription or a Trigger delivers to: before the
first delivery, again before its consent ends, and ever more rarely while there is none. Consents
are stored durably; partition consumers read them, and let deliveries wait without one.

Steps are due by the wall clock, since consent outlives the process; each is looked at again within
``RELOOK_S``, so a clock that was set hides none for longer.
"""

import asyncio
import heapq
import math
import secrets
import traceback
from collections.abc import Callable
from typing import Final, Protocol, TypeVar
from urllib.parse import urlencode

import structlog

from distributary.core.clock import Clock, Random
from distributary.core.deliver import Destination, Endpoint
from distributary.core.errors import StoreError, TransportError
from distributary.core.periodic import finish, keep_looking
from distributary.resource import Reach
from distributary.subscriptions.consent import _steps as steps
from distributary.subscriptions.consent._agreements import Agreements, AwaitedConsent
from distributary.subscriptions.consent._answer import Allowed, Withheld, read_answer
from distributary.subscriptions.consent._asker import OptionsReply, Question
from distributary.subscriptions.consent._line import Line
from distributary.subscriptions.consent._targets import (
    KnownTarget,
    shows_certificates,
    targets_of,
)
from distributary.subscriptions.store import Directory, Listed
from distributary.subscriptions.store.consent_rows import (
    CALLBACKS_MAX,
    NAME_CHARS,
    CallbackKey,
    ConsentRow,
    ConsentRows,
    digest_of,
)

CALLBACK_KEY_MS: Final = 86_400_000
"""How long a callback URL is valid, milliseconds: a day for somebody to find it in a log."""

AGAIN_MS_MIN: Final = 10_000
"""Least time between two questions to one target, however often somebody changes or resumes its
subscription, milliseconds."""

DOUBT_MS: Final = 300_000
"""Least time between two questions because deliveries are refused, milliseconds."""

DOUBTS: Final = frozenset({"status-401", "status-403", "status-405", "status-410"})
"""Answers to deliveries that may mean that the target withdraws its consent: it is asked again."""

KEPT_MS: Final = 3_600_000
"""How long a row without consent outlives its last subscription, milliseconds, so that creating and
deleting subscriptions does not bring a target more questions."""

KEPT_MAX: Final = 10_000
"""Most such rows; the oldest goes first."""

FORGOTTEN_MAX: Final = 1_000
"""Most of them deleted at one look, which holds the store for some milliseconds."""

ASKS_MAX: Final = 64
"""Most looks and questions in flight."""

LOOK_S: Final = 1.0
"""Interval of polling the store for new and changed targets, seconds."""

RELOOK_S: Final = 600.0
"""Longest time between two looks at a row, seconds: the wall clock may have been set."""

CALLBACK_PATH: Final = "/consent"
"""Path of callbacks on this server."""

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")


class Asker(Protocol):
    """Looks at targets, and asks them."""

    async def is_private(self, endpoint: Endpoint) -> bool:
        """Whether all addresses of *endpoint* are private now.

        Raises:
            TransportError: It has none, or one that is not allowed.
        """

    async def ask(self, question: Question) -> OptionsReply:
        """Ask once.

        Raises:
            TransportError: No answer in time, or the address is not allowed.
        """


class ConsentKeeper:
    """Asks targets, and stores what they answer.

    Args:
        rows: The consents; for this object alone.
        directory: The resources; for this object alone.
        asker: Asks.
        endpoint_of: Finds where a destination is; raises ``TransportError``.
        reach: Whom to ask, and as whom.
        agreements: Told which routes wait for a consent; of this keeper alone.
        failing: Returns why routes fail, by uid. Blocks.
        clock: For waits and ends.
        random: For jitter.
        count: Counts looks by result; called with a counter's name and its increase.
    """

    def __init__(
        self,
        rows: ConsentRows,
        directory: Directory,
        asker: Asker,
        endpoint_of: Callable[[Destination], Endpoint],
        reach: Reach,
        *,
        agreements: Agreements,
        failing: Callable[[], dict[str, str]],
        clock: Clock,
        random: Random,
        count: Callable[[str, float], None],
    ) -> None:
        self._rows = rows
        self._directory = directory
        self._asker = asker
        self._endpoint_of = endpoint_of
        self._reach = reach
        self._rule = reach.consent
        self._agreements = agreements
        self._failing = failing
        self._clock = clock
        self._random = random
        self._counter = count
        self._seq = 0
        self._demand_seq: int | None = None
        self._known: dict[str, KnownTarget] = {}
        self._of_route: dict[str, list[str]] = {}
        self._unused: dict[str, ConsentRow] = {}
        self._due: list[tuple[float, str]] = []
        self._line = Line()
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._keys: dict[str, tuple[str, int]] = {}  # callback keys in the clear, by target
        self._blocking = asyncio.Lock()  # one thread at a time may use rows and directory
        self._wake = asyncio.Event()
        for result in ("given", "withheld", "private", "failed"):
            self._count(result, 0)

    async def run(self) -> None:
        """Ask what is due, until cancelled; where nobody is asked, forget all consents."""
        self._agreements.clear()  # of the settings before
        if self._rule.mode == "never":
            try:
                await self._run_blocking(self._rows.clear)
            except StoreError as error:  # nobody reads them: the next start tries again
                _log.warning("consents-not-cleared", reason=str(error))
            return
        try:
            await keep_looking(self.look, self._wake, LOOK_S, self._clock, "consents")
        finally:
            await finish(self._busy.values())

    async def look(self) -> None:
        """Read changes from the store, and look at the targets that are due."""
        try:
            (self._seq, rows), failing = await self._run_blocking(self._read)
        except StoreError as error:
            _log.warning("consents-not-read", reason=str(error))
            return
        for row in rows:
            self._take_row(row)
        await self._take_resources()  # also what a look that failed had read
        self._take_doubts(failing)
        self._take_due()
        self._start()

    async def settle(self) -> None:
        """Wait for the questions in flight."""
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def _read(self) -> tuple[tuple[int, list[ConsentRow]], dict[str, str]]:
        self._directory.refresh()
        return self._rows.changed(self._seq), self._failing()

    # -- what is known ------------------------------------------------------------------------

    def _take_row(self, row: ConsentRow) -> None:
        known = self._known.get(row.target)
        if known is None:
            self._unused[row.target] = row
        elif known.row is None or row.seq > known.row.seq:
            self._change(known, row)
            self._plan(known)

    async def _take_resources(self) -> None:
        changed = self._directory.changed()
        for uid in changed:
            self._take_route(uid)
            self._directory.let_go(uid)  # the server holds all of them once already
        demands = self._directory.demands(self._demand_seq or 0)
        for demand in demands:
            if demand.kind == "resume" and self._demand_seq is not None:
                for key in self._of_route.get(demand.route, ()):
                    self._hurry(self._known[key], asked_for=True)
        self._demand_seq = demands[-1].seq if demands else self._demand_seq or 0
        if changed:
            await self._forget_unused()

    def _take_route(self, uid: str) -> None:
        """Follow the targets of the route *uid*, which was made, changed or deleted."""
        try:
            listed = self._directory.get(uid)
            if isinstance(listed, Listed) and shows_certificates(listed.spec):
                listed = listed._replace(spec=self._directory.spec(uid))
        except StoreError as error:  # nothing is delivered for it either
            _log.warning("consent-target-unread", route=uid, reason=str(error))
            listed = None
        targets = [] if listed is None else targets_of(listed, self._reach)
        before = self._of_route.pop(uid, [])
        for target in targets:
            known = self._known.get(target.key)
            if known is None:
                known = self._known[target.key] = KnownTarget(target)
                known.row = self._unused.pop(target.key, None)
            known.destination = target.destination
            known.users[uid] = target.destination.policy.rate_limit_per_s
            self._plan(known)
            self._hurry(known)  # its owner may have mended it
        keys = dict.fromkeys(target.key for target in targets)
        if keys:
            self._of_route[uid] = list(keys)
        for key in set(before) - keys.keys():
            known = self._known[key]
            del known.users[uid]
            if not known.users:
                del self._known[key]
                self._line.discard(key)
                if known.row is not None:
                    self._unused[key] = known.row
        self._note(uid)

    def _change(self, known: KnownTarget, row: ConsentRow | None) -> None:
        """Note that *row* is what is known of *known*."""
        before, known.row = known.row, row
        if before is None or row is None or before[1:3] != row[1:3]:  # state and origin
            for uid in known.users:
                self._note(uid)

    def _note(self, uid: str) -> None:
        """Note whether the route *uid* waits for a consent."""
        keys = self._of_route.get(uid, ())
        agreed = bool(keys)
        for known in map(self._known.__getitem__, keys):
            row = steps.usable(known.row, self._rule)
            if row is not None and steps.withheld(row):
                awaited = AwaitedConsent(known.shown, row.since_ms)
                self._agreements.note(uid, awaited, agreed=False)
                return
            agreed &= row is not None
        self._agreements.note(uid, None, agreed=agreed)

    def _take_doubts(self, failing: dict[str, str]) -> None:
        """Ask targets again whose answers to deliveries may mean that they do not consent."""
        for uid, reason in failing.items():
            if reason.removeprefix("attempts-used-up: ") in DOUBTS:
                for key in self._of_route.get(uid, ()):
                    self._hurry(self._known[key], doubted=True)

    async def _forget_unused(self) -> None:
        """Delete rows that nobody needs."""
        wall_ms = self._clock.wall_ms()
        gone = [
            row.target
            for row in self._unused.values()
            if wall_ms >= max(row.until_ms, row.asked_ms + KEPT_MS)
        ]
        gone += list(self._unused)[: max(0, len(self._unused) - len(gone) - KEPT_MAX)]
        gone = gone[:FORGOTTEN_MAX]
        if not gone:
            return
        for key in gone:
            self._unused.pop(key, None)
            self._keys.pop(key, None)
        try:
            await self._run_blocking(self._rows.remove, gone)
        except StoreError as error:  # they are small, and found again at the next start
            _log.warning("consents-not-removed", reason=str(error))

    # -- schedule -----------------------------------------------------------------------------

    def _plan(self, known: KnownTarget) -> None:
        """Schedule the next step for *known*, as its row says."""
        row = steps.usable(known.row, self._rule)
        wait_s = 0.0 if row is None else (steps.due_ms(row) - self._clock.wall_ms()) / 1000
        self._schedule(known, min(max(wait_s, 0.0), RELOOK_S))

    def _schedule(self, known: KnownTarget, wait_s: float) -> None:
        known.due_s = self._clock.monotonic_s() + wait_s
        heapq.heappush(self._due, (known.due_s, known.key))

    def _hurry(self, known: KnownTarget, *, doubted: bool = False, asked_for: bool = False) -> None:
        """Look at *known* soon, if it may have changed its mind.

        Args:
            known: The target.
            doubted: It refuses deliveries: it may consent no longer.
            asked_for: Somebody wants to know.
        """
        row = steps.usable(known.row, self._rule)
        if row is None or ((row.state == "given") is not doubted and not asked_for):
            return
        soon_ms = row.asked_ms + (DOUBT_MS if doubted else AGAIN_MS_MIN)
        if soon_ms < row.next_ms:
            known.row = row._replace(next_ms=soon_ms)
            self._plan(known)

    def _take_due(self) -> None:
        """Let all targets that are due wait for a look."""
        now_s, wall_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        while self._due and self._due[0][0] <= now_s:
            due_s, key = heapq.heappop(self._due)
            known = self._known.get(key)
            if known is None or known.due_s != due_s or key in self._line:
                continue  # outdated, or waits for its turn
            if key in self._busy:  # perhaps for a subscription that is deleted by now
                self._schedule(known, LOOK_S)
                continue
            row = steps.usable(known.row, self._rule)
            if row is not None and wall_ms < steps.due_ms(row):
                self._plan(known)
                continue
            known.due_s = math.inf
            self._line.look(key, known.namespace)

    def _start(self) -> None:
        """Start looks and questions while there are places; the end of one wakes the loop."""
        now_s = self._clock.monotonic_s()
        while len(self._busy) < ASKS_MAX and (taken := self._line.take(now_s)) is not None:
            key, asks = taken
            visit = self._visit(self._known[key], paced=asks)
            self._busy[key] = asyncio.create_task(visit, name=f"consent {key}")

    # -- a look, and perhaps a question -------------------------------------------------------

    async def _visit(self, known: KnownTarget, *, paced: bool) -> None:
        try:
            await self._visit_once(known, paced=paced)
        except StoreError as error:  # looked at again when the store works
            _log.warning("consent-not-stored", target=known.shown, reason=str(error))
            self._schedule(known, steps.BACKOFF_MS_FIRST / 1000)
        # A bug in one question must not block this target for ever. Its message is left out: it may
        # quote the target.
        except Exception as error:  # noqa: BLE001 - see above
            frame = traceback.extract_tb(error.__traceback__)[-1]
            bug = f"a bug: {type(error).__name__} in {frame.name}:{frame.lineno}"
            _log.error("consent-not-asked", target=known.shown, reason=bug)
            self._schedule(known, steps.BACKOFF_MS_MAX / 1000)
        finally:
            del self._busy[known.key]
            self._line.end(known.key, asked=paced)
            self._wake.set()

    async def _visit_once(self, known: KnownTarget, *, paced: bool) -> None:
        try:
            endpoint = self._endpoint_of(known.destination)
            private = self._rule.mode == "public" and await self._asker.is_private(endpoint)
        except TransportError as error:
            await self._conclude(known, self._begun(known), error)
            return
        if private:
            await self._conclude(known, self._begun(known), steps.Private())
            return
        if not paced and not self._may_ask(known, endpoint.dialled[0].rstrip(".")):
            return
        row = self._begun(known)
        callback, callbacks = self._callback(row, row.asked_ms)
        # Stored before the question: the target may call back before it answers.
        if await self._store(known, row._replace(callbacks=callbacks)) and known.row is not None:
            row = known.row
            await self._conclude(known, row, await self._ask(known, endpoint, callback))

    def _may_ask(self, known: KnownTarget, host: str) -> bool:
        """Whether *known* may be asked at once; else it waits for its turn."""
        now_s = self._clock.monotonic_s()
        if self._known.get(known.key) is not known:
            return False
        # Whoever changes the subscription meanwhile hurries nothing.
        return self._line.ask(known.key, known.namespace, host, now_s)

    def _begun(self, known: KnownTarget) -> ConsentRow:
        row = known.row or ConsentRow(known.key, "asked", self._rule.origin)
        return steps.begun(row, self._rule, self._clock.wall_ms(), self._random.unit())

    async def _conclude(self, known: KnownTarget, row: ConsentRow, outcome: steps.Outcome) -> None:
        wall_ms, unit = self._clock.wall_ms(), self._random.unit()
        await self._store(known, steps.concluded(row, outcome, wall_ms, unit))
        self._tell(known, outcome)

    async def _ask(
        self, known: KnownTarget, endpoint: Endpoint, callback: str | None
    ) -> steps.Outcome:
        origin = self._rule.origin
        question = Question(endpoint, origin, self._wanted(known), callback)
        try:
            reply = await self._asker.ask(question)
        except TransportError as error:
            return error
        return read_answer(reply.status, reply.fields, origin)

    def _wanted(self, known: KnownTarget) -> int | None:
        """Requests a minute that all subscriptions of *known* want; None: one names no limit."""
        rates = [rate for rate in known.users.values() if rate is not None]
        if not rates or len(rates) < len(known.users):
            return None
        return max(1, math.ceil(sum(rates) * 60 * self._rule.partitions))

    def _callback(
        self, row: ConsentRow, wall_ms: int
    ) -> tuple[str | None, tuple[CallbackKey, ...]]:
        """The callback URL to offer, and the keys that are valid with it."""
        valid = tuple(key for key in row.callbacks if wall_ms < key.until_ms)
        if self._rule.callback_base is None:
            return None, valid
        key, until_ms = self._keys.get(row.target, ("", 0))
        stored = any(each.digest == digest_of(key) for each in valid)
        if not stored or until_ms - wall_ms < CALLBACK_KEY_MS // 2:
            key, until_ms = secrets.token_urlsafe(32), wall_ms + CALLBACK_KEY_MS
            self._keys[row.target] = key, until_ms
            valid = (*valid, CallbackKey(digest_of(key), until_ms))[-CALLBACKS_MAX:]
        url = f"{self._rule.callback_base.rstrip('/')}{CALLBACK_PATH}/{row.target[:NAME_CHARS]}"
        return f"{url}?{urlencode({'key': key})}", valid

    async def _store(self, known: KnownTarget, row: ConsentRow) -> bool:
        """Write *row*; False where a callback came in between: its row is taken instead."""
        stored = await self._run_blocking(self._rows.put, row)
        if stored is None:
            found = await self._run_blocking(self._rows.find, [row.target])
            self._change(known, found.get(row.target))
        else:
            self._change(known, stored)
        if known.key in self._known:
            self._plan(known)
        elif known.row is not None:
            self._unused[known.key] = known.row
        return stored is not None

    def _tell(self, known: KnownTarget, outcome: steps.Outcome) -> None:
        fields: dict[str, object] = {"target": known.shown, "namespace": known.namespace}
        if isinstance(outcome, steps.Private):
            self._count("private")
        elif isinstance(outcome, Allowed):
            self._count("given")
            _log.info("consent-given", **fields, rate_per_min=outcome.rate_per_min)
        elif isinstance(outcome, Withheld):
            self._count("withheld")
            _log.warning("consent-withheld", **fields, reason=outcome.reason)
        else:
            self._count("failed")
            _log.warning("consent-not-answered", **fields, reason=str(outcome))

    async def _run_blocking(self, work: Callable[..., _T], *arguments: object) -> _T:
        async with self._blocking:
            return await asyncio.to_thread(work, *arguments)

    def _count(self, result: str, count: int = 1) -> None:
        self._counter(f'consent_questions_total{{result="{result}"}}', count)
