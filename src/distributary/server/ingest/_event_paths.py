"""The paths that accept events, and the Broker or Channel of each.

Callers: ``_context`` and ``_protocol`` look paths up, ``net.http1`` recognizes the usual request
lines, the ingest process updates them from the store. For the event loop's thread alone.
"""

from collections.abc import Mapping
from typing import Final

EVENTS_PATH: Final = b"/events"
"""Publishes to the default broker, whatever Brokers there are."""

_BELOW: Final = (b"/brokers/", b"/channels/")


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


def is_address(path: bytes) -> bool:
    """Whether *path* lies where only Brokers and Channels have paths."""
    return path.startswith(_BELOW)


def _lines(paths: Mapping[bytes, str]) -> dict[bytes, bytes]:
    return {b"POST %s HTTP/1.1" % path: path for path in paths}


def _by_line(paths: Mapping[bytes, str]) -> dict[bytes, str]:
    return {line: paths[path] for line, path in _lines(paths).items()}
