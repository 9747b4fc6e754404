"""Targets and route history, read from the resource store that the control process writes."""

import dataclasses
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial

import sqlalchemy as sa

from distributary.access.internal import InternalKey
from distributary.core.clock import Clock, SystemClock
from distributary.core.deliver import Destination, signed
from distributary.core.deliver.broker_settings import SinkSettings
from distributary.core.deliver.credential import Credential
from distributary.core.deliver.origins import origin_of
from distributary.core.deliver.signing import SigningKeys
from distributary.core.demand import Demand
from distributary.core.engine.ports import RouteTarget
from distributary.core.errors import SettingsError, StoreError
from distributary.core.flow import TTL_DEFAULT, RouteRecord
from distributary.core.policy import DeliveryPolicy
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.datadir.shared_signs import signs_of
from distributary.partitions._consents import Consents
from distributary.partitions._issuing import DeliveryTokens
from distributary.partitions._kept_secrets import KeptNews, KeptSecrets
from distributary.partitions._secrets import Secrets, Texts
from distributary.partitions.ports import Job
from distributary.resource import Reach
from distributary.routes import RouteChanges, RouteEndpoint, RouteSettings
from distributary.subscriptions.resource import (
    ApiSubscriptionSpec,
    DeadLetterSpec,
    sends_credential,
)
from distributary.subscriptions.service import PROTOCOLS_ABSENT
from distributary.subscriptions.store import (
    Directory,
    Keys,
    Listed,
    ListedRoute,
    News,
    Sealer,
    sealer_beside,
)
from distributary.subscriptions.store.consent_rows import ConsentRow

ALONE_COUNT_MAX = 64
"""With more resources than this, several sinks are assumed without a check."""

WAYS_KNOWN_MAX = 10_000
"""Destinations remembered to be shared, some 10 MB: as many as the HTTP transport remembers."""

UNREADABLE_POLICY = DeliveryPolicy(retry=1000, backoff_delay_s=1.0, backoff_max_s=300.0)
"""Retries of a subscription that cannot be read, and so has no known policy: three days in which
the operator can repair it without a loss."""


class DirectoryTargets:
    """``Targets`` and ``RouteHistory`` over the store at *url*; for one thread at a time.

    ``read`` and the methods of ``RouteHistory`` may run concurrently with the others.

    Caches a destination for each revision and each renewal of its credential: transports cache
    what they derive by the destination's identity.

    A resource that cannot be read, or whose credential cannot be decrypted, has a target whose
    attempts fail with the reason and are retried. One such row does not stop the others.

    Args:
        url: ``sqlite_url`` or ``database_url`` of the store.
        keys: Decrypt credentials; None: the key file beside the store.
        internal: Signs what goes to this server's own receiver; None: it goes unsigned.
        warn: Takes a line for people about each such target: (event, fields).
        clock: For the ends of consents, and for the tokens of deliveries.
    """

    def __init__(
        self,
        url: sa.URL,
        keys: Keys | None = None,
        warn: Callable[[str, dict[str, object]], None] = lambda _event, _fields: None,
        *,
        internal: InternalKey | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._internal = internal
        self._may_be_written = signs_of(url)
        self._directory = Directory(url, None if keys is None else Sealer(keys))
        self._warn = warn
        self._reach = Reach()
        clock = clock or SystemClock()
        self._consents = Consents(url, clock)
        self._tokens = DeliveryTokens(
            clock, lambda reason: self._warn("issuer-keys-unusable", {"reason": reason})
        )
        self._secrets = Secrets(clock)
        sealer = Sealer(keys) if keys is not None else sealer_beside(url)
        self._kept = KeptSecrets(url, sealer)
        self._history = RouteChanges(url)
        self._targets: dict[str, RouteTarget] = {}
        self._changed: set[str] = set()
        self._alone: dict[str, bool] = {}
        self._ways: dict[Destination, Destination] = {}

    def count(self) -> int:
        """Returns the number of resources, as of the last ``refresh``."""
        return len(self._directory)

    def refresh(self) -> bool:
        """Read and apply changes; True where there were some."""
        job = self.read()
        if job is not None:
            job()
        return job is not None

    def may_have_news(self) -> bool:
        """Whether the store may have been written since the last call."""
        return self._may_be_written() or self._secrets.due() or self._tokens.due()

    def read(self) -> Job | None:
        """Read changes; returns a job that applies them, or None. Blocks: call it in a thread."""
        news = self._directory.read()
        anew = news is not None and (news.opened or news.everything)
        consents, kept = self._consents.read(anew=anew), self._kept.read(anew=anew)
        texts = self._secrets.read()
        if (news, consents, texts, kept) == (None,) * 4 and not self._tokens.due():
            return None
        return partial(self._take, news, consents, texts, kept)

    def _take(
        self,
        news: News | None,
        consents: tuple[int, list[ConsentRow]] | None,
        texts: Texts | None,
        kept: KeptNews | None,
    ) -> None:
        if news is not None:
            self._directory.take(news)
        anew = news is not None and (news.opened or news.everything)
        concerned = set() if consents is None else self._consents.take(consents, anew=anew)
        concerned |= set() if texts is None else self._secrets.take(texts)
        concerned |= set() if kept is None else self._kept.take(kept)
        self._follow(concerned | self._tokens.take_due())

    def end(self, route: str) -> None:
        """Remove the target of *route*, whose deletion the log has reached."""
        self._directory.end(route)
        self._tokens.forget(route)
        self._secrets.forget(route)
        self._kept.forget(route)
        self._follow()

    def sees(self, seq: int) -> bool:
        """Whether change *seq* has been applied."""
        return self._directory.seq >= seq

    def _follow(self, concerned: AbstractSet[str] = frozenset()) -> None:
        """Drop cached targets of outdated revisions, and *concerned* ones (a consent, a token)."""
        self._alone.clear()
        renewed = self._directory.renewed() | concerned
        for route in self._directory.changed() | renewed:
            target = self._targets.get(route)
            if target is None:
                continue
            if self._directory.revision(route) != target.revision or route in renewed:
                ways = (target.sink, target.dead_letter, target.reply)
                self._changed.update(way.queue for way in ways if way is not None)
                del self._targets[route]
                self._consents.forget(route)

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

    def halted(self) -> frozenset[str]:
        """Returns the routes to which nothing is sent; the same object until there are others."""
        return self._directory.halted()

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
            target = self._agreed(route, self._signed(self._make(route, revision)))
            self._targets[route] = target
        return target

    def _make(self, route: str, revision: int) -> RouteTarget:
        try:
            listed = self._directory.get(route)
            assert listed is not None
        except StoreError as error:
            return self._unusable(_unreadable(route, revision), str(error), route)
        if isinstance(listed, ListedRoute):
            target = self._identified(route, listed.settings, _route_target(listed))
            return self._credited(route, listed.settings, target)
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
            credential = self._directory.credential(route)
        except StoreError as error:
            return self._unusable(
                _target(route, listed, spec, None, self._reach), str(error), route
            )
        withheld = None
        try:
            credential = credential and self._secrets.resolve(
                route, listed.namespace, credential, spec.ca_certs
            )
        except StoreError as error:  # the operator mends it: what is for the sink waits till then
            credential, withheld = None, str(error)
            self._warn("subscription-unusable", {"route": route, "reason": withheld})
        target = _target(route, listed, spec, credential, self._reach)
        if withheld is not None:
            sink = dataclasses.replace(target.sink, refused=withheld)
            target = dataclasses.replace(target, sink=sink)
        absent = PROTOCOLS_ABSENT.get(listed.spec.protocol)
        return target if absent is None else self._unusable(target, absent, route)

    def _signed(self, target: RouteTarget) -> RouteTarget:
        """*target*, whose destinations at our own receiver say on whose behalf they publish."""
        namespace = target.namespace
        if self._internal is None or namespace is None:
            return target
        token = self._internal.token(namespace)
        return _with_ways(target, lambda way: signed(way, token))

    def _identified(self, route: str, settings: RouteSettings, target: RouteTarget) -> RouteTarget:
        """*target*, whose destinations with an audience are shown a token for it."""
        subject = settings.subject
        if subject is None or not self._tokens.issuing:
            return target

        def shown(way: Destination, endpoint: RouteEndpoint | None) -> Destination:
            if endpoint is None or endpoint.audience is None or way.own:
                return way
            try:
                token = self._tokens.credential(route, subject, endpoint.audience)
            except SettingsError as error:
                self._warn("subscription-unusable", {"route": route, "reason": str(error)})
                return dataclasses.replace(way, unusable=way.unusable or str(error))
            return dataclasses.replace(_guarded(way, self._reach), credential=token)

        dead, reply = target.dead_letter, target.reply
        return dataclasses.replace(
            target,
            sink=shown(target.sink, settings.sink),
            dead_letter=None if dead is None else shown(dead, settings.dead_letter),
            reply=None if reply is None else shown(reply, settings.reply),
        )

    def _credited(self, route: str, settings: RouteSettings, target: RouteTarget) -> RouteTarget:
        """*target* with what the Secrets hold that its object names."""
        found = self._kept.resolve(route, settings, target)
        if found.sink.refused != target.sink.refused:
            self._warn("subscription-unusable", {"route": route, "reason": found.sink.refused})
        if found.sink.credential is not target.sink.credential:
            found = dataclasses.replace(found, sink=_guarded(found.sink, self._reach))
        return found

    def _agreed(self, route: str, target: RouteTarget) -> RouteTarget:
        """*target*, with the consent of each of its destinations."""
        namespace = target.namespace or DEFAULT_NAMESPACE

        def agreed(way: Destination) -> Destination:
            never_sent = way.unusable or way.refused  # and the reason for that is the one to tell
            if way.protocol != "HTTP" or way.own or never_sent is not None:
                return way
            consent = self._consents.of(route, namespace, way.uri, way.dial)
            return way if consent is None else dataclasses.replace(way, consent=consent)

        return _with_ways(target, lambda way: self._common(agreed(way)))

    def _common(self, way: Destination) -> Destination:
        """One object for all destinations that equal *way*, which transports then find at once.

        Not of what holds a secret, or has a rate of its own.
        """
        if way.credential or way.client_certificate or way.signing or way.queue != way.sink_queue:
            return way
        if len(self._ways) >= WAYS_KNOWN_MAX:
            self._ways.clear()
        return self._ways.setdefault(way, way)

    def _unusable(self, target: RouteTarget, reason: str, route: str) -> RouteTarget:
        self._warn("subscription-unusable", {"route": route, "reason": reason})
        sink = dataclasses.replace(target.sink, unusable=reason)
        return dataclasses.replace(target, sink=sink)

    def last_seq(self) -> int:
        """Returns the last change whose record is in every partition."""
        return self._history.last_seq()

    def newest_seq(self) -> int:
        """Returns the last change made, whether or not its record is in the log yet."""
        return self._history.newest_seq()

    def warn_to(self, warn: Callable[[str, dict[str, object]], None]) -> None:
        """Change the receiver of lines for people."""
        self._warn = warn

    def keep_within(self, reach: Reach) -> None:
        """Change where events may be sent."""
        if reach != self._reach:
            self._reach = reach
            self._consents.follow(reach.consent)
            self._secrets.follow(reach.secrets)
            self._targets.clear()

    def issue_as(self, issuer: str, key_file: str) -> None:
        """Show destinations with an audience a token of *issuer*, signed by a key of *key_file*.

        Where *key_file* is empty, they are shown none.
        """
        if self._tokens.issue_as(issuer, key_file):
            self._targets.clear()

    def between(self, after_seq: int, before_seq: int) -> list[RouteRecord]:
        """Returns changes with ``after_seq < seq < before_seq``, in order."""
        return self._history.between(after_seq, before_seq)

    def close(self) -> None:
        """Close the store."""
        self._directory.close()
        self._consents.close()
        self._kept.close()
        self._history.close()


def _unreadable(route: str, revision: int) -> RouteTarget:
    """Returns a placeholder target of a resource whose sink is unknown."""
    return RouteTarget(revision, Destination(f"unreadable:{route}", policy=UNREADABLE_POLICY), None)


def _with_ways(target: RouteTarget, change: Callable[[Destination], Destination]) -> RouteTarget:
    """*target* with each of its destinations changed."""
    before = target.sink, target.dead_letter, target.reply
    ways = [way and change(way) for way in before]
    if all(way is was for way, was in zip(ways, before, strict=True)):
        return target
    sink, dead_letter, reply = ways
    assert sink is not None
    return dataclasses.replace(target, sink=sink, dead_letter=dead_letter, reply=reply)


def _route_target(listed: ListedRoute) -> RouteTarget:
    settings = listed.settings
    sink = _endpoint(settings.sink, settings)
    reply, dead = settings.reply, settings.dead_letter
    return RouteTarget(
        listed.revision,
        dataclasses.replace(
            sink,
            unusable=settings.unusable,
            refused=settings.refused,
            wants_reply=settings.wants_reply,
        ),
        None if dead is None else _endpoint(dead, settings),
        reply=None if reply is None else _endpoint(reply, settings),
        reply_kept=settings.reply_kept,
        namespace=settings.namespace,
        name=settings.name,
    )


def _endpoint(endpoint: RouteEndpoint, settings: RouteSettings) -> Destination:
    return Destination(
        uri=endpoint.uri,
        format=settings.format,
        policy=settings.policy,
        dial=endpoint.dial,
        own=endpoint.own,
        ca_certs=endpoint.trusted,
        namespace=settings.namespace,
        tenant=settings.namespace or DEFAULT_NAMESPACE,
    )


def _target(
    route: str,
    listed: Listed,
    spec: ApiSubscriptionSpec,
    credential: Credential | None,
    reach: Reach,
) -> RouteTarget:
    dead, tenant = spec.dead_letter, listed.namespace
    realized = spec.to_json()
    # The credential is for its own sink alone: a dead letter sink never gets it (decision 10).
    sink = _destination(
        spec, route, reach, tenant=tenant, credential=credential, signing=spec.secrets.signing
    )
    if sends_credential(realized, realized["protocolsettings"]):
        sink = _guarded(sink, reach)
    return RouteTarget(
        listed.revision,
        sink,
        None if dead is None else _dead_letter(spec, dead, route, reach, tenant),
        spec.config.events_max,
        parks=True,
        namespace=tenant,
        name=listed.id,
    )


def _dead_letter(
    spec: ApiSubscriptionSpec, dead: DeadLetterSpec, route: str, reach: Reach, tenant: str
) -> Destination:
    """Returns the dead letter sink of *spec*. It is signed at the sink's own origin alone.

    Another party could pass a signed delivery on to the sink as if it were ours.
    """
    found = _destination(dead, f"{route} dead letters", reach, tenant=tenant)
    if _authorizes(dead.settings):
        found = _guarded(found, reach)
    signing = spec.secrets.signing
    if signing is None or not signing.origin.covers(origin_of(dead.sink)):
        return found
    return dataclasses.replace(found, signing=signing)


def _authorizes(settings: SinkSettings) -> bool:
    """Whether custom headers hold a credential."""
    headers = getattr(settings, "headers", ())
    return any(name.lower() == "authorization" for name, _value in headers)


def _guarded(destination: Destination, reach: Reach) -> Destination:
    """Returns *destination*, to which a credential goes, so that it is not sent in the clear."""
    rule = reach.rule()
    if destination.own:  # dialled at this machine, whatever its name
        return destination
    uri = destination.uri
    if destination.dial is not None:  # where it goes decides, not what the Service is called
        uri = f"{uri.partition(':')[0]}://{destination.dial}"
    return dataclasses.replace(
        destination,
        refused=destination.refused or rule.cleartext_refusal(uri),
        stays_here=rule.stays_here(uri),
    )


def _destination(
    spec: ApiSubscriptionSpec | DeadLetterSpec,
    paced_by: str,
    reach: Reach,
    *,
    tenant: str,
    credential: Credential | None = None,
    signing: SigningKeys | None = None,
) -> Destination:
    """Returns the destination of *spec*."""
    rule = reach.rule()
    back = spec.protocol == "HTTP" and rule.own.takes_events(spec.sink)
    own = back and rule.own_allowed
    return Destination(
        uri=spec.sink,
        protocol=spec.protocol,
        settings=spec.settings,
        format=spec.format,
        policy=spec.policy,
        credential=credential,
        signing=signing,
        tenant=tenant,
        unusable=PROTOCOLS_ABSENT.get(spec.protocol),
        ca_certs=spec.ca_certs,
        client_certificate=spec.client_certificate,
        paced_by=paced_by,
        dial=rule.own.dial if own else None,
        own=own,
        passes=reach.pass_cost(TTL_DEFAULT) if own else 0,
        refused=rule.sink_refusal(spec.protocol, spec.sink, takes_events=back),
    )
