"""What the objects of each namespace use, and whether its quotas allow more.

Called by the cache and by transactions, which count changes; so no quota needs a scan.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from distributary.core.quotas import QuotaTable
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.objects._values import Stored
from distributary.knative.kinds import (
    COMPARISONS_MAX,
    EVENT_POLICY,
    POLICIES_MAX,
    POLICY_BYTES_MAX,
    SUBSCRIPTION,
    TRIGGER,
)

_SUBSCRIBING: Final = frozenset((TRIGGER.resource, SUBSCRIPTION.resource))
"""Kinds that count as subscriptions of their namespace."""


class Used(NamedTuple):
    """What a namespace uses.

    Attributes:
        subscriptions: Triggers and messaging Subscriptions.
        size_bytes: Of all objects.
        policies: EventPolicies.
        comparisons: What their filters cost an event at most.
        policy_bytes: Their specs as JSON.
    """

    subscriptions: int = 0
    size_bytes: int = 0
    policies: int = 0
    comparisons: int = 0
    policy_bytes: int = 0

    def plus(self, more: "Used", sign: int = 1) -> "Used":
        """Both together; with *sign* -1 this without *more*."""
        return Used(*(own + sign * one for own, one in zip(self, more, strict=True)))


def _used_by(stored: Stored) -> Used:
    resource = stored.key.resource
    return Used(
        subscriptions=resource in _SUBSCRIBING,
        size_bytes=stored.size_bytes,
        policies=resource == EVENT_POLICY.resource,
        comparisons=stored.cost.comparisons,
        policy_bytes=stored.cost.spec_bytes,
    )


class Usage:
    """Counts by namespace; or changes of such counts."""

    def __init__(self) -> None:
        self._used: dict[str, Used] = {}

    def add(self, stored: Stored, sign: int) -> None:
        """Count an object that appears (*sign* 1) or goes (-1)."""
        namespace = stored.key.namespace
        used = self.of(namespace).plus(_used_by(stored), sign)
        if any(used):
            self._used[namespace] = used
        else:
            self._used.pop(namespace, None)

    def of(self, namespace: str) -> Used:
        """What *namespace* uses."""
        return self._used.get(namespace, Used())


class Quota(NamedTuple):
    """The quotas in force, and what else counts to them.

    Attributes:
        table: Returns the quotas.
        subscriptions: Returns how many subscriptions of the Subscriptions API a namespace has.
            Called in a transaction's thread.
    """

    table: Callable[[], QuotaTable]
    subscriptions: Callable[[str], int]

    def check(self, stored: Stored, before: Stored | None, used: Used) -> None:
        """Check that a client may write *stored* in place of *before*.

        Args:
            stored: The new state.
            before: The old one; None: it is new.
            used: What its namespace uses before the write.

        Raises:
            StatusError: ``Forbidden``, as for a ResourceQuota of Kubernetes.
        """
        own = self.table().of(stored.key.namespace)
        if before is None and own.subscriptions and stored.key.resource in _SUBSCRIBING:
            count = used.subscriptions + self.subscriptions(stored.key.namespace)
            if count >= own.subscriptions:
                raise _exceeded(stored, "subscriptions", 1, count, own.subscriptions)
        grown = _used_by(stored).plus(Used() if before is None else _used_by(before), -1)
        for name, more, has, limit in (
            ("eventpolicies", grown.policies, used.policies, POLICIES_MAX),
            ("eventpolicies.comparisons", grown.comparisons, used.comparisons, COMPARISONS_MAX),
            ("eventpolicies.bytes", grown.policy_bytes, used.policy_bytes, POLICY_BYTES_MAX),
        ):
            # What exceeds a newer limit stays, and may shrink.
            if more > 0 and has + more > limit:
                raise _exceeded(stored, name, more, has, limit)
        size = grown.size_bytes
        if own.stored_bytes and size > 0 and used.size_bytes + size > own.stored_bytes:
            raise _exceeded(stored, "stored_bytes", size, used.size_bytes, own.stored_bytes)


def _exceeded(stored: Stored, name: str, asked: int, used: int, limit: int) -> StatusError:
    key = stored.key
    return StatusError(
        "Forbidden",
        f'{key.resource} "{key.name}" is forbidden: exceeded quota: the namespace {key.namespace},'
        f" requested: {name}={asked}, used: {name}={used}, limited: {name}={limit}",
        name=key.name,
    )
