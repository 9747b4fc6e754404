"""Which event types and sources were accepted so far: for the service description.

Callers: ``_protocol`` asks for names that are new, ``_exchange`` adds them when their events are
durable; ``server`` saves and loads them, and reads the file for the API. A help, not a record:
nothing depends on it, it is never synced, and the newest names may be lost with the process.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from distributary.core.event import Event, canonical
from distributary.core.files import write_atomically

SEEN_NAMES_MAX: Final = 1_000
"""Types, and as many sources, that are kept: senders choose them, so there may be any number. The
first ones stay; a description with more helps nobody."""

SEEN_CHARS_MAX: Final = 1_024
"""Longest type or source that is kept; a subscription can name no longer type either."""


class SeenNames(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen; also the file's JSON.

    Attributes:
        types: Event types of accepted events, in the order of their first event.
        types_truncated: There were more, or longer ones.
        sources: Likewise.
        sources_truncated: There were more, or longer ones.
    """

    types: tuple[str, ...] = ()
    types_truncated: bool = False
    sources: tuple[str, ...] = ()
    sources_truncated: bool = False


class _Names:
    """Names of one kind: the first ``SEEN_NAMES_MAX``, in their order.

    Attributes:
        known: The names.
        truncated: One was left out.
        closed: As many are known as are kept, and that more came was noted: nothing is news.
    """

    __slots__ = ("closed", "known", "truncated")

    def __init__(self, names: Iterable[str] = (), *, truncated: bool = False) -> None:
        self.known: dict[str, None] = dict.fromkeys(names)
        self.truncated = truncated
        self.closed = truncated and len(self.known) >= SEEN_NAMES_MAX

    def add(self, name: str) -> bool:
        """Keep *name*, or note that it was left out; True where that is news."""
        if name in self.known:
            return False
        if len(self.known) < SEEN_NAMES_MAX and len(name) <= SEEN_CHARS_MAX:
            self.known[name] = None
            return True
        news = not self.truncated
        self.truncated = True
        self.closed = len(self.known) >= SEEN_NAMES_MAX
        return news


class Seen:
    """Types and sources of accepted events. For one thread.

    Args:
        names: What an earlier process saw.

    Attributes:
        changed: Something is new since the last ``save``.
    """

    __slots__ = ("_sources", "_types", "changed")

    def __init__(self, names: SeenNames | None = None) -> None:
        names = names or SeenNames()
        self._types = _Names(names.types, truncated=names.types_truncated)
        self._sources = _Names(names.sources, truncated=names.sources_truncated)
        self.changed = False

    @property
    def names(self) -> SeenNames:
        """What was seen so far."""
        return SeenNames(
            types=tuple(self._types.known),
            types_truncated=self._types.truncated,
            sources=tuple(self._sources.known),
            sources_truncated=self._sources.truncated,
        )

    def unseen(self, events: Sequence[Event]) -> list[Event] | None:
        """Those of *events* whose type or source is not known; None: there are none.

        On the hot path: one look-up for the type and one for the source of each event. When as
        many are known as are kept, unknown ones count as known: there is nothing to add.
        """
        types, sources = self._types, self._sources
        found: list[Event] | None = None
        for event in events:
            attributes = event.attributes
            if (attributes["type"] in types.known or types.closed) and (
                attributes["source"] in sources.known or sources.closed
            ):
                continue
            if found is None:
                found = []
            found.append(event)
        return found

    def add(self, events: Iterable[Event]) -> None:
        """Keep the types and sources of *events*, which were accepted."""
        for event in events:
            type_is_news = self._types.add(canonical(event.attributes["type"]))
            source_is_news = self._sources.add(canonical(event.attributes["source"]))
            if type_is_news or source_is_news:
                self.changed = True

    def save(self, path: Path) -> None:
        """Write everything to *path*; never synced.

        Raises:
            OSError: It could not be written (a full disk); it stays ``changed``.
        """
        write_atomically(path, msgspec.json.encode(self.names))
        self.changed = False


def load_seen(path: Path) -> SeenNames:
    """What ``Seen.save`` wrote to *path*; nothing where there is no such file, or a damaged one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SeenNames)
    except (OSError, msgspec.MsgspecError):
        return SeenNames()
