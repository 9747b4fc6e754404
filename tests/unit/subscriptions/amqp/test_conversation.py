"""One connection: its links, its requests, and who is harmed by what."""

import asyncio

import pytest

from distributary.protocols.amqp.engine import AmqpMessage, _values
from kit.amqp_client import AmqpClient, RejectedError

pytest.importorskip("cproton", reason="Qpid Proton is not installed")


def test_a_subscription_lives_over_amqp(served, good, bye):
    """Create, Retrieve, Update, Query, Delete on one connection."""

    async def live() -> None:
        client = served.connect()
        created = await client.ask("Create", good())
        id_ = created.json()["id"]
        assert (created.status, created.code, created.properties["id"]) == ("ok", 201, id_)
        read = await client.ask("Retrieve", id=id_)
        assert (read.status, read.code, read.message.body) == ("ok", 200, created.message.body)
        etag = read.properties["etag"]
        updated = await client.ask("Update", good(types=["a"]), id=id_, ifmatch=etag)
        assert (updated.status, updated.code, updated.json()["types"]) == ("ok", 200, ["a"])
        stale = await client.ask("Delete", id=id_, ifmatch=etag)
        assert (stale.status, stale.code) == ("conflict", 412)
        assert [found["id"] for found in (await client.ask("Query")).json()] == [id_]
        assert (await client.ask("Delete", id=id_)).json() == updated.json()
        gone = await client.ask("Retrieve", id=id_)
        assert (gone.status, gone.code, gone.json()["code"]) == ("notfound", 404, "notfound")
        assert (await bye(client)).cause == "local"

    served.run(live)


def test_a_list_without_results_is_nocontent(served):
    """The specification's word; the body is as over HTTP."""

    async def query() -> None:
        answer = await served.connect().ask("Query")
        assert (answer.status, answer.code, answer.json()) == ("nocontent", 200, [])

    served.run(query)


def test_an_unchanged_subscription_is_not_sent_again(served, good):
    """As 304 over HTTP: no body."""

    async def read_twice() -> None:
        client = served.connect()
        made = await client.ask("Update", good(), id="mine")
        answer = await client.ask("Retrieve", id="mine", ifnonematch=made.properties["etag"])
        assert (answer.status, answer.code, answer.message.body) == ("notmodified", 304, b"")

    served.run(read_twice)


def test_a_long_list_is_cut_and_goes_on(served, good, monkeypatch):
    """By ``limit``, and by the size of an answer; following ``next`` visits everything once."""

    async def visit(client: AmqpClient, **wanted: object) -> list[list[str]]:
        parts: list[list[str]] = []
        cursor: dict[str, str] = {}
        while True:
            answer = await client.ask("Query", **wanted, **cursor)
            parts.append([found["id"] for found in answer.json()])
            if "next" not in answer.properties:
                return parts
            cursor = {"cursor": answer.properties["next"]}

    async def query() -> None:
        client = served.connect()
        for name in "abcde":
            await client.ask("Update", good(), id=name)
        assert await visit(client) == [["a", "b", "c", "d", "e"]]
        assert await visit(client, limit=2) == [["a", "b"], ["c", "d"], ["e"]]
        monkeypatch.setattr("distributary.subscriptions.http.operations._STEP_PAGE", 1)
        monkeypatch.setattr("distributary.subscriptions.amqp._messages.ANSWER_BYTES_MAX", 100)
        assert [len(part) for part in await visit(client)] == [1] * 5
        monkeypatch.setattr("distributary.subscriptions.amqp._messages.ANSWER_BYTES_MAX", 10**6)
        assert await visit(client, limit=3) == [["a", "b", "c"], ["d", "e"]]

    served.run(query)


def test_requests_are_done_in_the_order_in_which_they_came(served, good):
    """Sent at once without waiting, each sees what the one before did."""

    async def pipeline() -> None:
        client = served.connect()
        asked = [
            client.ask("Update", good(types=["a"]), id="mine", ifnonematch="*"),
            client.ask("Retrieve", id="mine"),
            client.ask("Update", good(types=["b"]), id="mine"),
            client.ask("Delete", id="mine"),
            client.ask("Retrieve", id="mine"),
            client.ask("Discover"),
        ]
        answers = await asyncio.gather(*asked)
        assert [answer.code for answer in answers] == [201, 200, 200, 200, 404, 200]
        assert answers[1].json()["types"] == ["a"]
        assert answers[3].json()["types"] == ["b"]

    served.run(pipeline)


def test_a_hundred_requests_at_once(served, good):
    """On ten connections, ten each; every one gets its own answer."""

    async def crowd() -> None:
        clients = [served.connect() for _ in range(10)]
        names = [f"s{number}" for number in range(100)]
        answers = await asyncio.gather(
            *(
                clients[number % 10].ask("Update", good(source=f"/{name}"), id=name)
                for number, name in enumerate(names)
            )
        )
        assert [answer.json()["source"] for answer in answers] == [f"/{name}" for name in names]
        assert len((await clients[0].ask("Query")).json()) == 100

    served.run(crowd)


@pytest.mark.parametrize(
    ("changed", "condition"),
    [
        ({"reply_to": None}, "amqp:invalid-field"),
        ({"reply_to": "elsewhere"}, "amqp:invalid-field"),
        ({"message_id": None}, "amqp:invalid-field"),
    ],
    ids=["no reply-to", "unknown reply-to", "no id"],
)
def test_a_request_that_cannot_be_answered_is_rejected_and_not_done(served, changed, condition):
    """The outcome of its delivery says why."""

    async def ask() -> None:
        client = served.connect()
        await client.ask("Discover")
        members = {"message_id": 7, "reply_to": client.reply_to} | changed
        message = AmqpMessage(b"{}", {"operation": "Update", "id": "mine"}, **members)
        with pytest.raises(RejectedError) as caught:
            await client.send(lambda _: message)
        assert caught.value.outcome.condition == condition
        assert (await client.ask("Query")).status == "nocontent"

    served.run(ask)


def test_a_request_needs_no_body_where_nothing_is_proposed(served):
    """Proton writes no body at all where it is told None; where one is needed, that is said."""
    properties = b"\x00\x53\x74" + _values.encode({"operation": "Query"})

    async def ask() -> None:
        client = served.connect()
        await client.ask("Discover")
        fields = [None, None, None, None, client.reply_to, 77]
        wanted = client._pending[77] = asyncio.get_running_loop().create_future()
        client._asking.send(b"\x00\x53\x73" + _values.encode(fields) + properties, 77)
        assert (await wanted).application_properties["status"] == "nocontent"
        refused = await client.send(
            lambda number: AmqpMessage(
                None, {"operation": "Create"}, message_id=number, reply_to=client.reply_to
            )
        )
        assert refused.status == "unsupported-media-type"

    served.run(ask)


def _with_id(value: object) -> bytes:
    """A message with such a message-id."""
    return b"\x00\x53\x73" + _values.encode([value, None, None, None, "answers/1"])


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00\x53\x99", b"\xff" * 9, _with_id(-1), _with_id([1]), _with_id(1.5)],
    ids=["empty", "section", "garbage", "negative id", "list as id", "float as id"],
)
def test_what_is_no_message_is_rejected(served, payload):
    """And the next request is answered."""

    async def ask() -> None:
        client = served.connect()
        await client.ask("Discover")
        rejected = asyncio.get_running_loop().create_future()
        client._pending[0] = rejected
        client._asking.send(payload, 0)
        with pytest.raises(RejectedError, match=r"amqp:(decode-error|invalid-field)"):
            await rejected
        assert (await client.ask("Discover")).status == "ok"

    served.run(ask)


@pytest.mark.parametrize(
    ("operation", "body", "properties", "faults"),
    [
        ("Delete all", None, {}, ["operation"]),
        ("Create", b"{}", {}, ["$.sink", "$.protocol"]),
        ("Create", b"{", {}, ["$"]),
        ("Update", b"{}", {"ifMatch": "*"}, ["ifMatch", "id"]),
        ("Query", None, {"limit": 0, "cursor": 1}, ["limit", "cursor"]),
        ("Query", None, {"cursor": "!"}, ["cursor"]),
    ],
    ids=str,
)
def test_what_is_invalid_is_said_with_every_place(served, operation, body, properties, faults):
    """As problem details."""

    async def ask() -> None:
        answer = await served.connect().ask(operation, body, **properties)
        assert (answer.status, answer.code) == ("invalid", 400)
        assert answer.message.content_type == "application/problem+json"
        assert {fault["path"] for fault in answer.json()["faults"]} == set(faults)

    served.run(ask)


def test_a_log_that_refuses_is_said_with_where_the_change_is(served, good):
    """The client reads the subscription in place of sending the change again."""

    async def ask() -> None:
        client = served.connect()
        served.appender.failing = True
        answer = await client.ask("Create", good())
        assert (answer.status, answer.code) == ("log-unavailable", 503)
        assert answer.properties["retryafter"] == 1
        assert (await client.ask("Retrieve", id=answer.properties["id"])).status == "ok"

    served.run(ask)


def test_a_bug_outside_of_an_operation_ends_its_connection_alone(served, monkeypatch):
    """Rather than leaving it without answers for ever."""

    async def ask() -> None:
        client, other = served.connect(), served.connect()
        await other.ask("Discover")
        with monkeypatch.context() as patch:
            patch.delattr("distributary.subscriptions.amqp._conversation.correlation_of")
            with pytest.raises(ConnectionError):
                await client.ask("Discover")
        assert (await other.ask("Discover")).status == "ok"

    served.run(ask)


def test_a_bug_is_an_answer_and_costs_nobody_the_connection(served, monkeypatch):
    """500, without what went wrong; the log has that."""

    async def fail(*_arguments: object) -> None:
        raise RuntimeError("secret")

    async def ask() -> None:
        client = served.connect()
        monkeypatch.setattr(served.subscriptions, "retrieve", fail)
        answer = await client.ask("Retrieve", id="mine")
        assert (answer.status, answer.code) == ("internal", 500)
        assert b"secret" not in answer.message.body
        assert (await client.ask("Query")).status == "nocontent"

    served.run(ask)
