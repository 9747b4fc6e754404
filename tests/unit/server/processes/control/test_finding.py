"""What the search for events needs of the server: the routes as they are now, and the index."""

import asyncio
import functools
import threading

import pytest

from distributary.core.database import sqlite_url
from distributary.core.log import Reader
from distributary.core.log.folder import partition_dir
from distributary.core.route import BlindMatcher, RouteTable
from distributary.datadir import DataDir
from distributary.partitions import DirectoryTargets
from distributary.partitions.routes import save_table
from distributary.resource import SinkRule
from distributary.server.processes import index_process
from distributary.server.processes.control.events import RoutesNow
from distributary.server.processes.index_process import IndexStart
from distributary.subscriptions.service import Subscriptions, rules
from distributary.subscriptions.store.store import Store
from distributary.testing.virtual import VirtualClock
from kit.event_log import EventLog, numbered
from kit.memory_routes import MemoryRouteAppender

GOOD = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}


@pytest.fixture
def paths(tmp_path):
    """Of a data directory."""
    return DataDir(tmp_path)


@pytest.fixture
def change(paths):
    """Carries out operations on subscriptions; returns what they return."""
    with asyncio.Runner() as runner:
        store = Store(sqlite_url(paths.state_db))
        made = Subscriptions(
            store, MemoryRouteAppender(), rules(SinkRule(local_allowed=True)), VirtualClock()
        )
        runner.run(made.start())
        yield lambda operation: runner.run(operation(made))
        runner.run(made.close())
        store.close()


def routes_now(paths):
    """Of a data directory."""
    return RoutesNow(paths, sqlite_url(paths.state_db), functools.partial(Reader, paths.log))


def uids(routes, address=""):
    """Of the routes at *address*."""
    return [record.uid for record in routes.at(address, 100)]


def test_routes_are_those_of_now(paths, change):
    """Made, changed and deleted between two questions; each address has its own."""
    routes = routes_now(paths)
    assert uids(routes) == []
    first = change(lambda made: made.create(GOOD))
    other = change(lambda made: made.create(GOOD, "shop"))
    assert uids(routes) == [first.uid]
    assert uids(routes, "@shop") == [other.uid]
    second = change(lambda made: made.create(GOOD | {"types": ["t"]}))
    assert uids(routes) == [first.uid, second.uid]
    assert routes.one(second.uid).types == ("t",)
    change(lambda made: made.delete(first.id))
    assert uids(routes) == [second.uid]
    assert routes.one(first.uid) is None


def test_followed_changes_are_read_before_a_question(paths, change, monkeypatch):
    """Once there was a question; then the next one finds nothing to read."""
    read = []

    class Counting(DirectoryTargets):
        def between(self, from_seq, to_seq):
            found = super().between(from_seq, to_seq)
            read.append(len(found))
            return found

    monkeypatch.setattr("distributary.server.processes.control.events.DirectoryTargets", Counting)
    routes = routes_now(paths)
    change(lambda made: made.create(GOOD))
    routes.follow()
    assert read == []
    assert len(uids(routes)) == 1
    made = [change(lambda made: made.create(GOOD)) for _ in range(3)]
    routes.follow()
    assert sum(read) == 4
    routes.follow()
    assert uids(routes)[1:] == [each.uid for each in made]
    assert sum(read) == 4


def test_routes_begin_with_what_an_owner_saved(paths, change, monkeypatch):
    """Older changes are not asked for, and a table that is too large is not kept."""
    monkeypatch.setattr("distributary.server.processes.control.events.ROUTES_HELD_MAX", 1)
    first = change(lambda made: made.create(GOOD))
    table = RouteTable(BlindMatcher)
    for record in routes_now(paths).at("", 100):
        table.apply(record)
    paths.outcome(0).mkdir(parents=True)
    save_table(paths.routes(0), 5, table.snapshot())
    second = change(lambda made: made.create(GOOD))
    routes = routes_now(paths)
    for _ in range(2):
        assert uids(routes) == [first.uid, second.uid]


def test_the_index_process_makes_the_index_and_outlives_what_fails(paths, capsys):
    """A partition that cannot be read is told once; the others get their index."""
    log = EventLog(paths.log, partitions=1, segment_bytes=1 << 14)
    damaged = partition_dir(paths.log, 1) / "end"
    damaged.parent.mkdir()
    damaged.write_bytes(b"damaged")
    for number in range(400):
        log.append(numbered(number))
    stopping = threading.Event()
    start = IndexStart(data_dir=str(paths.root), partitions=2, age_max_s=1e9, log_level="info")
    thread = threading.Thread(target=index_process.run, args=(start, stopping))
    thread.start()
    segments = len(list((paths.log / "p0000").glob("*.seg")))
    assert segments > 2
    for _ in range(3000):
        if len(list(paths.index(0).glob("*.ids"))) >= segments - 1:
            break
        stopping.wait(0.01)
    stopping.set()
    thread.join()
    log.close()
    assert len(list(paths.index(0).glob("*.ids"))) >= segments - 1
    assert capsys.readouterr().out.count("index-not-written") == 1
