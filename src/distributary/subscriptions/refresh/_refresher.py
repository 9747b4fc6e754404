"""Renews access tokens before they expire: one loop, in the process that leads.

Made by ``server``. It stores tokens durably, where partition consumers read them; no route record
is needed. One refresh of a credential runs at a time; the last good token stays in use until it
expires, whatever the endpoint does.

A token is due by the earlier of two clocks: the wall clock, against its expiry, and the monotonic
clock, by its lifetime since it was first seen. So a wall clock that is set back hides no expiry,
and one that is set forward renews at once.
"""

import asyncio
import dataclasses
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

import structlog

from distributary.core.clock import Clock, Random
from distributary.core.deliver.credential import Credential
from distributary.core.errors import StoreError, TransportError
from distributary.core.periodic import finish, keep_looking
from distributary.core.turns import AT_ONCE, NEVER, Turns
from distributary.subscriptions.refresh._answer import Refused, Token, TokenReply, read_answer
from distributary.subscriptions.store.credentials_rows import CredentialRows, Held

MARGIN_S_MAX: Final = 300.0
"""Longest time before expiry at which a token is renewed, seconds: time for ten tries."""

MARGIN_SHARE: Final = 0.1
"""Share of its lifetime, for tokens of less than 50 minutes."""

MARGIN_JITTER_SHARE: Final = 0.2
"""A margin is lengthened by up to this share, so that tokens which were issued together are not
renewed together."""

REFRESH_S_MIN: Final = 10.0
"""Least time between two refreshes of one credential, seconds. No honest endpoint issues shorter
lifetimes, and each refresh costs a durable write."""

BACKOFF_S_FIRST: Final = 1.0
"""First wait after a failed refresh; each further one doubles it."""

BACKOFF_S_MAX: Final = 300.0
"""Longest wait between two tries, seconds; used at once for a refresh token that was refused."""

BACKOFF_JITTER_SHARE: Final = 0.2
"""A wait is lengthened by up to this share, at random."""

REFRESHES_MAX: Final = 64
"""Most refreshes in flight. With responses in 0.1 s that is 640 a second."""

REFRESHES_PER_HOST_MAX: Final = 4
"""Of those at one host, whatever ports are named there: a slow endpoint must not take the places of
the others."""

LOOK_S: Final = 1.0
"""Interval of polling the store for new and changed credentials, seconds."""

JUDGE_S_MAX: Final = 30.0
"""Longest time between two checks of each token, seconds: the wall clock may have jumped."""

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")


class TokenEndpoint(Protocol):
    """Trades refresh tokens for access tokens."""

    async def trade(self, uri: str, refresh_token: str) -> TokenReply:
        """Send one request to the endpoint at *uri*; returns a response of any status.

        Raises:
            TransportError: No complete response in time, or the address is not allowed.
        """


@dataclass(slots=True)
class _Plan:
    """Schedule of one credential.

    Attributes:
        held: As read from the store.
        host: Of its endpoint, without the port.
        wall_due_ms: Due at this wall clock time.
        due_s: Due at this monotonic time at the latest.
        not_before_s: No try before this monotonic time.
        failures: In a row.
    """

    held: Held
    host: str
    wall_due_ms: float
    due_s: float
    not_before_s: float = 0.0
    failures: int = 0

    def next_s(self, now_s: float, wall_ms: int) -> float:
        """Monotonic time of its next try."""
        by_wall_s = now_s + (self.wall_due_ms - wall_ms) / 1000
        return max(self.not_before_s, min(self.due_s, by_wall_s))


class Refresher:
    """Keeps the access tokens of all ``REFRESHTOKEN`` credentials fresh.

    Args:
        rows: The credentials.
        endpoint: Trades refresh tokens.
        clock: For waits and expiries.
        random: For jitter.
        count: Counts refreshes by result; called with a counter's name and its increase.
        may_have_news: Whether the store may have changed since its last call: cheap.
    """

    def __init__(
        self,
        rows: CredentialRows,
        endpoint: TokenEndpoint,
        clock: Clock,
        random: Random,
        *,
        count: Callable[[str, float], None],
        may_have_news: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_have_news = may_have_news
        self._unread = True
        self._rows = rows
        self._endpoint = endpoint
        self._clock = clock
        self._random = random
        self._counter = count
        self._seq = 0
        self._plans: dict[str, _Plan] = {}
        self._turns = Turns()
        self._busy: dict[str, asyncio.Task[None]] = {}
        # By uid, refreshes that could not be stored yet: the credential that was used, and the new
        # one. The old refresh token may be void by now, also for a later revision that kept it: so
        # this outlives plans.
        self._unsaved: dict[str, tuple[Credential, Credential]] = {}
        self._hosts: dict[str, int] = {}
        self._judge_s = 0.0
        self._blocking = asyncio.Lock()  # one thread at a time may use the rows
        self._wake = asyncio.Event()
        for result in ("refreshed", "failed", "superseded"):
            self._count(result, 0)

    async def run(self) -> None:
        """Reseal what an old key has sealed, then refresh tokens until cancelled."""
        await self._reseal()
        try:
            await keep_looking(self.look, self._wake, LOOK_S, self._clock, "access-tokens")
        finally:
            await finish(self._busy.values())

    async def look(self) -> None:
        """Read changes, if there may be some, and start the refreshes that are due."""
        self._unread |= self._may_have_news()
        if self._unread:
            try:
                newest, changed = await self._run_blocking(self._changed)
            except StoreError as error:
                _log.warning("credentials-not-read", reason=str(error))
                return
            for held, credential in changed:
                self._plan(held, credential)
            self._seq, self._unread = newest, False  # last: a look that fails is made again
        now_s = self._clock.monotonic_s()
        if now_s >= self._judge_s:
            self._judge(now_s, self._clock.wall_ms())
        self._start()

    async def settle(self) -> None:
        """Wait for the refreshes in flight."""
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def _changed(self) -> tuple[int, list[tuple[Held, Credential | None]]]:
        newest, changed = self._rows.changed(self._seq)
        return newest, [(held, self._open(held)) for held in changed]

    def _open(self, held: Held) -> Credential | None:
        try:
            return self._rows.open(held)
        except StoreError as error:
            _log.warning("credential-not-opened", id=held.id, uid=held.uid, reason=str(error))
            return None

    async def _reseal(self) -> None:
        after: str | None = ""
        total = 0
        try:
            while after is not None:
                count, after = await self._run_blocking(self._rows.reseal, after)
                total += count
        # Nothing of it may keep tokens from being renewed: the old key still works, and the next
        # start tries again.
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning("credentials-not-resealed", reason=str(error) or repr(error))
        if total:
            _log.info("credentials-resealed", count=total)

    # -- schedule -----------------------------------------------------------------------------

    def _plan(self, held: Held, credential: Credential | None) -> None:
        """Schedule *credential*'s renewal; replaces its earlier plan."""
        old = self._plans.pop(held.uid, None)
        self._turns.discard(held.uid)
        if credential is None or not credential.refreshable:
            self._unsaved.pop(held.uid, None)
            return
        now_s, wall_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        left_s = ((credential.access_token_expires_ms or 0) - wall_ms) / 1000
        margin_s = min(MARGIN_S_MAX, MARGIN_SHARE * max(left_s, 0.0))
        margin_s *= 1.0 + MARGIN_JITTER_SHARE * self._random.unit()
        plan = _Plan(
            held,
            (urlsplit(credential.refresh_token_endpoint or "").hostname or "").rstrip("."),
            wall_due_ms=wall_ms + (left_s - margin_s) * 1000,
            due_s=now_s + max(left_s - margin_s, 0.0),
        )
        if held.uid in self._unsaved:
            plan.due_s = now_s
        elif old is not None and old.held.revision == held.revision:
            # Our own renewal: a token with a tiny lifetime must not keep us busy.
            plan.not_before_s = now_s + REFRESH_S_MIN
        self._plans[held.uid] = plan
        self._judge_s = min(self._judge_s, plan.next_s(now_s, wall_ms))

    def _judge(self, now_s: float, wall_ms: int) -> None:
        """Let all that is due wait for a place, the longest overdue first."""
        self._judge_s = now_s + JUDGE_S_MAX
        due: list[tuple[float, str]] = []
        for uid, plan in self._plans.items():
            if uid in self._busy or uid in self._turns:
                continue
            next_s = plan.next_s(now_s, wall_ms)
            if next_s > now_s:
                self._judge_s = min(self._judge_s, next_s)
            else:
                due.append((next_s, uid))
        for _, uid in sorted(due, key=lambda one: one[0]):
            self._turns.put(uid, self._plans[uid].held.namespace, self._plans[uid].host)

    def _start(self) -> None:
        """Start refreshes while there are places; the end of one wakes the loop."""
        while len(self._busy) < REFRESHES_MAX:
            uid = self._turns.take(self._free_s)
            if uid is None:
                return
            plan = self._plans[uid]
            self._hosts[plan.host] = self._hosts.get(plan.host, 0) + 1
            task = asyncio.create_task(self._refresh(plan), name=f"refresh {uid}")
            self._busy[uid] = task

    def _free_s(self, host: str) -> float:
        return AT_ONCE if self._hosts.get(host, 0) < REFRESHES_PER_HOST_MAX else NEVER

    def _wait(self, plan: _Plan, *, for_good: bool) -> float:
        """Postpone the next try of *plan*; returns the wait, seconds."""
        plan.failures += 1
        wait_s = BACKOFF_S_MAX
        if not for_good:
            wait_s = min(BACKOFF_S_FIRST * 2.0 ** min(plan.failures - 1, 30), BACKOFF_S_MAX)
        wait_s *= 1.0 + BACKOFF_JITTER_SHARE * self._random.unit()
        plan.not_before_s = self._clock.monotonic_s() + wait_s
        return wait_s

    # -- refresh ------------------------------------------------------------------------------

    async def _refresh(self, plan: _Plan) -> None:
        uid = plan.held.uid
        try:
            await self._trade(plan)
        except (StoreError, TransportError) as error:
            self._failed(plan, str(error))
        # A bug in one refresh must not block this credential for ever. Its message is left out: it
        # may quote the endpoint.
        except Exception as error:  # noqa: BLE001 - see above
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self._failed(plan, f"a bug: {type(error).__name__} in {frame.name}:{frame.lineno}")
        finally:
            del self._busy[uid]
            self._turns.end(uid)
            self._hosts[plan.host] -= 1
            if not self._hosts[plan.host]:
                del self._hosts[plan.host]
            now_s, current = self._clock.monotonic_s(), self._plans.get(uid)  # or another plan
            if current is not None:
                if uid in self._unsaved:
                    current.due_s = now_s
                next_s = current.next_s(now_s, self._clock.wall_ms())
                self._judge_s = min(self._judge_s, next_s)
            self._wake.set()

    async def _trade(self, plan: _Plan) -> None:
        uid = plan.held.uid
        if uid not in self._unsaved:
            held = await self._run_blocking(self._rows.find, uid)
            if held is None or held.sealed != plan.held.sealed:
                # Deleted, or replaced: the next look reads the current row.
                if self._plans.get(uid) is plan:
                    del self._plans[uid]
                return
            used = await self._run_blocking(self._rows.open, held)
            assert used.refresh_token is not None
            assert used.refresh_token_endpoint is not None
            asked_ms = self._clock.wall_ms()
            reply = await self._endpoint.trade(used.refresh_token_endpoint, used.refresh_token)
            answer = read_answer(reply)
            if isinstance(answer, Refused):
                self._failed(plan, answer.reason, for_good=answer.for_good)
                return
            self._unsaved[uid] = used, _renewed(used, answer, asked_ms)
        used, renewed = self._unsaved[uid]
        stored = await self._run_blocking(self._rows.renew, uid, used, renewed)
        self._unsaved.pop(uid, None)
        self._count("refreshed" if stored else "superseded")
        if not stored:
            await self._plan_anew(plan)
            return
        plan.failures = 0
        # The next look reads the new row, and makes a new plan.
        plan.not_before_s = self._clock.monotonic_s() + REFRESH_S_MIN
        _log.info("credential-refreshed", id=plan.held.id, uid=uid)

    async def _plan_anew(self, plan: _Plan) -> None:
        """Schedule the current credential, unless *plan* has been replaced meanwhile."""
        held = await self._run_blocking(self._rows.find, plan.held.uid)
        credential = None if held is None else await self._run_blocking(self._open, held)
        if self._plans.get(plan.held.uid) is plan:
            self._plan(held or plan.held, credential)

    async def _run_blocking(self, work: Callable[..., _T], *arguments: object) -> _T:
        async with self._blocking:
            return await asyncio.to_thread(work, *arguments)

    def _failed(self, plan: _Plan, reason: str, *, for_good: bool = False) -> None:
        self._count("failed")
        wait_s = self._wait(plan, for_good=for_good)
        advice = "; send the subscription with a new refresh token" if for_good else ""
        _log.warning(
            "credential-not-refreshed",
            id=plan.held.id,
            uid=plan.held.uid,
            reason=reason + advice,
            failures=plan.failures,
            wait_s=round(wait_s, 1),
        )

    def _count(self, result: str, count: int = 1) -> None:
        self._counter(f'credential_refreshes_total{{result="{result}"}}', count)


def _renewed(used: Credential, token: Token, asked_ms: int) -> Credential:
    """*used* with the new token, whose lifetime counts from the request: transit time is lost."""
    return dataclasses.replace(
        used,
        access_token=token.access_token,
        access_token_expires_ms=asked_ms + int(token.lifetime_s * 1000),
        refresh_token=token.refresh_token or used.refresh_token,
    )
