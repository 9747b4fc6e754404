"""Plans a Broker or Channel: its address, its dead letter sink, and its conditions.

Pure: no waiting, no store. Routes depend on this plan, not on the status written from it, so a
status that a client edits moves no route.
"""

from dataclasses import dataclass

from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.apiserver.objects import Stored
from distributary.knative.kinds import BROKER, CONFIG_MAP, conditions
from distributary.knative.kinds.specs import Delivery, KReference, addressed_spec
from distributary.knative.reconcile._findings import HOLDS, Finding, worst
from distributary.knative.reconcile._resolve import (
    ObjectView,
    Resolution,
    Resolved,
    Unresolved,
    not_found,
)


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """Desired state of a Broker or Channel.

    Attributes:
        address: Address under which its events are logged.
        delivery: For routes without delivery options; None: the default.
        dead_letter: Its resolved dead letter sink; None: it has none.
        findings: By condition type; ``Ready`` is derived from them.
        members: Further members of the status.
    """

    address: str
    delivery: Delivery | None
    dead_letter: Resolution | None
    findings: dict[str, Finding]
    members: Object

    @property
    def ready(self) -> Finding:
        """Whether new routes may listen here."""
        return worst(found for found in self.findings.values() if not found.severity)


def plan_channel(view: ObjectView, stored: Stored) -> ChannelPlan:
    """Plan the Broker or Channel *stored*."""
    findings: dict[str, Finding] = {}
    spec = addressed_spec(stored.content, early=stored.early)
    if stored.key.resource == BROKER.resource:
        findings[conditions.CONFIGURATION_RESOLVED] = _configuration(view, spec.config)
    members: Object = {}
    if view.announced(stored):
        findings[conditions.ADDRESSABLE] = HOLDS
        url = view.site.url(stored.key)
        members["address"] = {"name": url.partition(":")[0], "url": url}
        audience = view.site.audience(stored.key)
        if audience is not None:
            members["address"]["audience"] = audience
    else:
        message = "the address is not known to the receiver of events yet"
        findings[conditions.ADDRESSABLE] = Finding("Unknown", "NotAnnounced", message)
    dead = resolve_dead_letter(view, spec.delivery)
    findings[conditions.DEAD_LETTER_SINK_RESOLVED] = dead_letter_finding(dead)
    members |= destination_members("deadLetterSink", dead)
    return ChannelPlan(view.address(stored), spec.delivery, dead, findings, members)


def resolve_dead_letter(view: ObjectView, delivery: Delivery | None) -> Resolution | None:
    """Resolve the dead letter sink of *delivery*; None: it has none."""
    if delivery is None or delivery.dead_letter_sink is None:
        return None
    return view.resolve(delivery.dead_letter_sink)


def dead_letter_finding(dead: Resolution | None) -> Finding:
    """Finding for the condition of a dead letter sink."""
    if dead is None:
        return HOLDS._replace(reason="DeadLetterSinkNotConfigured")
    return resolution_finding(dead, "the dead letter sink")


def resolution_finding(resolution: Resolution, what: str) -> Finding:
    """Finding for the condition of the destination *what*."""
    if isinstance(resolution, Unresolved):
        return Finding("False", resolution.reason, f"{what}: {resolution.message}")
    return HOLDS


def destination_members(
    prefix: str, resolution: Resolution | None, *, inherited: bool = False
) -> Object:
    """Members of a status with this *prefix*; none if there is no destination.

    Certificates of an *inherited* destination stand at the Broker or Channel alone: repeated by
    each of thousands of Triggers they would fill the server, and nobody would have paid for them.

    Source:
        Knative Eventing, "Trigger Lifecycle": the URI is the empty string while the reference
        cannot be resolved.
    """
    if resolution is None:
        return {}
    if not isinstance(resolution, Resolved):
        return {f"{prefix}Uri": ""}
    members: Object = {f"{prefix}Uri": resolution.endpoint.uri}
    if resolution.endpoint.ca_certs is not None and not inherited:
        members[f"{prefix}CACerts"] = resolution.endpoint.ca_certs
    if resolution.audience is not None:
        members[f"{prefix}Audience"] = resolution.audience
    return members


def _configuration(view: ObjectView, config: KReference | None) -> Finding:
    """Report a missing ConfigMap with severity ``Info``: its content is not used."""
    if config is None or (config.api_version, config.kind) != (
        CONFIG_MAP.api_version,
        CONFIG_MAP.kind,
    ):
        return HOLDS._replace(severity="Info")
    if view.find(Key(CONFIG_MAP.resource, config.namespace, config.name)) is None:
        message = not_found(CONFIG_MAP, config.namespace, config.name)
        return Finding("False", "NotFound", message, "Info")
    return HOLDS._replace(severity="Info")
