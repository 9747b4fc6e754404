"""Schemas of Broker, Trigger, Channel and Subscription.

Source:
    Knative Eventing, "Detailed Resources"; decision 26 (``filters``).
"""

from typing import Final

from distributary.knative.apiserver.machinery import Kind
from distributary.knative.apiserver.machinery.schema_words import (
    Schema,
    array,
    flag,
    one_of,
    ref,
    struct,
    text,
    texts,
    time,
    top,
    whole,
)
from distributary.knative.kinds._kinds import BROKER, CHANNEL, EVENT_POLICY, SUBSCRIPTION, TRIGGER
from distributary.knative.kinds._schemas_duck import (
    AUTH,
    DELIVERY_SPEC,
    DESTINATION,
    KREFERENCE,
    SUBSCRIBER_SPEC,
    SUBSCRIBER_STATUS,
    addresses,
    resolved,
    status,
)

_EVENTING: Final = "dev.knative.eventing.v1."
_MESSAGING: Final = "dev.knative.messaging.v1."

FILTER: Final = _EVENTING + "SubscriptionsAPIFilter"
TRIGGER_FILTER: Final = _EVENTING + "TriggerFilter"

_POLICY: Final = "dev.knative.eventing.v1alpha1.EventPolicy"

_IMMUTABLE: Final = " Immutable: to change it, delete and create the object."
_SPEC: Final = "Desired state."
_STATUS: Final = "Observed state. The server writes it."
_DEAD_LETTERS: Final = resolved("`spec.delivery.deadLetterSink`", "deadLetterSink")

_DELIVERIES: Final = struct(
    "How its deliveries go, as of a second ago. It is shown to who reads, and stored nowhere: it"
    " changes no version, and a watch shows it as of the last change.",
    failing=flag("Whether they fail."),
    reason=text("Short reason of the last failure, while they fail."),
    failingSince=time("The first failure since the last delivery, while they fail."),
    lastSuccess=time("When the last one succeeded."),
    inFlight=whole("Attempts under way."),
    waiting=whole("Matches that wait, mostly for a retry."),
    delivered=whole("Matches delivered."),
    deadLettered=whole("Matches that became dead letters."),
    dropped=whole("Matches that were dropped."),
)


def _top(kind: Kind, name: str, description: str) -> dict[str, Schema]:
    members = {"spec": ref(f"{name}Spec", _SPEC), "status": ref(f"{name}Status", _STATUS)}
    return {name: top(kind, description, members)}


KNATIVE: Final[dict[str, Schema]] = {
    **_top(
        BROKER,
        _EVENTING + "Broker",
        "Receives events; its Triggers deliver those that they select.",
    ),
    _EVENTING + "BrokerSpec": struct(
        "Spec of a Broker.",
        config=ref(
            KREFERENCE,
            "An object with settings of the Broker, such as a ConfigMap. No setting is read from"
            " it." + _IMMUTABLE,
        ),
        delivery=ref(DELIVERY_SPEC, "Delivery options of Triggers without `delivery`."),
    ),
    _EVENTING + "BrokerStatus": status(
        "Status of a Broker.",
        **addresses("Broker"),
        **_DEAD_LETTERS,
    ),
    **_top(
        TRIGGER,
        _EVENTING + "Trigger",
        "Selects events of a Broker and delivers them to a subscriber. A reply goes back to the"
        " Broker.",
    ),
    _EVENTING + "TriggerSpec": struct(
        "Spec of a Trigger.",
        ("broker", "subscriber"),
        broker=text("Name of the Broker, in the Trigger's namespace." + _IMMUTABLE),
        brokerRef=ref(
            KREFERENCE,
            "The Broker as a reference, in the Trigger's namespace. Sets `broker`.",
        ),
        filter=ref(
            TRIGGER_FILTER,
            "Which events are delivered; unset: all. Ignored if `filters` is not empty.",
        ),
        filters=array(
            "Which events are delivered: those for which every expression is true.", FILTER
        ),
        subscriber=ref(DESTINATION, "Where the events go."),
        delivery=ref(
            DELIVERY_SPEC,
            "Delivery options; if set, those of the Broker are ignored as a whole.",
        ),
    ),
    TRIGGER_FILTER: struct(
        "Compares attributes of an event.",
        attributes=texts(
            "Attribute names with the exact value that each must have; an empty value: the"
            " attribute must be present, with any value. All must match.",
        ),
    ),
    FILTER: struct(
        "An expression over an event's attributes, in exactly one dialect.",
        exact=texts("Each attribute has exactly this value."),
        prefix=texts("Each attribute begins with this text."),
        suffix=texts("Each attribute ends with this text."),
        all=array("Each of these expressions is true.", FILTER),
        any=array("At least one of these expressions is true.", FILTER),
        **{"not": ref(FILTER, "This expression is false.")},
        cesql=text("This CloudEvents SQL expression is true."),
        sql=text("Alias of `cesql`: its name in the Subscriptions API."),
    ),
    _EVENTING + "TriggerStatus": status(
        "Status of a Trigger.",
        auth=AUTH,
        deliveries=_DELIVERIES,
        **resolved("`spec.subscriber`", "subscriber"),
        **_DEAD_LETTERS,
    ),
    **_top(
        EVENT_POLICY,
        _POLICY,
        "Says who may send which events to Brokers and Channels of its namespace. Those without a"
        " policy take the events of everybody who may publish there.",
    ),
    _POLICY + "Spec": struct(
        "Spec of an EventPolicy.",
        to=array(
            "What it protects; unset: every Broker and Channel of the namespace.", _POLICY + "To"
        ),
        filters=array(
            "Which events may be sent: those for which every expression is true.", FILTER
        ),
        **{"from": array("Who may send; unset: nobody.", _POLICY + "From")},
    ),
    _POLICY + "To": struct(
        "A Broker or Channel by its name, or those with some labels; exactly one of them.",
        ref=struct(
            "A Broker or Channel of the namespace. It need not exist yet.",
            ("apiVersion", "kind", "name"),
            apiVersion=text("Its group and version."),
            kind=text("`Broker`, `Channel` or `InMemoryChannel`."),
            name=text("Its name."),
        ),
        selector=struct(
            "Brokers, or Channels, with labels that fit.",
            ("apiVersion", "kind"),
            apiVersion=text("Their group and version."),
            kind=text("`Broker`, `Channel` or `InMemoryChannel`."),
            matchLabels=texts("Labels with the exact value that each must have."),
            matchExpressions=array("Each of these holds.", _POLICY + "Requirement"),
        ),
    ),
    _POLICY + "Requirement": struct(
        "A requirement on one label.",
        ("key", "operator"),
        key=text("Name of the label."),
        operator=one_of("How it is compared.", "In", "NotIn", "Exists", "DoesNotExist"),
        values={
            "description": "Values of In and NotIn.",
            "type": "array",
            "items": {"type": "string"},
        },
    ),
    _POLICY + "From": struct(
        "A sender by reference, or by its subject; exactly one of them.",
        ref=ref(
            KREFERENCE,
            "An object whose events this server delivers, such as a Trigger: everything of its"
            " namespace is meant. `namespace` may be another one.",
        ),
        sub=text(
            "Subject of an identity: `sub` of a token, `key:NAME` of an API key, a name of a client"
            " certificate. A `*` at its end stands for anything."
        ),
    ),
    _POLICY + "Status": status(
        "Status of an EventPolicy.",
        **{
            "from": {
                "description": "Subjects of `spec.from`.",
                "type": "array",
                "items": {"type": "string"},
            }
        },
    ),
    **_top(
        CHANNEL,
        _MESSAGING + "Channel",
        "Receives events; each of its Subscriptions delivers all of them.",
    ),
    _MESSAGING + "ChannelSpec": struct(
        "Spec of a Channel.",
        channelTemplate={
            "description": "Settings of an implementation. None is read here."
            + _IMMUTABLE
            + " Default: an InMemoryChannel, as in Knative.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        subscribers=array(
            "The Channel's Subscriptions. Written by the server; clients' values are dropped.",
            SUBSCRIBER_SPEC,
        ),
        delivery=ref(DELIVERY_SPEC, "Delivery options of Subscriptions without `delivery`."),
    ),
    _MESSAGING + "ChannelStatus": status(
        "Status of a Channel.",
        **addresses("Channel"),
        channel=ref(KREFERENCE, "The implementation of the Channel. Not written."),
        subscribers=array(
            "Readiness of each of `spec.subscribers`.",
            SUBSCRIBER_STATUS,
        ),
        **_DEAD_LETTERS,
    ),
    **_top(
        SUBSCRIPTION,
        _MESSAGING + "Subscription",
        "Delivers every event of a Channel to a subscriber, and the subscriber's replies onward.",
    ),
    _MESSAGING + "SubscriptionSpec": struct(
        "Spec of a Subscription.",
        ("channel",),
        channel=ref(
            KREFERENCE,
            "The Channel, in the Subscription's namespace; `namespace` is not set." + _IMMUTABLE,
        ),
        subscriber=ref(
            DESTINATION, "Where the events go; unset: to `reply`. At least one of them is set."
        ),
        reply=ref(DESTINATION, "Where the subscriber's replies go."),
        delivery=ref(
            DELIVERY_SPEC,
            "Delivery options; if set, those of the Channel are ignored as a whole.",
        ),
    ),
    _MESSAGING + "SubscriptionStatus": status(
        "Status of a Subscription.",
        auth=AUTH,
        deliveries=_DELIVERIES,
        physicalSubscription=ref(
            _MESSAGING + "PhysicalSubscriptionStatus", "Resolved references of the spec."
        ),
    ),
    _MESSAGING + "PhysicalSubscriptionStatus": struct(
        "Resolved references.",
        **resolved("`spec.subscriber`", "subscriber"),
        **resolved("`spec.reply`", "reply"),
        **_DEAD_LETTERS,
    ),
}
"""Definitions by name."""
