"""Reports failing deliveries: a condition on the object and a Kubernetes ``Event``.

The owners of partitions write failing routes to small files (``outcome.write_failing``), which are
read here every two seconds. While an object keeps failing, its report changes at most once a
minute, whatever its count; that a target has to consent, or no longer, is reported at once.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

import msgspec

from distributary.core.clock import Clock
from distributary.core.deliver.consent import AWAITS_CONSENT
from distributary.core.outcome import FailingRoute, read_failing
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.apiserver.objects import timestamp
from distributary.knative.kinds import EVENT
from distributary.knative.reconcile._findings import HOLDS, Finding

LOOK_S: Final = 2.0
"""Interval between reads of the files, seconds."""

TELL_AGAIN_MS: Final = 60_000
"""Interval between reports of a route that keeps failing, milliseconds: each report is a write, and
a thousand routes may fail at once."""

_HOLDS: Final = HOLDS._replace(severity="Warning")
_UID_CHARS: Final = 16


class FailureFiles:
    """The failure files of all partitions. Blocking; for one thread at a time.

    Args:
        paths: One for each partition; files may be missing.
        over: Returns the routes that deliver again in another partition: they do not fail.
        awaited: Returns the routes that wait for a consent, by uid: of which sink, and since when,
            wall clock, milliseconds. What is told of them is this, whatever the files say.
            The same object until it changes.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        over: Callable[[], AbstractSet[str]] = frozenset,
        awaited: Callable[[], Mapping[str, tuple[str, int]]] = dict,
    ) -> None:
        self._paths = list(paths)
        self._over = over
        self._awaited = awaited
        self._seen: tuple[object, ...] | None = None

    def look(self) -> dict[str, FailingRoute] | None:
        """Failing routes of all partitions, by uid; None: nothing has changed."""
        over, awaited = self._over(), self._awaited()
        seen = [_version(path) for path in self._paths], over, awaited
        if seen == self._seen:
            return None
        self._seen = seen
        found: dict[str, FailingRoute] = {}
        for path in self._paths:
            for route in read_failing(path):
                if route.route in over:
                    continue
                other = found.get(route.route)
                found[route.route] = route if other is None else _both(route, other)
        return found | {
            uid: _awaiting(uid, sink, since_ms, found.get(uid))
            for uid, (sink, since_ms) in awaited.items()
        }


class Failures:
    """The failing routes last reported.

    Args:
        clock: Its monotonic clock paces reports.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[str, FailingRoute] = {}
        self._told: dict[str, FailingRoute] = {}
        self._again_s: dict[str, float] = {}  # from when on each may be reported again
        self._untold: set[str] = set()

    def news(
        self, found: dict[str, FailingRoute] | None, concerned: Callable[[str], bool]
    ) -> list[str]:
        """Uids whose report changes now.

        Args:
            found: Failing routes by uid; None: as at the last call.
            concerned: Whether the route of a uid belongs to a Trigger or Subscription.
        """
        now_s, found = self._clock.monotonic_s(), self._found if found is None else found
        self._found = found
        news = [uid for uid in self._told if uid not in found]
        for uid in news:
            self.forget(uid)
        for uid, failing in found.items():
            told = self._told.get(uid)
            waits = now_s < self._again_s.get(uid, now_s) and not _turned(told, failing)
            known = told == failing and uid not in self._untold
            if known or waits or not concerned(uid):
                continue
            self._untold.discard(uid)
            self._told[uid], self._again_s[uid] = failing, now_s + TELL_AGAIN_MS / 1000
            news.append(uid)
        return news

    def forget(self, uid: str) -> None:
        """Drop the report of a deleted object."""
        self._told.pop(uid, None)
        self._again_s.pop(uid, None)
        self._untold.discard(uid)

    def tell_again(self, uid: str) -> None:
        """Report *uid* once more, though it may not change: its event could not be stored."""
        if uid in self._told:
            self._untold.add(uid)

    def get(self, uid: str) -> FailingRoute | None:
        """The report of the route *uid*; None: it is not failing."""
        return self._told.get(uid)

    def finding(self, uid: str) -> Finding:
        """Finding for the condition. Only a warning: the route is active and ready."""
        failing = self._told.get(uid)
        if failing is None:
            return _HOLDS
        if failing.reason == AWAITS_CONSENT:
            since = timestamp(failing.since_ms)
            message = f"since {since} {failing.dest} has not consented; what is for it waits"
        else:
            message = f"since {timestamp(failing.since_ms)} to {failing.dest}: {failing.reason}"
        return Finding("False", _reason(failing), message, "Warning")


def _turned(told: FailingRoute | None, failing: FailingRoute) -> bool:
    """Whether *failing* waits for another consent than was *told*, or for one and not the other.

    Somebody may look for just that, and consents change rarely.
    """
    awaited = [
        one.dest if one is not None and one.reason == AWAITS_CONSENT else None
        for one in (told, failing)
    ]
    return awaited[0] != awaited[1]


def _reason(failing: FailingRoute) -> str:
    return "AwaitingConsent" if failing.reason == AWAITS_CONSENT else "DeliveryFailed"


def event_key(about: Key, uid: str) -> Key:
    """Key of the single ``Event`` about failing deliveries of an object."""
    name = f"{about.name}.{uid.replace('-', '')[:_UID_CHARS]}"
    return Key(EVENT.resource, about.namespace, name)


def event_of(key: Key, about: Object, failing: FailingRoute) -> Callable[[Object | None], Object]:
    """The change that creates the ``Event`` *key*, or updates it."""
    metadata = about["metadata"]
    told: Object = {
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": "Warning",
        "reason": _reason(failing),
        "message": (
            f"{failing.dest} has not consented to deliveries; what is for it waits"
            if failing.reason == AWAITS_CONSENT
            else f"deliveries to {failing.dest} fail: {failing.reason}"
        ),
        "source": {"component": "distributary"},
        "firstTimestamp": timestamp(failing.since_ms),
        "lastTimestamp": timestamp(failing.last_ms),
        "count": max(1, failing.count),
    }

    def change(before: Object | None) -> Object:
        if before is None:
            named = {"name": key.name, "namespace": key.namespace}
            return {"apiVersion": "v1", "kind": EVENT.kind, "metadata": named, **told}
        return before | told

    return change


def _awaiting(uid: str, sink: str, since_ms: int, failing: FailingRoute | None) -> FailingRoute:
    """What is told of a route that waits for the consent of *sink*."""
    last_ms, count = (since_ms, 0) if failing is None else (failing.last_ms, failing.count)
    return FailingRoute(
        route=uid, since_ms=since_ms, last_ms=last_ms, count=count, reason=AWAITS_CONSENT, dest=sink
    )


def _both(one: FailingRoute, other: FailingRoute) -> FailingRoute:
    newer = max(one, other, key=lambda failing: failing.last_ms)
    since_ms, count = min(one.since_ms, other.since_ms), one.count + other.count
    return msgspec.structs.replace(newer, since_ms=since_ms, count=count)


def _version(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
