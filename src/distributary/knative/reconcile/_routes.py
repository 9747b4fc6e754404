"""Plans the route and the conditions of a Trigger or messaging Subscription.

Pure: no waiting, no store. Contains all rules for existing routes:

* A route stays until its object is deleted. A destination that no longer resolves keeps its last
  value, so no matched event is lost: without a subscriber, attempts fail and are retried by policy.
* A route moves to another address only if its Broker or Channel was recreated.
* A route is created only once it is complete.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from distributary.core.policy import DeliveryPolicy
from distributary.core.tenant import LIFECYCLE_BROKER, lifecycle_address
from distributary.knative.apiserver.machinery import Key, Kind, Object
from distributary.knative.apiserver.objects import Stored
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    SIGNATURE,
    SINK_CREDENTIAL,
    TRIGGER,
    conditions,
    lifecycle_of,
    secrets_named_by,
)
from distributary.knative.kinds.specs import (
    Delivery,
    dependency_of,
    subscription_spec,
    trigger_spec,
)
from distributary.knative.reconcile._channel_plan import (
    ChannelPlan,
    dead_letter_finding,
    destination_members,
    plan_channel,
    resolution_finding,
    resolve_dead_letter,
)
from distributary.knative.reconcile._findings import HOLDS, Finding, worst
from distributary.knative.reconcile._named_secrets import secret_findings
from distributary.knative.reconcile._resolve import (
    BLOCKED_ADDRESS,
    ObjectView,
    Resolution,
    Resolved,
    Unresolved,
    not_found,
)
from distributary.knative.reconcile._status import condition_of
from distributary.routes.batch import ActiveRoute
from distributary.routes.changes import PutRoute
from distributary.routes.settings import RouteEndpoint, RouteSettings, decode_settings

DEFAULT_DELIVERY: Final = Delivery(dead_letter_sink=None, policy=DeliveryPolicy(), format="binary")
"""Used if neither the object nor its Broker or Channel has delivery options (decision 21, delivery
defaults)."""

WAITING: Final = Finding("Unknown", "Waiting", "what it needs is not ready yet")
"""Condition of a route that cannot be created yet."""


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """Desired route and status of a Trigger or Subscription.

    Attributes:
        route: The route; None: none can be created yet.
        findings: By condition type, without ``stands``.
        stands: Type of the condition that the route is active.
        members: Further members of the status.
        channel: The Channel that lists it as a subscriber; None: none.
    """

    route: PutRoute | None
    findings: dict[str, Finding]
    stands: str
    members: Object
    channel: Key | None = None


class _Wanted(NamedTuple):
    """What an object specifies, resolved as far as possible.

    Attributes:
        source: Its Broker or Channel; None: it does not exist.
        own: Its own delivery options; None: those of the source apply.
    """

    source: ChannelPlan | None
    own: Delivery | None
    sink: Resolution
    dead_letter: Resolution | None
    reply: Resolution | None = None
    reply_kept: bool = False
    wants_reply: bool = True
    filters: tuple[dict[str, Any], ...] = ()
    present: tuple[str, ...] = ()


def plan_route(view: ObjectView, stored: Stored, before: ActiveRoute | None) -> RoutePlan:
    """Plan the Trigger or Subscription *stored*; *before* is its active route."""
    if stored.key.resource == TRIGGER.resource:
        return plan_trigger(view, stored, before)
    return plan_subscription(view, stored, before)


def plan_trigger(view: ObjectView, stored: Stored, before: ActiveRoute | None) -> RoutePlan:
    """Plan the Trigger *stored*; *before* is its active route.

    Source:
        Knative Eventing, "Trigger Lifecycle", "Content Based Routing".
    """
    spec = trigger_spec(stored.content, early=stored.early)
    broker_key = Key(BROKER.resource, stored.key.namespace, spec.broker)
    broker = _plan_source(view, broker_key)
    told = broker is None and spec.broker == LIFECYCLE_BROKER
    if told:
        broker = ChannelPlan(lifecycle_address(stored.key.namespace), None, None, {}, {})
    sink = view.resolve(spec.subscriber)
    dead = _dead_letter(view, spec.delivery, broker)
    # A reply is an event for the Broker and all its Triggers (decision 14, replies).
    reply = Resolved(RouteEndpoint(view.site.url(broker_key), dial=view.site.dial, own=True))
    wanted = _Wanted(
        broker,
        spec.delivery,
        sink,
        dead,
        # Nobody publishes to the server's own Broker: replies to what it tells are dropped.
        None if told else reply,
        reply_kept=not told,
        filters=spec.filters,
        wants_reply=not told,
        present=spec.present,
    )
    return RoutePlan(
        _compose(stored, wanted, before),
        secret_findings(view, stored, sink)
        | {
            conditions.BROKER_READY: _source_finding(BROKER, broker_key, broker),
            conditions.DEPENDENCY_READY: _dependency(view, stored.content),
            conditions.SUBSCRIBER_RESOLVED: resolution_finding(sink, "the subscriber"),
            conditions.DEAD_LETTER_SINK_RESOLVED: dead_letter_finding(dead),
        },
        conditions.ROUTE_READY,
        destination_members("subscriber", sink) | _dead_letter_members(spec.delivery, dead),
    )


def plan_subscription(view: ObjectView, stored: Stored, before: ActiveRoute | None) -> RoutePlan:
    """Plan the messaging Subscription *stored*; *before* is its active route.

    Source:
        Knative Eventing, "Subscription Lifecycle", "Topology Based Routing"; decision 18 (no
        ``subscriber``: events go to ``reply``).
    """
    spec = subscription_spec(stored.content, early=stored.early)
    channel_key = Key(CHANNEL.resource, stored.key.namespace, spec.channel.name)
    channel = _plan_source(view, channel_key)
    subscriber = None if spec.subscriber is None else view.resolve(spec.subscriber)
    reply = None if spec.reply is None else view.resolve(spec.reply)
    dead = _dead_letter(view, spec.delivery, channel)
    if subscriber is not None:
        wanted = _Wanted(channel, spec.delivery, subscriber, dead, reply)
    else:
        assert reply is not None  # one of the two is set: admission
        wanted = _Wanted(channel, spec.delivery, reply, dead, wants_reply=False)
    physical = (
        destination_members("subscriber", subscriber)
        | destination_members("reply", reply)
        | _dead_letter_members(spec.delivery, dead)
    )
    references = [
        resolution_finding(resolution, what)
        for resolution, what in (
            (subscriber, "the subscriber"),
            (reply, "the reply"),
            (dead, "the dead letter sink"),
        )
        if resolution is not None
    ]
    return RoutePlan(
        _compose(stored, wanted, before),
        secret_findings(view, stored, wanted.sink)
        | {
            conditions.CHANNEL_READY: _source_finding(CHANNEL, channel_key, channel),
            conditions.REFERENCES_RESOLVED: worst(references),
        },
        conditions.ADDED_TO_CHANNEL,
        {"physicalSubscription": physical},
        None if channel is None else channel_key,
    )


def _plan_source(view: ObjectView, key: Key) -> ChannelPlan | None:
    stored = view.find(key)
    return None if stored is None else plan_channel(view, stored)


def _source_finding(kind: Kind, key: Key, source: ChannelPlan | None) -> Finding:
    if source is None:
        message = not_found(kind, key.namespace, key.name)
        return Finding("False", f"{kind.kind}DoesNotExist", message)
    ready = source.ready
    if ready.status == "True":
        return HOLDS
    message = f'the {kind.kind} "{key.name}" is not ready: {ready.message}'
    return Finding(ready.status, f"{kind.kind}NotReady", message)


def _dependency(view: ObjectView, trigger: Object) -> Finding:
    """Whether the Trigger's annotated dependency is Ready; events are delivered regardless.

    Source:
        knative/eventing 1.22, ``pkg/reconciler/broker/trigger``: ``knative.dev/dependency``.
    """
    ref = dependency_of(trigger)
    if ref is None:
        return HOLDS
    found = view.named(ref)
    if isinstance(found, Unresolved):
        return Finding("False", "DependencyDoesNotExist", f"the dependency: {found.message}")
    what = f'the dependency {ref.kind} "{ref.name}"'
    ready = condition_of(found.content, conditions.READY)
    if ready.get("status") == "True":
        return HOLDS
    if ready.get("status") == "False":
        return Finding("False", "DependencyNotReady", f"{what} is not ready")
    return Finding("Unknown", "DependencyUnknown", f"{what} does not report whether it is ready")


def _dead_letter(
    view: ObjectView, own: Delivery | None, source: ChannelPlan | None
) -> Resolution | None:
    """The dead letter sink of its own delivery options if there are any, else of its source's."""
    if own is not None:
        return resolve_dead_letter(view, own)
    return None if source is None else source.dead_letter


def _dead_letter_members(own: Delivery | None, dead: Resolution | None) -> Object:
    return destination_members("deadLetterSink", dead, inherited=own is None)


def _settings_of(route: ActiveRoute | None) -> RouteSettings | None:
    """Delivery settings of *route*; None if damaged: they are overwritten."""
    try:
        return None if route is None else decode_settings(route.settings)
    except ValueError:
        return None


def _compose(stored: Stored, wanted: _Wanted, standing: ActiveRoute | None) -> PutRoute | None:
    """The desired route; None: it is incomplete, change nothing."""
    before, source = _settings_of(standing), wanted.source
    if before is None:
        needed = (wanted.sink, wanted.reply, wanted.dead_letter)
        complete = not any(isinstance(way, Unresolved) for way in needed)
        if source is None or source.ready.status != "True" or not complete:
            return None
    if source is not None:
        address = source.address
    else:
        assert standing is not None
        address = standing.address
    settings = _settings(stored, wanted, before)
    return PutRoute(stored.uid, address, wanted.filters, wanted.present, settings)


def _settings(stored: Stored, wanted: _Wanted, before: RouteSettings | None) -> RouteSettings:
    """Delivery settings; a destination that does not resolve keeps its last value."""
    sink = _endpoint(wanted.sink, before.sink if before else None)
    assert sink is not None  # it resolves, or the active route has one
    missing = [way for way in (wanted.sink, wanted.reply) if isinstance(way, Unresolved)]
    refused = [way.message for way in missing if way.reason == BLOCKED_ADDRESS]
    faults = [way.message for way in missing if way.reason != BLOCKED_ADDRESS]
    counts: Delivery | RouteSettings
    if wanted.own is None and wanted.source is None:
        # The Broker or Channel was deleted: keep its last options.
        assert before is not None
        counts, dead_letter = before, before.dead_letter
    else:
        counts = wanted.own or (wanted.source and wanted.source.delivery) or DEFAULT_DELIVERY
        dead_letter = _endpoint(wanted.dead_letter, before.dead_letter if before else None)
    reply = _endpoint(wanted.reply, before.reply if before else None)
    ways = (sink, reply, dead_letter)
    named = any(way is not None and way.audience is not None for way in ways)
    secrets = secrets_named_by(stored.content)
    return RouteSettings(
        name=f"{stored.content['kind']} {stored.key.namespace}/{stored.key.name}",
        namespace=stored.key.namespace,
        sink=sink,
        unusable="; ".join(faults) or None,
        refused="; ".join(refused) or None,
        wants_reply=wanted.wants_reply,
        reply=reply,
        reply_kept=wanted.reply_kept,
        dead_letter=dead_letter,
        policy=counts.policy,
        format=counts.format,
        subject=subject_of(stored.content, stored.key) if named else None,
        lifecycle=lifecycle_of(stored.content),
        credential=secrets.get(SINK_CREDENTIAL),
        signature=secrets.get(SIGNATURE),
    )


def subject_of(content: Object, key: Key) -> str:
    """Who the deliveries of an object say they are: the service account that Knative gives it.

    Unlike Knative's, a name of more than 63 characters is not shortened: there is no account.

    Source:
        knative/eventing 1.15, ``pkg/auth/serviceaccount.go``.
    """
    group = content["apiVersion"].partition("/")[0]
    account = f"{key.name}-oidc-{group}-{content['kind']}".lower()
    return f"system:serviceaccount:{key.namespace}:{account}"


def _endpoint(resolution: Resolution | None, before: RouteEndpoint | None) -> RouteEndpoint | None:
    if isinstance(resolution, Resolved):
        return resolution.endpoint
    return None if resolution is None else before
