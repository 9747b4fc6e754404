"""Schemas of Broker, Trigger, Channel and Subscription.

Source:
    Knative Eventing, "Detailed Resources"; decision 26 (``filters``).
"""

from typing import Final

from distributary.knative.apiserver.machinery import Kind
from distributary.knative.apiserver.machinery.schema_words import (
    Schema,
    array,
    ref,
    struct,
    text,
    texts,
    top,
)
from distributary.knative.kinds._kinds import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER
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

_IMMUTABLE: Final = " Immutable: to change it, delete and create the object."
_SPEC: Final = "Desired state."
_STATUS: Final = "Observed state. The server writes it."
_DEAD_LETTERS: Final = resolved("`spec.delivery.deadLetterSink`", "deadLetterSink")


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
        **resolved("`spec.subscriber`", "subscriber"),
        **_DEAD_LETTERS,
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
