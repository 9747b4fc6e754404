"""What the reconciler reads of Knative's kinds: specs, checked and typed."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class KReference:
    """``KReference``: names an object.

    Attributes:
        api_version: ``group/version``.
        kind: In CamelCase.
        name: Of the object.
        namespace: Of the object; filled in with that of the referring object where it was unset.
    """

    api_version: str
    kind: str
    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class DuckDestination:
    """``duckv1.DuckDestination``: at least one of *ref* and *uri* is set.

    Attributes:
        ref: An Addressable, or a ``v1/Service``.
        uri: Absolute, or relative to the address of *ref*.
        ca_certs: PEM of certificates that the destination is trusted by.
        audience: OIDC audience; carried, not used.
    """

    ref: KReference | None
    uri: str | None
    ca_certs: str | None = None
    audience: str | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """``DeliverySpec`` with every default filled in (decision 21), units in the names.

    Attributes:
        dead_letter_sink: Where an event goes that could not be delivered; None: it is kept.
        retry: Retries after the first attempt.
        backoff_policy: ``linear`` or ``exponential``.
        backoff_delay_s: The first wait.
        backoff_max_s: Ceiling of a wait.
        timeout_s: Deadline of one attempt.
        format: ``binary`` or ``structured`` (Knative's ``json``).
        retry_after_max_s: The most that ``Retry-After`` counts; None: *backoff_max_s*.
    """

    dead_letter_sink: DuckDestination | None
    retry: int
    backoff_policy: Literal["linear", "exponential"]
    backoff_delay_s: float
    backoff_max_s: float
    timeout_s: float
    format: Literal["binary", "structured"]
    retry_after_max_s: float | None = None


@dataclass(frozen=True, slots=True)
class AddressedSpec:
    """Spec of a Broker or a Channel.

    Attributes:
        config: What a Broker's ``spec.config`` names.
        delivery: Of Triggers or Subscriptions that have none of their own; None: unset.
    """

    config: KReference | None
    delivery: Delivery | None


@dataclass(frozen=True, slots=True)
class TriggerSpec:
    """Spec of a Trigger.

    Attributes:
        broker: Name of its Broker, in its own namespace.
        filters: As the Subscriptions API's dialects have them: ``filters``, or made of
            ``filter.attributes`` where that is what counts; ``cesql`` is called ``sql``.
        present: Attributes that must be there with any value.
        subscriber: Where events go.
        delivery: None: unset, the Broker's counts. Set (however little): whole.
    """

    broker: str
    filters: tuple[dict[str, Any], ...]
    present: tuple[str, ...]
    subscriber: DuckDestination
    delivery: Delivery | None


@dataclass(frozen=True, slots=True)
class ChannelSubscriptionSpec:
    """Spec of a messaging Subscription (not of the Subscriptions API).

    Attributes:
        channel: A Channel of its own namespace.
        subscriber: Where events go; None: to *reply*, and no reply is asked for.
        reply: Where the events go that the subscriber answers with.
        delivery: None: unset, the Channel's counts. Set (however little): whole.
    """

    channel: KReference
    subscriber: DuckDestination | None
    reply: DuckDestination | None
    delivery: Delivery | None
