"""Kubernetes' own description of its objects, as the models of its Python client have it.

The models are generated from the OpenAPI document of the Kubernetes version that the client is
named after (``kubernetes`` 37 is Kubernetes 1.37), and locked with the other packages. A member
that a model does not know, one that it needs and does not find, and a value of another type are
faults, as with ``kubectl apply --validate=strict``.
"""

from collections.abc import Mapping
from typing import Any

from kubernetes.client import models
from pydantic import ValidationError


def faults(document: Mapping[str, Any]) -> list[str]:
    """A line for each fault of an object, with its place.

    Args:
        document: The object; its group must be one of Kubernetes' own.
    """
    version = str(document["apiVersion"]).rpartition("/")[2]
    kind = str(document["kind"])
    model = getattr(models, version.capitalize() + kind, None)
    if model is None:
        return [f"{document['apiVersion']} {kind}: Kubernetes has no such kind"]
    try:
        read = model.model_validate(document)
    except ValidationError as error:
        return [
            f"{'.'.join(map(str, (kind, *each['loc'])))}: {each['msg']}" for each in error.errors()
        ]
    # The models also take members under Python's names (target_port), which Kubernetes does not.
    same = read.model_dump(by_alias=True, exclude_unset=True) == document
    return [] if same else [f"{kind}: a member is not spelt as Kubernetes does"]
