"""A primary that is killed, and a standby that is promoted: nothing acknowledged is lost."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from distributary.core import database
from distributary.core.cluster import PostgresPlace
from distributary.core.database import _postgres as internals
from distributary.core.database import database_url
from distributary.core.errors import DistributaryError
from distributary.core.flow import Mark
from distributary.core.outcome import Batch
from distributary.core.outcome.postgres import (
    PartitionFence,
    PostgresOwnership,
    prepare_outcomes,
    read_outcomes,
)
from distributary.core.postgres_lease import PostgresLease, prepare_leases
from kit.running_server import wait_until
from kit.servers import PASSWORD, USER
from kit.servers._base import ServerNotHadError
from kit.servers.fixtures import not_run
from kit.servers.postgres import Postgres, StandbyPostgres

pytestmark = pytest.mark.slow

WAIT_S_MAX = 90.0
"""Longest wait for anything that a stalled machine delays."""

FLUSHES_MIN = 30
"""Flushes before the kill, so that some are in flight at it."""


class Pair:
    """A primary and its standby, which is a synchronous one once it is asked for.

    Attributes:
        primary: The first one.
        standby: The other one.
        place: A database, by both hosts.
    """

    def __init__(self, stack: contextlib.ExitStack) -> None:
        settings = {"wal_level": "replica", "max_wal_senders": "4"}
        self.primary = stack.enter_context(Postgres(**settings))
        name = self.primary.new_database().url.rpartition("/")[2]
        self.standby = stack.enter_context(StandbyPostgres(self.primary))
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        self.place = PostgresPlace(url=f"postgresql://{USER}@{hosts}/{name}", password=PASSWORD)
        self.wait("async")

    def wait(self, state: str) -> None:
        """Wait until the standby follows in that way."""
        query = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"

        def follows() -> bool:
            with self.primary.connected() as connection:
                return [row[0] for row in connection.execute(query)] == [state]

        wait_until(follows, WAIT_S_MAX, f"the standby is {state}")

    def make_synchronous(self) -> None:
        """Have each commit wait for the standby."""
        with self.primary.connected() as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        self.wait("sync")


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both of them."""
    with contextlib.ExitStack() as stack:
        try:
            made = Pair(stack)
        except ServerNotHadError as error:
            not_run("postgres", str(error))
            raise
        yield made


def warnings_of(url: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a process that connects for the first time."""
    monkeypatch.setattr(internals, "_warned", set())
    with structlog.testing.capture_logs() as lines:
        engine = database.open_alone(url, "a new process")
        with database.reading(engine) as connection:
            connection.exec_driver_sql("SELECT 1")
        engine.dispose()
    return [line["event"] for line in lines]


def test_what_was_acknowledged_outlives_the_primary(pair: Pair, monkeypatch) -> None:
    """The same owner goes on at the standby, with its lease; each flush that returned is there."""
    url = database_url(pair.place)
    writer = database.open_writer(url, "delivery store")
    prepare_leases(writer)
    prepare_outcomes(writer)
    assert warnings_of(url, monkeypatch) == ["postgres-failover-may-lose"]
    pair.make_synchronous()
    assert warnings_of(url, monkeypatch) == []
    lease = PostgresLease(url, "partition-0000")
    fence = PartitionFence(0, lease.generation, lease.token)
    owner = PostgresOwnership(url, fence, away_s_max=WAIT_S_MAX)
    acknowledged: list[int] = []
    failures: list[Exception] = []
    over = threading.Event()

    def flush() -> None:
        while not over.is_set():
            offset = len(acknowledged) + 1
            try:
                owner.flush(Batch(Mark(offset, offset)))
            except DistributaryError as error:
                failures.append(error)
                return
            acknowledged.append(offset)

    flushing = threading.Thread(target=flush)
    flushing.start()
    try:
        wait_until(lambda: len(acknowledged) >= FLUSHES_MIN, WAIT_S_MAX, "flushes")
        pair.primary.kill()
        before = len(acknowledged)
        pair.standby.promote()
        wait_until(
            lambda: bool(failures) or len(acknowledged) > before + FLUSHES_MIN,
            WAIT_S_MAX,
            "flushes at the standby",
        )
    finally:
        over.set()
        flushing.join()
    assert failures == []
    assert read_outcomes(database.open_reader(url, "delivery store"), 0).mark.offset == len(
        acknowledged
    )
    wait_until(lambda: not lease.lapsing, WAIT_S_MAX, "the lease is renewed at the standby")
    assert not lease.lost
    lease.release()
