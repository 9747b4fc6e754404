"""``DeliverySpec``: checked, and made whole (decision 21)."""

from typing import Any, Final, Literal

from distributary.knative.apiserver.machinery import Cause, Object
from distributary.knative.kinds._causes import of_fault
from distributary.knative.kinds._destinations import check_destination
from distributary.knative.kinds._shapes import Delivery, DuckDestination
from distributary.resource.delivery import WAIT, realize_delivery
from distributary.resource.durations import parse_duration_s
from distributary.resource.faults import Faults
from distributary.resource.schema import checked

_OPTIONS: Final = ("retry", "backoffPolicy", "backoffDelay", "backoffMax", "timeout")
"""What means the same in the Subscriptions API, and is checked and completed by its rules."""

_FORMATS: Final[dict[str, Literal["binary", "structured"]]] = {
    "binary": "binary",
    "json": "structured",
}


def check_delivery(causes: list[Cause], value: Object) -> None:
    """Note what is wrong with ``spec.delivery``; a part that is None is noted already."""
    faults = Faults()
    realize_delivery(faults, "spec.delivery", _options(value), iso_alone=True)
    if value.get("retryAfterMax") is not None:
        path = "spec.delivery.retryAfterMax"
        checked(faults, path, WAIT, value["retryAfterMax"])
    causes.extend(map(of_fault, faults.found))
    if value.get("deadLetterSink") is not None:
        path = "spec.delivery.deadLetterSink"
        check_destination(causes, path, value["deadLetterSink"])


def delivery_of(
    spec: Object,
    dead_letter_sink: DuckDestination | None,
    *,
    early: bool,
) -> Delivery | None:
    """``spec.delivery`` with every default; None where none stands.

    One that stands and says nothing of ``retry`` makes no retry, as Knative reads it: whoever
    wants a dead letter sink and nothing else gets the dead letter at once.

    Args:
        spec: Of an admitted object.
        dead_letter_sink: Its ``delivery.deadLetterSink``.
        early: It was written when that meant the default, and an empty one none at all.
    """
    value = spec.get("delivery")
    if value is None or (early and not value):
        return None
    asked_max = value.get("retryAfterMax")
    options = _options(value)
    if not early:
        options.setdefault("retry", 0)
    whole = realize_delivery(Faults(), "", options, iso_alone=True)
    return Delivery(
        dead_letter_sink=dead_letter_sink,
        retry=whole["retry"],
        backoff_policy=whole["backoffPolicy"],
        backoff_delay_s=parse_duration_s(whole["backoffDelay"]),
        backoff_max_s=parse_duration_s(whole["backoffMax"]),
        timeout_s=parse_duration_s(whole["timeout"]),
        format=_FORMATS[value.get("format", "binary")],
        retry_after_max_s=None if asked_max is None else parse_duration_s(asked_max),
    )


def _options(value: Object) -> dict[str, Any]:
    return {name: value[name] for name in _OPTIONS if value.get(name) is not None}
