"""CustomResourceDefinitions of Knative's kinds and ours, for clients that look them up.

Generated from the kinds, read-only, and not in the object store.

Source:
    apiextensions.k8s.io/v1; the labels are those of knative/eventing 1.22 (``config/core``).
"""

import uuid
from typing import Final

from distributary.knative.apiserver.machinery import Column, Kind, Object
from distributary.knative.kinds._api_subscription import API_SUBSCRIPTION
from distributary.knative.kinds._kinds import (
    BROKER,
    CHANNEL,
    EVENT_POLICY,
    SUBSCRIPTION,
    TRIGGER,
)

DEFINITION: Final = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    columns=(Column("Created At", "metadata.creationTimestamp"),),
    namespaced=False,
    label_names=False,
    read_only=True,
)

_CREATED: Final = "1970-01-01T00:00:00Z"
"""Like the build date in the server's version: definitions are part of the program."""

_LABELS: Final = {
    BROKER.resource: {"duck.knative.dev/addressable": "true"},
    CHANNEL.resource: {
        "duck.knative.dev/addressable": "true",
        "messaging.knative.dev/subscribable": "true",
    },
}


def definitions() -> list[Object]:
    """One definition for each of Knative's kinds, and of ``ApiSubscription``, ordered by name."""
    made = [
        _definition(kind)
        for kind in (BROKER, TRIGGER, EVENT_POLICY, CHANNEL, SUBSCRIPTION, API_SUBSCRIPTION)
    ]
    return sorted(made, key=lambda each: str(each["metadata"]["name"]))


def _definition(kind: Kind) -> Object:
    names: Object = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "categories": list(kind.categories),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    version: Object = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}} if kind.has_status else {},
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        # Clients read the full schema from /openapi/v3.
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    return {
        "apiVersion": DEFINITION.api_version,
        "kind": DEFINITION.kind,
        "metadata": {
            "name": kind.resource,
            "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, kind.resource)),
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": _CREATED,
            "labels": _labels(kind),
        },
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
            "conversion": {"strategy": "None"},
        },
        "status": {
            "acceptedNames": names,
            "storedVersions": [kind.version],
            "conditions": [
                {
                    "type": type_,
                    "status": "True",
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": _CREATED,
                }
                for type_, reason, message in (
                    ("NamesAccepted", "NoConflicts", "no conflicts found"),
                    ("Established", "InitialNamesAccepted", "the kind is served"),
                )
            ],
        },
    }


def _labels(kind: Kind) -> Object:
    if kind is API_SUBSCRIPTION:
        return {}
    return {"knative.dev/crd-install": "true", **_LABELS.get(kind.resource, {})}


def _column(column: Column) -> Object:
    type_ = column.type
    shown = {"name": column.name, "type": type_, "jsonPath": _json_path(column.path)}
    return {**shown, "priority": column.priority} if column.priority else shown


def _json_path(path: str) -> str:
    kind, _, rest = path.partition(":")
    if path == "age":
        return ".metadata.creationTimestamp"
    if kind == "annotation":
        return ".metadata.annotations." + rest.replace(".", "\\.")
    if kind == "condition":
        name, _, member = rest.partition(".")
        return f'.status.conditions[?(@.type=="{name}")].{member}'
    return f".{path}"
