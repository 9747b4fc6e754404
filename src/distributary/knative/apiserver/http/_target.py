"""Parses paths of the Kubernetes API: kind, namespace, name, subresource."""

from typing import Final, NamedTuple

from distributary.knative import kinds as knative
from distributary.knative.apiserver.machinery import Key, Kind

_BY_PLACE: Final = {(kind.group, kind.version, kind.plural): kind for kind in knative.KINDS}
_WATCH: Final = "watch"
_STATUS: Final = "status"


class RequestTarget(NamedTuple):
    """The object or collection that a path names.

    Attributes:
        kind: Of the objects.
        namespace: Of the object or collection; empty: all namespaces, or a cluster-scoped kind.
        name: Of the object; empty: the collection.
        subresource: ``status``, or empty.
        watched: Whether it is the deprecated path of a watch (``/watch/`` after the version).
    """

    kind: Kind
    namespace: str
    name: str
    subresource: str = ""
    watched: bool = False

    @property
    def key(self) -> Key:
        """Key of the object."""
        assert self.name
        return Key(self.kind.resource, self.namespace, self.name)


def read_target(path: str) -> RequestTarget | None:
    """Parse *path*, below ``/api`` or ``/apis``; None: it names no served objects.

    Source:
        Kubernetes API concepts, "Resource URIs".
    """
    match path.split("/")[1:]:
        case ["api", version, *rest] if rest:
            return _within("", version, rest)
        case ["apis", group, version, *rest] if rest and group:
            return _within(group, version, rest)
    return None


def _within(group: str, version: str, rest: list[str]) -> RequestTarget | None:
    """Parse the part of a path after group and version."""
    watched = rest[0] == _WATCH and len(rest) > 1
    if watched:
        rest = rest[1:]
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2 and (group or rest[2] != _STATUS):
        namespace, rest = rest[1], rest[2:]
    if namespace == "" or "" in rest or len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    kind = _BY_PLACE.get((group, version, plural))
    known = subresource == _STATUS and not watched and kind is not None and kind.has_status
    if kind is None or (subresource and not known):
        return None
    # A name follows its namespace; for a cluster-scoped kind there is none.
    if (namespace is not None) != kind.namespaced and (namespace is not None or name):
        return None
    return RequestTarget(kind, namespace or "", name, subresource, watched)
