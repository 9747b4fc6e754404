"""The table of nodes in PostgreSQL, and which of them take events.

``server.nodes`` writes it; owners on other machines read where they reach the server.
"""

from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from distributary.core import database

LIVE_S: Final = 5.0
"""A node without a sign of life for so long is dead to the others; the database's clock decides."""

NODE_META: Final = sa.MetaData()
NODE: Final = sa.Table(
    "node",
    NODE_META,
    sa.Column("name", database.text(100), primary_key=True),
    sa.Column("address", sa.Text, nullable=False),
    # Of one start: two machines under one name would take each other's place.
    sa.Column("run", sa.String(32), nullable=False),
    sa.Column("sign", sa.Text, nullable=False),
    sa.Column("seen", sa.DateTime(timezone=True), nullable=False),
)
_now: Final[Any] = sa.func.clock_timestamp()


class _Sign(msgspec.Struct):
    """What is read here of ``server.nodes.NodeSign``."""

    takes: bool = False
    reaches_log: bool = False


def taking_addresses(reader: Engine) -> list[str]:
    """``host:port`` of each living node whose receivers accept events.

    Args:
        reader: Of ``database.open_reader``.

    Raises:
        StoreError: They cannot be read now.
    """
    return [address for address, sign in _living(reader) if sign.takes]


def is_log_reached(reader: Engine) -> bool:
    """Whether some living node has answers of all partitions of the log.

    Raises:
        StoreError: It cannot be read now.
    """
    return any(sign.reaches_log for _, sign in _living(reader))


def _living(reader: Engine) -> list[tuple[str, _Sign]]:
    alive = NODE.c.seen > _now - sa.func.make_interval(0, 0, 0, 0, 0, 0, LIVE_S)
    query = sa.select(NODE.c.address, NODE.c.sign).where(alive).order_by(NODE.c.name)
    with database.reading(reader) as connection:
        rows = connection.execute(query).all()
    return [(row.address, msgspec.json.decode(row.sign, type=_Sign)) for row in rows]
