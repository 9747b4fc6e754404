"""Typed specs of admitted objects, for the reconciler.

The objects were validated before, so a ``ValueError``, ``KeyError`` or the like from here means a
bug or a damaged store. *early* is that of ``apiserver.objects.Stored``.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from distributary.core.policy import DeliveryPolicy
from distributary.knative.apiserver.machinery import Object
from distributary.knative.kinds._annotations import DEPENDENCY, annotations_of, reference_in
from distributary.knative.kinds._delivery import options_of
from distributary.knative.kinds._trigger_filters import filters_of
from distributary.resource.delivery import policy_of, realize_delivery
from distributary.resource.faults import Faults

_FORMATS: Final[dict[str, Literal["binary", "structured"]]] = {
    "binary": "binary",
    "json": "structured",
}


@dataclass(frozen=True, slots=True)
class KReference:
    """``KReference``: a reference to an object.

    Attributes:
        api_version: ``group/version``.
        kind: In CamelCase.
        name: Of the object.
        namespace: Of the object; default: that of the referring object.
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
        ca_certs: PEM of CA certificates to trust for the destination.
        audience: OIDC audience: deliveries show a token for it, where the server signs any.
    """

    ref: KReference | None
    uri: str | None
    ca_certs: str | None = None
    audience: str | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """``DeliverySpec`` with all defaults (decision 21, delivery defaults).

    Attributes:
        dead_letter_sink: Where undeliverable events go; None: they are kept.
        policy: Retries, waits and deadline.
        format: ``binary`` or ``structured`` (Knative's ``json``).
    """

    dead_letter_sink: DuckDestination | None
    policy: DeliveryPolicy
    format: Literal["binary", "structured"]


@dataclass(frozen=True, slots=True)
class AddressedSpec:
    """Spec of a Broker or a Channel.

    Attributes:
        config: A Broker's ``spec.config``.
        delivery: For Triggers or Subscriptions without delivery options; None: unset.
    """

    config: KReference | None
    delivery: Delivery | None


@dataclass(frozen=True, slots=True)
class TriggerSpec:
    """Spec of a Trigger.

    Attributes:
        broker: Name of its Broker, in its own namespace.
        filters: In the dialects of the Subscriptions API: from ``filters``, else from
            ``filter.attributes``; ``cesql`` becomes ``sql``.
        present: Attributes that must be present with any value.
        subscriber: Where events go.
        delivery: None: unset, the Broker's applies. If set, it applies as a whole.
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
        subscriber: Where events go; None: to *reply*, without requesting replies.
        reply: Where the subscriber's replies go.
        delivery: None: unset, the Channel's applies. If set, it applies as a whole.
    """

    channel: KReference
    subscriber: DuckDestination | None
    reply: DuckDestination | None
    delivery: Delivery | None


def dependency_of(trigger: Object) -> KReference | None:
    """The object that the admitted *trigger* waits for; None: none."""
    text = annotations_of(trigger).get(DEPENDENCY)
    if not isinstance(text, str):
        return None
    namespace = trigger["metadata"]["namespace"]
    found = reference_in(text)
    if found is None:  # older versions did not validate it
        return KReference("", "", text, namespace)
    return KReference(found.apiVersion, found.kind, found.name, found.namespace or namespace)


def addressed_spec(obj: Object, *, early: bool = False) -> AddressedSpec:
    """Spec of the Broker or Channel *obj*."""
    spec, namespace = _spec(obj)
    config = spec.get("config")
    return AddressedSpec(
        config=None if config is None else _kreference(config, namespace),
        delivery=_delivery(spec, namespace, early=early),
    )


def trigger_spec(obj: Object, *, early: bool = False) -> TriggerSpec:
    """Spec of the Trigger *obj*."""
    spec, namespace = _spec(obj)
    filters, present = filters_of(spec)
    return TriggerSpec(
        broker=spec["broker"],
        filters=filters,
        present=present,
        subscriber=_destination(spec["subscriber"], namespace),
        delivery=_delivery(spec, namespace, early=early),
    )


def subscription_spec(obj: Object, *, early: bool = False) -> ChannelSubscriptionSpec:
    """Spec of the messaging Subscription *obj*."""
    spec, namespace = _spec(obj)
    subscriber, reply = spec.get("subscriber"), spec.get("reply")
    return ChannelSubscriptionSpec(
        channel=_kreference(spec["channel"], namespace),
        subscriber=None if subscriber is None else _destination(subscriber, namespace),
        reply=None if reply is None else _destination(reply, namespace),
        delivery=_delivery(spec, namespace, early=early),
    )


def references_abroad(obj: Object) -> dict[str, DuckDestination]:
    """What the admitted *obj* refers to in other namespaces than its own, by the place there."""
    spec, namespace = _spec(obj)
    delivery = spec.get("delivery") or {}
    places = {
        "spec.config": {"ref": spec.get("config")},
        "spec.subscriber.ref": spec.get("subscriber"),
        "spec.reply.ref": spec.get("reply"),
        "spec.delivery.deadLetterSink.ref": delivery.get("deadLetterSink"),
    }
    found = {place: _destination(value or {}, namespace) for place, value in places.items()}
    return {
        place: each
        for place, each in found.items()
        if each.ref is not None and each.ref.namespace != namespace
    }


def _spec(obj: Object) -> tuple[Object, str]:
    return obj.get("spec") or {}, obj["metadata"]["namespace"]


def _delivery(spec: Object, namespace: str, *, early: bool) -> Delivery | None:
    """``spec.delivery`` with every default; None: unset.

    Without ``retry`` it makes no retries, as in Knative: with only a dead letter sink, a failed
    event becomes a dead letter at once. *early*: written when that meant the default number of
    retries, and an empty ``delivery`` meant unset.
    """
    value = spec.get("delivery")
    if value is None or (early and not value):
        return None
    sink = value.get("deadLetterSink")
    options = options_of(value)
    if not early:
        options.setdefault("retry", 0)
    whole = realize_delivery(Faults(), "", options, iso_alone=True)
    return Delivery(
        dead_letter_sink=None if sink is None else _destination(sink, namespace),
        policy=policy_of(whole | {"retryAfterMax": value.get("retryAfterMax")}),
        format=_FORMATS[value.get("format", "binary")],
    )


def _destination(value: Object, namespace: str) -> DuckDestination:
    ref = value.get("ref")
    return DuckDestination(
        ref=None if ref is None else _kreference(ref, namespace),
        uri=value.get("uri"),
        ca_certs=value.get("CACerts") or None,
        audience=value.get("audience") or None,
    )


def _kreference(value: Object, namespace: str) -> KReference:
    return KReference(
        api_version=value["apiVersion"],
        kind=value["kind"],
        name=value["name"],
        namespace=value.get("namespace") or namespace,
    )
