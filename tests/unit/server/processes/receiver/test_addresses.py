"""The receiver's knowledge of Brokers and Channels, and how the control process renews it."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from distributary.core.errors import LogUnavailableError, StoreError
from distributary.server.processes.receiver.channel_paths import ChannelPaths
from distributary.server.processes.receiver.route_wire import RouteAppendClient, RouteAppendServer


class Book:
    """A store in memory, which can fail."""

    def __init__(self):
        self.paths = {"brokers/default/default": ""}
        self.number = 1
        self.error = None
        self.reads = 0
        self.closed = False

    def put(self, path, uid):
        """The control process writes."""
        self.paths = {**self.paths, path: uid}
        self.number += 1

    def version(self):
        """As of an ``AddressBook``."""
        if self.error is not None:
            raise StoreError(self.error)
        return self.number

    def read(self):
        """As of an ``AddressBook``."""
        self.reads += 1
        return self.paths

    def close(self):
        """As of an ``AddressBook``."""
        self.closed = True


class Stage:
    """Addresses over a book, and what was told."""

    def __init__(self):
        self.book = Book()
        self.there = True
        self.told = []
        self.reports = []
        self.news = True
        self.addresses = ChannelPaths(self.open, self.reports.append, lambda: self.news)
        self.ask = self.addresses.look

    def open(self):
        """The store, where the control process has made it."""
        if not self.there:
            raise StoreError("there is no store")
        return self.book

    async def look(self):
        """What the server asks."""
        return await self.ask()


@pytest.fixture
def play():
    """Run a scenario with a stage."""

    def play(scenario):
        async def main():
            stage = Stage()
            try:
                await scenario(stage)
            finally:
                stage.addresses.close()

        asyncio.run(asyncio.wait_for(main(), 30.0))

    return play


def test_what_is_known_is_told_at_once_and_after_each_look(play):
    """Who comes late misses nothing."""

    async def scenario(stage):
        assert stage.addresses.paths is None
        assert await stage.addresses.look() is None
        stage.addresses.tell(stage.told.append)
        stage.book.put("brokers/a/b", "u")
        assert await stage.addresses.look() is None
        assert stage.told == [{"brokers/default/default": ""}, stage.book.paths]
        assert stage.addresses.paths == stage.book.paths

    play(scenario)


def test_a_store_without_news_is_not_asked(play):
    """Unless the last question failed."""

    async def scenario(stage):
        await stage.addresses.look()
        stage.book.error = "locked"
        stage.news = False
        await stage.addresses.look_if_changed()
        assert stage.reports == []
        stage.news = True
        await stage.addresses.look_if_changed()
        assert stage.reports == ["locked"]
        stage.news, stage.book.error = False, None
        stage.book.put("brokers/a/b", "u")
        await stage.addresses.look_if_changed()
        assert stage.addresses.paths == stage.book.paths

    play(scenario)


def test_a_change_that_nobody_told_of_is_found_and_nothing_is_read_else(play):
    """One number is asked each time."""

    async def scenario(stage):
        stage.addresses.tell(stage.told.append)
        for _ in range(3):
            await stage.addresses.look_if_changed()
        assert (stage.book.reads, len(stage.told)) == (1, 1)
        stage.book.put("channels/a/b", "u")
        for _ in range(3):
            await stage.addresses.look_if_changed()
        assert (stage.book.reads, len(stage.told)) == (2, 2)
        assert stage.told[-1]["channels/a/b"] == "u"

    play(scenario)


def test_a_store_that_cannot_be_read_changes_nothing_and_is_told_once(play):
    """What is known stays; when it can be read again, that is told too if it fails anew."""

    async def scenario(stage):
        stage.addresses.tell(stage.told.append)
        await stage.addresses.look()
        stage.book.error = "locked"
        for _ in range(3):
            assert await stage.addresses.look() == "locked"
            await stage.addresses.look_if_changed()
        assert stage.reports == ["locked"]
        assert stage.told == [stage.addresses.paths]
        stage.book.error = None
        assert await stage.addresses.look() is None
        stage.book.error = "locked"
        await stage.addresses.look_if_changed()
        assert stage.reports == ["locked", "locked"]

    play(scenario)


def test_a_store_that_is_not_there_yet_is_opened_when_it_is(play):
    """Until then nothing is known, which is not the same as that there are none."""

    async def scenario(stage):
        stage.there = False
        assert await stage.addresses.look() == "there is no store"
        assert stage.addresses.paths is None
        stage.there = True
        await stage.addresses.look_if_changed()
        assert stage.addresses.paths == {"brokers/default/default": ""}

    play(scenario)


def test_closing_lets_the_store_go(play):
    """Its connections are closed in the thread that used them."""
    books = []

    async def scenario(stage):
        await stage.addresses.look()
        books.append(stage.book)

    play(scenario)
    assert books[0].closed


def over_the_wire(scenario):
    """Run *scenario* with the path of a socket and a stage."""

    async def main(path):
        stage = Stage()
        server = RouteAppendServer({}, stage.look)
        await server.start(path)
        client = RouteAppendClient([path])
        try:
            await scenario(stage, client, server, path)
        finally:
            client.close()
            server.close()
            stage.addresses.close()

    with tempfile.TemporaryDirectory(prefix="dy") as folder:
        asyncio.run(asyncio.wait_for(main(Path(folder) / "append.sock"), 30.0))


def test_the_answer_comes_when_the_receiver_knows():
    """So that a Broker is Ready only when events for it are taken."""

    async def scenario(stage, client, _server, _path):
        stage.addresses.tell(stage.told.append)
        stage.book.put("brokers/a/b", "u")
        await client.look_again()
        assert stage.told[-1]["brokers/a/b"] == "u"

    over_the_wire(scenario)


def test_a_receiver_that_cannot_read_the_store_says_so():
    """The Broker is not Ready then; asked again later, it may be."""

    async def scenario(stage, client, _server, _path):
        stage.book.error = "locked"
        with pytest.raises(LogUnavailableError, match="locked"):
            await client.look_again()
        stage.book.error = None
        await client.look_again()

    over_the_wire(scenario)


def test_the_successor_of_the_receiver_is_asked_once():
    """A connection that died with the old process is no reason to wait; nobody there is."""

    async def scenario(stage, client, server, path):
        await client.look_again()
        client._wires[0]._streams[1].transport.abort()
        await client.look_again()
        assert stage.book.reads == 2
        client._wires[0]._streams[1].transport.abort()
        server.close()
        path.unlink(missing_ok=True)
        with pytest.raises(LogUnavailableError, match="does not answer"):
            await client.look_again()

    over_the_wire(scenario)


def test_an_answer_that_nobody_waits_for_is_no_answer_to_the_next_question():
    """Given up on half way, the connection is not used again."""

    async def scenario(stage, client, _server, _path):
        asked, held = asyncio.Event(), asyncio.Event()

        async def slow():
            asked.set()
            await held.wait()
            return "too slow"

        stage.ask = slow
        asking = asyncio.ensure_future(client.look_again())
        await asked.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        held.set()
        stage.ask = stage.addresses.look
        await client.look_again()

    over_the_wire(scenario)
