"""Status pages in the database that several machines share: a row for each partition.

A process keeps the numbers in memory and exchanges them twice a second: what it has changed goes
into the row, what others have changed comes out of it. Nobody waits for the database, and numbers
are late by as much as it is away. As with files, nothing on a page is needed after a restart.

A leader that leaves and the next one write the same rows for a while, and so do owners, and the
last words of either may come late. So the statement that writes words of a driver or an owner
looks who has its lease, and what comes too late is dropped. ``STOP`` needs no such look: its word
is the number of the driver that stops (``OwnStop``), whose node may have given its lease back.
"""

import contextlib
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.engine import Engine

from distributary.core import database
from distributary.core.errors import StoreError
from distributary.core.postgres_lease import (
    CONTROL,
    is_free,
    is_last_holder,
    is_newest,
    partition_lease,
)
from distributary.datadir import Phase, StatusField, StatusPage

STORE: Final = "status pages"
"""Name of the store in messages."""
EXCHANGED_EVERY_S: Final = 0.5
"""Interval of exchanges: a rollover or a stop is late by so much; each costs a statement or two."""

_ANYBODYS: Final = frozenset(map(int, (StatusField.SUCCESSOR, StatusField.STOP)))
"""Whoever looks for a partition asks for it, and any driver has its own owners stop."""
_TRIED: Final = frozenset(map(int, (StatusField.FAILURES, StatusField.RETRY_AT_MS)))
"""Of whoever could not own a partition, though another one may have had it since this one did."""

_meta: Final = sa.MetaData()
_page: Final = sa.Table(
    "status_page",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    # Number of a field -> its value.
    sa.Column("words", JSONB, nullable=False),
)


def prepare_pages(writer: Engine) -> None:
    """Make the table where it is missing; any number of processes may do so at once."""
    with database.migrating(writer) as connection:
        _meta.create_all(connection)


def read_page(url: sa.URL, partition: int) -> dict[StatusField, int]:
    """Returns what is on the page of *partition* now, as its owner said last; empty: nothing.

    Raises:
        StoreError: The database cannot be asked now.
    """
    query = sa.select(_page.c.words).where(_page.c.partition == partition)
    with database.reading(database.open_reader(url, STORE)) as connection:
        return _fields(connection.execute(query).scalar() or {})


def read_pages(url: sa.URL) -> dict[int, dict[StatusField, int]]:
    """Returns what is on the page of each partition that has one, as ``read_page``.

    Raises:
        StoreError: The database cannot be asked now.
    """
    query = sa.select(_page.c.partition, _page.c.words)
    with database.reading(database.open_reader(url, STORE)) as connection:
        return {row.partition: _fields(row.words) for row in connection.execute(query)}


def ask_for_partitions(url: sa.URL) -> None:
    """Ask for all partitions, as a task does that looks for one: owners without a driver end.

    Raises:
        StoreError: The database cannot be asked now.
    """
    asked = {str(int(StatusField.SUCCESSOR)): os.getpid()}
    merged = _page.c.words.op("||")(sa.cast(sa.literal(json.dumps(asked)), JSONB))
    with database.writing(database.open_writer(url, STORE, durable=False)) as connection:
        connection.execute(sa.update(_page).values(words=merged))


def _fields(words: dict[str, Any]) -> dict[StatusField, int]:
    return {field: int(words[str(int(field))]) for field in StatusField if str(int(field)) in words}


class SharedStatusPage:
    """A ``StatusPage`` in memory that a ``PageExchange`` keeps like its row. For any thread.

    Args:
        partition: Its number.
        closing: Called when its user has done with it: its last words may not be in the row yet.
    """

    def __init__(
        self, partition: int, closing: "Callable[[SharedStatusPage], None]" = lambda _page: None
    ) -> None:
        self.partition = partition
        self._closing = closing
        self._words = dict.fromkeys(map(int, StatusField), 0)
        self._known = dict(self._words)
        self._gate = threading.Lock()

    def __getitem__(self, field: StatusField) -> int:
        """The number at *field*."""
        return self._words[field]

    def __setitem__(self, field: StatusField, value: int) -> None:
        """Write *value* at *field*."""
        if not 0 <= value < 1 << 64:
            raise ValueError(f"a status word is a number of 64 bits, not {value}")
        with self._gate:
            self._words[field] = value

    def changes(self) -> dict[int, int]:
        """What was written here and is not in the row, as far as is known."""
        with self._gate:
            return {
                field: word for field, word in self._words.items() if word != self._known[field]
            }

    def sent(self, changes: dict[int, int]) -> None:
        """The row has *changes*."""
        self._known.update(changes)

    def refused(self, changes: dict[int, int]) -> None:
        """Others write *changes* by now: what was written here since then stays."""
        with self._gate:
            for field, word in changes.items():
                if self._words[field] == word:
                    self._words[field] = self._known[field]

    def received(self, words: dict[str, Any]) -> None:
        """Take the *words* of the row, but for those that were written here since."""
        with self._gate:
            for field, known in self._known.items():
                found = int(words.get(str(field), 0))
                if self._words[field] == known:
                    self._words[field] = found
                self._known[field] = found

    def close(self) -> None:
        """Have what was written last brought to the row."""
        self._closing(self)


class OwnStop:
    """A page on which ``STOP`` is 1 where one driver stops, and 0 where another one does.

    Args:
        page: The page.
        driver: Number of the driver of this process; not 0.
    """

    def __init__(self, page: StatusPage, driver: int) -> None:
        self._page = page
        self._driver = driver

    def __getitem__(self, field: StatusField) -> int:
        """The number at *field*."""
        word = self._page[field]
        return int(word == self._driver) if field == StatusField.STOP else word

    def __setitem__(self, field: StatusField, value: int) -> None:
        """Write *value* at *field*; the stop of another driver is cleared by nobody."""
        if field != StatusField.STOP:
            self._page[field] = value
        elif value or self[field]:
            self._page[field] = self._driver if value else 0

    def close(self) -> None:
        """Close the page."""
        self._page.close()


class PageExchange:
    """Keeps the pages of this process like their rows, in a thread, as long as there are any.

    Args:
        url: ``database_url``; ``prepare_pages`` has made the table.
    """

    def __init__(self, url: sa.URL) -> None:
        self._url = url
        self._pages: weakref.WeakValueDictionary[int, SharedStatusPage] = (
            weakref.WeakValueDictionary()
        )
        self._gate = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waits = threading.Event()
        self._closing: set[SharedStatusPage] = set()
        self._leads = ""
        self._owned: dict[int, int] = {}

    def lead(self, holder: str) -> None:
        """Write nothing more once another one than *holder* has led.

        Args:
            holder: What the lease of those who lead says where this node has it.
        """
        self._leads = holder

    def own(self, partition: int, generation: int) -> None:
        """Write nothing of the owner of *partition* more once another one has its lease.

        Args:
            partition: Its number.
            generation: Of the lease that this process has taken.
        """
        self._owned[partition] = generation

    def page(self, partition: int) -> SharedStatusPage:
        """Returns the page of *partition*, which all of this process share.

        Raises:
            StoreError: The database cannot be asked now.
        """
        return self.pages([partition])[0]

    def pages(self, partitions: Iterable[int]) -> list[SharedStatusPage]:
        """Returns the page of each of *partitions*, for which the database is asked once.

        Raises:
            StoreError: It cannot be asked now.
        """
        with self._gate:
            found = [
                self._pages.get(each) or SharedStatusPage(each, self._closing.add)
                for each in partitions
            ]
            self._receive([page for page in found if page.partition not in self._pages])
            self._pages.update({page.partition: page for page in found})
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pages", daemon=True)
                self._thread.start()
            return found

    def exchange(self) -> None:
        """Exchange now.

        Raises:
            StoreError: The database cannot be asked; the next exchange has the rest.
        """
        # Not ``values()``, which fails where another thread adds a page meanwhile.
        pages = [page for ref in self._pages.valuerefs() if (page := ref()) is not None]
        closing = tuple(self._closing)
        for page in pages:
            for words, condition in self._conditions(page.partition, page.changes()):
                if words and self._send(page.partition, words, condition):
                    page.sent(words)
                elif words:
                    page.refused(words)
        self._receive(pages)
        self._closing.difference_update(closing)

    def _run(self) -> None:
        while not self._waits.wait(EXCHANGED_EVERY_S):
            with contextlib.suppress(StoreError):
                self.exchange()

    def _conditions(
        self, partition: int, changes: dict[int, int]
    ) -> Iterator[tuple[dict[int, int], sa.ColumnElement[bool] | None]]:
        """Yields the parts of *changes*, and when each may be written; None: always."""
        asked = {field: word for field, word in changes.items() if field in _ANYBODYS}
        yield asked, None
        others = {field: word for field, word in changes.items() if field not in _ANYBODYS}
        generation = self._owned.get(partition)
        if generation is None:
            yield others, is_last_holder(CONTROL, self._leads) if self._leads else None
            return
        lease = partition_lease(partition)
        owns = is_newest(lease, generation)
        tried = {
            field: word
            for field, word in others.items()
            if field in _TRIED or (field == StatusField.PHASE and word == Phase.ABSENT)
        }
        yield tried, sa.or_(owns, is_free(lease))
        yield {field: word for field, word in others.items() if field not in tried}, owns

    def _send(
        self, partition: int, changes: dict[int, int], condition: sa.ColumnElement[bool] | None
    ) -> bool:
        """Write *changes* where *condition* holds; returns whether it did."""
        words = {str(field): word for field, word in changes.items()}
        added = insert(_page).values(partition=partition, words=words)
        merged = _page.c.words.op("||")(sa.cast(sa.literal(json.dumps(words)), JSONB))
        put = added.on_conflict_do_update(
            index_elements=["partition"], set_={"words": merged}, where=condition
        )
        with database.writing(database.open_writer(self._url, STORE, durable=False)) as connection:
            return connection.execute(put).rowcount == 1

    def _receive(self, pages: list[SharedStatusPage]) -> None:
        if not pages:
            return
        numbers = [page.partition for page in pages]
        query = sa.select(_page.c.partition, _page.c.words).where(_page.c.partition.in_(numbers))
        with database.reading(database.open_reader(self._url, STORE)) as connection:
            found = {row.partition: row.words for row in connection.execute(query)}
        for page in pages:
            page.received(found.get(page.partition, {}))
