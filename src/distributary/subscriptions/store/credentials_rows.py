"""The table of sealed secrets: written with the resource, renewed by the refresher.

Called by ``Store`` (in its own transaction) and by ``Refresher``. A renewal needs no route record
and no revision: it gets its own number, which readers see in a row that they poll anyway.
"""

import dataclasses
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.deliver.credential import Credential
from distributary.core.errors import StoreError
from distributary.core.tenant import path_in
from distributary.resource import SinkRule
from distributary.routes import tables as _tables
from distributary.subscriptions.resource import sends_credential
from distributary.subscriptions.store._credentials_batch import CredentialChanges
from distributary.subscriptions.store._credentials_sealed import Sealed, Sealer
from distributary.subscriptions.store._rows import StoreRows

RESEALED_MAX: Final = 256
"""Most rows resealed in one transaction, which holds the store for some milliseconds."""

HELD_BACK_PART: Final = 1_000
"""Subscriptions in one read of the search for credentials in cleartext: some 2 MB."""

_c = _tables.credential
_g = _tables.generation
_t = _tables.api_subscription

_HELD = (
    sa.select(_t.c.id, _c.c.uid, _c.c.revision, _c.c.sealed, _t.c.namespace)
    .join_from(_c, _t, _c.c.uid == _t.c.uid)
    .where(_c.c.sealed != b"")
)


class Held(NamedTuple):
    """A credential in the store.

    Attributes:
        id: Of its subscription, for people.
        uid: Of its subscription.
        revision: Of its subscription.
        sealed: For ``Sealer.open``.
        namespace: Of its subscription.
    """

    id: str
    uid: str
    revision: int
    sealed: bytes
    namespace: str


def read_stored(connection: Connection, uids: Iterable[str]) -> dict[str, Sealed]:
    """Sealed secrets of these subscriptions, by uid."""
    query = sa.select(_c.c.uid, _c.c.sealed, _c.c.settings)
    rows = connection.execute(query.where(_c.c.uid.in_(uids)))
    return {row.uid: Sealed(row.sealed, row.settings) for row in rows}


def write_credentials(connection: Connection, changes: CredentialChanges) -> None:
    """Write the rows of *changes*."""
    old = changes.gone | changes.written.keys()
    if old:
        connection.execute(sa.delete(_c).where(_c.c.uid.in_(old)))
    if changes.written:
        connection.execute(sa.insert(_c), list(changes.written.values()))
        connection.execute(sa.update(_g).values(credential_seq=changes.seq))


class CredentialRows(StoreRows):
    """The credentials, for the refresher. For one thread at a time.

    Args:
        url: Of the store.
        sealer: Seals renewed credentials.
        leader: See ``StoreWriter``.
    """

    def __init__(self, url: sa.URL, sealer: Sealer, *, leader: int | None = None) -> None:
        super().__init__(url, leader=leader)
        self._sealer = sealer

    def held_back(self, rule: SinkRule) -> list[str]:
        """Paths of the subscriptions that nothing is sent to, since *rule* allows no cleartext.

        Those that were accepted under another rule, or by a version that had none. In parts, so
        that no read is long.
        """
        query = sa.select(_t.c.uid, _t.c.namespace, _t.c.id, _t.c.spec_json)
        query = query.join_from(_t, _c, _t.c.uid == _c.c.uid)
        query = query.where(_t.c.state == _tables.LIVE).order_by(_t.c.uid).limit(HELD_BACK_PART)
        found: list[str] = []
        after = ""
        while True:
            with database.reading(self._reader) as connection:
                rows = connection.execute(query.where(_t.c.uid > after)).all()
            found += [
                path_in(row.namespace, f"/subscriptions/{row.id}")
                for row in rows
                if _is_held_back(row.spec_json, rule)
            ]
            if len(rows) < HELD_BACK_PART:
                return sorted(found)
            after = rows[-1].uid

    def changed(self, after_seq: int) -> tuple[int, list[Held]]:
        """Number of the newest change, and credentials written after *after_seq*."""
        with database.reading(self._reader) as connection:
            newest = int(connection.execute(sa.select(_g.c.credential_seq)).scalar_one())
            if newest == after_seq:
                return newest, []
            rows = connection.execute(_HELD.where(_c.c.seq > after_seq)).all()
        return newest, [Held(*row) for row in rows]

    def find(self, uid: str) -> Held | None:
        """The credential of the subscription *uid*; None: it has none, or is deleted."""
        with database.reading(self._reader) as connection:
            row = connection.execute(_HELD.where(_c.c.uid == uid)).one_or_none()
        return None if row is None else Held(*row)

    def open(self, held: Held) -> Credential:
        """Open the credential.

        Raises:
            StoreError: It cannot be opened; see ``Sealer.open``.
        """
        return self._sealer.open(held.uid, held.sealed)

    def renew(self, uid: str, used: Credential, renewed: Credential) -> bool:
        """Replace the tokens of *used* by those of *renewed*, durably.

        Args:
            uid: Of the subscription.
            used: The credential whose refresh token was used.
            renewed: The new one.

        Returns:
            False where the row now has another refresh token, another endpoint or none: the
            subscription was replaced or deleted, and the new tokens are not its own.
        """
        with self._writer.changing() as connection:
            newest = connection.execute(
                sa.select(_g.c.credential_seq).with_for_update()
            ).scalar_one()
            row = connection.execute(sa.select(_c.c.sealed).where(_c.c.uid == uid)).one_or_none()
            if row is None or not row.sealed:
                return False
            stands = self._sealer.open(uid, row.sealed)
            if (stands.refresh_token, stands.refresh_token_endpoint) != (
                used.refresh_token,
                used.refresh_token_endpoint,
            ):
                return False
            kept = dataclasses.replace(
                stands,
                access_token=renewed.access_token,
                access_token_expires_ms=renewed.access_token_expires_ms,
                refresh_token=renewed.refresh_token,
            )
            sealed = self._sealer.seal(uid, kept)
            connection.execute(
                sa.update(_c).where(_c.c.uid == uid).values(sealed=sealed, seq=newest + 1)
            )
            connection.execute(sa.update(_g).values(credential_seq=newest + 1))
        return True

    def reseal(self, after_uid: str = "") -> tuple[int, str | None]:
        """Reseal rows sealed with older keys, from *after_uid* on, up to a limit.

        Returns:
            How many were resealed, and the uid to continue from; None: at the end. A row that
            cannot be opened stays as it is: its key may come back.
        """
        query = sa.select(_c.c.uid, _c.c.sealed, _c.c.settings)
        query = query.where(_c.c.uid > after_uid).order_by(_c.c.uid)
        count = 0
        with self._writer.changing() as connection:
            rows = connection.execute(query.limit(RESEALED_MAX)).all()
            for uid, *sealed in rows:
                try:
                    anew = self._sealer.reseal(uid, Sealed(*sealed))
                except StoreError:
                    continue
                if anew is None:
                    continue
                values = {"sealed": anew.credential, "settings": anew.settings}
                connection.execute(sa.update(_c).where(_c.c.uid == uid).values(**values))
                count += 1
        return count, rows[-1].uid if len(rows) == RESEALED_MAX else None


def _is_held_back(spec_json: str, rule: SinkRule) -> bool:
    try:
        realized = msgspec.json.decode(spec_json)
        if not sends_credential(realized, realized["protocolsettings"]):
            return False
        own = rule.own_allowed and rule.own.takes_events(realized["sink"])
        return not own and rule.cleartext_refusal(realized["sink"]) is not None
    except (ValueError, LookupError, TypeError, AttributeError):
        return False  # damaged: told where it is used
