"""The table of sealed values of Secrets, written with the objects in one transaction."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.errors import StoreError
from distributary.knative.apiserver.objects._values import ObjectChange
from distributary.knative.kinds import SECRET
from distributary.resource import Vault
from distributary.routes import tables as _tables

_k: Final = _tables.kept_secret
_c: Final = _tables.kept_secret_counter


def read_all(connection: Connection, vault: Vault | None) -> Mapping[str, bytes]:
    """Read the sealed values by uid; those sealed with an older key are sealed anew."""
    found: dict[str, bytes] = {}
    anew: list[dict[str, Any]] = []
    for uid, sealed in connection.execute(sa.select(_k.c.uid, _k.c.sealed)):
        found[uid] = sealed
        if vault is not None and vault.outdated(sealed):
            try:
                found[uid] = vault.seal_kept(uid, vault.open_kept(uid, sealed))
            except StoreError:  # its key may come back
                continue
            anew.append({"of_uid": uid, "sealed": found[uid]})
    if anew:
        seq = _next(connection)
        change = sa.update(_k).where(_k.c.uid == sa.bindparam("of_uid"))
        connection.execute(change, [{**row, "seq": seq} for row in anew])
    return found


def write(connection: Connection, newest: Iterable[ObjectChange]) -> None:
    """Write the values of the Secrets among *newest*, one change of each object."""
    changes = [each for each in newest if each.stored.key.resource == SECRET.resource]
    if not changes:
        return
    seq = _next(connection)
    for change in changes:
        stored = change.stored
        mine = sa.and_(_k.c.namespace == stored.key.namespace, _k.c.name == stored.key.name)
        connection.execute(sa.delete(_k).where(mine))
        if change.type != "DELETED":
            row = {"namespace": stored.key.namespace, "name": stored.key.name, "seq": seq}
            connection.execute(sa.insert(_k).values(**row, uid=stored.uid, sealed=stored.sealed))


def _next(connection: Connection) -> int:
    """Number of a change that readers have not seen."""
    seq = connection.execute(sa.select(_c.c.seq)).scalar()
    if seq is None:
        connection.execute(sa.insert(_c).values(id=1, seq=1))
        return 1
    connection.execute(sa.update(_c).values(seq=seq + 1))
    return int(seq) + 1
