"""A database that goes back: restored, or served by a standby without the newest commits."""

import asyncio
import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
import structlog

from distributary.core import database
from distributary.core.clock import SystemClock
from distributary.core.cluster import KafkaPlace
from distributary.core.database import StorePlace, StoreWriter, database_url
from distributary.core.errors import FencedError, StoreError
from distributary.core.event import Event
from distributary.core.flow import RouteRecord, encode_route
from distributary.core.log.kafka import KafkaRecords, KafkaRoutes, MemorySnapshots, prepare_topics
from distributary.core.route import IndexMatcher
from distributary.datadir.shared_signs import SharedSigns
from distributary.partitions import DirectoryTargets
from distributary.partitions.notes import prepare_notes
from distributary.partitions.routes import follow_from
from distributary.resource import ConsentRule, Reach, SinkRule, target_key
from distributary.server.processes.node._agreement import Agreement
from distributary.server.processes.node.led import SharedRoutes
from distributary.subscriptions import resource as api
from distributary.subscriptions.service import rules
from distributary.subscriptions.store import Directory, Keys, Sealer
from distributary.subscriptions.store.consent_rows import ConsentRow, ConsentRows
from distributary.subscriptions.store.leader import Leader
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put
from kit.running_server import wait_until

KEYS = Keys(Path(os.devnull), "A" * 43 + "=")
PARTITIONS = 2


class Back:
    """A database that goes back to an earlier moment, as at a failover to a late standby."""

    def __init__(self, postgres):
        place = postgres.new_database()
        self.url = database_url(place)
        self._postgres = postgres
        self._name = place.url.rpartition("/")[2]

    def _do(self, *statements):
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname LIKE '{self._name}%'"
        )
        with self._postgres.connected("postgres") as connection:
            connection.autocommit = True
            for statement in statements:
                wait_until(lambda one=statement: self._done(connection, end, one), 30.0, statement)

    def _done(self, connection, end, statement):
        connection.execute(end)
        with contextlib.suppress(Exception):
            connection.execute(statement)
            return True
        return False

    def keep(self):
        """Remember this moment."""
        self._do(f'CREATE DATABASE "{self._name}_kept" TEMPLATE "{self._name}"')

    def go(self):
        """Go back to it."""
        name = self._name
        self._do(
            f'ALTER DATABASE "{name}" RENAME TO "{name}_gone"',
            f'ALTER DATABASE "{name}_kept" RENAME TO "{name}"',
        )


@pytest.fixture
def back(postgres):
    """A database."""
    return Back(postgres)


def spec(sink="http://127.0.0.1:9/"):
    """A subscription to everything."""
    return api.parse({"sink": sink, "protocol": "HTTP"}, rules(SinkRule(local_allowed=True)))


def opened(url, leader):
    """A store, once the database answers again."""
    for _ in range(50):
        with contextlib.suppress(StoreError):
            return Store(url, sealer=Sealer(KEYS), leader=leader)
    raise AssertionError("the database does not come back")


def again(call):
    """The result of *call*, whose connections may be broken."""
    for _ in range(9):
        try:
            return call()
        except FencedError:
            raise
        except StoreError:
            continue
    return call()


def test_who_leads_on_stops_and_who_follows_reads_everything_again(back):
    """A revision, and a pause, that were lost: not even one under the same number is kept."""
    place = StorePlace(back.url, 1)
    leading = opened(back.url, 1)
    leading.apply([Put("a", spec("http://127.0.0.1:9/first"), "a-uid")], 5)
    back.keep()
    again(lambda: leading.apply([Put("a", spec("http://127.0.0.1:9/lost"), "a-uid")], 5))
    leading.pause("a-uid", "anna", 5)
    owner = DirectoryTargets(back.url, KEYS)
    owner.refresh()
    assert owner.get("a-uid").sink.uri == "http://127.0.0.1:9/lost"
    assert owner.halted() == {"a-uid"}
    back.go()
    assert not database.is_over(place)
    with pytest.raises(FencedError):
        again(lambda: leading.apply([Put("a", spec("http://127.0.0.1:9/x"), "a-uid")], 5))
    assert database.is_over(place)
    following = opened(back.url, 2)
    (made,) = following.apply([Put("a", spec("http://127.0.0.1:9/new"), "a-uid")], 5)
    assert made.subscription.revision == 2
    again(owner.refresh)
    assert owner.get("a-uid").sink.uri == "http://127.0.0.1:9/new"
    assert owner.halted() == frozenset()
    for each in (leading, following, owner):
        each.close()


def test_who_knows_all_reads_nothing_again_when_another_leads(back):
    """Nor what is new alone, where the next leader opened before it was read."""
    first = opened(back.url, 1)
    first.apply([Put("a", spec("http://127.0.0.1:9/a"), "a-uid")], 5)
    owner = Directory(back.url, Sealer(KEYS))
    assert owner.read().everything
    owner.refresh()
    first.apply([Put("b", spec("http://127.0.0.1:9/b"), "b-uid")], 5)
    second = opened(back.url, 2)
    second.apply([Put("c", spec("http://127.0.0.1:9/c"), "c-uid")], 5)
    news = owner.read()
    assert (news.opened, news.everything) == (True, False)
    assert {row.uid for row in news.resources} == {"b-uid", "c-uid"}
    owner.take(news)
    assert set(owner.uids()) == {"a-uid", "b-uid", "c-uid"}
    assert owner.read() is None
    missed, third = opened(back.url, 3), opened(back.url, 4)
    news = owner.read()
    assert news.everything  # what the leader between the two has lost is not known
    assert not news.resources  # and nothing differs
    for each in (first, second, missed, third, owner):
        each.close()


def test_what_was_lost_before_the_next_leader_is_noticed_whatever_was_seen_meanwhile(back):
    """An owner looks again before another leads: the state of before, under no other number."""
    first = opened(back.url, 1)
    first.apply([Put(name, spec(f"http://127.0.0.1:9/{name}"), f"{name}-uid") for name in "ab"], 5)
    back.keep()
    again(lambda: first.apply([Put("a", spec("http://127.0.0.1:9/lost"), "a-uid")], 5))
    again(lambda: first.apply([Put("c", spec(), "c-uid")], 5))
    owner = DirectoryTargets(back.url, KEYS)
    owner.refresh()
    assert owner.get("a-uid").sink.uri == "http://127.0.0.1:9/lost"
    kept = owner.get("b-uid")
    back.go()
    again(owner.refresh)
    second = opened(back.url, 2)
    again(owner.refresh)
    assert owner.get("a-uid").sink.uri == "http://127.0.0.1:9/a"
    assert owner.get("c-uid") is None
    assert owner.get("b-uid") is kept  # as transports know it
    for each in (first, second, owner):
        each.close()


def test_after_a_change_beside_the_leader_all_is_read_again(back):
    """The leader compares its own changes alone: one beside them may be lost unseen."""
    first, beside = opened(back.url, 1), opened(back.url, None)
    beside.apply([Put("a", spec(), "a-uid")], 5)
    owner = Directory(back.url, Sealer(KEYS))
    owner.refresh()
    first.apply([Put("b", spec(), "b-uid")], 5)
    owner.refresh()
    second = opened(back.url, 2)
    assert owner.read().everything
    for each in (first, beside, second, owner):
        each.close()


def test_changes_of_one_leader_that_overlap_take_turns(back):
    """One that waits for its turn goes by what the others have changed meanwhile."""
    writers = [StoreWriter(back.url, "resource store", leader=7) for _ in range(2)]
    with writers[0].making():
        pass
    begun, go = threading.Event(), threading.Event()

    def change(writer, held):
        with writer.changing() as connection:
            if held:
                begun.set()
                assert go.wait(60)
            return connection.scalar(sa.text("SELECT 1"))

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(change, writers[0], held=True)
        assert begun.wait(60)
        second = threads.submit(change, writers[1], held=False)
        assert not wait([second], timeout=0.5).done  # it waits for its turn
        go.set()
        assert (first.result(60), second.result(60)) == (1, 1)
    assert not database.is_over(StorePlace(back.url, 7))
    for writer in writers:
        writer.close()


def test_a_change_beside_the_leader_is_no_sign_of_a_loss(back):
    """As an offline command makes it: the leader goes on, and readers look."""
    leading = opened(back.url, 1)
    beside = opened(back.url, None)
    signs = SharedSigns(back.url)
    wait_until(signs.look, 30.0, "the first look")
    for name in "ab":
        (made,) = beside.apply([Put(name, spec(), name)], 5)
        wait_until(signs.look, 30.0, "the change is seen")
        (again,) = leading.apply([Put(name, spec(), name)], 5)
        assert again.seq == made.seq + 1
    assert not database.is_over(StorePlace(back.url, 1))
    leading.close()
    beside.close()


def test_a_consent_that_was_lost_is_none(back):
    """Its row is gone, and says nothing of that: what was read before is forgotten."""
    sink = "http://127.0.0.1:9/"
    leading = opened(back.url, 1)
    leading.apply([Put("a", spec(sink), "a-uid")], 5)
    back.keep()
    rows = ConsentRows(back.url, leader=1)
    given = ConsentRow(target_key("default", sink, None), "given", "us", until_ms=1 << 45)
    assert again(lambda: rows.put(given)) is not None
    owner = DirectoryTargets(back.url, KEYS)
    owner.keep_within(Reach(consent=ConsentRule("always", "us", None, 1)))
    again(owner.refresh)
    assert owner.get("a-uid").sink.consent.given
    back.go()
    following = opened(back.url, 2)
    again(owner.refresh)
    assert not owner.get("a-uid").sink.consent.given
    for each in (leading, following, rows, owner):
        each.close()


def test_a_consent_that_is_still_there_changes_no_target(back):
    """The next leader opens the store: transports go on with what they know."""
    sink = "http://127.0.0.1:9/"
    leading = opened(back.url, 1)
    leading.apply([Put("a", spec(sink), "a-uid")], 5)
    rows = ConsentRows(back.url, leader=1)
    rows.put(ConsentRow(target_key("default", sink, None), "given", "us", until_ms=1 << 45))
    owner = DirectoryTargets(back.url, KEYS)
    owner.keep_within(Reach(consent=ConsentRule("always", "us", None, 1)))
    owner.refresh()
    kept = owner.get("a-uid")
    following = opened(back.url, 2)
    assert owner.refresh()
    assert owner.get("a-uid") is kept
    for each in (leading, following, rows, owner):
        each.close()


class World:
    """Leaders over a log with real brokers."""

    def __init__(self, place, url):
        self.place, self.url = place, url
        self.lines = []

    def lead(self, generation, *changes):
        """Make *changes* as a leader does; returns their numbers."""

        async def run():
            loop = asyncio.get_running_loop()
            store = await asyncio.to_thread(opened, self.url, generation)
            routes = KafkaRoutes(self.place, PARTITIONS, loop)
            log = structlog.get_logger()
            at = StorePlace(self.url, generation)
            agreement = Agreement(self.place, at, PARTITIONS, log, lambda: None)
            shared = SharedRoutes(routes, SimpleNamespace(look_again=agreed_at_once), agreement)
            leader = Leader(store, shared, SystemClock(), retry_wait_s=0.1)
            await leader.start()
            taken = asyncio.to_thread(wait_until, lambda: leader.behind is None, 30.0, "it leads")
            await taken
            made = [(await leader.submit(change)).seq for change in changes]
            await leader.close()
            await routes.close()
            store.close()
            return made

        with structlog.testing.capture_logs() as lines:
            made = asyncio.run(run())
        self.lines = [line for line in lines if line["event"] == "route-changes-undone"]
        return made

    def append(self, partition_count, record):
        """Append a record as a leader whose change the store has lost."""

        async def run():
            routes = KafkaRoutes(self.place, partition_count, asyncio.get_running_loop())
            await routes.append_routes([encode_route(record)])
            await routes.close()

        asyncio.run(run())

    def matching(self, partition):
        """The routes that match an event at the end of *partition*."""
        records = KafkaRecords(self.place, partition, MemorySnapshots())
        history = DirectoryTargets(self.url, KEYS)
        end = records.durable_end()
        table = follow_from(Path(os.devnull), records, history, end, IndexMatcher).table
        records.close()
        history.close()
        attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
        return set(table.match(Event(attributes, b"")))


async def agreed_at_once():
    """All receivers have the paths."""


def put(name):
    """Make the subscription *name*."""
    return Put(name, spec(), name)


def test_the_next_leader_undoes_in_the_log_what_the_store_has_lost(back, kafka_cluster):
    """New subscriptions match at once; those that were lost do not, nor do their numbers come."""
    log = KafkaPlace(servers=kafka_cluster.servers, prefix=f"back-{os.getpid()}")
    prepare_topics(log, PARTITIONS)
    prepare_notes(database.open_writer(back.url, "notes"))
    world = World(log, back.url)
    assert world.lead(1, put("a"), put("b")) == [1, 2]
    assert world.lines == []
    back.keep()
    assert world.lead(1, put("c"), Delete("b")) == [3, 4]
    # A change that one partition alone has, when its leader ends.
    world.append(1, RouteRecord(seq=5, op="put", uid="d", revision=1))
    back.go()
    assert world.lead(2, put("new"), Delete("a")) == [9, 10]
    (line,) = world.lines
    assert (line["through_seq"], line["newest_seq"], line["routes"]) == (2, 5, 3)
    for partition in range(PARTITIONS):
        assert world.matching(partition) == {"b", "new"}
    assert world.lead(3, put("e")) == [11]
    assert world.lines == []
