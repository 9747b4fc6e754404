"""Who may do what: every route and method of every surface, against every kind of identity.

``draw_docs.py`` draws the table of docs/reference/access.md from this. Tests ask a running server
for each cell, and find each route of the applications here.
"""

from collections.abc import Iterator
from typing import NamedTuple

from distributary.access import Grant, Identity, IdentityKind, Verb
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.knative import kinds
from distributary.server.ingest import need_of
from distributary.server.nodes import Purpose
from distributary.subscriptions.amqp import permission_of
from distributary.subscriptions.http.operations import OperationName

NAMESPACE = "shop"
"""Tenant of the routes, and of the identities that have one."""

STRANGERS = ("none", "wrong", "expired")
"""Nothing shown, something that is no key, a key after its end."""

GRANTS = {
    "other": Grant(may=(Verb.ADMIN,), namespaces=("bank",)),
    "publish": Grant(may=(Verb.PUBLISH,), namespaces=(NAMESPACE,)),
    "read": Grant(may=(Verb.READ,), namespaces=(NAMESPACE,)),
    "write": Grant(may=(Verb.WRITE,), namespaces=(NAMESPACE,)),
    "watcher": Grant(may=(Verb.OBSERVE,), namespaces=(NAMESPACE,)),
    "observe": Grant(may=(Verb.OBSERVE,), namespaces=("*",)),
    "admin": Grant(may=(Verb.ADMIN,), namespaces=(NAMESPACE,)),
    "operator": Grant(may=(Verb.ADMIN,), namespaces=("*",)),
}
"""Identities by their column: the admin of another tenant, each verb (``observe`` there, and in all
namespaces), the admin of everything."""


class Way(NamedTuple):
    """One route with one method.

    Attributes:
        surface: Name of the surface.
        method: The method.
        path: The path, of the tenant ``NAMESPACE`` where it has one.
        shown: The path for people; those that differ in a kind are one.
    """

    surface: str
    method: str
    path: str
    shown: str


_DELIVERIES = {
    "/subscriptions": ("GET", "POST"),
    "/subscriptions/{id}": ("GET", "PUT", "DELETE"),
    "/subscriptions/{id}/status": ("GET",),
    "/subscriptions/{id}/attempts": ("GET",),
    "/subscriptions/{id}/pause": ("POST",),
    "/subscriptions/{id}/resume": ("POST",),
    "/subscriptions/{id}/disable": ("POST",),
    "/subscriptions/{id}/enable": ("POST",),
    "/subscriptions/{id}/retry": ("POST",),
    "/subscriptions/{id}/replay": ("POST",),
    "/subscriptions/{id}/signature/rotate": ("POST",),
    "/dead-letters": ("GET",),
    "/dead-letters/redrive": ("POST",),
    "/dead-letters/purge": ("POST",),
    "/dead-letters/{id}": ("GET",),
    "/dead-letters/runs/{run}": ("GET",),
    "/filters/try": ("POST",),
    "/runs": ("GET",),
    "/runs/{run}": ("GET",),
    "/runs/{run}/cancel": ("POST",),
    "/status": ("GET",),
}
_SYSTEM = {
    "/": ("GET",),
    "/healthz": ("GET",),
    "/readyz": ("GET",),
    "/metrics": ("GET",),
    "/cluster": ("GET",),
    "/openapi.json": ("GET",),
    "/docs": ("GET",),
    "/console": ("GET",),
    "/keys": ("GET", "POST"),
    "/keys/{id}": ("GET", "DELETE"),
    "/whoami": ("GET",),
    "/can": ("GET",),
    "/consent/{name}": ("GET", "POST"),
    "/.well-known/openid-configuration": ("GET",),
    "/openid/v1/jwks": ("GET",),
}
_EVENTS = {
    "/events": ("GET", "POST"),
    "/events/{position}": ("GET",),
    f"/namespaces/{NAMESPACE}/events": ("GET", "POST"),
    f"/namespaces/{NAMESPACE}/events/{{position}}": ("GET",),
    f"/brokers/{NAMESPACE}/{{name}}": ("POST",),
    f"/channels/{NAMESPACE}/{{name}}": ("POST",),
}
DISCOVER = "Discover"
"""Operation over AMQP that lists the others; as ``OPTIONS``, it needs an identity alone."""
NODE_SHOWN = ("nothing", "client", "other cluster", "node")
"""What is shown at the port for other nodes: no certificate, one of a client of the other ports,
one of another cluster, and one of this cluster."""
_DISCOVERY = ("/api", "/api/v1", "/apis", "/version", "/openapi/v2", "/openapi/v3")
_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
_EVERY = ("GET", "POST", "PUT", "PATCH", "DELETE")


def ways() -> Iterator[Way]:
    """Every route with every method that it knows, ``OPTIONS`` among them."""
    for surface, routes in (("system", _SYSTEM), ("events", _EVENTS)):
        for path, methods in routes.items():
            yield from _ways(surface, path, methods)
    for path, methods in _DELIVERIES.items():
        yield from _ways("subscriptions", path, methods)
        yield from _ways("subscriptions", f"/namespaces/{NAMESPACE}{path}", methods)
    for path in _DISCOVERY:
        yield Way("kubernetes", "GET", path, path)
    for plural in _REVIEWS:
        path = f"/apis/authorization.k8s.io/v1/{plural}"
        yield Way("kubernetes", "POST", path, path)
    for kind in kinds.KINDS:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        yield from _of_kind(root, kind.plural, namespaced=kind.namespaced)


def amqp_ways() -> Iterator[Way]:
    """Every operation over AMQP, at either address of a link for requests."""
    for address in ("subscriptions", f"namespaces/{NAMESPACE}/subscriptions"):
        shown = address.replace(f"/{NAMESPACE}", "/{namespace}")
        for operation in (*OperationName, DISCOVER):
            yield Way("amqp", operation, address, shown)


def _ways(surface: str, path: str, methods: tuple[str, ...]) -> Iterator[Way]:
    shown = path.replace(f"/{NAMESPACE}", "/{namespace}")
    concrete = path.replace("/consent/{name}", f"/consent/{'0' * 32}").replace("{name}", "default")
    concrete = concrete.replace("{id}", "x").replace("{run}", "x").replace("{position}", "0-0-0")
    for method in (*methods, "OPTIONS"):
        yield Way(surface, method, concrete, shown)


def _of_kind(root: str, plural: str, *, namespaced: bool) -> Iterator[Way]:
    if not namespaced:
        # Namespaces and definitions: each is shown by its own name.
        for method in ("GET", "POST"):
            yield Way("kubernetes", method, f"{root}/{plural}", f"…/{plural}")
        for method in _EVERY:
            if method != "POST":
                shown = f"…/{plural}/{{name}}"
                yield Way("kubernetes", method, f"{root}/{plural}/{NAMESPACE}", shown)
        return
    yield Way("kubernetes", "GET", f"{root}/{plural}", "…/{kind}")
    inside, shown = f"{root}/namespaces/{NAMESPACE}/{plural}", "…/namespaces/{namespace}/{kind}"
    for method in ("GET", "POST", "DELETE"):
        yield Way("kubernetes", method, inside, shown)
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        yield Way("kubernetes", method, f"{inside}/x", f"{shown}/{{name}}")
    for method in ("GET", "PUT", "PATCH"):
        yield Way("kubernetes", method, f"{inside}/x/status", f"{shown}/{{name}}/status")


def node_ways() -> Iterator[str]:
    """What a connection to the port for other nodes may say that it is for, by ALPN."""
    yield from Purpose
    yield "http/1.1"
    yield ""


def node_expected(purpose: str, shown: str) -> bool:
    """Whether a connection for *purpose* gets further than the handshake."""
    return purpose in tuple(Purpose) and shown == "node"


def node_rows() -> Iterator[tuple[str, ...]]:
    """The table of the port for other nodes."""
    for purpose in node_ways():
        cells = ("yes" if node_expected(purpose, shown) else "no" for shown in NODE_SHOWN)
        yield (f"`{purpose}`" if purpose else "nothing", *cells)


def expected(way: Way, column: str) -> int | None:
    """Status of the refusal that *way* brings to who has *column*; None: it is let through."""
    need = need_of(way.method.encode(), way.path.encode())
    permission = need.permission
    if way.surface == "amqp":
        namespace = NAMESPACE if NAMESPACE in way.path else DEFAULT_NAMESPACE
        asks = way.method != DISCOVER
        permission = permission_of(OperationName(way.method), namespace) if asks else None
    elif not need.identity:
        return None
    if column in STRANGERS:
        return 401
    identity = Identity(name=column, how=IdentityKind.KEY, grants=(GRANTS[column],))
    return None if permission is None or identity.may(permission) else 403


def rows() -> Iterator[tuple[str, ...]]:
    """The table: surface, methods, path, and a cell for who shows nothing valid and each grant."""
    lines: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for way in (*ways(), *amqp_ways()):
        cells = tuple(_cell(expected(way, column)) for column in ("none", *GRANTS))
        methods = lines.setdefault((way.surface, way.shown, cells), [])
        if way.method not in methods:
            methods.append(way.method)
    for (surface, shown, cells), methods in lines.items():
        yield (surface, ", ".join(methods), f"`{shown}`", *cells)


def _cell(status: int | None) -> str:
    return "yes" if status is None else str(status)
