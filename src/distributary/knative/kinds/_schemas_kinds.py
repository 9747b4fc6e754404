"""Schemas of Broker, Trigger, Channel and Subscription.

Source:
    Knative Eventing, "Detailed Resources"; decision 26 (``filters``).
"""

from typing import Final

from distributary.knative.kinds._kinds import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER
from distributary.knative.kinds._schema_words import Schema, array, ref, struct, text, texts, top
from distributary.knative.kinds._schemas_duck import (
    DESTINATION,
    KREFERENCE,
    SUBSCRIBER_SPEC,
    SUBSCRIBER_STATUS,
    addresses,
    auth,
    delivery,
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


def _same(description: str) -> Schema:
    return ref(FILTER, description)


def _many(description: str) -> Schema:
    return array(
        description, {"$ref": f"#/definitions/{FILTER}"}, **{"x-kubernetes-list-type": "atomic"}
    )


def _kind(name: str) -> dict[str, Schema]:
    return {"spec": ref(f"{name}Spec", _SPEC), "status": ref(f"{name}Status", _STATUS)}


KNATIVE: Final[dict[str, Schema]] = {
    _EVENTING + "Broker": top(
        BROKER,
        "A place to send events to, from where its Triggers take those that they select.",
        _kind(_EVENTING + "Broker"),
    ),
    _EVENTING + "BrokerSpec": struct(
        "Spec of a Broker.",
        config=ref(
            KREFERENCE,
            "An object with settings of the Broker, such as a ConfigMap. No setting is read from"
            " it." + _IMMUTABLE,
        ),
        delivery=delivery("Delivery options of Triggers that have none of their own."),
    ),
    _EVENTING + "BrokerStatus": status(
        "Status of a Broker.",
        **addresses("Broker"),
        **_DEAD_LETTERS,
    ),
    _EVENTING + "Trigger": top(
        TRIGGER,
        "Selects events of a Broker and delivers them to a subscriber. A reply goes back to the"
        " Broker.",
        _kind(_EVENTING + "Trigger"),
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
        filters=_many("Which events are delivered: those for which every expression holds."),
        subscriber=ref(DESTINATION, "Where the events go."),
        delivery=delivery(
            "Delivery options. Where they stand, those of the Broker do not count at all."
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
        all=_many("Every one of these expressions holds."),
        any=_many("At least one of these expressions holds."),
        **{"not": _same("This expression does not hold.")},
        cesql=text("This CloudEvents SQL expression is true."),
        sql=text("The same as `cesql`, by the name of the Subscriptions API."),
    ),
    _EVENTING + "TriggerStatus": status(
        "Status of a Trigger.",
        **auth(),
        **resolved("`spec.subscriber`", "subscriber"),
        **_DEAD_LETTERS,
    ),
    _MESSAGING + "Channel": top(
        CHANNEL,
        "A place to send events to, from where each of its Subscriptions takes all of them.",
        _kind(_MESSAGING + "Channel"),
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
            {"$ref": f"#/definitions/{SUBSCRIBER_SPEC}"},
            **{"x-kubernetes-list-type": "atomic"},
        ),
        delivery=delivery("Delivery options of Subscriptions that have none of their own."),
    ),
    _MESSAGING + "ChannelStatus": status(
        "Status of a Channel.",
        **addresses("Channel"),
        channel=ref(KREFERENCE, "The implementation of the Channel. Not written."),
        subscribers=array(
            "Whether each of `spec.subscribers` is delivered to.",
            {"$ref": f"#/definitions/{SUBSCRIBER_STATUS}"},
            **{"x-kubernetes-list-type": "atomic"},
        ),
        **_DEAD_LETTERS,
    ),
    _MESSAGING + "Subscription": top(
        SUBSCRIPTION,
        "Delivers every event of a Channel to a subscriber, and the subscriber's replies onward.",
        _kind(_MESSAGING + "Subscription"),
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
        delivery=delivery(
            "Delivery options. Where they stand, those of the Channel do not count at all."
        ),
    ),
    _MESSAGING + "SubscriptionStatus": status(
        "Status of a Subscription.",
        **auth(),
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
