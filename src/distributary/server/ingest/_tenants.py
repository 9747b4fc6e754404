"""What each namespace publishes and asks, counted and held within its quotas.

Callers: ``_context`` for each event and request, ``_server`` for new paths and settings; the
control process for requests over AMQP. For the event loop's thread alone. Quotas hold over all of
them: each takes from its own buckets what the others have admitted, with a delay of ``LOOK_S``.
"""

from collections.abc import Callable, Mapping
from typing import Final

from distributary.core.errors import RequestError
from distributary.core.quotas import QuotaTable, RateBucket, rate_exceeded
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.datadir import TenantCounts, Used
from distributary.server.ingest._event_paths import namespaces_of

LOOK_S: Final = 0.05
"""Interval at which a bucket looks at what the others have admitted: between two looks all of them
together may exceed a rate by so much of a second."""

METERS_MAX: Final = 10_000
"""Most namespaces whose use is counted: as many as have subscriptions."""


class _Limit:
    """One rate of a namespace."""

    __slots__ = ("_looked_s", "bucket", "name", "used")

    def __init__(self, name: str, used: Used, rate_per_s: float, now_s: float) -> None:
        self.name = name
        self.used = used
        self.bucket = RateBucket(rate_per_s, now_s)
        self._looked_s = now_s

    def ready(self, now_s: float, elsewhere: Callable[[Used], int] | None) -> bool:
        if elsewhere is not None and now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self.bucket.take(elsewhere(self.used))
        return self.bucket.ready(now_s)


class TenantMeter:
    """What one namespace uses.

    Attributes:
        events: Events admitted.
        bytes: Of their requests.
        limited: Whether it has any quota.
        refused: Requests refused, by the name of the quota.
    """

    __slots__ = ("_limits", "_namespace", "_use", "bytes", "events", "limited", "refused")

    def __init__(self, namespace: str, counts: TenantCounts) -> None:
        self._namespace = namespace
        self._use = counts.of(namespace)
        self._limits: dict[Used, _Limit] = {}
        self.limited = False
        self.events = 0
        self.bytes = 0
        self.refused: dict[str, int] = {}

    def limit(self, quotas: QuotaTable, now_s: float) -> None:
        """Hold the namespace within *quotas* from now on; unchanged ones go on."""
        own = quotas.of(self._namespace)
        for used, name, rate in (
            (Used.EVENTS, "events_per_s", own.events_per_s),
            (Used.BYTES, "event_bytes_per_s", own.event_bytes_per_s),
            (Used.CALLS, "calls_per_s", own.calls_per_s),
        ):
            before = self._limits.get(used)
            if not rate:
                self._limits.pop(used, None)
            elif before is None or before.bucket.rate_per_s != rate:
                self._limits[used] = _Limit(name, used, rate, now_s)
        self.limited = bool(self._limits)

    def over(self, now_s: float, *what: Used) -> _Limit | None:
        """The quota among *what* that is used up; None: none is."""
        elsewhere = None if self._use is None else self._use.taken_elsewhere
        for used in what:
            limit = self._limits.get(used)
            if limit is not None and not limit.ready(now_s, elsewhere):
                return limit
        return None

    def refuse(self, limit: _Limit) -> RequestError:
        """Count a refusal; returns its error."""
        self.refused[limit.name] = self.refused.get(limit.name, 0) + 1
        return rate_exceeded(self._namespace, limit.name, limit.bucket.rate_per_s)

    def take(self, used: Used, count: int) -> None:
        """Count *count* as admitted."""
        limit = self._limits.get(used)
        if limit is not None:
            limit.bucket.take(count)
            if self._use is not None:
                self._use.add(used, count)


class Tenants:
    """The meters of all namespaces that publish here.

    Args:
        now_s: Monotonic clock.
        counts: What all receivers use together.

    Attributes:
        by_address: Meters by the address of events. Without the namespace ``default``, unless it
            has a quota: so nothing is looked up for most events.
        by_namespace: The same by name.
        calls_limited: Whether any namespace has a quota of calls.
    """

    __slots__ = (
        "_counts",
        "_namespaces",
        "_now_s",
        "_quotas",
        "by_address",
        "by_namespace",
        "calls_limited",
    )

    def __init__(self, now_s: Callable[[], float], counts: TenantCounts) -> None:
        self._now_s = now_s
        self._counts = counts
        self._quotas = QuotaTable()
        self._namespaces = namespaces_of({})
        self.calls_limited = False
        self.by_address: dict[str, TenantMeter] = {}
        self.by_namespace: dict[str, TenantMeter] = {}

    def learn(self, paths: Mapping[str, str]) -> None:
        """Replace the addresses.

        Args:
            paths: Address by path: ``brokers/{namespace}/{name}``, ``namespaces/{namespace}/...``.
        """
        self._namespaces = namespaces_of(paths)
        self._renew()

    def change(self, quotas: QuotaTable) -> None:
        """Replace the quotas."""
        if quotas != self._quotas:
            self._quotas = quotas
            every = (quotas.others, *quotas.named.values())
            self.calls_limited = any(one.calls_per_s for one in every)
            now_s = self._now_s()
            for meter in self.by_namespace.values():
                meter.limit(quotas, now_s)
            self._renew()

    def _renew(self) -> None:
        self.by_address = {
            address: meter
            for address, namespace in self._namespaces.items()
            if (meter := self.meter(namespace)) is not None
            and (meter.limited or namespace != DEFAULT_NAMESPACE)
        }

    def meter(self, namespace: str) -> TenantMeter | None:
        """The meter of *namespace*; None: too many are counted already."""
        meter = self.by_namespace.get(namespace)
        if meter is None and len(self.by_namespace) >= METERS_MAX:
            # Who only asks gives way: a namespace to which somebody can publish has a meter.
            used = set(self.by_address.values())
            kept = {name: one for name, one in self.by_namespace.items() if one in used}
            self.by_namespace = kept
        if meter is None and len(self.by_namespace) < METERS_MAX:
            meter = self.by_namespace[namespace] = TenantMeter(namespace, self._counts)
            meter.limit(self._quotas, self._now_s())
        return meter

    def admits(self, address: str) -> bool:
        """Whether an event may be published to *address*; counts nothing."""
        meter = self.by_address.get(address)
        if meter is None or not meter.limited:
            return True
        return meter.over(self._now_s(), Used.EVENTS, Used.BYTES) is None

    def check_events(self, address: str) -> None:
        """Check that events may be published to *address*.

        Raises:
            RequestError: A quota of its namespace is used up.
        """
        meter = self.by_address.get(address)
        if meter is not None:
            limit = meter.over(self._now_s(), Used.EVENTS, Used.BYTES)
            if limit is not None:
                raise meter.refuse(limit)

    def take_events(self, address: str, events: int, size: int) -> None:
        """Count events that are admitted."""
        meter = self.by_address.get(address)
        if meter is not None:
            meter.events += events
            meter.bytes += size
            if meter.limited:
                meter.take(Used.EVENTS, events)
                meter.take(Used.BYTES, size)

    def take_call(self, namespace: str) -> None:
        """Count a call of the APIs in *namespace*.

        Raises:
            RequestError: The quota of the namespace is used up.
        """
        meter = self.meter(namespace) if self.calls_limited else None
        if meter is None:
            return
        limit = meter.over(self._now_s(), Used.CALLS)
        if limit is not None:
            raise meter.refuse(limit)
        meter.take(Used.CALLS, 1)
