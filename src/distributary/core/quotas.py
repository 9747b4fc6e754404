"""Quotas of tenants: how much of the server a namespace may use. Pure.

Callers: the settings make a ``QuotaTable``; the store, the receivers and the owners ask it.
"""

from typing import Final

import msgspec

from distributary.core.errors import RequestError


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one namespace; 0 sets none.

    Attributes:
        subscriptions: Live subscriptions, those of Knative's kinds included.
        stored_bytes: Bytes of them, as stored.
        timer_events_per_s: Timer events of all timers together, a second.
        calls_per_s: Requests to the APIs, a second.
        events_per_s: Events published, a second.
        event_bytes_per_s: Bytes of requests that publish, a second.
        dead_letter_bytes: Kept dead letters, bytes; the oldest beyond are given up.
        pinned_log_bytes: Log that its backfills and retries keep from retention, bytes; the oldest
            matches beyond become kept dead letters.
    """

    subscriptions: int = 0
    stored_bytes: int = 0
    timer_events_per_s: float = 0.0
    calls_per_s: float = 0.0
    events_per_s: float = 0.0
    event_bytes_per_s: float = 0.0
    dead_letter_bytes: int = 0
    pinned_log_bytes: int = 0


NO_QUOTAS: Final = Quotas()


class QuotaTable(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of every namespace.

    Attributes:
        others: Of each namespace that has none of its own.
        named: By namespace.
    """

    others: Quotas = NO_QUOTAS
    named: dict[str, Quotas] = {}

    def of(self, namespace: str) -> Quotas:
        """The quotas of *namespace*."""
        return self.named.get(namespace, self.others)


class RateBucket:
    """Tokens that return at a rate: a second's worth may be used at once.

    What is taken may exceed what is there, once: the debt is waited for. So a batch larger than a
    second's worth is not refused for ever.

    Args:
        rate_per_s: Tokens that return in a second, above 0.
        now_s: Monotonic time.
    """

    __slots__ = ("_at_s", "_tokens", "rate_per_s")

    def __init__(self, rate_per_s: float, now_s: float) -> None:
        assert rate_per_s > 0.0
        self.rate_per_s = rate_per_s
        self._tokens = max(1.0, rate_per_s)
        self._at_s = now_s

    def ready(self, now_s: float) -> bool:
        """Whether something may be taken: a whole token is there."""
        returned = (now_s - self._at_s) * self.rate_per_s
        self._at_s = now_s
        self._tokens = min(max(1.0, self.rate_per_s), self._tokens + returned)
        return self._tokens >= 1.0

    def take(self, count: float) -> None:
        """Take *count* tokens, also more than are there."""
        self._tokens -= count


def rate_exceeded(namespace: str, name: str, rate_per_s: float) -> RequestError:
    """The error of a request beyond the rate *name* of *namespace*."""
    return RequestError(
        "quota-exceeded",
        f"The namespace {namespace} has used up its quota {name} = {rate_per_s:.12g}, over all"
        " clients. Retry in a second.",
    )
