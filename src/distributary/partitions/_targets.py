"""Targets and route history, read from the resource store that the control process writes."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.core.engine.ports import RouteTarget
from distributary.core.errors import StoreError
from distributary.core.flow import TTL_DEFAULT, Demand, RouteRecord
from distributary.core.policy import DeliveryPolicy
from distributary.core.sqlite import sqlite_url
from distributary.datadir import WriteSigns
from distributary.partitions.ports import Job
from distributary.resource import Reach
from distributary.routes import RouteChanges, RouteEndpoint, RouteSettings
from distributary.subscriptions.resource import ApiSubscriptionSpec, DeadLetterSpec
from distributary.subscriptions.service import PROTOCOLS_ABSENT, route_policy
from distributary.subscriptions.store import Directory, Keys, Listed, ListedRoute, News, Sealer

ALONE_COUNT_MAX = 64
"""With more resources than this, several sinks are assumed without a check."""

NAMESPACE = "default"
"""Namespace of the subscriptions of the API, which name none."""

UNREADABLE_POLICY = DeliveryPolicy(retry=1000, backoff_delay_s=1.0, backoff_max_s=300.0)
"""Retries of a subscription that cannot be read, and so has no known policy: three days in which
the operator can repair it without a loss."""


class DirectoryTargets:
    """``Targets`` and ``RouteHistory`` over the store at *path*; for one thread at a time.

    ``read`` and the methods of ``RouteHistory`` may run concurrently with the others.

    Caches a destination for each revision and each renewal of its credential: transports cache
    what they derive by the destination's identity.

    A resource that cannot be read, or whose credential cannot be decrypted, has a target whose
    attempts fail with the reason and are retried. One such row does not stop the others.

    Args:
        path: The store.
        keys: Decrypt credentials; None: the key file beside the store.
        report: Takes a line for people about each such target: (event, fields).
    """

    def __init__(
        self,
        path: Path,
        keys: Keys | None = None,
        report: Callable[[str, dict[str, object]], None] = lambda _event, _fields: None,
    ) -> None:
        self._signs = WriteSigns(path)
        self._directory = Directory(sqlite_url(path), None if keys is None else Sealer(keys))
        self._report = report
        self._reach = Reach()
        self._history = RouteChanges(sqlite_url(path))
        self._targets: dict[str, RouteTarget] = {}
        self._changed: set[str] = set()
        self._alone: dict[str, bool] = {}

    def refresh(self) -> bool:
        """Read and apply changes; True where there were some."""
        if not self._directory.refresh():
            return False
        self._follow()
        return True

    def may_have_news(self) -> bool:
        """Whether the store may have been written since the last call."""
        return self._signs.look()

    def read(self) -> Job | None:
        """Read changes; returns a job that applies them, or None. Blocks: call it in a thread."""
        news = self._directory.read()
        return None if news is None else partial(self._take, news)

    def _take(self, news: News) -> None:
        self._directory.take(news)
        self._follow()

    def end(self, route: str) -> None:
        """Remove the target of *route*, whose deletion the log has reached."""
        self._directory.end(route)
        self._follow()

    def sees(self, seq: int) -> bool:
        """Whether change *seq* has been applied."""
        return self._directory.seq >= seq

    def _follow(self) -> None:
        """Drop cached targets of outdated revisions."""
        self._alone.clear()
        renewed = self._directory.renewed()
        for route in self._directory.changed() | renewed:
            target = self._targets.get(route)
            if target is None:
                continue
            if self._directory.revision(route) != target.revision or route in renewed:
                ways = (target.sink, target.dead_letter, target.reply)
                self._changed.update(way.queue for way in ways if way is not None)
                del self._targets[route]

    def all_go_to(self, uri: str) -> bool:
        """Whether every resource has the sink *uri*, so that waiting for it delays no other."""
        alone = self._alone.get(uri)
        if alone is None:
            alone = len(self._directory) <= ALONE_COUNT_MAX and all(
                target is None or target.sink.queue == uri
                for target in map(self.get, self._directory.uids())
            )
            self._alone[uri] = alone
        return alone

    def demands(self, after_seq: int) -> list[Demand]:
        """Returns the operators' requests with a number above *after_seq*, in order."""
        return self._directory.demands(after_seq)

    def changed_uris(self) -> list[str]:
        """Returns sinks changed since the last call, whose queued tasks may need another queue."""
        changed, self._changed = self._changed, set()
        return sorted(changed)

    def get(self, route: str) -> RouteTarget | None:
        """Returns the target of a route; None: its resource is deleted, or not read yet."""
        target = self._targets.get(route)
        if target is None:
            revision = self._directory.revision(route)
            if revision is None:
                return None
            target = self._targets[route] = self._make(route, revision)
        return target

    def _make(self, route: str, revision: int) -> RouteTarget:
        try:
            listed = self._directory.get(route)
            assert listed is not None
        except StoreError as error:
            return self._unusable(_unreadable(route, revision), str(error), route)
        if isinstance(listed, ListedRoute):
            return _route_target(listed)
        try:
            spec = self._directory.spec(route)
        except StoreError as error:
            # Its dead letters would go out with masks in place of their own secrets.
            target = self._unusable(
                _target(route, listed, listed.spec, None, self._reach), str(error), route
            )
            dead = target.dead_letter and dataclasses.replace(
                target.dead_letter, unusable=target.sink.unusable
            )
            return dataclasses.replace(target, dead_letter=dead)
        try:
            target = _target(route, listed, spec, self._directory.credential(route), self._reach)
        except StoreError as error:
            return self._unusable(
                _target(route, listed, spec, None, self._reach), str(error), route
            )
        absent = PROTOCOLS_ABSENT.get(listed.spec.protocol)
        return target if absent is None else self._unusable(target, absent, route)

    def _unusable(self, target: RouteTarget, reason: str, route: str) -> RouteTarget:
        self._report("subscription-unusable", {"route": route, "reason": reason})
        sink = dataclasses.replace(target.sink, unusable=reason)
        return dataclasses.replace(target, sink=sink)

    def last_seq(self) -> int:
        """Returns the last change whose record is in every partition."""
        return self._history.last_seq()

    def newest_seq(self) -> int:
        """Returns the last change made, whether or not its record is in the log yet."""
        return self._history.newest_seq()

    def report_to(self, report: Callable[[str, dict[str, object]], None]) -> None:
        """Change the receiver of lines for people."""
        self._report = report

    def keep_within(self, reach: Reach) -> None:
        """Change where events may be sent."""
        if reach != self._reach:
            self._reach = reach
            self._targets.clear()

    def between(self, after_seq: int, before_seq: int) -> list[RouteRecord]:
        """Returns changes with ``after_seq < seq < before_seq``, in order."""
        return self._history.between(after_seq, before_seq)

    def close(self) -> None:
        """Close the store."""
        self._directory.close()
        self._history.close()


def _unreadable(route: str, revision: int) -> RouteTarget:
    """Returns a placeholder target of a resource whose sink is unknown."""
    return RouteTarget(revision, Destination(f"unreadable:{route}", policy=UNREADABLE_POLICY), None)


def _route_target(listed: ListedRoute) -> RouteTarget:
    settings = listed.settings
    policy = route_policy(settings)
    sink = _endpoint(settings.sink, policy, settings)
    reply, dead = settings.reply, settings.dead_letter
    return RouteTarget(
        listed.revision,
        dataclasses.replace(
            sink,
            unusable=settings.unusable,
            refused=settings.refused,
            wants_reply=settings.wants_reply,
        ),
        None if dead is None else _endpoint(dead, policy, settings),
        reply=None if reply is None else _endpoint(reply, policy, settings),
        reply_kept=settings.reply_kept,
        namespace=settings.namespace,
        name=settings.name,
    )


def _endpoint(
    endpoint: RouteEndpoint, policy: DeliveryPolicy, settings: RouteSettings
) -> Destination:
    return Destination(
        uri=endpoint.uri,
        format=settings.format,
        policy=policy,
        dial=endpoint.dial,
        own=endpoint.own,
        ca_certs=endpoint.ca_certs,
        namespace=settings.namespace,
    )


def _target(
    route: str,
    listed: Listed,
    spec: ApiSubscriptionSpec,
    credential: Credential | None,
    reach: Reach,
) -> RouteTarget:
    dead = spec.dead_letter
    sink = _destination(spec, route, reach)
    return RouteTarget(
        listed.revision,
        # For its own sink alone: a dead letter sink never gets it (decision 10).
        dataclasses.replace(sink, credential=credential),
        None if dead is None else _destination(dead, f"{route} dead letters", reach),
        spec.config.events_max,
        parks=True,
        namespace=NAMESPACE,
        name=listed.id,
    )


def _destination(
    spec: ApiSubscriptionSpec | DeadLetterSpec, paced_by: str, reach: Reach
) -> Destination:
    """Returns the destination of *spec*, without its credential."""
    rule = reach.rule()
    back = spec.protocol == "HTTP" and rule.own.takes_events(spec.sink)
    own = back and rule.own_allowed
    return Destination(
        uri=spec.sink,
        protocol=spec.protocol,
        settings=spec.settings,
        format=spec.format,
        policy=spec.policy,
        unusable=PROTOCOLS_ABSENT.get(spec.protocol),
        ca_certs=spec.ca_certs,
        paced_by=paced_by,
        dial=rule.own.dial if own else None,
        own=own,
        passes=reach.pass_cost(TTL_DEFAULT) if own else 0,
        refused=rule.sink_refusal(spec.protocol, spec.sink, takes_events=back),
    )
