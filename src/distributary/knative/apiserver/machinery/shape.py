"""The merge rules of a schema, for patches and field ownership."""

from collections.abc import Mapping
from typing import Any, Final

from distributary.knative.apiserver.machinery._kind import Object
from distributary.knative.apiserver.machinery._meta_schemas import META_SCHEMAS
from distributary.knative.apiserver.machinery.schema_words import REF


class ObjectShape:
    """Merge rules of the schema of one value; ``ANY`` without a schema.

    Without a schema, maps are merged member by member, and lists are replaced as a whole.

    Args:
        node: Schema of OpenAPI v2; may be a ``$ref``.
        schemas: Definitions by name, in addition to ``META_SCHEMAS``.
    """

    __slots__ = ("_item", "_members", "_node", "_schemas")

    def __init__(self, node: Object, schemas: Mapping[str, Object]) -> None:
        self._schemas = schemas
        self._members: dict[str, ObjectShape] = {}
        self._item: ObjectShape | None = None
        self._node = node | self._definition(node["$ref"]) if "$ref" in node else node

    def member(self, name: str) -> "ObjectShape":
        """The shape of the member *name* of an object."""
        node = self._node.get("properties", {}).get(name)
        if node is None:
            # All keys of a map have one shape.
            name, node = "", self._node.get("additionalProperties")
        if not isinstance(node, dict):
            return ANY
        if name not in self._members:
            self._members[name] = ObjectShape(node, self._schemas)
        return self._members[name]

    def is_field(self, name: str) -> bool:
        """Whether *name* is a field of a struct, not a key of a map."""
        return name in self._node.get("properties", {})

    @property
    def item(self) -> "ObjectShape":
        """The shape of the items of a list."""
        if self._item is None:
            node = self._node.get("items")
            self._item = ObjectShape(node, self._schemas) if isinstance(node, dict) else ANY
        return self._item

    @property
    def atomic_map(self) -> bool:
        """Whether an object is set as a whole."""
        return bool(self._node.get("x-kubernetes-map-type") == "atomic")

    @property
    def is_set(self) -> bool:
        """Whether a list is a set of scalars."""
        return bool(self._node.get("x-kubernetes-list-type") == "set")

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that identify the items of a list; empty: the list is atomic or a set."""
        if self._node.get("x-kubernetes-list-type") != "map":
            return ()
        return tuple(self._node.get("x-kubernetes-list-map-keys", ()))

    @property
    def merge_key(self) -> str:
        """Strategic merge patch: the key that identifies items of a list; empty: none."""
        return str(self._node.get("x-kubernetes-patch-merge-key", ""))

    @property
    def merges(self) -> bool:
        """Strategic merge patch: whether a list is merged, not replaced."""
        return "merge" in str(self._node.get("x-kubernetes-patch-strategy", "")).split(",")

    @property
    def default(self) -> Any:
        """Default of an absent value; None: unknown."""
        return self._node.get("default")

    def _definition(self, ref: str) -> Object:
        name = ref.removeprefix(REF)
        return self._schemas.get(name) or META_SCHEMAS.get(name) or {}


ANY: Final = ObjectShape({}, {})
"""Without a schema."""

ATOM: Final = ObjectShape({"x-kubernetes-map-type": "atomic"}, {})
"""Of an atomic value."""
