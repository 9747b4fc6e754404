"""Small texts by name in the database that several machines share, each with one writer.

An owner on another machine than the leader tells by them what the leader shows people: its metrics,
and why a partition could not be owned; and what it wants of the archive. It tells the next owner
which routes stand where in the log. The leader tells owners the settings that have changed. Nothing
here is needed after a restart, and none of it is a secret. A crash of the database may lose the
newest ones, whose commits do not wait for its disk: whoever needs one writes it again. Settings do
wait, since they are written when they change.

Callers: ``cluster_places`` (owners), ``spark`` (the driver) and ``server`` (the leader).
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Engine

from distributary.core import database
from distributary.core.errors import StoreError
from distributary.core.files import write_atomically
from distributary.core.postgres_lease import CONTROL, is_last_holder
from distributary.datadir import LiveSettings

STORE: Final = "notes"
"""Name of the store in messages."""
BYTES_MAX: Final = 1024 * 1024
"""Longest note: the metrics of a partition with 10,000 sinks take half of it."""
PUSHED_EVERY_S: Final = 5.0
"""Interval at which files are looked at: metrics are collected every 15 s or more."""
LIVE: Final = "live"
"""Name of the note with the settings that change."""
METER: Final = "meter/"
"""Begins the names of notes with metrics; the role follows."""
SICK: Final = "sick/"
"""Begins the names of notes with why a partition could not be owned; its number follows."""
ROUTES: Final = "routes/"
"""Begins the names of notes with which routes an owner has found where; the partition follows."""
AGREED: Final = "agreed"
"""Name of the note with where each partition ended when log and store had the same changes."""
RECALL: Final = "recall/"
"""Begins the names of notes with what owners ask for of the archive; the partition follows."""

_meta: Final = sa.MetaData()
_note: Final = sa.Table(
    "note",
    _meta,
    sa.Column("name", database.text(100), primary_key=True),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)


def prepare_notes(writer: Engine) -> None:
    """Make the table where it is missing; any number of processes may do so at once."""
    with database.migrating(writer) as connection:
        _meta.create_all(connection)


def put_beside(connection: sa.Connection, name: str, content: bytes) -> None:
    """As ``Notes.put``, in the transaction of *connection*."""
    stamp = database.server_time(1_000_000)
    added = insert(_note).values(name=name, n=stamp, content=content[:BYTES_MAX])
    later = sa.func.greatest(_note.c.n + 1, added.excluded.n)
    again = {"n": later, "content": added.excluded.content}
    connection.execute(added.on_conflict_do_update(index_elements=["name"], set_=again))


class Notes:
    """The notes of a database. For any thread; each call blocks and may raise ``StoreError``.

    The stamp of a note grows with each writing, and no other one ever has it, a lost one neither:
    so it is the time, where that is more than the next number.
    """

    def __init__(self, url: sa.URL) -> None:
        self._url = url

    def put(self, name: str, content: bytes, *, durable: bool = False, leads: str = "") -> None:
        """Write a note in place of the one before; one that is too long is cut off.

        Args:
            name: Of the note.
            content: At most ``BYTES_MAX`` bytes of it are kept.
            durable: A crash of the database does not lose it; nobody writes it again.
            leads: What the lease of those who lead says where its writer has it: nothing is
                written once another one has led. Empty: whoever leads.
        """
        writer = database.open_writer(self._url, STORE, durable=durable)
        with database.writing(writer) as connection:
            if not leads or connection.scalar(sa.select(is_last_holder(CONTROL, leads))):
                put_beside(connection, name, content)

    def stamps(self, prefix: str = "") -> dict[str, int]:
        """Returns which notes there are, each with its stamp."""
        query = sa.select(_note.c.name, _note.c.n).where(
            _note.c.name.startswith(prefix, autoescape=True)
        )
        with database.reading(database.open_reader(self._url, STORE)) as connection:
            return {row.name: row.n for row in connection.execute(query)}

    def get(self, name: str) -> bytes | None:
        """Returns a note; None: there is none."""
        query = sa.select(_note.c.content).where(_note.c.name == name)
        with database.reading(database.open_reader(self._url, STORE)) as connection:
            found = connection.execute(query).scalar()
            return None if found is None else bytes(found)


class LiveNote:
    """The settings that change while the server runs, as the leader has noted them."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._seen = 0

    def look(self) -> LiveSettings | None:
        """Returns the settings if they have changed since the last call; else None."""
        try:
            stamp = self._notes.stamps(LIVE).get(LIVE, 0)
            if stamp == self._seen:
                return None
            content = self._notes.get(LIVE)
            self._seen = stamp
            return None if content is None else msgspec.json.decode(content, type=LiveSettings)
        except (StoreError, msgspec.MsgspecError):
            return None


class Pusher:
    """Puts files into notes whenever they have changed, in a thread, until ``close``.

    Args:
        notes: Takes them.
        files: Name of a note -> its file, which need not exist.
        every_s: Interval of looks.
        heads: Name of a note -> as many bytes of its file, from the beginning, are the note.
    """

    def __init__(
        self,
        notes: Notes,
        files: Mapping[str, Path],
        every_s: float = PUSHED_EVERY_S,
        *,
        heads: Mapping[str, int] | None = None,
    ) -> None:
        self._notes = notes
        self._files = files
        self._heads = heads or {}
        self._every_s = every_s
        self._seen: dict[str, tuple[int, int]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notes", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self.look()

    def look(self) -> None:
        """Put what has changed; what cannot be put now is put at the next look."""
        for name, path in self._files.items():
            try:
                found = path.stat()
                stamp = found.st_ino, found.st_mtime_ns
                if stamp != self._seen.get(name):
                    with path.open("rb") as file:
                        self._notes.put(name, file.read(self._heads.get(name, BYTES_MAX)))
                    self._seen[name] = stamp
            except (OSError, StoreError):
                continue

    def close(self) -> None:
        """Stop, without a last look."""
        self._ended.set()


class Mirror:
    """Keeps files of the leader like notes.

    Args:
        notes: What it reads.
        path_of: Path of the file for the name of a note; None: it has none.
        prefix: What the names of its notes begin with.
    """

    def __init__(
        self, notes: Notes, path_of: Callable[[str], Path | None], prefix: str = ""
    ) -> None:
        self._notes = notes
        self._path_of = path_of
        self._prefix = prefix
        self._seen: dict[str, int] = {}

    def look(self) -> None:
        """Write the files of notes that have changed.

        Raises:
            OSError, StoreError: Some are not written; the next look does so.
        """
        for name, stamp in self._notes.stamps(self._prefix).items():
            path = self._path_of(name)
            if path is None or self._seen.get(name) == stamp:
                continue
            content = self._notes.get(name)
            if content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, content)
            self._seen[name] = stamp
