"""Which objects a path of the Kubernetes API names."""

from typing import Final, NamedTuple

from distributary.knative import kinds as knative
from distributary.knative.apiserver.machinery import Key, Kind

_BY_PLACE: Final = {(kind.group, kind.version, kind.plural): kind for kind in knative.KINDS}
_WATCH: Final = "watch"
_STATUS: Final = "status"


class RequestTarget(NamedTuple):
    """What a path names.

    Attributes:
        kind: Of the objects.
        namespace: Of the object or collection; empty: all namespaces, or the kind has none.
        name: Of the object; empty: the collection.
        subresource: ``status``, or empty.
        watched: The deprecated path of a watch (``/watch/`` behind the version).
    """

    kind: Kind
    namespace: str
    name: str
    subresource: str = ""
    watched: bool = False

    @property
    def key(self) -> Key:
        """Of the object."""
        assert self.name
        return Key(self.kind.resource, self.namespace, self.name)


def read_target(path: str) -> RequestTarget | None:
    """What *path* names, a path below ``/api`` or ``/apis``; None: no objects of ours.

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
    """What the path behind group and version names."""
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
    # A name stands behind its namespace, or behind none where the kind has none.
    if (namespace is not None) != kind.namespaced and (namespace is not None or name):
        return None
    return RequestTarget(kind, namespace or "", name, subresource, watched)
