"""Event types and sources accepted so far, for the service description.

Callers: ``server.ingest`` adds the names of durable events; ``server.processes`` saves and loads
them, and reads the file for the API. Informational: nothing depends on it, it is never synced, and
the newest names may be lost with the process.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from distributary.core.event import Event, canonical
from distributary.core.files import write_atomically

SEEN_NAMES_MAX: Final = 1_000
"""Most types, and most sources, that are kept: the first ones. Senders may choose any number, and
a longer description would be of no use."""

SEEN_CHARS_MAX: Final = 1_024
"""Longest type or source that is kept; a subscription can name no longer type either."""


class SeenNames(msgspec.Struct, frozen=True, kw_only=True):
    """Types and sources seen; also the file's JSON.

    Attributes:
        types: Types of accepted events, in the order of their first event.
        types_truncated: Whether some were left out: too many, or too long.
        sources: Sources of accepted events, likewise.
        sources_truncated: As ``types_truncated``.
    """

    types: tuple[str, ...] = ()
    types_truncated: bool = False
    sources: tuple[str, ...] = ()
    sources_truncated: bool = False


class _Names:
    """The first ``SEEN_NAMES_MAX`` types or sources, in order.

    Attributes:
        known: The names.
        truncated: Whether one was left out.
        closed: Whether it is full and ``truncated``: nothing can change.
    """

    __slots__ = ("closed", "known", "truncated")

    def __init__(self, names: Iterable[str] = (), *, truncated: bool = False) -> None:
        self.known: dict[str, None] = dict.fromkeys(names)
        self.truncated = truncated
        self.closed = truncated and len(self.known) >= SEEN_NAMES_MAX

    def add(self, name: str) -> bool:
        """Keep *name*, or note that it was left out; True where that is a change."""
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
        names: Names that an earlier process saw.

    Attributes:
        changed: Whether something has changed since the last ``save``.
    """

    __slots__ = ("_sources", "_types", "changed")

    def __init__(self, names: SeenNames | None = None) -> None:
        names = names or SeenNames()
        self._types = _Names(names.types, truncated=names.types_truncated)
        self._sources = _Names(names.sources, truncated=names.sources_truncated)
        self.changed = False

    @property
    def names(self) -> SeenNames:
        """The names seen so far."""
        return SeenNames(
            types=tuple(self._types.known),
            types_truncated=self._types.truncated,
            sources=tuple(self._sources.known),
            sources_truncated=self._sources.truncated,
        )

    def unseen(self, events: Sequence[Event]) -> list[Event] | None:
        """Returns those of *events* whose type or source is unknown; None: there are none.

        On the hot path: one look-up for the type and one for the source of each event. Once the
        names are full, unknown ones count as known.
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

    def knows(self, event_type: str, source: str) -> bool:
        """Whether ``unseen`` would return None for an event of this type and source."""
        types, sources = self._types, self._sources
        return (event_type in types.known or types.closed) and (
            source in sources.known or sources.closed
        )

    def add(self, events: Iterable[Event]) -> None:
        """Add the types and sources of accepted *events*."""
        for event in events:
            type_is_news = self._types.add(canonical(event.attributes["type"]))
            source_is_news = self._sources.add(canonical(event.attributes["source"]))
            if type_is_news or source_is_news:
                self.changed = True

    def save(self, path: Path) -> None:
        """Write all names to *path*; never synced.

        Raises:
            OSError: Writing failed (a full disk); ``changed`` stays.
        """
        write_atomically(path, msgspec.json.encode(self.names))
        self.changed = False


def load_all_seen(paths: Iterable[Path]) -> SeenNames:
    """Reads the files of several receivers; returns the names of all, at most as many as of one."""
    found = [load_seen(path) for path in paths]
    types = _Names(truncated=any(each.types_truncated for each in found))
    sources = _Names(truncated=any(each.sources_truncated for each in found))
    for each in found:
        for name in each.types:
            types.add(name)
        for name in each.sources:
            sources.add(name)
    return SeenNames(
        types=tuple(types.known),
        types_truncated=types.truncated,
        sources=tuple(sources.known),
        sources_truncated=sources.truncated,
    )


def load_seen(path: Path) -> SeenNames:
    """Reads the file of ``Seen.save``; returns no names where it is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SeenNames)
    except (OSError, msgspec.MsgspecError):
        return SeenNames()
