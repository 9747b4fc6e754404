"""Classifies proxied requests: which are watches of the Kubernetes API, and how large they may be.

Callers: ``_relay_limits`` (admission), ``_protocol`` (bodies), ``_proxy`` (counters).
"""

import re
from urllib.parse import unquote_to_bytes

from distributary.net.http1 import Request
from distributary.server.ingest import _limits

_OBJECTS = (b"/api/", b"/apis/")
_KUBERNETES = (*_OBJECTS, b"/openapi/", b"/version/")
_KUBERNETES_ROOTS = frozenset(path.removesuffix(b"/") for path in _KUBERNETES)
_WATCH_PATH = re.compile(rb"/(?:api|apis/[^/]+)/[^/]+/watch/.")
_NOT_WATCHED = (b"false", b"0")


def decoded(path: bytes) -> bytes:
    """*path* as the control process reads it. Decide by this: no spelling gets past a rule."""
    return unquote_to_bytes(path) if b"%" in path else path


def is_watch(request: Request) -> bool:
    """Whether *request* is a watch of the Kubernetes API, whose response has no end."""
    path = decoded(request.path)
    if request.method != b"GET" or not path.startswith(_OBJECTS):
        return False
    if _WATCH_PATH.match(path) is not None:
        return True
    query = request.target.partition(b"?")[2]
    if b"watch" not in query and b"%" not in query:
        return False
    watched = False
    for parameter in query.split(b"&"):
        name, _, value = parameter.partition(b"=")
        if unquote_to_bytes(name) == b"watch":  # of several the last counts, as for the API
            watched = unquote_to_bytes(value).lower() not in _NOT_WATCHED
    return watched


def is_kubernetes(path: bytes) -> bool:
    """Whether *path* belongs to the Kubernetes API, whose clients expect errors as ``Status``."""
    path = decoded(path)
    return path.startswith(_KUBERNETES) or path in _KUBERNETES_ROOTS


def expects_status(request: Request) -> bool:
    """Whether the client of *request* expects errors as ``Status``.

    A path that is not canonical leads nowhere, but its client is one of the Kubernetes API still.
    """
    if request.path:
        return is_kubernetes(request.path)
    return is_kubernetes(b"/" + request.target.partition(b"?")[0].lstrip(b"/"))


def body_bytes_max(request: Request, others_bytes_max: int) -> int:
    """Returns the largest body of *request*; *others_bytes_max* is for requests without objects."""
    if decoded(request.path).startswith(_OBJECTS):
        return max(others_bytes_max, _limits.OBJECT_BODY_BYTES_MAX)
    return others_bytes_max
