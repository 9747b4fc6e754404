"""The clock of PostgreSQL."""

import time

import sqlalchemy as sa

from distributary.core.database._either import open_reader, reading


def server_time(per_second: int) -> sa.ColumnElement[int]:
    """The time of PostgreSQL since 1970, in units of which a second has so many."""
    return sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()) * per_second, sa.BigInteger)


class StoreClock:
    """The time of the database: one for all nodes, whatever their own machines say.

    A ``Clock``. By it a node that leads tells ages of what all nodes share: its own clock may be
    wrong, and what is deleted nothing brings back. Close it.

    Args:
        url: Of the database.

    Raises:
        SettingsError: PostgreSQL's driver is not installed.
    """

    monotonic_s = staticmethod(time.monotonic)
    """Seconds of the machine's own monotonic clock."""

    def __init__(self, url: sa.URL) -> None:
        self._reader = open_reader(url, "resource store")
        self.close = self._reader.dispose

    def wall_ms(self) -> int:
        """Ask the database; blocks.

        Raises:
            StoreError: It does not answer.
        """
        with reading(self._reader) as connection:
            return int(connection.scalar(sa.select(server_time(1_000))) or 0)
