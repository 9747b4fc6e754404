"""Matches that ended with a kept dead letter of which the journal does not say so.

Called by the delivery store of a data directory, when a partition is opened. A kill between the
store's transaction and the journal's frame leaves them.
"""

from collections.abc import Collection
from contextlib import closing
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.flow import DoneKey
from distributary.core.outcome import _dead_letter_tables as t
from distributary.core.outcome._slices import slices

# For each route one search in the index of the unique key, whose entries have all that is asked
# for: ``CROSS JOIN`` keeps SQLite from reading the whole partition instead. A match with a row is
# not matched anew.
_OPEN: Final = """
    SELECT letter."offset", letter."index", letter_route.route, letter.id
    FROM letter_route CROSS JOIN letter
    WHERE letter_route."partition" = :partition
    AND letter."partition" = :partition AND letter.route = letter_route.id
    AND letter."offset" >= min(:cursor, coalesce((
        SELECT min(lag.from_offset) FROM lag
        WHERE lag."partition" = :partition AND lag.route = letter_route.route), :cursor))
    AND NOT EXISTS (
        SELECT 1 FROM retry
        WHERE retry."partition" = :partition AND retry."offset" = letter."offset"
        AND retry."index" = letter."index" AND retry.route = letter_route.route)
    LIMIT :most
"""
LOOKED_MAX: Final = 300_000
"""Dead letters that are looked at. An owner lets about 200,000 matches finish above its cursor and
the marks of its backfills; more lie there only where the journal is gone, and all is sent again."""


def kept_outcomes(
    connection: Connection, partition: int, cursor: int, done: Collection[DoneKey]
) -> list[tuple[DoneKey, int]]:
    """Find the matches with a kept dead letter that a restart at *cursor* would make again.

    Args:
        connection: To the SQLite file.
        partition: Partition number.
        cursor: Where the live reader begins; backfills begin where their rows say.
        done: Matches with an outcome.

    Returns:
        The matches, with the checksums of their records.
    """
    # The driver's own rows: there may be 100,000 above the cursor, nearly all of them in *done*.
    with closing(connection.connection.cursor()) as found:
        found.execute(_OPEN, {"partition": partition, "cursor": cursor, "most": LOOKED_MAX})
        rows = (row for row in found.fetchall() if row[:3] not in done)
        numbers = {row[3]: DoneKey._make(row[:3]) for row in rows}
    outcomes: list[tuple[DoneKey, int]] = []
    for some in slices(list(numbers)):
        letter = t.dead_letter.c
        query = sa.select(letter.id, letter.checksum).where(letter.id.in_(some))
        outcomes += ((numbers[number], crc) for number, crc in connection.execute(query))
    return outcomes
