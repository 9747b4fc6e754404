"""What of the resource store moves to another database: its tables, row by row as they are.

Called by ``server.migrate``.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.demand import Demand, DemandDetails, decode_details, encode_details
from distributary.routes import tables

TABLES: Final = tuple(each for each in tables.metadata.sorted_tables if each is not tables.schema)
"""In an order in which rows may be inserted; without the version, which who makes them writes."""


def read_demands(connection: Connection) -> list[Demand]:
    """What people have asked of the partitions, those that are kept, oldest first."""
    table = tables.demand
    return [
        Demand(
            row["seq"],
            row["kind"],
            row["route"],
            row["run"],
            row["asked_ms"],
            decode_details(row["details"]),
        )
        for row in connection.execute(sa.select(table).order_by(table.c.seq)).mappings()
    ]


def write_details(connection: Connection, seq: int, details: DemandDetails) -> None:
    """Replace what the demand of this number says beside its kind and its route."""
    changed = sa.update(tables.demand).where(tables.demand.c.seq == seq)
    connection.execute(changed.values(details=encode_details(details)))
