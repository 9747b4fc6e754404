"""The schemas of all kinds: source of type checks, unknown fields, OpenAPI and the docs."""

import functools
from typing import Final

from distributary.knative.apiserver.machinery import Kind
from distributary.knative.apiserver.machinery.schema_words import REF, Schema
from distributary.knative.apiserver.machinery.shape import ObjectShape
from distributary.knative.kinds._api_subscription import SHOWN
from distributary.knative.kinds._schemas_core import CORE
from distributary.knative.kinds._schemas_duck import DUCK
from distributary.knative.kinds._schemas_kinds import KNATIVE

SCHEMAS: Final[dict[str, Schema]] = KNATIVE | DUCK | CORE | SHOWN
"""Definitions of OpenAPI v2 by name, in the API server's naming and style.

A ``$ref`` to a missing definition refers to one of ``apiserver.machinery`` (metadata). An object
without ``properties`` and with ``x-kubernetes-preserve-unknown-fields`` may contain anything.
"""


@functools.cache
def shape_of(kind: Kind) -> ObjectShape:
    """The merge rules for objects of *kind*."""
    return ObjectShape({"$ref": REF + kind.definition}, SCHEMAS)
