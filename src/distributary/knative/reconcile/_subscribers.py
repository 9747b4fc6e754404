"""Subscriber lists of Channels: ``spec.subscribers`` and ``status.subscribers``.

Written by the server, for people; routes do not depend on them. The lists of a thousand
Subscriptions have some hundred kilobytes, so one write covers many changes.
"""

import asyncio
from typing import Final, NamedTuple

import msgspec

from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.reconcile._findings import Finding, worst
from distributary.knative.reconcile._routes import RoutePlan

LISTED_BYTES_MAX: Final = 400 * 1024
"""Size of both lists as JSON, bytes: an object may have 1 MiB, and the rest is the client's. Enough
for about 1,000 Subscriptions; further ones work, but are not listed."""

WAIT_S_MIN: Final = 0.05
"""Least interval between writes of one Channel's lists: changes of a moment become one write."""
WAIT_S_PER_SUBSCRIBER: Final = 0.001
"""Interval between writes of one Channel's lists, seconds: longer lists are written less often."""


class SubscriberEntry(NamedTuple):
    """One Subscription in the lists of its Channel.

    Attributes:
        spec: For ``spec.subscribers``.
        status: For ``status.subscribers``.
        bytes_count: Of both as JSON.
    """

    spec: Object
    status: Object
    bytes_count: int


class SubscriberLists(NamedTuple):
    """Both lists of a Channel.

    Attributes:
        spec: ``spec.subscribers``.
        status: ``status.subscribers``.
    """

    spec: list[Object]
    status: list[Object]


def entry_of(
    content: Object, plan: RoutePlan, delivery: Object | None, stands: Finding
) -> SubscriberEntry:
    """Entry of the Subscription *content* in the lists of its Channel.

    Args:
        content: The Subscription.
        plan: Its plan.
        delivery: The ``DeliverySpec`` that applies to it, as written.
        stands: Whether its route is active.
    """
    uid, generation = content["metadata"]["uid"], content["metadata"].get("generation", 1)
    physical = plan.members["physicalSubscription"]
    spec: Object = {"name": content["metadata"]["name"], "uid": uid, "generation": generation}
    spec |= {name: uri for name, uri in physical.items() if not name.startswith("deadLetterSink")}
    if delivery is not None:
        spec["delivery"] = _delivery(delivery, physical)
    ready = worst([*plan.findings.values(), stands])
    status: Object = {
        "uid": uid,
        "generation": generation,
        "observedGeneration": generation,
        "ready": ready.status,
    }
    if ready.message:
        status["message"] = ready.message
    return SubscriberEntry(spec, status, len(msgspec.json.encode((spec, status))))


def _delivery(delivery: Object, physical: Object) -> Object:
    """*delivery* with its dead letter sink as a URI (SHOULD)."""
    if "deadLetterSink" not in delivery:
        return delivery
    return delivery | {"deadLetterSink": {"uri": physical.get("deadLetterSinkUri", "")}}


class Subscribers:
    """The entries of all Channels, and when each Channel is due for a write."""

    def __init__(self) -> None:
        self._entries: dict[Key, dict[Key, SubscriberEntry]] = {}
        self._channel_of: dict[Key, Key] = {}
        self._due: dict[Key, float] = {}

    def note(self, subscription: Key, channel: Key, entry: SubscriberEntry) -> None:
        """Set the *entry* of *subscription* in *channel*, and remove it from any other."""
        if self._channel_of.get(subscription, channel) != channel:
            self.forget(subscription)
        entries = self._entries.setdefault(channel, {})
        self._channel_of[subscription] = channel
        if entries.get(subscription) != entry:
            entries[subscription] = entry
            self.due(channel)

    def forget(self, key: Key) -> None:
        """Remove a Subscription's entry; for a deleted Channel, cancel its write."""
        self._due.pop(key, None)
        channel = self._channel_of.pop(key, None)
        if channel is not None:
            del self._entries[channel][key]
            self.due(channel)

    def due(self, channel: Key, wait_s: float = WAIT_S_MIN) -> None:
        """Write *channel* soon, but not before *wait_s*."""
        wait_s += len(self._entries.get(channel, ())) * WAIT_S_PER_SUBSCRIBER
        self._due.setdefault(channel, _now_s() + wait_s)

    def next_s(self) -> float | None:
        """When the next Channel is due, by the loop's clock; None: none."""
        return min(self._due.values(), default=None)

    def take(self) -> list[Key]:
        """Take the Channels that are due now."""
        now_s = _now_s()
        taken = [channel for channel, due_s in self._due.items() if due_s <= now_s]
        for channel in taken:
            del self._due[channel]
        return taken

    def lists(self, channel: Key) -> SubscriberLists:
        """The lists of *channel*, up to ``LISTED_BYTES_MAX``."""
        room = LISTED_BYTES_MAX
        listed: list[SubscriberEntry] = []
        for _, entry in sorted(self._entries.get(channel, {}).items()):
            room -= entry.bytes_count
            if room < 0:
                break
            listed.append(entry)
        return SubscriberLists([entry.spec for entry in listed], [entry.status for entry in listed])


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def with_lists(content: Object, lists: SubscriberLists) -> Object:
    """The Channel *content* with its lists; *content* itself if they are equal."""
    spec = dict(content.get("spec") or {})
    status = dict(content.get("status") or {})
    _set(spec, "subscribers", lists.spec)
    _set(status, "subscribers", lists.status)
    if spec == (content.get("spec") or {}) and status == (content.get("status") or {}):
        return content
    return {**content, "spec": spec, "status": status}


def _set(members: Object, name: str, value: list[Object]) -> None:
    if value:
        members[name] = value
    else:
        members.pop(name, None)
