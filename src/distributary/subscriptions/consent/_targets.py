"""The HTTP targets of a resource that may have to consent: sink, dead letter sink, reply. Pure.

Called by ``ConsentKeeper``, which asks them, and by the status of deliveries.
"""

import math
from typing import NamedTuple

from distributary.core.deliver import Destination
from distributary.core.shown import shown_uri
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.resource import Reach, target_key
from distributary.subscriptions.resource import ApiSubscriptionSpec, DeadLetterSpec
from distributary.subscriptions.store import Listed, ListedRoute
from distributary.subscriptions.store.consent_rows import ConsentRow


class Target(NamedTuple):
    """One HTTP target of a resource.

    Attributes:
        key: ``target_key``.
        destination: Where it is, for the namespace of the resource; without a credential, but with
            its client certificate, without which some sinks answer nobody.
    """

    key: str
    destination: Destination


class KnownTarget:
    """One target, with who uses it and its row."""

    __slots__ = ("destination", "due_s", "key", "namespace", "row", "users")

    def __init__(self, target: Target) -> None:
        self.key = target.key
        self.namespace = target.destination.tenant
        self.destination = target.destination
        self.users: dict[str, float | None] = {}  # by route, the rate that it wants
        self.row: ConsentRow | None = None
        self.due_s = math.inf

    @property
    def shown(self) -> str:
        """Its URI, for logs."""
        return shown_uri(self.destination.uri)


def targets_of(listed: Listed | ListedRoute, reach: Reach) -> list[Target]:
    """The targets of *listed*; none of them is this server itself, or forbidden by settings."""
    if isinstance(listed, ListedRoute):
        settings = listed.settings
        ways = [settings.sink, settings.dead_letter, settings.reply]
        tenant = settings.namespace or DEFAULT_NAMESPACE
        return [
            _target(Destination(way.uri, dial=way.dial, ca_certs=way.trusted, tenant=tenant))
            for way in ways
            if way is not None and not way.own
        ]
    found: list[Target] = []
    rule = reach.rule()
    ways_of_api: list[ApiSubscriptionSpec | DeadLetterSpec | None]
    ways_of_api = [listed.spec, listed.spec.dead_letter]
    for spec in ways_of_api:
        if spec is None or spec.protocol != "HTTP" or rule.own.takes_events(spec.sink):
            continue
        if rule.sink_refusal(spec.protocol, spec.sink, takes_events=False) is None:
            destination = Destination(
                spec.sink,
                policy=spec.policy,
                ca_certs=spec.ca_certs,
                client_certificate=spec.client_certificate,
                tenant=listed.namespace,
            )
            found.append(_target(destination))
    return found


def shows_certificates(spec: ApiSubscriptionSpec) -> bool:
    """Whether a target of *spec* is shown a client certificate, whose key has to be opened."""
    ways = (spec, spec.dead_letter)
    return any(way is not None and way.client_certificate is not None for way in ways)


def _target(destination: Destination) -> Target:
    key = target_key(destination.tenant, destination.uri, destination.dial)
    return Target(key, destination)
