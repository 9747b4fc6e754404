"""Rules particular to Namespaces: creation with a label, and deletion with their content."""

from typing import Final

from distributary.knative.apiserver.machinery import Key, Kind, Object, StatusError
from distributary.knative.apiserver.objects._values import Stored
from distributary.knative.kinds import NAMESPACE, NAMESPACE_LABEL

DEFAULT_NAMESPACE: Final = Key(NAMESPACE.resource, "", "default")


def key_of(namespace: str) -> Key:
    """Key of the Namespace with this name."""
    return Key(NAMESPACE.resource, "", namespace)


def as_new(content: Object) -> Object:
    """*content* as a new Namespace: active, and labelled with its name for selectors."""
    metadata = content["metadata"]
    labels = {**metadata.get("labels", {}), NAMESPACE_LABEL: metadata["name"]}
    return {
        **content,
        "metadata": {**metadata, "labels": labels},
        "status": {"phase": "Active"},
    }


def as_ending(content: Object) -> Object:
    """*content* as a terminating Namespace: no new objects; removed when it is empty."""
    return {**content, "status": {**content.get("status", {}), "phase": "Terminating"}}


def is_ending(stored: Stored) -> bool:
    """Whether this object is being deleted."""
    return "deletionTimestamp" in stored.content["metadata"]


def ending_refusal(kind: Kind, namespace: str, name: str) -> StatusError:
    """Refusal to create an object in a terminating namespace."""
    return StatusError(
        "Forbidden",
        f'{kind.resource} "{name}" is forbidden: unable to create new content in namespace '
        f"{namespace} because it is being terminated",
        name=name,
    )


def default_refusal() -> StatusError:
    """Refusal to delete the namespace ``default``: the default broker's events never stop."""
    return StatusError(
        "Forbidden",
        f'{NAMESPACE.resource} "default" is forbidden: this namespace may not be deleted',
    )
