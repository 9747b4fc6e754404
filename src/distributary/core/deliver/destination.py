"""Where a task goes: the sink, and how its subscriber wants to be spoken to."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from distributary.core.deliver.broker_settings import SinkSettings
from distributary.core.deliver.credential import Credential
from distributary.core.policy import DeliveryPolicy


@dataclass(frozen=True, slots=True)
class Destination:
    """A sink with the settings of one subscription.

    Hashable, and the hash is computed once: transports keep what they derive from a destination
    (a request's prefix) under it, and look that up for every delivery. Keep the object while the
    settings stand; do not build an equal one for each task.

    Attributes:
        uri: The sink.
        protocol: Delivery protocol, one of the six names (``HTTP``...): chooses the transport.
        settings: How the sink is spoken to, those of *protocol*; None: its defaults.
        format: Event content mode: ``binary`` (attributes beside the data) or ``structured``.
        policy: Attempts, waits, timeout and rate.
        credential: Authorizes deliveries at this sink; the transport puts it where its protocol
            has a place for it. Left out of the ``repr``.
        unusable: Why nothing can be sent there for now, for people: every attempt fails, and may
            be made again. None: it is as it should be.
        dial: ``host:port`` to connect to instead of those of *uri*, which stay in ``Host`` and in
            the TLS server name (decision 25: a ``v1/Service`` by its cluster name). None: *uri*'s.
        own: A Broker or Channel of this server: the event takes its remaining passes along as
            ``knativebrokerttl`` (decision 17; the queue adds it), and the rule for addresses is not
            asked. What *dial* then names speaks no TLS.
        passes: Where *own*, what the way back here costs of the event's passes, when a subscription
            of the Subscriptions API sends it: without enough of them no attempt is made. 0: a way
            of Knative's kinds, which costs one, and which the receiver refuses.
        refused: Why the operator's settings let nothing go there, for people: no attempt is made,
            and the event waits until they change. None: they do.
        wants_reply: Say ``Prefer: reply``, and read an event in a 2xx answer (but 202) whole.
        ca_certs: PEM of certificates that this sink is trusted by, besides the system's.
        namespace: Of the Trigger or messaging Subscription that delivers there: HTTP says it as
            ``Kn-Namespace``, and the event's carried header lines go along. None: neither.
        paced_by: Whose pace ``policy.rate_limit_per_s`` is: the uid of the subscription. Who has
            another one waits for another pace.
        sink_queue: What concurrency, breaker and ``Retry-After`` are kept by: the URI, and at a
            broker the place there too, since one broker has many that do not know each other.
        at_broker: The sink is a place at a broker, whose messages may carry a delivery's identity.
        clear: Nothing of the settings is ever in the way of an attempt: true of nearly all.
        queue: What the queue is kept by: the same, or a name of its own where a rate limit is set.
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
    wants_reply: bool = False
    ca_certs: str | None = dataclasses.field(default=None, repr=False)
    settings: SinkSettings | None = None
    namespace: str | None = None
    paced_by: str = dataclasses.field(default="", compare=False)
    sink_queue: str = dataclasses.field(init=False, repr=False, compare=False)
    queue: str = dataclasses.field(init=False, repr=False, compare=False)
    at_broker: bool = dataclasses.field(init=False, repr=False, compare=False)
    clear: bool = dataclasses.field(init=False, repr=False, compare=False)
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
            self.wants_reply,
            self.ca_certs,
            self.settings,
            self.namespace,
        )
        place = None if self.settings is None else self.settings.place
        sink_queue = self.uri if place is None else f"{self.uri} {place}"
        paced = self.policy.rate_limit_per_s is not None
        object.__setattr__(self, "sink_queue", sink_queue)
        object.__setattr__(self, "at_broker", place is not None)
        object.__setattr__(
            self, "queue", f"{sink_queue} of {self.paced_by}" if paced else sink_queue
        )
        clear = self.unusable is None and self.refused is None and not self.passes
        object.__setattr__(self, "clear", clear)
        object.__setattr__(self, "_hash", hash(settings))

    def __hash__(self) -> int:
        return self._hash
