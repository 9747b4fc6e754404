"""Kinds of Knative Eventing, and the core kinds they refer to: schema, defaults, validation.

Called by ``apiserver.objects`` (admission), ``reconcile`` (``specs``, conditions) and
``apiserver.http`` (kinds). Pure.
"""

from distributary.knative.kinds import conditions
from distributary.knative.kinds._admit import BROKER_CLASS, admit
from distributary.knative.kinds._annotations import (
    LIFECYCLE,
    SIGNATURE,
    SINK_CREDENTIAL,
    lifecycle_of,
    orders_of,
    secrets_named_by,
)
from distributary.knative.kinds._api_subscription import API_SUBSCRIPTION, ID_ANNOTATION
from distributary.knative.kinds._defaulted import (
    NAMESPACE_LABEL,
    defaulted,
)
from distributary.knative.kinds._definitions import DEFINITION, definitions
from distributary.knative.kinds._kinds import (
    BROKER,
    CHANNEL,
    CHANNEL_KINDS,
    CONFIG_MAP,
    EVENT,
    EVENT_POLICY,
    KINDS,
    NAMESPACE,
    SECRET,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
)
from distributary.knative.kinds._receivers import Receivers
from distributary.knative.kinds._schemas import SCHEMAS, shape_of
from distributary.knative.kinds._schemas_core import SERVICE_ADDRESS
from distributary.knative.kinds._shape_check import unknown_fields
from distributary.knative.kinds.policies import (
    COMPARISONS_MAX,
    POLICIES_MAX,
    POLICY_BYTES_MAX,
    PolicyCost,
    cost_of,
    policy_of,
    selects,
    targets_of,
)
