"""Descriptions of kinds for discovery, paths and tables; keys of objects."""

from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]
"""An object of the Kubernetes API as JSON; stored ones are never modified."""


class Column(NamedTuple):
    """A column of a kind's table, as ``kubectl get`` shows it.

    Attributes:
        name: Heading.
        path: Of the value in the object, members separated by dots; for ``Ready`` conditions
            ``condition:Ready.status`` and ``condition:Ready.reason``; for annotations
            ``annotation:`` and the name; ``age``.
        type: ``string``, ``integer`` or ``date``.
        priority: 0: always; 1: with ``-o wide``.
    """

    name: str
    path: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects.

    Attributes:
        group: API group; empty: the core group.
        version: Of the group.
        kind: In CamelCase.
        plural: In paths.
        short_names: Aliases for kubectl.
        categories: Such as ``all`` and ``knative``.
        columns: Of its table, after the name.
        namespaced: Whether objects belong to a namespace.
        has_status: Whether there is a ``/status``; then the main resource ignores clients' status.
        generations: Whether ``metadata.generation`` counts changes of the spec.
        label_names: Whether names are DNS labels (63 characters, no dots); else DNS subdomains.
        name_chars_max: Longest name, if shorter than that rule allows.
        selectable: Fields for field selectors besides ``metadata.name`` and
            ``metadata.namespace``: name and path.
        read_only: Whether its objects can only be read.
        delivers: Whether its objects have deliveries, whose numbers are shown in ``status``.
    """

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    generations: bool = False
    label_names: bool = True
    name_chars_max: int | None = None
    selectable: tuple[tuple[str, str], ...] = ()
    read_only: bool = False
    delivers: bool = False

    @property
    def singular(self) -> str:
        """Singular name for kubectl."""
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``plural.group``, or the plural alone for the core group: unique, used in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def definition(self) -> str:
        """Name of its schema among the definitions, as in the API server."""
        group = ".".join(reversed(self.group.split("."))) if self.group else "io.k8s.api.core"
        return f"{group}.{self.version}.{self.kind}"

    @property
    def names(self) -> dict[str, str]:
        """Value of ``x-kubernetes-group-version-kind``."""
        return {"group": self.group, "kind": self.kind, "version": self.version}


class Key(NamedTuple):
    """Identifies an object; a recreated one has the same key and another uid.

    Attributes:
        resource: ``Kind.resource``.
        namespace: Empty for cluster-scoped kinds.
        name: Unique in its namespace.
    """

    resource: str
    namespace: str
    name: str
