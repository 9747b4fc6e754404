"""The table of consents: written by the asker and by callbacks, read by deliveries.

Consent changes no resource and needs no route record: like a renewed credential it gets its own
number, which readers poll. A row holds digests alone, of the target and of callback keys.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.routes import tables as _tables
from distributary.subscriptions.store._rows import StoreRows

ConsentState = Literal["asked", "refused", "given", "private"]
"""Asked, and no answer that decides it; answered without consent; given; on a private address, so
that no question was needed."""

CALLBACKS_MAX: Final = 4
"""Most callback keys of one target that are valid at once. A key is sent with every question of
half its life, so there are two, and two more after restarts."""

NAME_CHARS: Final = 32
"""Characters of a target's key in its callback URL: no two targets ever share them."""

_NAME: Final = re.compile(f"[0-9a-f]{{{NAME_CHARS}}}")

_r = _tables.consent
_n = _tables.consent_counter


class CallbackKey(NamedTuple):
    """A key by which a target can consent later.

    Attributes:
        digest: SHA-256 of the key, hexadecimal.
        until_ms: Not valid from this wall clock time on, milliseconds.
    """

    digest: str
    until_ms: int


class CallbackConsent(NamedTuple):
    """What a target consents to by callback.

    Attributes:
        rate_per_min: Requests a minute that it allows; None: any number.
        now_ms: Now, wall clock, milliseconds.
        until_ms: When this consent ends.
        renewal_ms: When to ask again.
    """

    rate_per_min: int | None
    now_ms: int
    until_ms: int
    renewal_ms: int


class ConsentRow(NamedTuple):
    """What is known of the consent of one target.

    Attributes:
        target: ``resource.target_key``.
        state: See ``ConsentState``.
        origin: Name of ours that was asked for.
        rate_per_min: Requests a minute that the target allows; None: any number.
        by_callback: It consented by callback.
        reason: Why there is no consent, for people; empty: there is.
        tries: Questions in a row that brought no consent.
        since_ms: When *state* began; wall clock, as all times here, milliseconds.
        asked_ms: When the target was last asked, or looked at.
        until_ms: When consent ends; 0: there is none.
        next_ms: When there is something to do for it next.
        callbacks: Valid keys, oldest first.
        seq: Number of its newest change; 0: not stored yet.
    """

    target: str
    state: ConsentState
    origin: str
    rate_per_min: int | None = None
    by_callback: bool = False
    reason: str = ""
    tries: int = 0
    since_ms: int = 0
    asked_ms: int = 0
    until_ms: int = 0
    next_ms: int = 0
    callbacks: tuple[CallbackKey, ...] = ()
    seq: int = 0

    def holds(self, origin: str, wall_ms: int) -> bool:
        """Whether the target consents to *origin* at *wall_ms*."""
        return self.state == "given" and self.origin == origin and wall_ms < self.until_ms


def digest_of(key: str) -> str:
    """The digest of a callback key. Keys are random, so a plain hash is enough."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class ConsentRows(StoreRows):
    """The consents. For one thread at a time."""

    def changed(self, after_seq: int) -> tuple[int, list[ConsentRow]]:
        """Number of the newest change, and rows written after *after_seq*."""
        with database.reading(self._reader) as connection:
            return read_changed(connection, after_seq)

    def find(self, targets: Collection[str]) -> dict[str, ConsentRow]:
        """The rows of these targets, those that exist."""
        with database.reading(self._reader) as connection:
            return read_consents(connection, targets)

    def put(self, row: ConsentRow) -> ConsentRow | None:
        """Write *row*, durably.

        Returns:
            It, with its new number; None: the stored one has another number than *row* (a callback
            came in between), or is gone, and stays.
        """
        with self._writer.changing() as connection:
            stored = connection.execute(
                sa.select(_r.c.seq).where(_r.c.target == row.target)
            ).scalar()
            if (stored or 0) != row.seq:
                return None
            return _write(connection, row)

    def remove(self, targets: Iterable[str]) -> None:
        """Delete the rows of these targets, which nobody delivers to."""
        with self._writer.changing() as connection:
            connection.execute(sa.delete(_r).where(_r.c.target.in_(list(targets))))

    def clear(self) -> None:
        """Delete all rows: nobody is asked any more."""
        with self._writer.changing() as connection:
            connection.execute(sa.delete(_r))


class ConsentReader:
    """Reads consents in the processes that deliver; for one thread at a time.

    Args:
        url: Of an existing store.
    """

    def __init__(self, url: sa.URL) -> None:
        self._engine = database.open_reader(url, _tables.STORE)

    def changed(self, after_seq: int) -> tuple[int, list[ConsentRow]]:
        """As ``ConsentRows.changed``."""
        with database.reading(self._engine) as connection:
            return read_changed(connection, after_seq)

    def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()


def read_changed(connection: Connection, after_seq: int) -> tuple[int, list[ConsentRow]]:
    """Number of the newest change, and rows written after *after_seq*."""
    newest = int(connection.execute(sa.select(_n.c.seq)).scalar() or 0)
    if newest == after_seq:
        return newest, []
    rows = connection.execute(sa.select(_r).where(_r.c.seq > after_seq))
    return newest, [_read(row) for row in rows]


def read_consents(connection: Connection, targets: Collection[str]) -> dict[str, ConsentRow]:
    """The rows of these targets, those that exist."""
    rows = connection.execute(sa.select(_r).where(_r.c.target.in_(targets)))
    return {row.target: row for row in map(_read, rows)}


def confirm_consent(
    connection: Connection, name: str, key: str, allowed: CallbackConsent
) -> ConsentRow | None:
    """Give the consent of the target whose callback *name* and *key* are.

    Args:
        connection: Within a transaction.
        name: Beginning of the target's key, as in its callback URL.
        key: The secret of the callback URL.
        allowed: What it consents to.

    Returns:
        The row; None: no target has this key, or it has ended.
    """
    found = find_callback(connection, name, key, allowed.now_ms)
    if found is None:
        return None
    since_ms = found.since_ms if found.state == "given" else allowed.now_ms
    return _write(
        connection,
        found._replace(
            state="given",
            rate_per_min=allowed.rate_per_min,
            by_callback=True,
            reason="",
            tries=0,
            since_ms=since_ms,
            until_ms=allowed.until_ms,
            next_ms=allowed.renewal_ms,
        ),
    )


def find_callback(connection: Connection, name: str, key: str, now_ms: int) -> ConsentRow | None:
    """The row of the target whose callback *name* and *key* are at *now_ms*; None: of none."""
    if not _NAME.fullmatch(name):
        return None
    digest = digest_of(key)
    # By a range, so that the index of the primary key serves it.
    near = sa.select(_r).where(_r.c.target.between(name, name + "g"))
    for found in map(_read, connection.execute(near)):
        for known in found.callbacks:
            if hmac.compare_digest(known.digest, digest) and now_ms < known.until_ms:
                return found
    return None


def _write(connection: Connection, row: ConsentRow) -> ConsentRow:
    newest = connection.execute(sa.select(_n.c.seq).with_for_update()).scalar()
    seq = (newest or 0) + 1
    if newest is None:
        connection.execute(sa.insert(_n).values(id=1, seq=seq))
    else:
        connection.execute(sa.update(_n).values(seq=seq))
    written = row._replace(seq=seq)
    values: dict[str, Any] = written._asdict()
    values["callbacks"] = msgspec.json.encode(written.callbacks).decode()
    connection.execute(sa.delete(_r).where(_r.c.target == row.target))
    connection.execute(sa.insert(_r).values(values))
    return written


def _read(row: Any) -> ConsentRow:
    found = ConsentRow(**{name: getattr(row, name) for name in ConsentRow._fields})
    keys = msgspec.json.decode(row.callbacks, type=tuple[CallbackKey, ...])
    return found._replace(callbacks=keys)
