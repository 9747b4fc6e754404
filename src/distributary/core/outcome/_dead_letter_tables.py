"""Tables of the kept dead letters, normalized: events and causes are shared.

A dead letter is a small row: a match, and references to its event and its cause. The event of a
record is the same for every subscription that missed it. A sink's response is mostly the same for
all dead letters of a subscription.
"""

from typing import Final

import sqlalchemy as sa

from distributary.core.database import big_number, text
from distributary.core.outcome._metadata import metadata
from distributary.core.outcome.dead_letter import CLOCK_MS_MIN

DEAD_LETTER_BYTES: Final = 128
"""Bytes of a dead letter beside its event and its cause: a row and four index entries."""

UNDATED: Final = sa.text(f"kept_ms < {CLOCK_MS_MIN}")
"""Condition on dead letters that were kept while the wall clock was plainly wrong: a constant, so
that databases search by the index of these."""

route = sa.Table(
    "letter_route",
    metadata,
    sa.Column("id", big_number(), primary_key=True),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("route", sa.String(64), nullable=False),
    # Its tenant; null until an owner knows it, in a store of an earlier version.
    sa.Column("namespace", sa.String(63)),
    sa.UniqueConstraint("partition", "route"),
)
body = sa.Table(
    "letter_body",
    metadata,
    sa.Column("id", big_number(), primary_key=True),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    # ``event.record.encode`` of one event, without its error attributes.
    sa.Column("event", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("partition", "digest"),
)
cause = sa.Table(
    "letter_cause",
    metadata,
    sa.Column("id", big_number(), primary_key=True),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("reason", text(), nullable=False),
    sa.Column("error_dest", text()),
    sa.Column("error_code", sa.Integer),
    sa.Column("error_data", text()),
    # JSON object: the error attributes of the event.
    sa.Column("marks", text(), nullable=False),
    sa.UniqueConstraint("partition", "digest"),
)
dead_letter = sa.Table(
    "letter",
    metadata,
    # Increases with the time of keeping: the oldest dead letter has the lowest id.
    sa.Column("id", big_number(), primary_key=True),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("offset", sa.BigInteger, nullable=False),
    sa.Column("index", sa.Integer, nullable=False),
    sa.Column("route", sa.BigInteger, nullable=False),
    sa.Column("checksum", sa.BigInteger, nullable=False),
    sa.Column("body", sa.BigInteger, nullable=False, index=True),
    sa.Column("cause", sa.BigInteger, nullable=False, index=True),
    sa.Column("kept_ms", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("partition", "route", "offset", "index"),
    # With the row id, by which a part of a list goes on.
    sa.Index("letter_of_route", "route"),
    # PostgreSQL's table has all partitions, of which each wants its oldest ones.
    sa.Index("letter_in_order", "partition", "id").ddl_if(dialect="postgresql"),
    # Empty, but on a machine without a clock of its own.
    sa.Index("letter_undated", "partition", sqlite_where=UNDATED, postgresql_where=UNDATED),
    sqlite_autoincrement=True,
)
"""Kept dead letters. Ids are never reused, so that a run can tell which were kept after it
began."""
