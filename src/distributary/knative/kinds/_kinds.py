"""The kinds that are served."""

from typing import Final

from distributary.knative.apiserver.machinery import Column, Kind

EVENTING: Final = "eventing.knative.dev"
MESSAGING: Final = "messaging.knative.dev"

NAME_CHARS_MAX: Final = 63
"""Longest name of a Knative object, dots allowed: a Trigger's label repeats the name of its Broker,
and labels have at most 63 characters."""

_READY: Final = (
    Column("Age", "age", "date"),
    Column("Ready", "condition:Ready.status"),
    Column("Reason", "condition:Ready.reason"),
)

_DELIVERIES: Final = (
    Column("Failing", "status.deliveries.failing"),
    Column("Waiting", "status.deliveries.waiting", "integer", priority=1),
    Column("Delivered", "status.deliveries.delivered", "integer", priority=1),
    Column("Last_Success", "status.deliveries.lastSuccess", "date", priority=1),
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


def _knative(
    group: str,
    kind: str,
    plural: str,
    *columns: Column,
    short_name: str = "",
    version: str = "v1",
    delivers: bool = False,
) -> Kind:
    part = group.partition(".")[0]
    return Kind(
        group,
        version,
        kind,
        plural,
        short_names=(short_name,) if short_name else (),
        categories=("all", "knative", part, *(("channel",) if kind == "Channel" else ())),
        columns=(*columns, *(_DELIVERIES if delivers else ())),
        has_status=True,
        generations=True,
        delivers=delivers,
        label_names=False,
        name_chars_max=NAME_CHARS_MAX,
    )


_URL: Final = Column("URL", "status.address.url")

BROKER: Final = _knative(
    EVENTING,
    "Broker",
    "brokers",
    _URL,
    *_READY,
    Column("Class", "annotation:eventing.knative.dev/broker.class", priority=1),
)
TRIGGER: Final = _knative(
    EVENTING,
    "Trigger",
    "triggers",
    Column("Broker", "spec.broker"),
    Column("Subscriber_URI", "status.subscriberUri"),
    *_READY,
    delivers=True,
)
CHANNEL: Final = _knative(MESSAGING, "Channel", "channels", _URL, *_READY, short_name="ch")
CHANNEL_KINDS: Final = ("Channel", "InMemoryChannel")
"""Kind names for a Channel in references; Knative's in-memory one is an alias here."""

SUBSCRIPTION: Final = _knative(
    MESSAGING, "Subscription", "subscriptions", *_READY, short_name="sub", delivers=True
)
EVENT_POLICY: Final = _knative(
    EVENTING, "EventPolicy", "eventpolicies", *_READY, version="v1alpha1"
)
SERVICE: Final = Kind(
    "",
    "v1",
    "Service",
    "services",
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
    short_names=("cm",),
    columns=(Column("Age", "age", "date"),),
    label_names=False,
)
SECRET: Final = Kind(
    "",
    "v1",
    "Secret",
    "secrets",
    columns=(Column("Type", "type"), Column("Age", "age", "date")),
    label_names=False,
)
NAMESPACE: Final = Kind(
    "",
    "v1",
    "Namespace",
    "namespaces",
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

KINDS: Final = (
    BROKER,
    TRIGGER,
    EVENT_POLICY,
    CHANNEL,
    SUBSCRIPTION,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    NAMESPACE,
    EVENT,
)
"""All kinds, in the order of discovery."""
