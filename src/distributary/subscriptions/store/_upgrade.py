"""Upgrades a store of an older version, in the transaction that opens it.

Called by ``Store``. Older versions wrote secret settings in plain text, and sealed credentials
without their origin.
"""

import dataclasses
from typing import Any, Final

import msgspec
import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection, Engine

from distributary.core.database import sqlite
from distributary.core.errors import EventError, StoreError
from distributary.core.flow import decode_route
from distributary.routes import tables as _tables
from distributary.subscriptions.resource import sink_origin, take_out
from distributary.subscriptions.store._credentials_sealed import Sealed, Sealer
from distributary.subscriptions.store._tenants import count_all

_SEALED_IN: Final = 4
"""First version that seals secret settings, and each secret's origin with it."""

_TENANTS_IN: Final = 6
"""First version in which ids are unique in a namespace alone, and namespaces are counted."""

_ADDRESSES_IN: Final = 10
"""First version that keeps where a subscription listens."""

_BY_UID_IN: Final = 11
"""First version in which objects are found by their uid."""

_ROWS: Final = 1_000
"""Subscriptions per read: some 2 MB."""

_c = _tables.credential
_g = _tables.generation
_r = _tables.route_change
_t = _tables.api_subscription

_log = structlog.get_logger(__name__)


def bring_up(connection: Connection, version: int, sealer: Sealer) -> None:
    """Upgrade a store of *version* to this version; its tables exist already.

    Raises:
        StoreError: There are secrets to seal, but no key can be read or made.
    """
    for newer in range(version + 1, _tables.SCHEMA_VERSION + 1):
        for added in _tables.ADDED_COLUMNS.get(newer, ()):
            _tables.add_column(connection, *added)
    if version < _SEALED_IN:
        _seal_all(connection, sealer)
    if version < _TENANTS_IN:
        connection.exec_driver_sql("DROP INDEX IF EXISTS api_subscription_live_id")
        _tables.BY_NAME.create(connection, checkfirst=True)
        count_all(connection)
    if version < _ADDRESSES_IN:
        _note_addresses(connection)
    if version < _BY_UID_IN:
        _tables.BY_UID.create(connection, checkfirst=True)
    connection.execute(sa.update(_tables.schema).values(version=_tables.SCHEMA_VERSION))


def scrub(engine: Engine) -> None:
    """Erase the plain text of what ``bring_up`` sealed from the file and its write-ahead log.

    Cannot reach copies of the file, or blocks that the medium has released. Where another process
    reads the store, the next start tries again.
    """
    if engine.dialect.name != "sqlite":  # no version of ours that wrote there stored plain text
        return
    try:
        if not sqlite.scrubbed(engine):
            _log.warning("store-not-scrubbed", reason="another process has the store open")
    except StoreError as error:  # a full disk: secrets are sealed, and deliveries matter more
        _log.warning("store-not-scrubbed", reason=str(error))


def _seal_all(connection: Connection, sealer: Sealer) -> None:
    seq = connection.execute(sa.select(_g.c.credential_seq)).scalar_one() + 1
    query = sa.select(_t.c.uid, _t.c.revision, _t.c.spec_json, _c.c.sealed)
    # A credential of an older revision belongs to no subscription.
    own = sa.and_(_t.c.uid == _c.c.uid, _t.c.revision == _c.c.revision)
    query = query.join_from(_t, _c, own, isouter=True)
    query = query.where(_t.c.state == _tables.LIVE).order_by(_t.c.uid).limit(_ROWS)
    after, plain = "", False
    while True:
        rows = connection.execute(query.where(_t.c.uid > after)).all()
        for uid, revision, spec_json, sealed in rows:
            plain |= _seal_one(connection, sealer, seq, (uid, revision, spec_json, sealed))
        if len(rows) < _ROWS:
            break
        after = rows[-1].uid
    connection.execute(sa.update(_g).values(credential_seq=seq))
    if plain and connection.dialect.name == "sqlite":
        sqlite.ask_for_scrubbing(connection)


def _seal_one(
    connection: Connection, sealer: Sealer, seq: int, row: tuple[str, int, str, bytes | None]
) -> bool:
    """Seal the secrets of *row* (uid, revision, object, credential); True if any was unsealed.

    An unreadable row stays as it is: it cannot be delivered by, and does not stop the others.
    """
    uid, revision, spec_json, sealed = row
    try:
        realized = msgspec.json.decode(spec_json)
        secrets = take_out(realized, stored=True)
        credential = _bound(sealer, uid, sealed, realized) if sealed else b""
    except (ValueError, LookupError, TypeError, AttributeError):
        # Without the reason, which may quote what was read.
        _log.error("subscription-damaged", uid=uid)
        return False
    anew = Sealed(credential, sealer.seal_settings(uid, secrets) if secrets else None)
    if anew == Sealed():
        return False
    connection.execute(sa.delete(_c).where(_c.c.uid == uid))
    values: dict[str, Any] = {"uid": uid, "revision": revision, "seq": seq}
    values |= {"sealed": anew.credential, "settings": anew.settings}
    connection.execute(sa.insert(_c).values(**values))
    if not secrets:
        return False
    text = msgspec.json.encode(realized).decode()
    connection.execute(sa.update(_t).where(_t.c.uid == uid).values(spec_json=text))
    return True


def _note_addresses(connection: Connection) -> None:
    """Note where subscriptions listen, as far as the store has their newest route records."""
    query = sa.select(_t.c.uid, _r.c.record_json).join_from(_t, _r, _r.c.seq == _t.c.seq)
    query = query.where(_t.c.state == _tables.LIVE, _r.c.uid == _t.c.uid, _r.c.op == "put")
    query = query.order_by(_t.c.uid).limit(_ROWS)
    note = sa.update(_t).where(_t.c.uid == sa.bindparam("of_uid"))
    after = ""
    while rows := connection.execute(query.where(_t.c.uid > after)).all():
        found = ((uid, _address_in(record)) for uid, record in rows)
        connection.execute(note, [{"of_uid": uid, "address": address} for uid, address in found])
        after = rows[-1].uid


def _address_in(record: str) -> str | None:
    """Where the route of *record* listens; None: it is damaged."""
    try:
        return decode_route(record.encode()).address
    except EventError:
        return None


def _bound(sealer: Sealer, uid: str, sealed: bytes, realized: dict[str, Any]) -> bytes:
    """The credential with the origin of the sink in its row.

    One that cannot be opened stays as it is: its key may come back. When opened, it then gets the
    origin of the revision that it belongs to.
    """
    try:
        credential = sealer.open(uid, sealed)
        origin = sink_origin(realized)
        return sealer.seal(uid, dataclasses.replace(credential, origin=origin))
    except StoreError:
        return sealed
