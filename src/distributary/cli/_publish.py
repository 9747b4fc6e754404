"""Publishes requests to a server; repeats each until it is acknowledged, refused or given up.

At least once: a request without a response is sent again, so the server may store an event
twice; the ledger names the events for which that is possible.

Callers: ``send``, the demo. Hides: retries, rate, the number of connections.
"""

import asyncio
import email.utils
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol

import msgspec

from distributary.cli._http import Response
from distributary.cli._outgoing import Envelope, canonical_attributes
from distributary.cli.ledger import Sent, State, data_sha256
from distributary.core.clock import Clock, Random
from distributary.core.errors import TransportError

NEVER_LEFT = frozenset({"refused", "dns", "tls", "blocked-address"})
"""Reasons of ``TransportError`` after which the server cannot have received the event."""

WORTH_REPEATING = frozenset({429, 502, 503, 504})
"""Statuses that mean "not now". The server's own 503 is a refusal; 502 and 504 come from an
intermediary, which does not know the result of the request."""

GIVE_UP_S = 30.0
"""Default time during which a request is repeated, seconds."""

FIRST_WAIT_S = 0.1
"""First wait, seconds, doubled each time: most refusals are of one busy moment."""
WAIT_S_MAX = 5.0
"""Longest backoff, seconds: sending should resume soon after an operator restarts a server."""


class Sends(Protocol):
    """The part of a connection that publishing needs."""

    async def request_raw(self, method: str, path: str, lines: bytes, body: bytes) -> Response:
        """Send a request; one response, or ``TransportError``."""


class PublishResult(NamedTuple):
    """The result of one request.

    Attributes:
        envelope: The request.
        state: What is known of its events.
        response: The last response; None: none.
        error: Why the last attempt had no response; None where it had one.
        ambiguous: Attempts before the last whose events may have been stored.
        attempts: Their number, from 1.
    """

    envelope: Envelope
    state: State
    response: Response | None
    error: TransportError | None
    ambiguous: int
    attempts: int


def wait_s(attempt: int, retry_after: str | None, draw: float, wall_ms: int) -> float:
    """Seconds to wait after *attempt* failed.

    Doubles from 0.1 to 5 s, less up to half of it at random (so that many senders spread out).
    ``Retry-After`` only lengthens the wait.

    Args:
        attempt: Number of the attempt that failed, from 1.
        retry_after: Value of ``Retry-After``: seconds or an HTTP date; anything else is ignored.
        draw: Chance, ``0.0 <= draw < 1.0``.
        wall_ms: Wall clock, milliseconds; for dates.
    """
    own = min(WAIT_S_MAX, FIRST_WAIT_S * 2.0 ** min(attempt - 1, 10)) * (1.0 - draw / 2.0)
    return max(own, _asked_s(retry_after, wall_ms))


def _asked_s(retry_after: str | None, wall_ms: int) -> float:
    if not retry_after:
        return 0.0
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        return email.utils.parsedate_to_datetime(retry_after).timestamp() - wall_ms / 1000
    except (ValueError, OverflowError):
        return 0.0


class Publisher:
    """Sends requests over one connection, each until its result is known."""

    def __init__(
        self,
        connection: Sends,
        path: str,
        *,
        clock: Clock,
        random: Random,
        give_up_s: float = GIVE_UP_S,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        on_silence: Callable[[TransportError], object] = lambda _error: None,
    ) -> None:
        """Send over *connection*.

        No attempt of a request begins later than *give_up_s* after its first.

        *on_silence* is called for each attempt without a response that is repeated.
        """
        self._connection = connection
        self._path = path
        self._give_up_s = give_up_s
        self._clock = clock
        self._random = random
        self._sleep = sleep
        self._on_silence = on_silence
        self.under_way: Envelope | None = None
        """The request that is being sent, and whose result is unknown."""

    async def publish(self, envelope: Envelope) -> PublishResult:
        """Send *envelope* until it is acknowledged, refused for good, or time is up."""
        self.under_way = envelope
        published = await self._until_known(envelope)
        self.under_way = None
        return published

    async def _until_known(self, envelope: Envelope) -> PublishResult:
        started_s = self._clock.monotonic_s()
        ambiguous = 0
        attempt = 0
        while True:
            attempt += 1
            response, error = await self._attempt(envelope)
            if response is not None and response.status not in WORTH_REPEATING:
                # The page of a proxy to sign in, or of another web server, acknowledges nothing.
                acked = response.good and not response.is_page
                state: State = "acked" if acked else "refused"
                return PublishResult(envelope, state, response, None, ambiguous, attempt)
            unsure = _may_be_stored(response, error)
            asked = response.headers.get("retry-after") if response is not None else None
            wait = wait_s(attempt, asked, self._random.unit(), self._clock.wall_ms())
            if self._clock.monotonic_s() + wait - started_s > self._give_up_s:
                state = "unknown" if unsure or ambiguous else "refused"
                return PublishResult(envelope, state, response, error, ambiguous, attempt)
            ambiguous += unsure
            if error is not None:
                self._on_silence(error)
            await self._sleep(wait)

    async def _attempt(self, envelope: Envelope) -> tuple[Response | None, TransportError | None]:
        try:
            answer = await self._connection.request_raw(
                "POST", self._path, envelope.lines, envelope.body
            )
        except TransportError as error:
            return None, error
        return answer, None


def _may_be_stored(response: Response | None, error: TransportError | None) -> bool:
    """Whether a failed attempt may still have left its events in the log."""
    if response is not None:
        return response.status in {502, 504}
    assert error is not None
    return error.reason not in NEVER_LEFT


def ledger_lines(published: PublishResult, wall_ms: int) -> list[Sent]:
    """Return one ledger line for each event of a request."""
    status = published.response.status if published.response is not None else None
    return [
        Sent(
            id=attributes["id"],
            source=attributes["source"],
            state=published.state,
            t=wall_ms,
            attributes=attributes,
            data_sha256=data_sha256(event.data),
            status=status,
            ambiguous=published.ambiguous,
        )
        for event in published.envelope.events
        for attributes in (canonical_attributes(event),)
    ]


async def publish_all(
    envelopes: AsyncIterator[Envelope],
    publishers: list[Publisher],
    on_published: Callable[[PublishResult], None],
) -> None:
    """Send all *envelopes*, as many at a time as there are *publishers*.

    Reads at most twice as many requests ahead, so an endless input needs bounded memory.
    """
    queue: asyncio.Queue[Envelope | None] = asyncio.Queue(2 * len(publishers))

    async def work(publisher: Publisher) -> None:
        while (envelope := await queue.get()) is not None:
            on_published(await publisher.publish(envelope))

    async with asyncio.TaskGroup() as group:
        for publisher in publishers:
            group.create_task(work(publisher))
        async for envelope in envelopes:
            await queue.put(envelope)
        for _ in publishers:
            await queue.put(None)


def problem_of(published: PublishResult) -> tuple[str, list[object]]:
    """Return a headline and the faults for a request that was not acknowledged."""
    if published.response is None:
        return (f"no answer ({published.error})", [])
    try:
        problem = msgspec.json.decode(published.response.body, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = {}
    faults = problem.get("faults")
    headline = problem.get("detail") or problem.get("title") or published.response.brings
    return f"{published.response.status} {headline}", faults if isinstance(faults, list) else []
