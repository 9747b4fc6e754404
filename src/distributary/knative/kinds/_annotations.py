"""Annotations of a Trigger that Knative defines: dependency and Broker injection.

Source:
    knative/eventing 1.22, ``pkg/apis/eventing/v1/trigger_validation.go``.
"""

from typing import Final

import msgspec

from distributary.knative.apiserver.machinery import Cause, Object
from distributary.knative.apiserver.machinery.names import bad_value, required

DEPENDENCY: Final = "knative.dev/dependency"
"""Annotation with an object, as JSON, that must be Ready before the Trigger is."""

INJECTION: Final = "eventing.knative.dev/injection"
"""``enabled`` or ``disabled``, only for the Broker ``default``. Checked, without effect."""


class ObjectReference(msgspec.Struct):
    """The members of a ``v1.ObjectReference`` that are used."""

    apiVersion: str = ""  # noqa: N815 - the member's own name
    kind: str = ""
    name: str = ""
    namespace: str = ""


def check_annotations(causes: list[Cause], trigger: Object) -> None:
    """Add faults of the annotations of *trigger* to *causes*."""
    annotations = annotations_of(trigger)
    text = annotations.get(DEPENDENCY)
    if isinstance(text, str):
        _check_dependency(causes, text, _object(trigger.get("metadata")).get("namespace"))
    text = annotations.get(INJECTION)
    if isinstance(text, str):
        _check_injection(causes, text, _object(trigger.get("spec")).get("broker"))


def reference_in(text: str) -> ObjectReference | None:
    """Parse the value of ``DEPENDENCY``; None: it is no reference."""
    try:
        return msgspec.json.decode(text, type=ObjectReference)
    except msgspec.MsgspecError:
        return None


def annotations_of(obj: Object) -> Object:
    """The annotations of *obj*, if they are an object."""
    return _object(_object(obj.get("metadata")).get("annotations"))


def _object(value: object) -> Object:
    """*value* if it is an object, else an empty one: type faults are reported elsewhere."""
    return value if isinstance(value, dict) else {}


def _check_dependency(causes: list[Cause], text: str, namespace: object) -> None:
    path = f"metadata.annotations[{DEPENDENCY}]"
    found = reference_in(text)
    if found is None:
        why = "The provided annotation was not a corev1.ObjectReference"
        causes.append(bad_value(path, text, why))
        return
    if found.namespace not in ("", namespace):
        why = f'Namespace must be empty or equal to the trigger namespace "{namespace}"'
        causes.append(bad_value(f"{path}.namespace", found.namespace, why))
    members = (("kind", found.kind), ("name", found.name), ("apiVersion", found.apiVersion))
    causes.extend(required(f"{path}.{member}") for member, value in members if not value)


def _check_injection(causes: list[Cause], text: str, broker: object) -> None:
    path = f"metadata.annotations[{INJECTION}]"
    if text not in ("enabled", "disabled"):
        why = 'The provided injection annotation value can only be "enabled" or "disabled"'
        causes.append(bad_value(path, text, why))
    elif broker != "default":
        why = (
            "The provided injection annotation is only used for default broker, but non-default"
            " broker specified here"
        )
        causes.append(bad_value(path, broker, why))
