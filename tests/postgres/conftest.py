"""What the tests of state in PostgreSQL share: one server for all, a database for each test."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from distributary.core import database
from distributary.core.database import database_url
from distributary.core.outcome.postgres import prepare_outcomes
from distributary.core.postgres_lease import prepare_leases
from distributary.subscriptions.store import Keys, Sealer
from kit.servers.fixtures import authority, postgres, postgres_place

_FROM_ONE = "SELECT setval('distributary.lifecycle_event_number_seq', 1, false)"

__all__ = ["authority", "postgres", "postgres_place"]


def _holds_rows(table: str) -> bool:
    return not table.endswith("_schema")


def _delete(execute, tables) -> None:
    """Delete all rows. To truncate would make files by the hundred, which a restart syncs."""
    for table in tables:
        execute(f"DELETE FROM distributary.{table}")


class OwnersDatabase:
    """A database with all tables of owners.

    Attributes:
        url: Its URL.
        writer: An engine that writes.
        reader: An engine that reads.
    """

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self.writer = database.open_writer(url, "delivery store")
        self.reader = database.open_reader(url, "delivery store")
        prepare_leases(self.writer)
        prepare_outcomes(self.writer)
        prepare_outcomes(self.writer)  # each node does so when it starts

    def empty(self) -> None:
        """Remove every row but the versions."""
        with database.writing(self.writer) as connection:
            names = sa.inspect(connection).get_table_names(schema="distributary")
            _delete(connection.exec_driver_sql, (each for each in names if _holds_rows(each)))

    def close(self) -> None:
        """Close the connections."""
        self.reader.dispose()
        self.writer.dispose()


@pytest.fixture(scope="session")
def owners_database(postgres):
    """One for all tests: to make one takes longer than most of them."""
    place = postgres.new_database()
    made = OwnersDatabase(database.database_url(place))
    yield made
    made.close()


@pytest.fixture
def tables(owners_database):
    """A database in which nobody owns anything."""
    owners_database.empty()
    return owners_database


def pytest_collection_modifyitems(items):
    """Mark what waits for a server."""
    for item in items:
        if "postgres" in item.path.parts[-4:]:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def emptied_place(postgres):
    """A database that many tests use, one after the other."""
    return postgres.new_database()


@pytest.fixture
def emptied_url(postgres, emptied_place):
    """That database, in which nothing is: its tables stay, which takes a tenth of the time."""
    name = emptied_place.url.rpartition("/")[2]
    with postgres.connected(name) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'distributary'"
        tables = [table for (table,) in connection.execute(query)]
        with connection.transaction():
            _delete(connection.execute, tables)
            if "lifecycle_event" in tables:
                connection.execute(_FROM_ONE)
    return database_url(emptied_place)


@pytest.fixture
def keys_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Has stores without a sealer use a key file, as those in files do."""

    def beside(_url) -> Sealer:
        return Sealer(Keys(tmp_path / "credentials.key"))

    for module in ("store", "_directory"):
        monkeypatch.setattr(f"distributary.subscriptions.store.{module}.sealer_beside", beside)
