"""Validation of ``metadata`` as sent by a client."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from distributary.knative.apiserver.machinery._kind import Kind, Object
from distributary.knative.apiserver.machinery.names import (
    bad_value,
    forbidden,
    label_faults,
    qualified_faults,
    required,
    subdomain_faults,
    too_long,
    value_faults,
    wrong_type,
)
from distributary.knative.apiserver.machinery.status import Cause

ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
"""Keys and values of all annotations together, bytes (Kubernetes' own limit)."""

CAUSES_MAX: Final = 100
"""Faults reported at once."""

_SUFFIX_CHARS: Final = 5
_TEXTS: Final = ("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink")
_TYPES: Final[dict[str, tuple[type, str]]] = {
    **dict.fromkeys(_TEXTS, (str, "string")),
    **dict.fromkeys(("labels", "annotations"), (dict, "object")),
    **dict.fromkeys(("finalizers", "ownerReferences"), (list, "array")),
}


def check_metadata(kind: Kind, obj: Object, namespace: str) -> list[Cause]:
    """Find all faults of ``metadata``: names, labels, annotations, finalizers, owners, types.

    Args:
        kind: Of the object.
        obj: Before or after ``for_create`` and ``for_update``; may contain any JSON.
        namespace: Of the path; empty if the kind has none.

    Returns:
        At most ``CAUSES_MAX`` causes; empty: valid. Unknown members of ``metadata`` are no fault
        (``unknown_metadata``).
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        if metadata is None:
            return [required("metadata.name", "name or generateName is required")]
        return [wrong_type("metadata", metadata, "object")]
    causes: list[Cause] = []
    for cause in _faults(kind, metadata, namespace):
        causes.append(cause)
        if len(causes) >= CAUSES_MAX:
            break
    return causes


def _faults(kind: Kind, metadata: Object, namespace: str) -> Iterator[Cause]:
    sound: Object = {}
    for member, (type_, expected) in _TYPES.items():
        value = metadata.get(member)
        if value is None:
            continue
        if isinstance(value, type_):
            sound[member] = value
        else:
            yield wrong_type(f"metadata.{member}", value, expected)
    yield from _name_faults(kind, metadata)
    yield from _namespace_faults(kind, sound.get("namespace"), namespace)
    yield from _label_faults(sound.get("labels", {}))
    yield from _annotation_faults(sound.get("annotations", {}))
    yield from _finalizer_faults(sound.get("finalizers", []))
    yield from _owner_faults(sound.get("ownerReferences", []))


def _name_faults(kind: Kind, metadata: Object) -> Iterator[Cause]:
    rule = label_faults if kind.label_names else subdomain_faults
    name, generated = metadata.get("name"), metadata.get("generateName")
    if not name and not generated:
        yield required("metadata.name", "name or generateName is required")
    if generated and isinstance(generated, str):
        # Check it with a suffix, after which a dash at its end is valid.
        yield from _spelt("metadata.generateName", generated, rule, "x" * _SUFFIX_CHARS)
        yield from _long("metadata.generateName", kind, generated, _SUFFIX_CHARS)
    if name and isinstance(name, str):
        yield from _spelt("metadata.name", name, rule)
        yield from _long("metadata.name", kind, name)


def _long(field: str, kind: Kind, name: str, more: int = 0) -> Iterator[Cause]:
    if kind.name_chars_max is not None and len(name) + more > kind.name_chars_max:
        yield bad_value(
            field, name, f"must be no more than {kind.name_chars_max - more} characters"
        )


def _spelt(
    field: str, text: str, rule: Callable[[str], Iterable[str]], suffix: str = ""
) -> Iterator[Cause]:
    yield from (bad_value(field, text, fault) for fault in rule(text + suffix))


def _namespace_faults(kind: Kind, sent: str | None, namespace: str) -> Iterator[Cause]:
    if not sent:
        return
    if not kind.namespaced:
        yield forbidden("metadata.namespace", "not allowed on this type")
        return
    if sent != namespace:
        why = "the namespace of the provided object does not match the namespace sent on the"
        yield bad_value("metadata.namespace", sent, f"{why} request")
    yield from _spelt("metadata.namespace", sent, label_faults)


def _label_faults(labels: Object) -> Iterator[Cause]:
    for key, value in labels.items():
        yield from _spelt("metadata.labels", key, qualified_faults)
        if not isinstance(value, str):
            yield wrong_type(f"metadata.labels[{key}]", value, "string")
        else:
            yield from _spelt("metadata.labels", value, value_faults)


def _annotation_faults(annotations: Object) -> Iterator[Cause]:
    size_bytes = 0
    for key, value in annotations.items():
        # Upper case is valid in prefixes of annotations too (Kubernetes).
        yield from (
            bad_value("metadata.annotations", key, fault) for fault in qualified_faults(key.lower())
        )
        if not isinstance(value, str):
            yield wrong_type(f"metadata.annotations[{key}]", value, "string")
        else:
            size_bytes += len(key.encode()) + len(value.encode())
    if size_bytes > ANNOTATIONS_BYTES_MAX:
        yield too_long(
            "metadata.annotations", f"may not be more than {ANNOTATIONS_BYTES_MAX} bytes"
        )


def _finalizer_faults(finalizers: list[Any]) -> Iterator[Cause]:
    for index, name in enumerate(finalizers):
        if not isinstance(name, str):
            yield wrong_type(f"metadata.finalizers[{index}]", name, "string")
        else:
            yield from _spelt("metadata.finalizers", name, qualified_faults)


def _owner_faults(owners: list[Any]) -> Iterator[Cause]:
    for index, owner in enumerate(owners):
        field = f"metadata.ownerReferences[{index}]"
        if not isinstance(owner, dict):
            yield wrong_type(field, owner, "object")
            continue
        for member in ("apiVersion", "kind", "name", "uid"):
            value = owner.get(member)
            if value is None or value == "":
                yield required(f"{field}.{member}")
            elif not isinstance(value, str):
                yield wrong_type(f"{field}.{member}", value, "string")
