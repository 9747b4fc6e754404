"""Paths of Brokers and Channels, as the ingest process reads them."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from distributary.core.database import sqlite_url
from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import DEFAULT_BROKER, AddressBook, own_address, path_of
from distributary.knative.kinds import BROKER, CHANNEL, NAMESPACE
from distributary.subscriptions.store.store import Store


@pytest.fixture
def book(world):
    """The addresses of the world's store."""
    made = AddressBook(world.url)
    yield made
    made.close()


def test_brokers_and_channels_have_addresses(world, book):
    """Their uid; the default broker's is empty."""
    broker = world.make(BROKER, "b", "ns")
    channel = world.make(CHANNEL, "c", "ns")
    trigger = world.trigger("t")
    world.open(broker, channel)
    assert book.read() == {
        "namespaces/default/events": "",
        "brokers/default/default": "",
        "brokers/ns/b": broker.uid,
        "channels/ns/c": channel.uid,
    }
    assert own_address(channel) == channel.uid
    assert own_address(world.objects.find(DEFAULT_BROKER)) == ""
    assert path_of(trigger.key) is None


def test_a_recreated_broker_has_another_address(world, book):
    """But for the default one."""
    first = world.make(BROKER, "b")
    world.open(first)
    world.delete(first.key)
    assert "brokers/default/b" not in book.read()
    assert book.read()["brokers/default/default"] == ""
    second = world.make(BROKER, "b")
    world.open(second)
    assert book.read()["brokers/default/b"] == second.uid != first.uid
    world.delete(DEFAULT_BROKER)
    assert "brokers/default/default" not in book.read()
    world.make(BROKER, "default")
    assert book.read()["brokers/default/default"] == ""


def test_a_new_address_is_closed_until_it_is_opened(world, book):
    """However often its object changes; and it stays open after that, over a restart too."""
    made = world.make(BROKER, "b")
    world.edit(made.key, lambda content: {**content, "spec": {"a": 1}})
    assert "brokers/default/b" not in book.read()
    world.restart()
    assert world.objects.closed == {"brokers/default/b"}
    world.open(made)
    world.edit(made.key, lambda content: {**content, "spec": {"a": 2}})
    assert book.read()["brokers/default/b"] == made.uid
    world.restart()
    assert world.objects.closed == set()
    assert book.read()["brokers/default/b"] == made.uid


def test_opening_one_that_was_recreated_opens_nothing(world, book):
    """Nobody has looked yet which routes belong to the new one: also in the same batch."""
    first = world.make(BROKER, "default", "ns")
    world.delete(first.key)
    second = world.make(BROKER, "default", "ns")
    world.open(first)
    assert "brokers/ns/default" not in book.read()

    async def at_once():
        opening = world.objects.open_addresses({second.uid: second.key})
        gone = world.objects.delete(second.key)
        third = world.objects.create(BROKER, "ns", {"metadata": {"name": "default"}})
        return (await asyncio.gather(opening, gone, third))[2]

    third = world.run(at_once())
    assert "brokers/ns/default" not in book.read()
    world.open(third)
    assert book.read()["brokers/ns/default"] == "@ns"


def test_the_addresses_of_a_store_of_version_8_are_open(make_world, url):
    """Its receivers accepted events there."""
    Store(url).close()
    world = make_world()
    made = world.make(BROKER, "b")
    world.stop()
    with closing(sqlite3.connect(url.database)) as connection, connection:
        connection.execute("ALTER TABLE address DROP COLUMN open")
        connection.execute("UPDATE control_schema SET version = 8")
    Store(url).close()
    world._start()
    book = AddressBook(url)
    assert book.read()["brokers/default/b"] == made.uid
    assert "brokers/default/c" not in book.read()
    world.make(BROKER, "c")
    assert "brokers/default/c" not in book.read()
    book.close()


def test_the_version_tells_when_to_look_again(world, book):
    """Only creates, openings and deletes of Brokers and Channels move it."""
    first = book.version()
    made = world.make(BROKER, "b")
    second = book.version()
    assert second > first
    world.open(made)
    assert book.version() > second
    second = book.version()
    world.trigger("t")
    world.edit(made.key, lambda content: {**content, "spec": {"a": 1}})
    assert book.version() == second
    world.delete(made.key)
    assert book.version() > second


def test_a_deleted_namespace_takes_its_addresses(world, book):
    """Nothing is published to what is gone."""
    world.open(world.make(BROKER, "b", "ns"))
    assert "brokers/ns/b" in book.read()
    world.delete(Key(NAMESPACE.resource, "", "ns"))
    world.until(lambda: len(world.names(NAMESPACE)) == 1)
    assert set(book.read()) == {"brokers/default/default", "namespaces/default/events"}


def test_create_and_delete_in_one_batch_leave_no_address(world, book):
    """The last one counts; readers are told to look all the same."""
    before = book.version()

    async def both():
        create = world.objects.create(BROKER, "default", {"metadata": {"name": "b"}})
        delete = world.objects.delete(Key(BROKER.resource, "default", "b"))
        made, deleted = await asyncio.gather(create, delete)
        assert made.uid == deleted.uid

    world.run(both())
    assert "brokers/default/b" not in book.read()
    assert book.version() > before


def test_there_is_no_book_before_the_store(tmp_path):
    """The control process makes it."""
    with pytest.raises(StoreError, match="there is no store"):
        AddressBook(sqlite_url(tmp_path / "none.db"))


def test_a_store_of_another_version_is_refused(tmp_path):
    """An older one is brought up by the control process first."""
    path = tmp_path / "control.db"
    Store(sqlite_url(path)).close()
    for version, words in ((2, "not brought up"), (99, "upgrade distributary")):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE control_schema SET version = {version}")
        with pytest.raises(StoreError, match=words):
            AddressBook(sqlite_url(path))


def test_a_store_of_version_2_comes_up(make_world, url):
    """The tables are added; what was there stays."""
    Store(url).close()
    with closing(sqlite3.connect(url.database)) as connection, connection:
        for table in ("object", "object_counter", "address", "route_target"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("UPDATE control_schema SET version = 2")
    with pytest.raises(StoreError, match="not brought up"):  # that is the store's own work
        make_world()
    Store(url).close()
    world = make_world()
    assert world.names(BROKER) == [("default", "default")]
    AddressBook(url).close()


def test_the_store_of_subscriptions_may_be_open_beside(world):
    """One file, two writers that take turns."""
    store = Store(world.url)
    try:
        world.trigger("t")
        assert store.live_count() == 0
    finally:
        store.close()
