"""Brokers and Channels of a namespace by their labels: what the selectors of policies select."""

from collections.abc import Mapping
from typing import Any, Final

from distributary.core.errors import Fault, ResourceError
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.kinds._kinds import BROKER

COMPARED_MAX: Final = 50_000
"""Most comparisons of selectors with Brokers and Channels of one namespace: 0.1 s, and some
megabytes in every receiver. Ten selectors without ``matchLabels`` fit 5,000 Brokers; a selector
with ``matchLabels`` is compared with those alone that have one of its labels."""


class Receivers:
    """Brokers and Channels of one namespace, for the selectors of all its policies.

    Args:
        labels: Their labels.
        compared_max: Most comparisons of all calls together.
    """

    def __init__(
        self, labels: Mapping[Key, Object] | None = None, compared_max: int = COMPARED_MAX
    ) -> None:
        self._left = compared_max
        self._of: dict[str, dict[str, Object]] = {}
        self._having: dict[tuple[str, str, str], list[str]] = {}
        for key, own in (labels or {}).items():
            plural = "brokers" if key.resource == BROKER.resource else "channels"
            self._of.setdefault(plural, {})[key.name] = own
            for name, value in own.items():
                self._having.setdefault((plural, name, value), []).append(key.name)

    def selected(self, plural: str, selector: Object) -> list[str]:
        """Names of the *plural* that a label selector selects.

        Raises:
            ResourceError: Too many would have to be compared; the next call may do with fewer.

        Source:
            Kubernetes, ``LabelSelector``.
        """
        exact: Mapping[str, Any] = selector.get("matchLabels") or {}
        expressions = selector.get("matchExpressions") or ()
        lists = [self._having.get((plural, name, value), []) for name, value in exact.items()]
        names = min(lists, key=len) if lists else list(self._of.get(plural, ()))
        values = sum(1 + len(each.get("values") or ()) for each in expressions)
        cost = len(names) * (len(exact) + values)
        if cost > self._left:
            message = (
                "selectors of the EventPolicies of this namespace are compared with Brokers and "
                f"Channels more than {COMPARED_MAX} times; select by matchLabels that fewer have, "
                "name them by ref, or leave the labels out to mean all"
            )
            raise ResourceError([Fault("spec.to", "too-many", message)])
        self._left -= cost
        of = self._of.get(plural, {})
        return [name for name in names if _selects(selector, of[name])]


def _selects(selector: Object, labels: Object) -> bool:
    exact: Mapping[str, Any] = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in exact.items()):
        return False
    return all(_holds(each, labels) for each in selector.get("matchExpressions") or ())


def _holds(expression: Object, labels: Object) -> bool:
    name, values = str(expression.get("key")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(name) in values
        case "NotIn":
            return labels.get(name) not in values
        case "Exists":
            return name in labels
        case "DoesNotExist":
            return name not in labels
    return False
