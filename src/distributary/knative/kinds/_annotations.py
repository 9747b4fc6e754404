"""Annotations of a Trigger: Knative's dependency and Broker injection, and our own.

Source:
    knative/eventing 1.22, ``pkg/apis/eventing/v1/trigger_validation.go``.
"""

from typing import Final

import msgspec

from distributary.knative.apiserver.machinery import Cause, Object
from distributary.knative.apiserver.machinery.names import bad_value, required
from distributary.knative.kinds._destinations import check_name
from distributary.resource.orders import PREFIX, fault_of, orders_in

DEPENDENCY: Final = "knative.dev/dependency"
"""Annotation with an object, as JSON, that must be Ready before the Trigger is."""

SINK_CREDENTIAL: Final = "distributary.dev/sink-credential"
"""Annotation of a Trigger or messaging Subscription: name of the Secret in its namespace that the
subscriber is shown: ``username`` and ``password``, or ``token``."""

SIGNATURE: Final = "distributary.dev/signature"
"""The same: name of the Secret whose keys sign its deliveries: ``secret``, and ``previous``."""

INJECTION: Final = "eventing.knative.dev/injection"
"""``enabled`` or ``disabled``, only for the Broker ``default``. Checked, without effect."""

LIFECYCLE: Final = "distributary.dev/lifecycle"
"""Annotation of a Trigger or messaging Subscription: ``true`` where its subscriber is to get events
about it, as ``config.lifecycle`` of the Subscriptions API."""


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


def check_lifecycle(causes: list[Cause], obj: Object) -> None:
    """Add a fault of the annotation ``LIFECYCLE`` of *obj* to *causes*."""
    text = annotations_of(obj).get(LIFECYCLE)
    if isinstance(text, str) and text not in ("true", "false"):
        why = 'expected "true" or "false"'
        causes.append(bad_value(f"metadata.annotations[{LIFECYCLE}]", text, why))


def check_orders(causes: list[Cause], obj: Object) -> None:
    """Add faults of the annotations of *obj* that say what to do with its deliveries."""
    for name, text in orders_in(annotations_of(obj)).items():
        why = fault_of(name, text)
        if why is not None:
            causes.append(bad_value(f"metadata.annotations[{PREFIX}{name}]", text, why))


def orders_of(obj: Object) -> dict[str, str]:
    """What the annotations of *obj* say about its deliveries, by the names of ``orders``."""
    return orders_in(annotations_of(obj))


def lifecycle_of(obj: Object) -> bool:
    """Whether the subscriber of *obj* is to get events about it."""
    return annotations_of(obj).get(LIFECYCLE) == "true"


def secrets_named_by(obj: Object) -> dict[str, str]:
    """Names of the Secrets that *obj* refers to, by the annotation that names each."""
    annotations = annotations_of(obj)
    found = {name: annotations.get(name) for name in (SINK_CREDENTIAL, SIGNATURE)}
    return {name: text for name, text in found.items() if isinstance(text, str) and text}


def check_secret_names(causes: list[Cause], obj: Object) -> None:
    """Add faults of the annotations that name Secrets to *causes*."""
    for name, text in secrets_named_by(obj).items():
        check_name(causes, f"metadata.annotations[{name}]", text, subdomain=True)


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
