"""Ids of events that a partition has taken of late: a window, bounded in time and count.

Callers, where a window is switched on: the receiver that appends to a partition, and ``repeats``
where many append to it. Pure. Each id is a hash of 128 bits, so an accident in which two events
share one is out of the question.
"""

from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from distributary.core.event import Event
from distributary.core.flow import AddressedEvents, Logged, RecordKind, events_of

ID_BYTES: Final = 16
"""Of a hash: among 10^9 ids, two share one with a probability of 10^-21."""

_EVENTS: Final = frozenset({int(RecordKind.EVENTS), RecordKind.ADDRESSED, RecordKind.CARRIED})


class OnceLimits(NamedTuple):
    """Bounds of the window.

    Attributes:
        age_max_s: Age above which an id is forgotten, seconds; 0: there is no window.
        count_max: Most ids of a partition.
    """

    age_max_s: float = 0.0
    count_max: int = 1_000_000


def id_of(address: str, source: str, event_id: str) -> bytes:
    """The hash of an event's identity.

    Args:
        address: Uid of the Broker or Channel; empty: the default broker. The same event at two of
            them is taken twice: a Trigger may pass it on.
        source: Its source.
        event_id: Its id.
    """
    texts = [text.encode("utf-8", "surrogatepass") for text in (address, source, event_id)]
    whole = b"".join([len(text).to_bytes(4, "little") + text for text in texts])
    return blake2b(whole, digest_size=ID_BYTES).digest()


def ids_of(logged: Logged) -> Sequence[bytes]:
    """The ids of a record's events; of one without published events, none.

    Raises:
        EventError: The record cannot be read.
    """
    if logged.kind not in _EVENTS:
        return ()
    found: AddressedEvents | None = events_of(logged)
    assert found is not None
    return [id_of(found.address, *named(event)) for event in found.events]


def named(event: Event) -> tuple[str, str]:
    """Source and id of *event*; empty: it has none."""
    return event.text("source") or "", event.text("id") or ""


class TakenIds:
    """The window: exact for ids taken within the last *age_max_s*, as far as *count_max* reaches.

    Args:
        age_max_s: Age above which an id is forgotten, seconds.
        count_max: Most ids; one more forgets the oldest. Each takes some 120 bytes of memory.
    """

    def __init__(self, age_max_s: float, count_max: int) -> None:
        assert count_max >= 1
        self._age_max_ms = int(age_max_s * 1000)
        self._count_max = count_max
        self._times: dict[bytes, int] = {}
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._times)

    def has(self, taken: bytes, now_ms: int) -> bool:
        """Whether the id *taken* is in the window at *now_ms*, milliseconds."""
        since_ms = self._times.get(taken)
        return since_ms is not None and since_ms >= now_ms - self._age_max_ms

    def add(self, taken: bytes, now_ms: int) -> None:
        """Put an id into the window; one that is there stays as old as it is.

        Args:
            taken: The id.
            now_ms: When its event was taken, milliseconds; never much less than before.
        """
        times, order = self._times, self._order
        oldest_ms = now_ms - self._age_max_ms
        while order and times[order[0]] < oldest_ms:
            del times[order.popleft()]
        since_ms = times.get(taken)
        if since_ms is None:
            order.append(taken)
        if since_ms is None or since_ms < oldest_ms:  # the latter where the clock was set back
            times[taken] = now_ms
        if len(order) > self._count_max:
            del times[order.popleft()]
