"""The API description of who takes part, and who owns what."""

from typing import Final

from distributary.resource import Schema, closed
from distributary.subscriptions.http._openapi_parts import (
    COUNT,
    TEXT,
    TIME,
    Node,
    answer,
    json_content,
    operation,
    problems,
)

_NOTHING: Final[Schema] = {"type": "null"}
_YES: Final[Schema] = {"type": "boolean"}
_SECONDS: Final[Schema] = {"type": "number"}


def _known(schema: Schema, description: str) -> Schema:
    return {"anyOf": [schema, _NOTHING], "description": description}


_NODE: Final[dict[str, Schema]] = {
    "name": TEXT,
    "address": TEXT | {"description": "host:port for other nodes; on one machine, for clients."},
    "version": TEXT,
    "since": TIME | {"description": "When it started."},
    "ageSeconds": _SECONDS | {"description": "How long ago it gave a sign of life."},
    "live": _YES | {"description": "Whether the others count on it."},
    "leads": _YES,
    "takesEvents": _YES,
}
_LEASE: Final[dict[str, Schema]] = {
    "name": TEXT,
    "holder": TEXT | {"description": "Who holds it, or held it last."},
    "generation": COUNT,
    "held": _YES,
    "leftSeconds": _known(
        _SECONDS, "Until it runs out, unless it is renewed; null: a lock that ends with its holder."
    ),
}
_OWNER: Final[dict[str, Schema]] = {
    "host": TEXT,
    "pid": COUNT,
    "executor": TEXT | {"description": "Spark's id of it; empty: none of a cluster."},
}
_PARTITION: Final[dict[str, Schema]] = {
    "partition": COUNT,
    "owner": _known(closed(_OWNER, required=_OWNER), "Who delivers it; null: nobody does now."),
    "generation": COUNT | {"description": "Of its newest owner; 0: it has had none."},
    "position": _known(COUNT, "The committed offset; null: unknown."),
    "end": _known(COUNT, "The record after the last durable one; null: unknown."),
    "lag": _known(COUNT, "Records between the two; null: unknown."),
}


def _each(members: dict[str, Schema]) -> Schema:
    return {"type": "array", "items": closed(members, required=members)}


_REPORT: Final = {
    "nodes": _each(_NODE),
    "leases": _each(_LEASE),
    "partitions": _each(_PARTITION),
}
CLUSTER_SCHEMAS: Final[dict[str, Schema]] = {"Cluster": closed(_REPORT, required=_REPORT)}


def cluster_path() -> Node:
    """``/cluster``."""
    return {
        "get": operation(
            "cluster",
            "system",
            "Read which nodes there are, who leads, and who owns each partition. Every node answers"
            " by itself, also while none leads.",
            {"200": answer("As asked.", json_content("Cluster"))} | problems("store-failed"),
        )
    }
