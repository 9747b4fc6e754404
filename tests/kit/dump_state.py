"""Dumps the state of a stopped server for the checker.

An event of a route is *pending* if the next start would deliver it: it has an unfinished retry row,
or it is in a backfill of its route, or it is at or above the cursor and has no outcome. It is a
*dead letter* if the delivery store keeps it.

Callers: crash tests and the soak run, after the server has ended. Hides: the journal, the delivery
store and how the three overlap.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from distributary.cli._outgoing import canonical_attributes
from distributary.cli.ledger import Sent
from distributary.core.database import sqlite_url
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import DoneKey, RecordKind, decode_addressed, decode_timer_event
from distributary.core.journal import JournalState, read_journal
from distributary.core.log import Reader, read_folder
from distributary.core.outcome import DeliveryStore
from distributary.datadir import DataDir
from distributary.subscriptions.store.store import Store
from distributary.testing.check_ledgers import Kept, State
from distributary.testing.ledger_checker import Key

__all__ = ["dump_state", "route_uids"]

DEAD_LETTERS_MAX = 1_000_000
"""More than any test makes."""


def route_uids(paths: DataDir, names: Mapping[str, str]) -> dict[str, str]:
    """Uid of each route -> its name, for *names*: subscription id -> name."""
    store = Store(sqlite_url(paths.state_db))
    try:
        stored = store.page("", len(names) + 1)
    finally:
        store.close()
    return {found.uid: names[found.id] for found in stored if found.id in names}


def dump_state(
    data_dir: Path,
    uids: Mapping[str, str],
    matches: Mapping[str, Callable[[Sent], bool]],
    addresses: Mapping[str, str] | None = None,
) -> bytes:
    """The state dump, as ``check_ledgers --state`` reads it.

    Args:
        data_dir: Data directory of a server that is not running.
        uids: Uid of each route -> its name.
        matches: Name of each route -> what it matches.
        addresses: Uid of each route -> where it listens; those that are not named: at the default
            broker.
    """
    paths = DataDir(data_dir)
    pending: set[tuple[str, Key]] = set()
    dead: set[tuple[str, Key]] = set()
    for partition in range(read_folder(paths.log)):
        one = _Partition(paths, partition, uids, matches, addresses or {})
        try:
            pending.update(one.pending())
            dead.update(one.dead_letters())
        finally:
            one.close()
    return msgspec.json.encode(
        State(
            pending=tuple(Kept(route, *key) for route, key in sorted(pending)),
            dead_letters=tuple(Kept(route, *key) for route, key in sorted(dead)),
        )
    )


class _Placed(NamedTuple):
    """An event of the log.

    Attributes:
        offset: Of its record.
        index: In its record.
        event: The event.
        address: Address of publication.
        only: The one route of a timer event; None: any at its address.
    """

    offset: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs
    event: Event
    address: str
    only: str | None = None


class _Partition:
    """The state of one partition."""

    def __init__(
        self,
        paths: DataDir,
        partition: int,
        uids: Mapping[str, str],
        matches: Mapping[str, Callable[[Sent], bool]],
        addresses: Mapping[str, str],
    ) -> None:
        self._addresses = addresses
        self._records = Reader(paths.log, partition)
        self._store = DeliveryStore(sqlite_url(paths.delivery_db(partition)), partition)
        self._by_name = self._store.backfills()
        self._journal: JournalState = read_journal(paths.journal(partition))[0]
        self._uids = uids
        self._matches = matches
        self._rows = {row.key: row for row in self._store.rows()}

    def close(self) -> None:
        """Let the files go."""
        self._records.close()
        self._store.close()

    def pending(self) -> Iterator[tuple[str, Key]]:
        """Events that a next start would deliver, by route name."""
        waiting = {key for key, row in self._rows.items() if not row.done}
        for placed in self._events(waiting):
            event = placed.event
            for uid, name in self._uids.items():
                key = DoneKey(placed.offset, placed.index, uid)
                if key in waiting or (
                    self._sees(uid, placed)
                    and self._open(key)
                    and self._matches[name](_sent(event))
                ):
                    yield name, _key(event)

    def _sees(self, uid: str, placed: "_Placed") -> bool:
        if placed.only is not None:
            return placed.only == uid
        return placed.address == self._addresses.get(uid, "")

    def _open(self, key: DoneKey) -> bool:
        """True if there is no outcome and the next start would read the event for the route."""
        if key in self._rows or key in self._journal.done:
            return False
        backfilling = any(
            backfill.route == key.route and backfill.holds(key.offset, key.index)
            for backfill in self._by_name
        )
        return backfilling or key.offset >= self._journal.mark.offset

    def _events(self, waiting: set[DoneKey]) -> Iterator["_Placed"]:
        """Every event that a route may still need."""
        starts = [self._journal.mark.offset, *(backfill.from_offset for backfill in self._by_name)]
        first = min(starts + [key.offset for key in waiting])
        for logged in self._records.read(first, self._records.durable_end()):
            if logged.kind == RecordKind.EVENTS:
                for index, event in enumerate(event_record.decode(logged.body)):
                    yield _Placed(logged.offset, index, event, "")
            elif logged.kind in (RecordKind.ADDRESSED, RecordKind.CARRIED):
                address, _, events, _, _ = decode_addressed(logged.body)
                for index, event in enumerate(events):
                    yield _Placed(logged.offset, index, event, address)
            elif logged.kind == RecordKind.TIMER_EVENT:
                timer_event = decode_timer_event(logged.body)
                yield _Placed(logged.offset, 0, timer_event.event, "", timer_event.uid)

    def dead_letters(self) -> Iterator[tuple[str, Key]]:
        """Events that the delivery store keeps, by route name."""
        for dead_letter in self._store.dead_letters(DEAD_LETTERS_MAX):
            name = self._uids.get(dead_letter.key.route)
            if name is not None:
                yield name, _key(event_record.decode(dead_letter.event)[0])


def _key(event: Event) -> Key:
    attributes = canonical_attributes(event)
    return Key(attributes["source"], attributes["id"])


def _sent(event: Event) -> Sent:
    """The event as the checker's predicates want it."""
    attributes = canonical_attributes(event)
    return Sent(
        id=attributes["id"], source=attributes["source"], state="acked", t=0, attributes=attributes
    )
