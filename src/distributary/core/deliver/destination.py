"""A task's destination: the sink and the delivery settings of its subscription."""

import dataclasses
from dataclasses import dataclass
from typing import Final, Literal

from distributary.core.deliver.broker_settings import SinkSettings
from distributary.core.deliver.consent import Consent, waits_for_consent
from distributary.core.deliver.credential import ClientCertificate, Credential
from distributary.core.deliver.signing import SigningKeys
from distributary.core.policy import DeliveryPolicy
from distributary.core.tenant import DEFAULT_NAMESPACE

NOT_SENT: Final = "(not sent)"
"""Begins the name of a queue from which nothing is sent: its destination is refused or unusable."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A sink with the settings of one subscription.

    Hashable, and the hash is computed once: transports cache what they derive from a destination
    (a request's prefix) and look it up for every delivery. Keep the object while the settings are
    unchanged; do not build an equal one for each task.

    Attributes:
        uri: The sink.
        protocol: Delivery protocol, one of the six names (``HTTP``...): selects the transport.
        client_certificate: Shown to the sink by TLS; None: none.
        settings: Protocol settings, of the class of *protocol*; None: its defaults.
        format: Event content mode: ``binary`` (attributes beside the data) or ``structured``.
        policy: Attempts, waits, timeout and rate.
        credential: Authorizes deliveries at this sink, in the form of the protocol. Left out of the
            ``repr``.
        unusable: Why nothing can be sent there for now, for people: every attempt fails, retryable.
            None: usable.
        dial: ``host:port`` to connect to instead of those of *uri*, which stay in ``Host`` and in
            the TLS server name (decision 25: a ``v1/Service`` by its cluster name). None: *uri*'s.
        own: True for a Broker or Channel of this server: the queue adds the event's hop count as
            ``knativebrokerttl`` (decision 17, hop limit), address rules do not apply, and *dial*
            does not use TLS.
        passes: If *own*, the hops that a delivery by the Subscriptions API costs; no attempt is
            made for an event with fewer left. 0: a delivery of Knative's kinds, which costs one
            hop; the receiver refuses an event without any.
        refused: Why the operator's settings forbid this sink, for people: no attempt is made, and
            the event waits until they change. None: allowed.
        stays_here: Connect to this machine alone: a credential goes there without TLS.
        wants_reply: Send ``Prefer: reply``, and read an event in a 2xx response (but 202) whole.
        ca_certs: PEM certificates trusted for this sink besides the system's.
        namespace: Namespace of the Trigger or messaging Subscription: HTTP sends it as
            ``Kn-Namespace``, together with the event's carried header lines. None: neither.
        tenant: Namespace of the subscription or object: queues, breakers and budgets of two tenants
            are apart, also for one URI.
        signing: Keys that sign each attempt, for HTTP; None: unsigned. Left out of the ``repr``.
        paced_by: The uid of the subscription to whose rate limit ``policy.rate_limit_per_s``
            applies; each subscription has its own rate.
        consent: How far the target agrees to deliveries; None: it need not be asked.
        awaits: Whether the target must consent before anything is sent.
        sink_queue: Key of concurrency, breaker and ``Retry-After``: the tenant, the URI, and at a
            broker also the place, since the places at one broker are independent. One that is
            *unusable* or *refused* has its own.
        at_broker: The sink is a place at a broker, whose messages may carry a delivery's identity.
        plain: An attempt needs an event and these settings alone: nothing prevents it, and nothing
            is added to the event or sent beside it. True of nearly all.
        queue: Key of the queue: *sink_queue*, or with a rate limit or without consent a name of its
            own. No setting makes the key of another kind or tenant: what we add stands before the
            URI, which has no space, and the place after it, which may be any text.
    """

    uri: str
    protocol: str = "HTTP"
    format: Literal["binary", "structured"] = "binary"
    policy: DeliveryPolicy = dataclasses.field(default_factory=DeliveryPolicy)
    credential: Credential | None = dataclasses.field(default=None, repr=False)
    unusable: str | None = None
    dial: str | None = None
    own: bool = False
    passes: int = 0
    refused: str | None = None
    stays_here: bool = False
    wants_reply: bool = False
    ca_certs: str | None = dataclasses.field(default=None, repr=False)
    client_certificate: ClientCertificate | None = dataclasses.field(default=None, repr=False)
    settings: SinkSettings | None = None
    namespace: str | None = None
    tenant: str = DEFAULT_NAMESPACE
    signing: SigningKeys | None = dataclasses.field(default=None, repr=False)
    paced_by: str = dataclasses.field(default="", compare=False)
    consent: Consent | None = None
    awaits: bool = dataclasses.field(init=False, repr=False, compare=False)
    sink_queue: str = dataclasses.field(init=False, repr=False, compare=False)
    queue: str = dataclasses.field(init=False, repr=False, compare=False)
    at_broker: bool = dataclasses.field(init=False, repr=False, compare=False)
    plain: bool = dataclasses.field(init=False, repr=False, compare=False)
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settings = (
            self.uri,
            self.protocol,
            self.format,
            self.policy,
            self.credential,
            self.unusable,
            self.dial,
            self.own,
            self.passes,
            self.refused,
            self.stays_here,
            self.wants_reply,
            self.ca_certs,
            self.client_certificate,
            self.settings,
            self.namespace,
            self.tenant,
            self.signing,
            self.consent,
        )
        place = None if self.settings is None else self.settings.place
        sink_queue = self.uri if place is None else f"{self.uri} {place}"
        if self.unusable is not None or self.refused is not None:
            # What is never sent says nothing of the sink, and must not be the probe of others.
            sink_queue = f"{NOT_SENT} {sink_queue}"
        if self.tenant != DEFAULT_NAMESPACE:  # no URI begins so: a namespace has no colon
            sink_queue = f"{self.tenant} {sink_queue}"
        paced = self.policy.rate_limit_per_s is not None
        object.__setattr__(self, "sink_queue", sink_queue)
        object.__setattr__(self, "at_broker", place is not None)
        awaits = self.consent is not None and not self.consent.given
        queue = f"rate of {self.paced_by} to {sink_queue}" if paced else sink_queue
        object.__setattr__(self, "awaits", awaits)
        object.__setattr__(self, "queue", waits_for_consent(sink_queue) if awaits else queue)
        plain = (
            self.unusable is None
            and self.refused is None
            and not self.passes
            and not self.own
            and place is None
            and self.namespace is None
            and self.signing is None
            and (self.consent is None or self.consent.rate_per_s is None)
        )
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "_hash", hash(settings))

    def __hash__(self) -> int:
        return self._hash


def signed(destination: Destination, token: str) -> Destination:
    """*destination* with *token* as its credential, if it is this server's and has none.

    An empty token signs nothing.
    """
    if not token or not destination.own or destination.credential is not None:
        return destination
    kind = "Bearer"
    credential = Credential("ACCESSTOKEN", access_token=token, access_token_type=kind)
    return dataclasses.replace(destination, credential=credential)
