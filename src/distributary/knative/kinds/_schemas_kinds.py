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

_IMMUTABLE: Final = " It cannot be changed: delete the object and create it anew."
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
        "A place to send events to, from where its Triggers take those that they select.",
    ),
    _EVENTING + "BrokerSpec": struct(
        "Spec of a Broker.",
        config=ref(
            KREFERENCE,
            "An object with settings of the Broker, such as a ConfigMap. No setting is read from"
            " it." + _IMMUTABLE,
        ),
        delivery=ref(DELIVERY_SPEC, "Delivery options of Triggers that have none of their own."),
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
            "The same as a reference, in the Trigger's namespace. It fills in `broker`.",
        ),
        filter=ref(
            TRIGGER_FILTER,
            "Which events are delivered; unset: every one. Where `filters` holds anything, it"
            " alone counts.",
        ),
        filters=array(
            "Which events are delivered: those for which every expression holds.", FILTER
        ),
        subscriber=ref(DESTINATION, "Where the events go."),
        delivery=ref(
            DELIVERY_SPEC,
            "Delivery options. Where they stand, those of the Broker do not count at all.",
        ),
    ),
    TRIGGER_FILTER: struct(
        "Compares attributes of an event.",
        attributes=texts(
            "Attribute names with the exact value that each must have; an empty value: the"
            " attribute must be there, with any value. All must hold.",
        ),
    ),
    FILTER: struct(
        "An expression over an event's attributes. One dialect stands in it.",
        exact=texts("Each attribute has exactly this value."),
        prefix=texts("Each attribute begins with this text."),
        suffix=texts("Each attribute ends with this text."),
        all=array("Every one of these expressions holds.", FILTER),
        any=array("At least one of these expressions holds.", FILTER),
        **{"not": ref(FILTER, "This expression does not hold.")},
        cesql=text("This CloudEvents SQL expression is true."),
        sql=text("The same as `cesql`, by the name of the Subscriptions API."),
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
        "A place to send events to, from where each of its Subscriptions takes all of them.",
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
            "The Channel's Subscriptions. The server writes it; what a client sends is dropped.",
            SUBSCRIBER_SPEC,
        ),
        delivery=ref(
            DELIVERY_SPEC, "Delivery options of Subscriptions that have none of their own."
        ),
    ),
    _MESSAGING + "ChannelStatus": status(
        "Status of a Channel.",
        **addresses("Channel"),
        channel=ref(KREFERENCE, "The implementation of the Channel. Not written."),
        subscribers=array(
            "Whether each of `spec.subscribers` is delivered to.",
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
            DESTINATION, "Where the events go. Unset: to `reply`. One of the two is set."
        ),
        reply=ref(DESTINATION, "Where the events go that the subscriber replies with."),
        delivery=ref(
            DELIVERY_SPEC,
            "Delivery options. Where they stand, those of the Channel do not count at all.",
        ),
    ),
    _MESSAGING + "SubscriptionStatus": status(
        "Status of a Subscription.",
        auth=AUTH,
        physicalSubscription=ref(
            _MESSAGING + "PhysicalSubscriptionStatus", "Where the references of the spec lead."
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
