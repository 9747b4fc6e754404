"""The kinds that this server serves."""

from typing import Final

from distributary.knative.apiserver.machinery import Column, Kind

EVENTING: Final = "eventing.knative.dev"
MESSAGING: Final = "messaging.knative.dev"

NAME_CHARS_MAX: Final = 63
"""Longest name of an object of Knative's. Dots may stand in it; but a Trigger's label repeats the
name of its Broker, and labels have no more than this."""

_READY: Final = (
    Column("Age", "age", "date"),
    Column("Ready", "condition:Ready.status"),
    Column("Reason", "condition:Ready.reason"),
)

_INVOLVED: Final = (
    "apiVersion",
    "fieldPath",
    "kind",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
)

BROKER: Final = Kind(
    EVENTING,
    "v1",
    "Broker",
    "brokers",
    "broker",
    categories=("all", "knative", "eventing"),
    columns=(
        Column("URL", "status.address.url"),
        *_READY,
        Column("Class", "annotation:eventing.knative.dev/broker.class", priority=1),
    ),
    has_status=True,
    generations=True,
    label_names=False,
    name_chars_max=NAME_CHARS_MAX,
)
TRIGGER: Final = Kind(
    EVENTING,
    "v1",
    "Trigger",
    "triggers",
    "trigger",
    categories=("all", "knative", "eventing"),
    columns=(
        Column("Broker", "spec.broker"),
        Column("Subscriber_URI", "status.subscriberUri"),
        *_READY,
    ),
    has_status=True,
    generations=True,
    label_names=False,
    name_chars_max=NAME_CHARS_MAX,
)
CHANNEL: Final = Kind(
    MESSAGING,
    "v1",
    "Channel",
    "channels",
    "channel",
    short_names=("ch",),
    categories=("all", "knative", "messaging", "channel"),
    columns=(Column("URL", "status.address.url"), *_READY),
    has_status=True,
    generations=True,
    label_names=False,
    name_chars_max=NAME_CHARS_MAX,
)
CHANNEL_KINDS: Final = ("Channel", "InMemoryChannel")
"""What a reference may call a Channel: Knative's in-memory one is another name for it here."""

SUBSCRIPTION: Final = Kind(
    MESSAGING,
    "v1",
    "Subscription",
    "subscriptions",
    "subscription",
    short_names=("sub",),
    categories=("all", "knative", "messaging"),
    columns=_READY,
    has_status=True,
    generations=True,
    label_names=False,
    name_chars_max=NAME_CHARS_MAX,
)
SERVICE: Final = Kind(
    "",
    "v1",
    "Service",
    "services",
    "service",
    short_names=("svc",),
    categories=("all",),
    columns=(
        Column("Type", "spec.type"),
        Column("Cluster-IP", "spec.clusterIP"),
        Column("External-Name", "spec.externalName"),
        Column("Age", "age", "date"),
    ),
    has_status=True,
)
CONFIG_MAP: Final = Kind(
    "",
    "v1",
    "ConfigMap",
    "configmaps",
    "configmap",
    short_names=("cm",),
    columns=(Column("Age", "age", "date"),),
    label_names=False,
)
NAMESPACE: Final = Kind(
    "",
    "v1",
    "Namespace",
    "namespaces",
    "namespace",
    short_names=("ns",),
    columns=(Column("Status", "status.phase"), Column("Age", "age", "date")),
    namespaced=False,
    has_status=True,
)
EVENT: Final = Kind(
    "",
    "v1",
    "Event",
    "events",
    "event",
    short_names=("ev",),
    columns=(
        Column("Last Seen", "lastTimestamp", "date"),
        Column("Type", "type"),
        Column("Reason", "reason"),
        Column("Object", "involvedObject.name"),
        Column("Message", "message"),
    ),
    label_names=False,
    selectable=(
        *((f"involvedObject.{member}",) * 2 for member in _INVOLVED),
        ("reason", "reason"),
        ("reportingComponent", "reportingComponent"),
        ("source", "source.component"),
        ("type", "type"),
    ),
)

KINDS: Final = (BROKER, TRIGGER, CHANNEL, SUBSCRIPTION, SERVICE, CONFIG_MAP, NAMESPACE, EVENT)
"""Every kind, in the order in which discovery lists them."""
