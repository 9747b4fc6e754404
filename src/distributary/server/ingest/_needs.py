"""What each request needs: one table of every path of every surface over HTTP.

Caller: ``_context``, with the head of a request, before its body is read. The table of who may do
what in the documentation is drawn from ``ROWS``, and a test finds a row for each path that any
application serves.

Source:
    Kubernetes, "Resource URIs" and "Authorization" (verbs of a request).
"""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from distributary.access import ALL_NAMESPACES, Permission, Verb
from distributary.core.tenant import DEFAULT_NAMESPACE

_READING: Final = frozenset((b"GET", b"HEAD"))


class Row(NamedTuple):
    """Paths of one surface, and what a request to them needs.

    Attributes:
        surface: Name for people.
        path: Regular expression of the decoded path; its groups ``ns`` and ``name`` are the
            namespace and the Broker or Channel.
        reading: Verb of GET and HEAD; None: an identity alone.
        other: Verb of every other method but OPTIONS; None likewise.
        open_to_all: Not even an identity is needed.
        everywhere: What the path shows concerns all namespaces.
        somewhere: It shows each namespace to those who may see it: any one suffices here.
    """

    surface: str
    path: re.Pattern[str]
    reading: Verb | None = None
    other: Verb | None = None
    open_to_all: bool = False
    everywhere: bool = False
    somewhere: bool = False


def _compiled(path: str) -> re.Pattern[str]:
    return re.compile(path, re.DOTALL)  # a line break is no way around a row


def _row(surface: str, path: str, reading: Verb | None, other: Verb | None) -> Row:
    return Row(surface, _compiled(path), reading, other)


_NS: Final = "(?P<ns>[^/]+)"

ROWS: Final = (
    Row("health", _compiled("/(healthz|readyz)"), open_to_all=True),
    Row("documents", _compiled("/(docs|openapi\\.json)"), open_to_all=True),
    # Files of the package. What they show a browser asks for itself, with a key.
    Row("console", _compiled("/console(/.*)?"), open_to_all=True),
    # Public keys: receivers of events fetch them, and show nothing.
    Row(
        "issuer",
        _compiled("/(\\.well-known/openid-configuration|openid/v1/jwks)"),
        open_to_all=True,
    ),
    # Whoever knows the key of such a URL may consent: it is the permission.
    Row("consent", _compiled("/consent/[^/]+"), open_to_all=True),
    Row("metrics", _compiled("/metrics"), Verb.OBSERVE, Verb.OBSERVE, somewhere=True),
    Row("cluster", _compiled("/cluster"), Verb.OBSERVE, Verb.OBSERVE, everywhere=True),
    _row("events", "/events", Verb.READ, Verb.PUBLISH),
    _row("events", f"/namespaces/{_NS}/events", Verb.READ, Verb.PUBLISH),
    _row("found events", "/events/.*", Verb.READ, Verb.READ),
    _row("found events", f"/namespaces/{_NS}/events/.*", Verb.READ, Verb.READ),
    _row("events", f"/(?P<name>brokers/{_NS}/[^/]+)", Verb.PUBLISH, Verb.PUBLISH),
    _row("events", f"/(?P<name>channels/{_NS}/[^/]+)", Verb.PUBLISH, Verb.PUBLISH),
    _row("subscriptions", "/(subscriptions|dead-letters|runs)(/.*)?", Verb.READ, Verb.WRITE),
    _row(
        "subscriptions",
        f"/namespaces/{_NS}/(subscriptions|dead-letters|runs)(/.*)?",
        Verb.READ,
        Verb.WRITE,
    ),
    _row("status", "/status", Verb.READ, Verb.READ),
    _row("status", f"/namespaces/{_NS}/status", Verb.READ, Verb.READ),
    # A filter is tried on events that the sender shows, or may read.
    _row("filters", "/filters/try", Verb.READ, Verb.READ),
    _row("filters", f"/namespaces/{_NS}/filters/try", Verb.READ, Verb.READ),
    Row("keys", _compiled("/keys(/.*)?"), Verb.ADMIN, Verb.ADMIN, somewhere=True),
    _row("identity", "/(whoami|can)", None, None),
    _row("reviews", "/apis/authorization\\.k8s\\.io/[^/]+/selfsubject[a-z]+", None, None),
    _row("discovery", "/apis/apiextensions\\.k8s\\.io/.*", None, None),
    _row(
        "kubernetes",
        f"/(api/[^/]+|apis/[^/]+/[^/]+)/(watch/)?namespaces/{_NS}(/.*)?",
        Verb.READ,
        Verb.WRITE,
    ),
    Row(
        "kubernetes",
        _compiled("/(api/[^/]+|apis/[^/]+/[^/]+)/[^/]+(/.*)?"),
        Verb.READ,
        Verb.WRITE,
        everywhere=True,
    ),
    _row("discovery", "/((api|apis|openapi|version)(/.*)?)?", None, None),
)
"""The first row whose path fits counts; a path that fits none needs an identity alone."""


class Need(NamedTuple):
    """What a request needs.

    Attributes:
        identity: Whether it must show an identity.
        permission: What that must be allowed; None: nothing.
    """

    identity: bool
    permission: Permission | None


def need_of(method: bytes, path: bytes) -> Need:
    """What a request needs, by its method and its canonical path, as sent.

    The control process decodes a path before it looks for what is there: so does this.
    """
    found = row_of(path)
    if found is None:
        return Need(True, None)
    row, named = found
    if row.open_to_all:
        return Need(False, None)
    verb = row.reading if method in _READING else row.other
    # Else OPTIONS would tell each identity which namespaces, Brokers and Channels others have.
    publishes = row.other is Verb.PUBLISH and bool(named)
    asks_of_any = method == b"OPTIONS" and not publishes
    if verb is None or asks_of_any:
        return Need(True, None)
    namespace = None if row.somewhere else named.get("ns") or DEFAULT_NAMESPACE
    if row.everywhere:
        namespace = ALL_NAMESPACES
    name = ""
    if verb is Verb.PUBLISH:
        full = named.get("name")
        name = "brokers/default" if full is None else _short(full)
    return Need(True, Permission(verb, namespace, name))


def row_of(path: bytes) -> tuple[Row, dict[str, str | None]] | None:
    """The row of *path*, as sent, and the parts that it names; None: there is none."""
    text = unquote_to_bytes(path).decode("utf-8", "replace")
    for row in ROWS:
        found = row.path.fullmatch(text)
        if found is not None:
            return row, found.groupdict()
    return None


def _short(name: str) -> str:
    """``brokers/default`` of ``brokers/shop/default``: the namespace stands for itself."""
    kind, _, last = name.split("/")
    return f"{kind}/{last}"


def changes(method: bytes, path: bytes) -> bool:
    """Whether a request, if it were let through, would change more than the log of events."""
    found = row_of(path)
    if method in _READING or method == b"OPTIONS" or found is None:
        return False
    return found[0].other not in {None, Verb.PUBLISH, Verb.OBSERVE, Verb.READ}
