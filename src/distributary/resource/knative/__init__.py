"""Knative Eventing's kinds, and the core kinds they refer to: shape, defaults, validation.

Called by ``control.objects`` (admission), ``control.reconcile`` (typed specs, conditions) and
``api.kubernetes`` (kinds). Pure.
"""

from distributary.resource.knative import conditions
from distributary.resource.knative._admit import BROKER_CLASS, OWN_CLASS, admit
from distributary.resource.knative._annotations import dependency_of
from distributary.resource.knative._conditions import Conditions, ConditionStatus, Severity
from distributary.resource.knative._defaulted import (
    BROKER_LABEL,
    NAMESPACE_LABEL,
    defaulted,
)
from distributary.resource.knative._definitions import DEFINITION, definitions
from distributary.resource.knative._export import Converted, converted
from distributary.resource.knative._kinds import (
    BROKER,
    CHANNEL,
    CHANNEL_KINDS,
    CONFIG_MAP,
    EVENT,
    KINDS,
    NAMESPACE,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
)
from distributary.resource.knative._schemas import SCHEMA_OF, SCHEMAS
from distributary.resource.knative._schemas_core import SERVICE_ADDRESS
from distributary.resource.knative._shape_check import unknown_fields
from distributary.resource.knative._shapes import (
    BrokerSpec,
    ChannelSpec,
    Delivery,
    Destination,
    KReference,
    SubscriptionSpec,
    TriggerSpec,
)
from distributary.resource.knative._specs import (
    broker_spec,
    channel_spec,
    subscription_spec,
    trigger_spec,
)

__all__ = [
    "BROKER",
    "BROKER_CLASS",
    "BROKER_LABEL",
    "CHANNEL",
    "CHANNEL_KINDS",
    "CONFIG_MAP",
    "DEFINITION",
    "EVENT",
    "KINDS",
    "NAMESPACE",
    "NAMESPACE_LABEL",
    "OWN_CLASS",
    "SCHEMAS",
    "SCHEMA_OF",
    "SERVICE",
    "SERVICE_ADDRESS",
    "SUBSCRIPTION",
    "TRIGGER",
    "BrokerSpec",
    "ChannelSpec",
    "ConditionStatus",
    "Conditions",
    "Converted",
    "Delivery",
    "Destination",
    "KReference",
    "Severity",
    "SubscriptionSpec",
    "TriggerSpec",
    "admit",
    "broker_spec",
    "channel_spec",
    "conditions",
    "converted",
    "defaulted",
    "definitions",
    "dependency_of",
    "subscription_spec",
    "trigger_spec",
    "unknown_fields",
]
