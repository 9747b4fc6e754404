"""Validation of ``DeliverySpec``."""

from typing import Any, Final

from distributary.knative.apiserver.machinery import Cause, Object
from distributary.knative.kinds._causes import of_fault
from distributary.knative.kinds._destinations import check_destination
from distributary.resource.delivery import WAIT, realize_delivery
from distributary.resource.faults import Faults
from distributary.resource.schema import checked

_OPTIONS: Final = ("retry", "backoffPolicy", "backoffDelay", "backoffMax", "timeout")
"""Options shared with the Subscriptions API, checked and completed by its rules."""


def check_delivery(causes: list[Cause], value: Object) -> None:
    """Add faults of ``spec.delivery`` to *causes*; None marks a part already reported."""
    faults = Faults()
    realize_delivery(faults, "spec.delivery", options_of(value), iso_alone=True)
    if value.get("retryAfterMax") is not None:
        path = "spec.delivery.retryAfterMax"
        checked(faults, path, WAIT, value["retryAfterMax"])
    causes.extend(map(of_fault, faults.found))
    if value.get("deadLetterSink") is not None:
        path = "spec.delivery.deadLetterSink"
        check_destination(causes, path, value["deadLetterSink"])


def options_of(value: Object) -> dict[str, Any]:
    """The options of a ``DeliverySpec`` that the Subscriptions API shares."""
    return {name: value[name] for name in _OPTIONS if value.get(name) is not None}
