"""Kinds of Knative Eventing, and the core kinds they refer to: schema, defaults, validation.

Called by ``apiserver.objects`` (admission), ``reconcile`` (``specs``, conditions) and
``apiserver.http`` (kinds). Pure.
"""

from distributary.knative.kinds import conditions
from distributary.knative.kinds._admit import BROKER_CLASS, admit
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
    KINDS,
    NAMESPACE,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
)
from distributary.knative.kinds._schemas import SCHEMAS, shape_of
from distributary.knative.kinds._schemas_core import SERVICE_ADDRESS
from distributary.knative.kinds._shape_check import unknown_fields
