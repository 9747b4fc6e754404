"""What is particular to namespaces: where objects live, and how one ends with all that is in it."""

from typing import Final

from distributary.knative.apiserver.machinery import Key, Kind, Object, StatusError
from distributary.knative.apiserver.objects._values import Stored
from distributary.knative.kinds import NAMESPACE, NAMESPACE_LABEL

DEFAULT_NAMESPACE: Final = Key(NAMESPACE.resource, "", "default")


def key_of(namespace: str) -> Key:
    """Key of the Namespace with this name."""
    return Key(NAMESPACE.resource, "", namespace)


def as_new(content: Object) -> Object:
    """A Namespace that begins its life: active, and labelled with its name for selectors."""
    metadata = content["metadata"]
    labels = {**metadata.get("labels", {}), NAMESPACE_LABEL: metadata["name"]}
    return {
        **content,
        "metadata": {**metadata, "labels": labels},
        "status": {"phase": "Active"},
    }


def as_ending(content: Object) -> Object:
    """A Namespace that takes no new objects, and ends when the last one in it is gone."""
    return {**content, "status": {**content.get("status", {}), "phase": "Terminating"}}


def is_ending(stored: Stored) -> bool:
    """Whether this object is being deleted."""
    return "deletionTimestamp" in stored.content["metadata"]


def ending_refusal(kind: Kind, namespace: str, name: str) -> StatusError:
    """Why nothing is created in a namespace that ends."""
    return StatusError(
        "Forbidden",
        f'{kind.resource} "{name}" is forbidden: unable to create new content in namespace '
        f"{namespace} because it is being terminated",
        name=name,
    )


def default_refusal() -> StatusError:
    """Why the namespace ``default`` stays: the default broker's events never stop."""
    return StatusError(
        "Forbidden",
        f'{NAMESPACE.resource} "default" is forbidden: this namespace may not be deleted',
    )
