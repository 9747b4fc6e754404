"""The schemas of all kinds: from them come type checks, unknown fields, OpenAPI and the docs."""

from typing import Final

from distributary.knative.kinds._kinds import KINDS
from distributary.knative.kinds._schema_words import Schema
from distributary.knative.kinds._schemas_core import CORE
from distributary.knative.kinds._schemas_duck import DUCK
from distributary.knative.kinds._schemas_kinds import KNATIVE

SCHEMAS: Final[dict[str, Schema]] = KNATIVE | DUCK | CORE
"""Definitions of OpenAPI v2 by name, as the Kubernetes API server names and writes them.

A ``$ref`` to a definition that is not here is to one of ``apiserver.machinery`` (metadata). An
object without ``properties`` and with ``x-kubernetes-preserve-unknown-fields`` holds anything.
"""

_PREFIX: Final = {
    "eventing.knative.dev": "dev.knative.eventing.v1.",
    "messaging.knative.dev": "dev.knative.messaging.v1.",
    "": "io.k8s.api.core.v1.",
}

SCHEMA_OF: Final[dict[str, str]] = {
    kind.resource: _PREFIX[kind.group] + kind.kind for kind in KINDS
}
"""``Kind.resource`` -> name of its definition."""
