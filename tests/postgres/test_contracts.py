"""Counts, tallies and what readers see in PostgreSQL keep the contracts that files keep."""

import psycopg
import pytest
import sqlalchemy as sa

from contract.reservations import test_reservations as reservations
from contract.tallies import test_tallies as tallies_of_files
from distributary.core import database
from distributary.core.errors import FencedError, StoreError
from distributary.core.flow import DoneKey, Mark
from distributary.core.outcome import (
    Batch,
    Changes,
    DeadLetter,
    FailingRoute,
    Failure,
    LetterChoice,
    ParkedRow,
    ReservationBatch,
    Tally,
)
from distributary.core.outcome._dead_letter_tables import dead_letter
from distributary.core.outcome._letter_choice import oldest
from distributary.core.outcome.postgres import (
    PartitionFence,
    PostgresDeliveryReader,
    PostgresFailing,
    PostgresOwnership,
    PostgresReservations,
    PostgresTallies,
    PostgresTallyReader,
    prepare_outcomes,
)
from distributary.core.outcome.postgres import _tallies as internals
from distributary.core.outcome.postgres._tables import SCHEMA_VERSION

for module in (reservations, tallies_of_files):
    # All but the one that makes folders itself.
    shared = {name: found for name, found in vars(module).items() if name.startswith("test_")}
    shared.pop("test_who_follows_the_changes_has_what_the_owner_has", None)
    globals().update(shared)

store = reservations.store


def own(tables, partition=0, generation=1):
    """The fence of an owner that has just opened *partition*."""
    fence = PartitionFence(partition, generation, f"token {generation}")
    return fence, PostgresOwnership(tables.url, fence, away_s_max=0.0)


@pytest.fixture
def owners(tables):
    """The reservations as four owners see it; nothing is counted yet."""
    return [PostgresReservations(tables.url, own(tables, partition)[0]) for partition in range(4)]


class Tallies:
    """Tallies of a partition, each time opened anew."""

    def __init__(self, tables):
        self._tables = tables
        self._fence, _ = own(tables)

    def store(self):
        return PostgresTallies(self._tables.url, self._fence)

    def reader(self):
        return PostgresTallyReader(self._tables.url, 0)


@pytest.fixture
def tallies(tables):
    """Without a tally."""
    return Tallies(tables)


def test_a_reader_that_has_not_looked_for_long_reads_all_anew(tallies, monkeypatch):
    """It is forgotten by then which routes are gone."""
    monkeypatch.setattr(internals, "GONE_KEPT", 5)
    kept, reader = tallies.store(), tallies.reader()
    kept.put({"gone": Tally(delivered=1), "stays": Tally(delivered=2)})
    assert set(reader.changes()) == {"gone", "stays"}
    kept.put({}, gone=["gone"])
    for count in range(20):
        kept.put({"stays": Tally(delivered=count)}, gone=["never there"])
    assert reader.changes() == {"gone": None, "stays": Tally(delivered=19)}
    assert reader.changes() == {}


def test_more_routes_go_at_once_than_a_statement_has_parameters(tables, tallies):
    """A namespace with 70,000 subscriptions is deleted: 65,535 is what PostgreSQL takes."""
    gone = [f"r{number}" for number in range(70_000)]
    kept, reader = tallies.store(), tallies.reader()
    kept.put({route: Tally(delivered=1) for route in (*gone[:3], "stays")})
    assert len(reader.changes()) == 4
    kept.put({}, gone=gone)
    assert reader.changes() == dict.fromkeys(gone[:3])
    assert kept.routes() == ["stays"]
    fence, ownership = own(tables, generation=2)
    row = ParkedRow("r1", 1, 0, 5, "gone", "http://sink.example/")
    ownership.flush(
        Batch(Mark(0, 0), [], Changes(parked={"r1": row, "s": row._replace(route="s")}))
    )
    ownership.flush(Batch(Mark(1, 1), [], Changes(parked=dict.fromkeys(gone))))
    assert [found.route for found in ownership.store.parked()] == ["s"]
    assert fence.generation == 2


def test_the_oldest_dead_letters_are_found_by_an_index(tables):
    """Of a partition, and of a route, whatever the others keep; also in tables of version 1."""
    with database.writing(tables.writer) as connection:
        connection.exec_driver_sql("DROP INDEX distributary.letter_in_order")
        connection.exec_driver_sql("UPDATE delivery_schema SET version = 1")
    prepare_outcomes(tables.writer)
    with database.writing(tables.writer) as connection:
        version = connection.exec_driver_sql("SELECT version FROM delivery_schema").scalar()
        assert version == SCHEMA_VERSION
        # Another partition keeps all of the oldest ones.
        connection.exec_driver_sql(
            'INSERT INTO letter (partition, "offset", "index", route, checksum, body, cause,'
            " kept_ms) SELECT n / 30001, n, 0, mod(n, 10) + n / 30001 * 10, 0, n, n, n"
            " FROM generate_series(1, 40000) AS n"
        )
        connection.exec_driver_sql("ANALYZE letter")
        for which in (sa.true(), dead_letter.c.route == 17):
            query = oldest(connection, 1, which, 10)
            text = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
            plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {text}").scalars())
            assert "Scan using letter_in_order" in plan
            assert "Sort" not in plan
            assert len(connection.execute(query).all()) == 10


def test_what_follows_a_commit_without_an_answer_is_seen(tallies, monkeypatch):
    """Also by a reader that has looked in between: it is another change."""
    kept, reader = tallies.store(), tallies.reader()
    kept.put({"r": Tally(delivered=1)})
    dialect = kept._writer.dialect
    commit = dialect.do_commit

    def lose(connection):
        monkeypatch.undo()
        commit(connection)
        connection.driver_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, "do_commit", lose)
    with pytest.raises(StoreError):
        kept.put({"r": Tally(delivered=2)})
    assert reader.changes() == {"r": Tally(delivered=2)}
    kept.put({"r": Tally(delivered=3)})
    assert reader.changes() == {"r": Tally(delivered=3)}


def test_a_former_owner_changes_nothing(tables):
    """Neither counts nor tallies nor what fails: as in a flush."""
    fence, _ = own(tables)
    ours = PostgresReservations(tables.url, fence)
    reservations.tell(ours, reservations.request(1), reservations.request(2))
    mine, told = PostgresTallies(tables.url, fence), PostgresFailing(tables.url, 0, fence)
    own(tables, generation=2)
    batches = (
        ReservationBatch([], [reservations.reservation(1)], [], [], []),
        ReservationBatch([], [], [], [], [reservations.request(3)]),
    )
    for batch in batches:
        with pytest.raises(FencedError):
            ours.exchange(0, batch)
    with pytest.raises(FencedError):
        mine.put({"r": Tally(delivered=1)})
    with pytest.raises(FencedError):
        told.write([])
    assert set(ours.held(0)) == {reservations.reservation(1), reservations.reservation(2)}
    assert PostgresTallyReader(tables.url, 0).changes() == {}


def test_what_fails_is_told(tables):
    """The next owner and the control process read it."""
    fence, _ = own(tables)
    row = FailingRoute(
        route="r", since_ms=1, last_ms=2, count=3, reason="timeout", dest="http://sink.example/"
    )
    told = PostgresFailing(tables.url, 0, fence)
    assert told.read() == []
    told.write([row])
    assert PostgresFailing(tables.url, 0).read() == [row]
    told.write([])
    assert PostgresFailing(tables.url, 0).read() == []


def test_readers_see_what_an_owner_keeps(tables):
    """Dead letters, of each partition for itself."""
    for partition in (0, 1):
        _, ownership = own(tables, partition)
        failure = Failure("status-503", "http://sink.example/", 503, "YnVzeQ==")
        letters = [
            DeadLetter(DoneKey(offset, 0, "r"), offset, failure, b"event", offset, "tenant")
            for offset in range(partition + 1)
        ]
        ownership.flush(Batch(Mark(1, 1), [], Changes(dead_letters=letters)))
    readers = [PostgresDeliveryReader(tables.url, partition) for partition in (0, 1)]
    assert [reader.kept("tenant") for reader in readers] == [(1, 5), (2, 10)]
    assert [reader.standing("r").kept for reader in readers] == [1, 2]
    found = readers[1].dead_letters(LetterChoice("r"), 10, 0, 1_000)
    assert [kept.dead_letter.key.offset for kept in found] == [0, 1]
    assert readers[0].runs([1]) == {}
