"""Renews access tokens before they expire: one loop, in the process that leads.

Made by ``server``. What it stores durably, the owners see in the store: no route record is needed.
One refresh of a credential is under way at a time; the last good token stays in use until it
expires, whatever the endpoint does meanwhile.

When a token is due is judged twice: by the wall clock, which says when it expires, and by the
monotonic clock, from its lifetime when it was first seen. Whichever comes first counts, so a
wall clock that is set back lets no token expire unseen, and one that is set forward renews at
once.
"""

import asyncio
import contextlib
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
from distributary.subscriptions.refresh._answer import Refused, Token, TokenReply, read_answer
from distributary.subscriptions.store.credentials_rows import CredentialRows, Held

MARGIN_S_MAX: Final = 300.0
"""A token is renewed at most so long before it expires: time for ten tries."""

MARGIN_SHARE: Final = 0.1
"""Of its lifetime, for tokens that live shorter than 50 minutes."""

MARGIN_JITTER_SHARE: Final = 0.2
"""A margin is lengthened by up to this share, so that tokens which were issued together are not
renewed together."""

REFRESH_S_MIN: Final = 10.0
"""Between two refreshes of one credential. No honest endpoint hands out shorter lives, and each
costs a durable write."""

BACKOFF_S_FIRST: Final = 1.0
"""First wait after a failed refresh; each further one doubles it."""

BACKOFF_S_MAX: Final = 300.0
"""Longest wait between two tries; at once where the refresh token is not taken any more."""

BACKOFF_JITTER_SHARE: Final = 0.2
"""A wait is lengthened by up to this share."""

REFRESHES_MAX: Final = 64
"""Refreshes under way at a time. With answers in 0.1 s that is 640 a second."""

REFRESHES_PER_HOST_MAX: Final = 4
"""Of those at one host: a slow endpoint must not take the places of the others."""

LOOK_S: Final = 1.0
"""Between two looks at what has changed: a new credential is known so soon."""

JUDGE_S_MAX: Final = 30.0
"""Every token is judged anew so often at least: the wall clock may have jumped."""

STOP_S: Final = 2.0
"""Longest wait at a stop for refreshes under way: what endpoints have handed out is stored."""

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")


class TokenEndpoint(Protocol):
    """Trades refresh tokens for access tokens."""

    async def trade(self, uri: str, refresh_token: str) -> TokenReply:
        """One request to the endpoint at *uri*; any answer, whatever its status.

        Raises:
            TransportError: No whole answer came in time, or the address is not allowed.
        """


@dataclass(slots=True)
class _Plan:
    """When a credential is to be renewed.

    Attributes:
        held: As the store had it.
        host: Of its endpoint.
        wall_due_ms: Due when the wall clock shows this.
        due_s: Due at this monotonic time at the latest.
        not_before_s: Not tried before this monotonic time.
        failures: In a row.
    """

    held: Held
    host: str
    wall_due_ms: float
    due_s: float
    not_before_s: float = 0.0
    failures: int = 0

    def next_s(self, now_s: float, wall_ms: int) -> float:
        """Monotonic time at which it is to be tried."""
        by_wall_s = now_s + (self.wall_due_ms - wall_ms) / 1000
        return max(self.not_before_s, min(self.due_s, by_wall_s))


class Refresher:
    """Keeps the access tokens of all ``REFRESHTOKEN`` credentials fresh.

    Args:
        rows: The credentials.
        endpoint: Asks token endpoints.
        clock: For waits and expiries.
        random: For jitter.
        count: Counts refreshes by result: takes the name of a counter and how far it rises.
    """

    def __init__(
        self,
        rows: CredentialRows,
        endpoint: TokenEndpoint,
        clock: Clock,
        random: Random,
        *,
        count: Callable[[str, float], None],
    ) -> None:
        self._rows = rows
        self._endpoint = endpoint
        self._clock = clock
        self._random = random
        self._counter = count
        self._seq = 0
        self._plans: dict[str, _Plan] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        # By uid, what came of a refresh that could not be stored yet: the credential that was
        # traded in, and the new one. The old refresh token may be worth nothing by now, also to
        # a revision that came meanwhile and has kept it: so this outlives plans.
        self._unsaved: dict[str, tuple[Credential, Credential]] = {}
        self._hosts: dict[str, int] = {}
        self._judge_s = 0.0
        self._blocking = asyncio.Lock()  # the rows are for one thread at a time
        self._wake = asyncio.Event()
        for result in ("refreshed", "failed", "superseded"):
            self._count(result, 0)

    async def run(self) -> None:
        """Seal anew what an old key has sealed, then look after tokens until cancelled."""
        await self._reseal()
        try:
            while True:
                await self.look()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), LOOK_S)
                self._wake.clear()
        finally:
            if self._busy:
                _, late = await asyncio.wait(self._busy.values(), timeout=STOP_S)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)

    async def look(self) -> None:
        """Take note of what has changed, and start the refreshes that are due."""
        try:
            newest, changed = await self._run_blocking(self._changed)
        except StoreError as error:
            _log.warning("credentials-not-read", reason=str(error))
            return
        self._seq = newest
        for held, credential in changed:
            self._plan(held, credential)
        now_s = self._clock.monotonic_s()
        if changed or now_s >= self._judge_s:
            self._start_due(now_s, self._clock.wall_ms())

    async def settle(self) -> None:
        """Wait for the refreshes under way."""
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
        except StoreError as error:  # the old key is as good as before; the next start tries again
            _log.warning("credentials-not-resealed", reason=str(error))
        if total:
            _log.info("credentials-resealed", count=total)

    # -- when ---------------------------------------------------------------------------------

    def _plan(self, held: Held, credential: Credential | None) -> None:
        """Set out when *credential* is to be renewed; what was planned before is void."""
        old = self._plans.pop(held.uid, None)
        if credential is None or not credential.refreshable:
            self._unsaved.pop(held.uid, None)
            return
        now_s, wall_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        left_s = ((credential.access_token_expires_ms or 0) - wall_ms) / 1000
        margin_s = min(MARGIN_S_MAX, MARGIN_SHARE * max(left_s, 0.0))
        margin_s *= 1.0 + MARGIN_JITTER_SHARE * self._random.unit()
        plan = _Plan(
            held,
            urlsplit(credential.refresh_token_endpoint or "").netloc,
            wall_due_ms=wall_ms + (left_s - margin_s) * 1000,
            due_s=now_s + max(left_s - margin_s, 0.0),
        )
        if held.uid in self._unsaved:
            plan.due_s = now_s
        elif old is not None and old.held.revision == held.revision:
            # Its own renewal: a token that lives for a moment must not keep us busy.
            plan.not_before_s = now_s + REFRESH_S_MIN
        self._plans[held.uid] = plan
        self._judge_s = 0.0

    def _start_due(self, now_s: float, wall_ms: int) -> None:
        self._judge_s = now_s + JUDGE_S_MAX
        for uid, plan in self._plans.items():
            if uid in self._busy:
                continue
            next_s = plan.next_s(now_s, wall_ms)
            if next_s > now_s:
                self._judge_s = min(self._judge_s, next_s)
            elif len(self._busy) >= REFRESHES_MAX:
                return  # whoever ends wakes the loop
            elif self._hosts.get(plan.host, 0) < REFRESHES_PER_HOST_MAX:
                self._hosts[plan.host] = self._hosts.get(plan.host, 0) + 1
                task = asyncio.create_task(self._refresh(plan), name=f"refresh {uid}")
                self._busy[uid] = task

    def _wait(self, plan: _Plan, *, for_good: bool) -> float:
        """Put the next try of *plan* off; seconds until then."""
        plan.failures += 1
        wait_s = BACKOFF_S_MAX
        if not for_good:
            wait_s = min(BACKOFF_S_FIRST * 2.0 ** min(plan.failures - 1, 30), BACKOFF_S_MAX)
        wait_s *= 1.0 + BACKOFF_JITTER_SHARE * self._random.unit()
        plan.not_before_s = self._clock.monotonic_s() + wait_s
        return wait_s

    # -- how ----------------------------------------------------------------------------------

    async def _refresh(self, plan: _Plan) -> None:
        uid = plan.held.uid
        try:
            await self._trade(plan)
        except (StoreError, TransportError) as error:
            self._failed(plan, str(error))
        # A bug met in one refresh must not keep this credential busy for ever. Its message is left
        # out: it may hold what the endpoint wrote.
        except Exception as error:  # noqa: BLE001 - see above
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self._failed(plan, f"a bug: {type(error).__name__} in {frame.name}:{frame.lineno}")
        finally:
            del self._busy[uid]
            self._hosts[plan.host] -= 1
            if not self._hosts[plan.host]:
                del self._hosts[plan.host]
            if uid in self._unsaved and uid in self._plans:  # also where that is another plan
                self._plans[uid].due_s = self._clock.monotonic_s()
            self._judge_s = 0.0
            self._wake.set()

    async def _trade(self, plan: _Plan) -> None:
        uid = plan.held.uid
        if uid not in self._unsaved:
            held = await self._run_blocking(self._rows.find, uid)
            if held is None or held.sealed != plan.held.sealed:
                # Deleted, or replaced: then the next look brings what stands now.
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
        # The next look brings the new row, and with it the new plan.
        plan.not_before_s = self._clock.monotonic_s() + REFRESH_S_MIN
        _log.info("credential-refreshed", id=plan.held.id, uid=uid)

    async def _plan_anew(self, plan: _Plan) -> None:
        """Set out what stands now, where *plan* is of something else and the newest known."""
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
    """*used* with the new token. It lives from the request on: what its way took is lost."""
    return dataclasses.replace(
        used,
        access_token=token.access_token,
        access_token_expires_ms=asked_ms + int(token.lifetime_s * 1000),
        refresh_token=token.refresh_token or used.refresh_token,
    )
