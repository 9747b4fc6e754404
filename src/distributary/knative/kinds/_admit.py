"""Admission: validates objects, and reports all faults with the Kubernetes API's messages."""

from collections.abc import Callable
from typing import Any, Final

from distributary.core.tenant import LIFECYCLE_BROKER
from distributary.knative.apiserver.machinery import Cause, Kind, Object, invalid
from distributary.knative.apiserver.machinery.fields import same
from distributary.knative.apiserver.machinery.metadata_faults import CAUSES_MAX
from distributary.knative.apiserver.machinery.names import (
    bad_value,
    forbidden,
    required,
    unsupported,
)
from distributary.knative.apiserver.machinery.selector import value_at
from distributary.knative.kinds._annotations import (
    annotations_of,
    check_annotations,
    check_lifecycle,
    check_orders,
    check_secret_names,
)
from distributary.knative.kinds._core_checks import check_config_map, check_secret, check_service
from distributary.knative.kinds._delivery import check_delivery
from distributary.knative.kinds._destinations import (
    check_destination,
    check_kreference,
    check_name,
)
from distributary.knative.kinds._kinds import (
    BROKER,
    CHANNEL,
    CHANNEL_KINDS,
    CONFIG_MAP,
    EVENT_POLICY,
    SECRET,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
)
from distributary.knative.kinds._shape_check import known_part, sound_part
from distributary.knative.kinds._trigger_filters import check_filter, check_filters
from distributary.knative.kinds.policies import check_policy
from distributary.resource.rules import FilterCheck

BROKER_CLASS: Final = "eventing.knative.dev/broker.class"
"""Annotation of a Broker: its class. Every class is served."""

OWN_CLASS: Final = "Distributary"
"""Class of a Broker that names none."""

_IMMUTABLE_WORDS: Final = "field is immutable: Immutable fields changed (-old +new)"
"""Messages of the API server and of Knative's webhook."""

_IMMUTABLE: Final = {
    BROKER.resource: "spec.config",
    TRIGGER.resource: "spec.broker",
    CHANNEL.resource: "spec.channelTemplate",
    SUBSCRIPTION.resource: "spec.channel",
}


def admit(kind: Kind, new: Object, old: Object | None, check: FilterCheck) -> None:
    """Refuse *new* if anything but its metadata is invalid.

    Faults that *old* already had are ignored: an object accepted under older rules can still be
    labelled and deleted. Unknown fields are no faults (``unknown_fields``).

    Args:
        kind: Of the object.
        new: The object after ``defaulted``; may contain any JSON.
        old: The current object; None: it is being created.
        check: ``filter.check``.

    Sinks are not checked against the operator's rule here: references and addresses of this server
    are known only when destinations are resolved. The rule is applied there and at each connection.

    Raises:
        StatusError: ``Invalid``, with all causes, of which ``CAUSES_MAX`` are listed.

    Source:
        Knative Eventing, "Resource Lifecycle" (immutable fields) and "Detailed Resources".
    """
    causes = _causes(kind, new, check)
    if old is not None:
        if causes:
            before = set(_causes(kind, old, check))
            causes = [cause for cause in causes if cause not in before]
        causes += _changed(kind, new, old)
    if causes:
        metadata = new.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        raise invalid(kind, str(name or ""), _named(causes))


def _named(causes: list[Cause]) -> list[Cause]:
    """At most ``CAUSES_MAX`` of *causes*, and the number of further ones."""
    more = len(causes) - CAUSES_MAX
    if more <= 0:
        return causes
    return [*causes[:CAUSES_MAX], Cause("", "FieldValueInvalid", f"{more} more faults")]


def _causes(kind: Kind, obj: Object, filter_check: FilterCheck) -> list[Cause]:
    causes: list[Cause] = []
    sound = sound_part(kind, known_part(kind, obj), causes)
    check = _CHECKS.get(kind.resource)
    if check is not None:
        check(causes, sound)
    spec = _spec(sound)
    if spec.get("delivery") is not None:
        check_delivery(causes, spec["delivery"])
    if kind is TRIGGER and spec.get("filter") is not None:
        check_filter(causes, spec["filter"], filter_check)
    if kind in (TRIGGER, EVENT_POLICY) and spec.get("filters") is not None:
        check_filters(causes, spec["filters"], filter_check)
    return causes if kind is not SECRET else list(map(_without_value, causes))


def _without_value(cause: Cause) -> Cause:
    """*cause* of a Secret; what it says of a value does not repeat it."""
    if cause.field.startswith(("data", "stringData")) and cause.reason != "FieldValueDuplicate":
        why = cause.message.rpartition(": ")[2]
        return Cause(cause.field, cause.reason, f"Invalid value: {why}")
    return cause


def _changed(kind: Kind, new: Object, old: Object) -> list[Cause]:
    """Faults of changed immutable fields."""
    path = _IMMUTABLE.get(kind.resource)
    pairs = {} if path is None else {path: (value_at(new, path), value_at(old, path))}
    if kind is BROKER:
        now, before = (annotations_of(obj).get(BROKER_CLASS) or OWN_CLASS for obj in (new, old))
        pairs[f"metadata.annotations[{BROKER_CLASS}]"] = now, before
    causes = [
        bad_value(field, now, _IMMUTABLE_WORDS)
        for field, (now, before) in pairs.items()
        if not same(now, before) and not _of_the_server(kind, field, old)
    ]
    return causes + (_sealed(new, old) if kind is CONFIG_MAP else [])


def _of_the_server(kind: Kind, field: str, old: Object) -> bool:
    """Whether the old value is the server's default, which a client may still replace.

    The Broker ``default/default`` exists from the start, before its owner can choose a class;
    Channels of older versions have no template.
    """
    if kind is BROKER:
        named = (value_at(old, "metadata.namespace"), value_at(old, "metadata.name"))
        return named == ("default", "default") and value_at(old, "metadata.managedFields") is None
    return field == "spec.channelTemplate" and value_at(old, field) is None


def _sealed(new: Object, old: Object) -> list[Cause]:
    if old.get("immutable") is not True:
        return []
    why = "field is immutable when `immutable` is set"
    return [
        forbidden(name, why)
        for name in ("immutable", "data", "binaryData")
        if (new.get(name) or None) != (old.get(name) or None)
    ]


def _spec(obj: Object) -> Object:
    spec: Object | None = obj.get("spec")
    return spec or {}


def _broker(causes: list[Cause], obj: Object) -> None:
    metadata, spec = obj.get("metadata"), _spec(obj)
    if isinstance(metadata, dict) and metadata.get("name") == LIFECYCLE_BROKER:
        why = "the Broker of this name is the server's own, in each namespace"
        causes.append(forbidden("metadata.name", why))
    if spec.get("config") is not None:
        check_kreference(causes, "spec.config", spec["config"])


def _trigger(causes: list[Cause], obj: Object) -> None:
    spec = _spec(obj)
    check_annotations(causes, obj)
    check_secret_names(causes, obj)
    check_lifecycle(causes, obj)
    check_orders(causes, obj)
    if spec.get("broker"):
        check_name(causes, "spec.broker", spec["broker"], subdomain=True)
    if spec.get("brokerRef") is not None:
        _check_broker(causes, spec, obj.get("metadata"))
    if spec.get("subscriber") is not None:
        check_destination(causes, "spec.subscriber", spec["subscriber"])


def _check_broker(causes: list[Cause], spec: Object, metadata: Any) -> None:
    """Check that ``brokerRef`` refers to the same Broker as ``broker``."""
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    wanted = {"apiVersion": BROKER.api_version, "kind": BROKER.kind, "name": spec.get("broker")}
    ref = spec["brokerRef"]
    for member, value in (*wanted.items(), ("namespace", namespace)):
        if ref.get(member) and ref[member] != value:
            why = "must match spec.broker; a Broker in another namespace is not supported"
            causes.append(bad_value(f"spec.brokerRef.{member}", ref[member], why))


def _subscription(causes: list[Cause], obj: Object) -> None:
    check_secret_names(causes, obj)
    check_lifecycle(causes, obj)
    check_orders(causes, obj)
    spec = obj["spec"]  # present, since it has required members
    if spec is None:
        return
    if spec.get("channel") is not None:
        _check_channel(causes, spec["channel"])
    if "subscriber" not in spec and "reply" not in spec:
        causes.append(required("spec.subscriber", "expected at least one of subscriber, reply"))
    for name in ("subscriber", "reply"):
        if spec.get(name) is not None:
            check_destination(causes, f"spec.{name}", spec[name])


def _check_channel(causes: list[Cause], channel: Object) -> None:
    for member, wanted in (("apiVersion", (CHANNEL.api_version,)), ("kind", CHANNEL_KINDS)):
        if channel.get(member) and channel[member] not in wanted:
            causes.append(unsupported(f"spec.channel.{member}", channel[member], wanted))
    if channel.get("name"):
        check_name(causes, "spec.channel.name", channel["name"], subdomain=True)
    if channel.get("namespace"):
        why = "the Channel is always in the Subscription's own namespace"
        causes.append(forbidden("spec.channel.namespace", why))


def _policy(causes: list[Cause], obj: Object) -> None:
    check_policy(causes, _spec(obj))


_CHECKS: Final[dict[str, Callable[[list[Cause], Object], None]]] = {
    BROKER.resource: _broker,
    TRIGGER.resource: _trigger,
    SUBSCRIPTION.resource: _subscription,
    EVENT_POLICY.resource: _policy,
    SERVICE.resource: check_service,
    CONFIG_MAP.resource: check_config_map,
    SECRET.resource: check_secret,
}
