"""Links, credit and limits of a connection: who is harmed by what a client does."""

import asyncio

import pytest

from distributary.protocols.amqp.engine import (
    AmqpEngine,
    AmqpLink,
    AmqpMessage,
    Outcome,
    encode_message,
)
from distributary.subscriptions.amqp import (
    ANSWER_LINKS_MAX,
    CONNECTIONS_MAX,
    OPEN_S_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_CREDIT,
    REQUEST_LINKS_MAX,
)
from kit.amqp_client import AmqpClient, join
from kit.fake_amqp import drain, is_draining

pytest.importorskip("cproton", reason="Qpid Proton is not installed")


@pytest.mark.parametrize("address", ["other", "", "Subscriptions"])
def test_requests_go_to_the_management_node_alone(served, address):
    """Any other address is not found, and the connection stays."""

    async def connect() -> None:
        client = served.connect(address=address)
        with pytest.raises(ConnectionError, match="amqp:not-found"):
            await client.send(lambda _: AmqpMessage(b""))

    served.run(connect)


class Opener(AmqpClient):
    """Opens links as a test says, and keeps how they ended."""

    def __init__(self, links: list[tuple[str | None, bool]]) -> None:
        super().__init__()
        self._links_wanted = links
        self.stands: list[str] = []
        self.refused: list[str] = []

    def opened(self, engine: AmqpEngine) -> None:
        """Open what was asked for."""
        for number, (address, sending) in enumerate(self._links_wanted):
            if sending:
                engine.open_sender(address or "", f"link{number}")
            else:
                engine.open_receiver(address, f"link{number}")

    def link_opened(self, link) -> None:
        """Keep it."""
        self.stands.append(link.name)

    def link_closed(self, link) -> None:
        """Keep why."""
        if link.name in self.stands:
            self.stands.remove(link.name)
        self.refused.append(f"{link.name} {link.ended.condition}")


@pytest.mark.parametrize(
    ("links", "refused"),
    [
        ([("subscriptions", True)] * (REQUEST_LINKS_MAX + 1), "amqp:resource-limit-exceeded"),
        ([(None, False)] * (ANSWER_LINKS_MAX + 1), "amqp:resource-limit-exceeded"),
        ([("mine", False)] * 2, "amqp:not-allowed"),
        ([("mine", False), ("", False)], "amqp:invalid-field"),
    ],
    ids=["requests", "answers", "same address", "no address"],
)
def test_one_link_too_many_is_refused(served, quiet, links, refused):
    """The others stand."""

    async def connect() -> None:
        client = Opener(links)
        join(client.engine, served.server.meet())
        await quiet()
        assert client.refused == [f"link{len(links) - 1} {refused}"]
        assert len(client.stands) == len(links) - 1
        client.engine.abort()

    served.run(connect)


def test_a_client_may_choose_where_answers_arrive(served):
    """The reply-to is then the source address of that link."""

    class Choosing(AmqpClient):
        def opened(self, engine: AmqpEngine) -> None:
            engine.open_receiver("my-answers", "answers").grant(1)
            engine.open_sender("subscriptions", "requests")

    async def ask() -> None:
        client = Choosing()
        join(client.engine, served.server.meet())
        answer = await client.ask("Discover")
        assert answer.message.to == "my-answers"

    served.run(ask)


async def done_meanwhile(served, proposal) -> list[str]:
    """What others have made to stand while another client makes ten changes in turn.

    Changes are done in the order in which they are submitted: what could go on has gone on.
    """
    other = served.connect()
    for number in range(10):
        assert (await other.ask("Update", proposal, id=f"other{number}")).status == "ok"
    found = (await other.ask("Query")).json()
    return [each["id"] for each in found if not each["id"].startswith("other")]


def test_who_takes_no_answers_gets_no_more_requests_in(served, good):
    """Its credit runs out, one request is done, and others are answered meanwhile."""

    async def ask() -> None:
        greedy = served.connect(credit=0)
        asked = [
            asyncio.ensure_future(greedy.ask("Update", good(), id=f"s{number}"))
            for number in range(3 * REQUEST_CREDIT)
        ]
        assert await done_meanwhile(served, good()) == ["s0"]
        assert len(greedy._unsent) == 2 * REQUEST_CREDIT
        greedy._answers.grant(100)
        assert [answer.code for answer in await asyncio.gather(*asked)] == [201] * len(asked)

    served.run(ask)


def test_who_waits_for_the_outcome_may_give_credit_afterwards(served):
    """A client that blocks until its request is settled is not waited for in turn."""

    class Patient(AmqpClient):
        def settled(self, link: AmqpLink, token: object, outcome: Outcome) -> None:
            super().settled(link, token, outcome)
            self._answers.grant(1)

    async def ask() -> None:
        client = Patient(credit=0)
        join(client.engine, served.server.meet())
        assert (await client.ask("Discover")).status == "ok"
        assert (await client.ask("Query")).status == "nocontent"

    served.run(ask)


def test_who_asks_for_unused_credit_back_gets_it_or_the_answer(served, quiet):
    """A client that looks for an answer, and does not wait for one, asks so each time."""

    async def ask() -> None:
        client = served.connect(credit=0)
        await quiet()
        link = client._answers
        for _ in range(2):
            drain(link, 1)
            await quiet()
            assert not is_draining(link)
        asked = asyncio.ensure_future(client.ask("Discover"))
        await quiet()
        assert not asked.done()
        drain(link, 3)
        await quiet()
        assert (await asked).status == "ok"
        assert not is_draining(link)

    served.run(ask)


def test_who_does_not_read_holds_one_answer(served, good):
    """Credit alone is not enough: the next request waits until the socket took the answer."""

    async def ask() -> None:
        slow, _, wire = served.connect_by_wires(credit=100)
        await slow.ask("Discover")
        wire.held = True
        asked = [
            asyncio.ensure_future(slow.ask("Update", good(), id=f"s{number}"))
            for number in range(REQUEST_CREDIT)
        ]
        assert await done_meanwhile(served, good()) == ["s0"]
        wire.release()
        assert [answer.code for answer in await asyncio.gather(*asked)] == [201] * len(asked)

    served.run(ask)


def test_who_opens_links_anew_to_send_more_is_cut(served, quiet):
    """What a link had sent waits on when the link has gone: it counts all the same."""

    async def ask() -> None:
        greedy = served.connect(credit=0)
        await quiet()
        for number in range(3 * REQUEST_LINKS_MAX):
            for _ in range(REQUEST_CREDIT):
                said = {"message_id": 1, "reply_to": greedy.reply_to}
                request = AmqpMessage(b"", {"operation": "Query"}, **said)
                greedy._asking.send(encode_message(request), number)
            await quiet()
            if greedy.ended.done():
                break
            greedy._asking.close()
            greedy.engine.open_sender("subscriptions", f"requests{number}")
            await quiet()
        assert number == REQUEST_LINKS_MAX
        assert (await greedy.ended).cause == "lost"
        assert (await served.connect().ask("Discover")).status == "ok"

    served.run(ask)


def test_an_answer_larger_than_its_link_takes_ends_that_link(served, good):
    """The request is done, and the reason says what was too large."""

    async def ask() -> None:
        client = AmqpClient()
        client.engine = AmqpEngine(client, message_bytes_max=300)
        join(client.engine, served.server.meet())
        with pytest.raises(ConnectionError, match="amqp:link:message-size-exceeded"):
            await client.ask("Update", good(), id="mine")
        client.engine.abort()
        assert (await served.connect().ask("Retrieve", id="mine")).status == "ok"

    served.run(ask)


def test_a_request_that_is_too_large_ends_its_link(served):
    """Before it is held whole."""

    async def ask() -> None:
        client = served.connect()
        with pytest.raises(ConnectionError, match="amqp:link:message-size-exceeded"):
            await client.ask("Create", b" " * (REQUEST_BYTES_MAX + 1))

    served.run(ask)


def test_a_client_that_leaves_costs_nothing(served, good, quiet):
    """What was begun is finished; what waited is not begun."""

    async def ask() -> None:
        client = served.connect()
        await client.ask("Discover")
        asked = [
            asyncio.ensure_future(client.ask("Update", good(), id=f"s{number}"))
            for number in range(REQUEST_CREDIT)
        ]
        await quiet(4)
        client.engine.abort()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, ConnectionError) for each in results)
        other = served.connect()
        found = await other.ask("Query")
        assert len(found.json()) <= 1

    served.run(ask)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x00\x01\x00\x00" + b"\xff" * 64,
        b"AMQP\x00\x01\x00\x00\x7f\xff\xff\xff\x02\x00\x00\x00",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 1000,
    ],
    ids=["http", "amqp 0.9", "garbage", "frame of 2 GiB", "tls", "zeros"],
)
def test_garbage_ends_its_own_connection(served, quiet, raw):
    """Whatever comes; the others go on."""

    class Raw(asyncio.Protocol):
        lost = False

        def connection_lost(self, _exc: Exception | None) -> None:
            self.lost = True

    async def ask() -> None:
        good = served.connect()
        await good.ask("Discover")
        hostile = Raw()
        wire, _ = join(hostile, served.server.meet())
        wire.write(raw)
        await quiet()
        assert hostile.lost
        assert (await good.ask("Discover")).status == "ok"

    served.run(ask)


def test_one_connection_too_many_is_cut(served, quiet):
    """And there is room again when one has left."""

    async def crowd() -> None:
        clients = [served.connect() for _ in range(CONNECTIONS_MAX)]
        assert (await clients[-1].ask("Discover")).status == "ok"
        refused = served.connect()
        assert (await refused.ended).cause in ("lost", "protocol")
        clients[0].engine.abort()
        await quiet()
        assert (await served.connect().ask("Discover")).status == "ok"

    served.run(crowd)


def test_a_connection_that_does_not_open_is_cut(served, quiet, monkeypatch):
    """What connects and says nothing, or half of something."""

    async def connect() -> None:
        due = []
        loop = asyncio.get_running_loop()
        original = loop.call_later

        def call_later(delay_s, callback, *arguments):
            if delay_s == OPEN_S_MAX:
                due.append(callback)
            return original(delay_s, callback, *arguments)

        monkeypatch.setattr(loop, "call_later", call_later)
        silent = asyncio.Protocol()
        wire, _ = join(silent, served.server.meet())
        wire.write(b"AMQP\x03")
        client = served.connect()
        assert (await client.ask("Discover")).status == "ok"
        await quiet()
        for callback in due:
            callback()
        await quiet()
        assert wire._gone
        assert (await client.ask("Discover")).status == "ok"

    served.run(connect)


def test_who_has_left_is_not_kept_until_it_would_have_had_to_open(served, quiet, monkeypatch):
    """Those that come and go would be held for seconds, with the half frame that they sent."""

    async def come_and_go() -> None:
        timers = []
        loop = asyncio.get_running_loop()
        original = loop.call_later

        def call_later(delay_s, callback, *arguments):
            timer = original(delay_s, callback, *arguments)
            if delay_s == OPEN_S_MAX:
                timers.append(timer)
            return timer

        monkeypatch.setattr(loop, "call_later", call_later)
        client = served.connect()
        assert (await client.ask("Discover")).status == "ok"
        (timer,) = timers
        assert not timer.cancelled()
        client.engine.abort()
        await quiet()
        assert timer.cancelled()

    served.run(come_and_go)


def test_a_server_that_stops_answers_what_is_under_way(served, good, monkeypatch):
    """And begins nothing more; then it says goodbye."""
    asked, go_on = asyncio.Event(), asyncio.Event()
    retrieve = served.subscriptions.retrieve

    async def slow(id_: str, namespace: str) -> object:
        asked.set()
        await go_on.wait()
        return await retrieve(id_, namespace)

    async def stop() -> None:
        client = served.connect()
        await client.ask("Update", good(), id="mine")
        monkeypatch.setattr(served.subscriptions, "retrieve", slow)
        under_way = asyncio.ensure_future(client.ask("Retrieve", id="mine"))
        behind = asyncio.ensure_future(client.ask("Delete", id="mine"))
        await asked.wait()
        stopping = asyncio.ensure_future(served.server.close())
        await asyncio.sleep(0)
        go_on.set()
        assert (await under_way).status == "ok"
        with pytest.raises(ConnectionError, match="amqp:connection:forced"):
            await behind
        await stopping
        assert await retrieve("mine")

    served.run(stop)


def test_a_server_that_stops_says_so(served, good):
    """After the requests that are under way; who is there is told why."""

    async def stop() -> None:
        client = served.connect()
        await client.ask("Update", good(), id="mine")
        await served.server.close()
        ended = await client.ended
        assert (ended.cause, ended.condition) == ("peer", "amqp:connection:forced")

    served.run(stop)


def join_from(served, address: str | None) -> AmqpClient:
    """A client that connects from *address*."""
    client = AmqpClient()
    join(client.engine, served.server.meet(address))
    return client


def test_one_address_does_not_take_all_connections(served, quiet):
    """Others get in, and those on this machine share one address by nature."""

    async def crowd() -> None:
        own = [join_from(served, "::ffff:127.0.0.1") for _ in range(25)]
        many = [join_from(served, "192.0.2.1") for _ in range(20)]
        for client in (own[-1], many[-1], join_from(served, "192.0.2.2")):
            assert (await client.ask("Discover")).status == "ok"
        refused = join_from(served, "192.0.2.1")
        assert (await refused.ended).cause in ("lost", "protocol")
        many[0].engine.abort()
        await quiet()
        assert (await join_from(served, "192.0.2.1").ask("Discover")).status == "ok"

    served.run(crowd)


def test_a_connection_that_asks_for_nothing_is_closed(served, quiet, monkeypatch):
    """After ten minutes, whatever heartbeats it sends; one that asks is left alone."""

    async def wait() -> None:
        looks = []
        loop = asyncio.get_running_loop()
        original = loop.call_later

        def call_later(delay_s, callback, *arguments):
            looks.append((delay_s, callback))
            return original(delay_s, callback, *arguments)

        monkeypatch.setattr(loop, "call_later", call_later)
        client = served.connect()
        assert (await client.ask("Discover")).status == "ok"
        look = next(callback for delay_s, callback in looks if delay_s == OPEN_S_MAX)
        looks.clear()
        look()
        assert (await client.ask("Discover")).status == "ok"
        again = [callback for delay_s, callback in looks if 590 < delay_s <= 600]
        assert len(again) == 1
        passed = loop.time() + 600
        with monkeypatch.context() as later:
            later.setattr(loop, "time", lambda: passed)
            again[0]()
        assert "nothing was asked" in (await client.ended).text
        await quiet()
        assert not served.server._conversations

    served.run(wait)
