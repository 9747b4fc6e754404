"""The typed specs of objects that were admitted.

A ``ValueError``, ``KeyError`` or the like from here is a bug or a damaged store: what stands there
was checked before. *early* is that of ``delivery_of``: ``apiserver.objects.Stored`` knows it.
"""

from distributary.knative.apiserver.machinery import Object
from distributary.knative.kinds._delivery import delivery_of
from distributary.knative.kinds._shapes import (
    AddressedSpec,
    ChannelSubscriptionSpec,
    Delivery,
    DuckDestination,
    KReference,
    TriggerSpec,
)
from distributary.knative.kinds._trigger_filters import filters_of


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


def _spec(obj: Object) -> tuple[Object, str]:
    return obj.get("spec") or {}, obj["metadata"]["namespace"]


def _delivery(spec: Object, namespace: str, *, early: bool) -> Delivery | None:
    sink = (spec.get("delivery") or {}).get("deadLetterSink")
    dead_letter_sink = None if sink is None else _destination(sink, namespace)
    return delivery_of(spec, dead_letter_sink, early=early)


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
