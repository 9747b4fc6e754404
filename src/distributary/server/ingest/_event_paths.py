"""The paths that accept events, and the Broker or Channel of each; searches for events.

Callers: ``_context`` and ``_protocol`` look paths up, ``net.http1`` recognizes the usual request
lines, the ingest process updates them from the store. For the event loop's thread alone.
"""

from collections.abc import Mapping
from typing import Final

from distributary.core.errors import RequestError
from distributary.core.tenant import DEFAULT_NAMESPACE, LIFECYCLE_BROKER
from distributary.net.http1 import Request

EVENTS_PATH: Final = b"/events"
"""Publishes to the default broker, whatever Brokers there are."""

_BELOW: Final = (b"/brokers/", b"/channels/")
_NAMESPACES: Final = b"/namespaces/"
_EVENTS: Final = b"/events"
_LIFECYCLE: Final = b"/" + LIFECYCLE_BROKER.encode()
_SEARCHED: Final = b"allow: GET, HEAD, POST, OPTIONS\r\n"
_PUBLISHED: Final = b"allow: POST, OPTIONS\r\n"
_OTHERS: Final = b"allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"


class EventPaths:
    """The paths that accept events.

    Attributes:
        by_path: Address by path: the uid of a Broker or Channel, or empty for the default broker.
        usual_lines: Path by request line of a POST there. Most requests have such a line, which
            saves parsing it.
        by_usual_line: Address by such a line.
        known: Whether ``learn`` was called; before, the only path is ``EVENTS_PATH``.
    """

    __slots__ = ("by_path", "by_usual_line", "known", "usual_lines")

    def __init__(self) -> None:
        self.by_path: dict[bytes, str] = {EVENTS_PATH: ""}
        self.usual_lines = _lines(self.by_path)
        self.by_usual_line = _by_line(self.by_path)
        self.known = False

    def learn(self, paths: Mapping[str, str]) -> None:
        """Replace the Brokers and Channels.

        Args:
            paths: Address by path without its first slash (``brokers/{namespace}/{name}``).
        """
        found = {b"/" + path.encode(): uid for path, uid in paths.items()}
        found[EVENTS_PATH] = ""
        self.by_path = found
        self.usual_lines.clear()  # in place: connections hold it
        self.usual_lines.update(_lines(found))
        self.by_usual_line = _by_line(found)
        self.known = True

    def forget(self) -> None:
        """Know no Brokers and Channels any more: those that were known may be gone."""
        self.learn({})
        self.known = False


def namespaces_of(paths: Mapping[str, str]) -> dict[str, str]:
    """The namespace of each address, that of ``EVENTS_PATH`` included.

    Args:
        paths: As for ``EventPaths.learn``.
    """
    parts = {address: path.split("/") for path, address in paths.items()}
    found = {address: path[1] for address, path in parts.items() if len(path) > 1}
    return found | {"": DEFAULT_NAMESPACE}


def no_address(path: bytes, *, known: bool) -> RequestError:
    """The error for *path*, an unknown one of a Broker or Channel.

    Args:
        path: Canonical.
        known: Whether the Brokers and Channels are known.
    """
    if not known:
        return RequestError("unavailable", "The Brokers and Channels are not known yet.")
    if path.startswith(_BELOW[0]) and path.endswith(_LIFECYCLE):
        return RequestError("forbidden", "The server alone publishes to the Broker lifecycle.")
    text = "There is no Broker or Channel at this path."
    if _is_of_namespace(path):
        text = (
            "This namespace takes no events yet: make a subscription in it, or its Broker default."
        )
    return RequestError("notfound", text)


def is_address(path: bytes) -> bool:
    """Whether *path* lies where only Brokers, Channels and namespaces accept events."""
    return path.startswith(_BELOW) or _is_of_namespace(path)


def is_search(request: Request) -> bool:
    """Whether *request* searches events: the control process answers it, at a path of events."""
    return request.method in (b"GET", b"HEAD") and _is_searched(request.path)


def allow_of(request: Request | None, paths: EventPaths) -> bytes:
    """The line ``Allow`` of responses to *request*; None: it could not be read."""
    if request is None or request.path not in paths.by_path:
        return _OTHERS
    return _SEARCHED if _is_searched(request.path) else _PUBLISHED


def _is_searched(path: bytes) -> bool:
    return path == EVENTS_PATH or _is_of_namespace(path)


def _is_of_namespace(path: bytes) -> bool:
    """Whether it is ``/namespaces/{namespace}/events``: a subscription may be called events."""
    return path.startswith(_NAMESPACES) and path.endswith(_EVENTS) and path.count(b"/") == 3


def _lines(paths: Mapping[bytes, str]) -> dict[bytes, bytes]:
    return {b"POST %s HTTP/1.1" % path: path for path in paths}


def _by_line(paths: Mapping[bytes, str]) -> dict[bytes, str]:
    return {line: paths[path] for line, path in _lines(paths).items()}
