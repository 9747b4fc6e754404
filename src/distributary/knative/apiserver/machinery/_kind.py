"""A kind of object, as discovery, paths and tables know it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]
"""An object of the Kubernetes API as its JSON; one that stands in the store is never changed."""


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
    """What is the same for all objects of a kind.

    Attributes:
        group: API group; empty: the core group.
        version: Of the group.
        kind: In CamelCase.
        plural: In paths.
        short_names: What kubectl takes too.
        categories: Such as ``all`` and ``knative``.
        columns: Of its table, behind the name.
        namespaced: Objects belong to a namespace.
        has_status: There is a ``/status``; then the main resource takes no status from clients.
        generations: ``metadata.generation`` counts changes of the spec.
        label_names: Names are DNS labels (63 characters, no dots); else DNS subdomains.
        name_chars_max: Longest name, where it is shorter than the rule has it.
        selectable: What field selectors know beside ``metadata.name`` and ``metadata.namespace``:
            what they call it, and its path.
        read_only: Its objects can be read, and nothing else.
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

    @property
    def singular(self) -> str:
        """What kubectl takes too."""
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``plural.group``, or the plural alone: unique, and how messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def definition(self) -> str:
        """Name of its schema among the definitions, as the API server makes it."""
        group = ".".join(reversed(self.group.split("."))) if self.group else "io.k8s.api.core"
        return f"{group}.{self.version}.{self.kind}"

    @property
    def names(self) -> dict[str, str]:
        """For ``x-kubernetes-group-version-kind``."""
        return {"group": self.group, "kind": self.kind, "version": self.version}


class Key(NamedTuple):
    """Names one object; a recreated one has the same key and another uid.

    Attributes:
        resource: ``Kind.resource``.
        namespace: Empty where the kind has none.
        name: Unique in its namespace.
    """

    resource: str
    namespace: str
    name: str
