"""Databases that several processes share: a file of SQLite, or PostgreSQL for several machines.

Called by the stores of resources, deliveries and reservations. Hides: pools, locks, timeouts, file
modes, the drivers' transactions and errors. What concerns files alone is in ``sqlite``.
"""

from distributary.core.database._clock import StoreClock, server_time
from distributary.core.database._columns import add_columns, big_number, text
from distributary.core.database._either import (
    migrating,
    open_alone,
    open_reader,
    open_writer,
    reading,
    stating,
    writing,
)
from distributary.core.database._leading import (
    NewestChange,
    Standing,
    StorePlace,
    StoreWriter,
    is_over,
    standing_of,
)
from distributary.core.database._url import database_url, is_postgres
from distributary.core.database.sqlite import memory_url, sqlite_url

__all__ = [
    "NewestChange",
    "Standing",
    "StoreClock",
    "StorePlace",
    "StoreWriter",
    "add_columns",
    "big_number",
    "database_url",
    "is_over",
    "is_postgres",
    "memory_url",
    "migrating",
    "open_alone",
    "open_reader",
    "open_writer",
    "reading",
    "server_time",
    "sqlite_url",
    "standing_of",
    "stating",
    "text",
    "writing",
]
