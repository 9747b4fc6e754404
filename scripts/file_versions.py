"""The versions of what a server keeps, for the page about files."""

from typing import Final

import clauses

from distributary.core.log import FORMAT_VERSION
from distributary.core.outcome import _file_reservations, _store
from distributary.core.outcome.postgres import _tables
from distributary.routes import tables
from distributary.server.backup import _manifest

ROWS: Final = (
    ("`log/FORMAT`", FORMAT_VERSION, "`format` in it"),
    ("`state.db`, or its tables in PostgreSQL", tables.SCHEMA_VERSION, "table `control_schema`"),
    ("`outcome/p0000/delivery.db`", _store.SCHEMA_VERSION, "table `delivery_schema`"),
    ("tables of deliveries in PostgreSQL", _tables.SCHEMA_VERSION, "table `delivery_schema`"),
    ("`outcome/quota.db`", _file_reservations.SCHEMA_VERSION, "table `quota_schema`"),
    ("a backup", _manifest.FORMAT, "`format` in `MANIFEST.json`"),
)
"""What has a version, the version of today, and where it stands."""


def draw() -> str:
    """A table of them."""
    return clauses.table(("What", "Version", "Where it stands"), ROWS)
