"""Which paths take events, and of which Broker or Channel each is.

Callers: ``_context`` and ``_protocol`` ask, ``http1`` goes by the usual lines, ``server`` tells
what the store says. Touched from the event loop's thread alone.
"""

from collections.abc import Mapping
from typing import Final

EVENTS_PATH: Final = b"/events"
"""Publishes to the default broker, whatever Brokers there are."""

_BELOW: Final = (b"/brokers/", b"/channels/")


class EventPaths:
    """The paths that take events.

    Attributes:
        by_path: Path -> address: the uid of a Broker or Channel, or empty for the default broker.
        usual_lines: Request line of a POST there -> path. Most requests have such a line, which
            then need not be parsed.
        known: ``learn`` was called; before that only ``EVENTS_PATH`` is there.
    """

    __slots__ = ("by_path", "known", "usual_lines")

    def __init__(self) -> None:
        self.by_path: dict[bytes, str] = {EVENTS_PATH: ""}
        self.usual_lines = _lines(self.by_path)
        self.known = False

    def learn(self, paths: Mapping[str, str]) -> None:
        """These are all Brokers and Channels now.

        Args:
            paths: Path without its first slash (``brokers/{namespace}/{name}``) -> address.
        """
        found = {b"/" + path.encode(): uid for path, uid in paths.items()}
        found[EVENTS_PATH] = ""
        self.by_path = found
        self.usual_lines.clear()  # in place: connections hold it
        self.usual_lines.update(_lines(found))
        self.known = True


def is_address(path: bytes) -> bool:
    """Whether *path* can only be that of a Broker or Channel: nobody else answers there."""
    return path.startswith(_BELOW)


def _lines(paths: Mapping[bytes, str]) -> dict[bytes, bytes]:
    return {b"POST %s HTTP/1.1" % path: path for path in paths}
