"""Knative Eventing's kinds, and the core kinds they refer to: shape, defaults, validation.

Called by ``control.objects`` (admission), ``control.reconcile`` (typed specs, conditions) and
``api.kubernetes`` (kinds). Pure.
"""

from distributary.resource.knative._kinds import (
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    EVENT,
    KINDS,
    NAMESPACE,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
)
from distributary.resource.knative._shapes import (
    BrokerSpec,
    ChannelSpec,
    Delivery,
    Destination,
    KReference,
    SubscriptionSpec,
    TriggerSpec,
)

__all__ = [
    "BROKER",
    "CHANNEL",
    "CONFIG_MAP",
    "EVENT",
    "KINDS",
    "NAMESPACE",
    "SERVICE",
    "SUBSCRIPTION",
    "TRIGGER",
    "BrokerSpec",
    "ChannelSpec",
    "Delivery",
    "Destination",
    "KReference",
    "SubscriptionSpec",
    "TriggerSpec",
]
