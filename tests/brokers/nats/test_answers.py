"""Every row of the table is what a server says, and each is told as it was said."""

import dataclasses

import pytest

from distributary.core.deliver.credential import Credential
from distributary.core.event import Event
from distributary.core.policy import Acknowledgement, acknowledgement_rule, acknowledgement_rules
from distributary.testing.check_transport import an_event
from kit import fake_nats
from kit.fake_nats import INFO, FakeNats
from kit.servers import PASSWORD
from kit.servers.nats import NARROW_USER, SILENT_USER, NatsServer

RULES = acknowledgement_rules("NATS")

TO_A_MESSAGE = {
    "stored": fake_nats.stored,
    "duplicate": lambda m: m.answered(b'{"stream":"S","seq":1,"duplicate":true}'),
    "no-puback": lambda m: m.answered(b'{"hello":"world"}'),
    "no-responders": lambda m: m.answered(b"", b"NATS/1.0 503\r\n\r\n"),
    "permissions-violation-for-publish": fake_nats.error(
        'Permissions Violation for Publish to "orders.x"'
    ),
    "permissions-violation-for-subscription": fake_nats.error(
        'Permissions Violation for Subscription to "_INBOX.abc.*"'
    ),
    "other": fake_nats.refused(99_999),
}
"""Answers to a publish that have words of their own."""

OURS = {"flushed", "no-stream", "maximum-payload-violation", "invalid-publish-subject"}
"""Codes that no server has to say: see the tests below."""


def a_server_that_says(code):
    """A server whose answer is that row of the table."""
    if code in TO_A_MESSAGE:
        return FakeNats(TO_A_MESSAGE[code])
    if code.isdecimal():
        return FakeNats(fake_nats.refused(int(code)))
    if code == "message-headers-not-supported":
        return FakeNats(info=INFO | {"headers": False})
    return FakeNats(login=f"-ERR '{code.replace('-', ' ').title()}'\r\n".encode())


@pytest.mark.parametrize("code", sorted(RULES.keys() - OURS))
def test_every_row_of_the_table_is_told_as_the_server_says_it(way, run, code):
    """The answer of the attempt falls in that row, and in no other."""

    async def scenario():
        async with a_server_that_says(code) as server, way() as here:
            answer = await here.send(here.to(server.port, "orders.x"))
            assert isinstance(answer, Acknowledgement)
            assert acknowledgement_rule(answer) is RULES[code]

    run(scenario())


def test_a_refusal_while_messages_fly_is_told_to_them(way, run):
    """The words of a server that ends the connection are the answer of what was in flight."""

    async def scenario():
        async with FakeNats(fake_nats.error("Server Shutdown")) as server, way() as here:
            answer = await here.send(here.to(server.port, "orders.x"))
            assert answer.code == "server-shutdown"

    run(scenario())


def test_what_one_message_is_blamed_for_does_not_dead_letter_the_others(way, run):
    """A connection that ends over one message is a broken connection for the rest."""

    async def scenario():
        answer = fake_nats.error("Maximum Payload Violation")
        async with FakeNats(answer) as server, way() as here:
            answer = await here.send(here.to(server.port, "orders.x"))
            assert answer.reason == "reset"
            assert answer.retryable

    run(scenario())


def test_without_a_stream_nothing_is_sent_that_asks_for_one(way, run):
    """``jetstream: true`` where no stream holds the subject: told, and nobody gets anything."""

    async def scenario():
        async with FakeNats(streams=()) as server, way() as here:
            answer = await here.send(here.to(server.port, "orders.x", jetstream=True))
            assert answer.code == "no-stream"
            assert not server.published

    run(scenario())


@pytest.mark.parametrize("streams", [(), b"NATS/1.0 503\r\n\r\n"], ids=["none", "no-jetstream"])
def test_without_a_stream_and_without_asking_for_one_it_goes_by_core(way, run, streams):
    """One message, without a reply subject that nobody would answer, flushed."""

    async def scenario():
        async with FakeNats(streams=streams) as server, way() as here:
            answer = await here.send(here.to(server.port, "orders.x"))
            assert answer.code == "flushed"
            assert [(each.subject, each.reply) for each in server.published] == [("orders.x", "")]

    run(scenario())


def test_a_look_up_that_fails_is_the_answer_of_those_who_wait_for_it(way, run):
    """JetStream that is not available now says nothing about who holds the subject."""

    async def scenario():
        async with FakeNats(streams=b"NATS/1.0 409 Busy\r\n\r\n") as server, way() as here:
            answers = await here.send_all(here.to(server.port, "orders.x"), 3)
            assert {acknowledgement_rule(answer).code for answer in answers} == {"other"}
            assert not server.published

    run(scenario())


def test_too_large_a_message_is_refused_before_it_is_sent(way, run, nats_server):
    """The server would end the connection, and the others would go down with it."""

    async def scenario():
        async with way() as here:
            destination = here.to(nats_server.port, "orders.x", jetstream=False)
            large = an_event(data=b'"' + b"x" * 2 * 1024 * 1024 + b'"')
            assert (await here.send(destination, large)).code == "maximum-payload-violation"
            assert (await here.send(destination)).code == "flushed"
            assert here.connector.dials == 1

    run(scenario())


def test_the_largest_message_that_the_server_takes_is_sent(way, run, name):
    """The limit counts headers as the server does: one byte more is refused, by us."""

    async def scenario():
        with NatsServer(max_payload=4096) as server:
            await server.create_stream(name, name)
            async with way() as here:
                destination = here.to(server.port, name)
                codes = []
                for size in range(3500, 4000):
                    event = an_event(data=b'"' + b"x" * size + b'"')
                    codes.append((await here.send(destination, event)).code)
                turn = codes.index("maximum-payload-violation")
                assert turn > 0
                assert set(codes[:turn]) == {"stored"}
                assert set(codes[turn:]) == {"maximum-payload-violation"}
                assert here.connector.dials == 1

    run(scenario())


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB b 0\r\n", "a.*", "a.>", "a\x00b"])
def test_a_subject_that_is_none_is_refused_before_it_is_sent(way, run, subject):
    """Nothing of it reaches the wire, where it could be another command."""

    async def scenario():
        async with FakeNats() as server, way() as here:
            answer = await here.send(here.to(server.port, subject, jetstream=False))
            assert answer.code == "invalid-publish-subject"
            answer = await here.send(here.to(server.port, subject, jetstream=True))
            assert answer.code == "invalid-publish-subject"
            assert not server.published

    run(scenario())


@pytest.mark.parametrize("jetstream", [None, True, False])
def test_a_user_who_may_not_publish_there_is_told(way, run, nats_server, jetstream):
    """For each message that the server refuses one attempt, and none to another subject."""

    async def scenario():
        await nats_server.create_stream("DENIED", "forbidden.there")
        async with way() as here:
            denied = here.to(nats_server.port, "forbidden.there", jetstream=jetstream)
            allowed = dataclasses.replace(
                denied, settings=dataclasses.replace(denied.settings, subject="allowed.there")
            )
            answers = await here.send_all(denied, 20)
            assert {answer.code for answer in answers} == {"permissions-violation-for-publish"}
            if jetstream is not True:
                assert (await here.send(allowed)).code == "flushed"
        assert not await nats_server.stored("DENIED")

    run(scenario())


def test_words_while_messages_fly_are_told_as_they_are(way, run):
    """Also those that nats-py has an error of its own for."""

    async def scenario():
        for words in ("Stale Connection", "Authorization Violation", "Slow Consumer"):
            async with FakeNats(fake_nats.error(words)) as server, way() as here:
                answer = await here.send(here.to(server.port, "orders.x"))
                assert answer.code == words.lower().replace(" ", "-")
                assert answer.text == words

    run(scenario())


def test_a_user_who_may_not_ask_jetstream_is_served_all_the_same(way, run, nats_server):
    """Whoever answers shows that a stream is there; 503 shows that none is."""

    async def scenario():
        await nats_server.create_stream("NARROW", "narrow.held")
        async with way() as here:
            here.credential = Credential("PLAIN", NARROW_USER, PASSWORD)
            held = await here.send(here.to(nats_server.port, "narrow.held"))
            assert held.code == "stored"
            nobody = await here.send(here.to(nats_server.port, "narrow.nobody"))
            assert nobody.code == "no-responders"

    run(scenario())


def test_a_user_whom_no_acknowledgement_reaches_is_told_so(way, run, nats_server):
    """Core NATS goes on; what should be acknowledged is not sent."""

    async def scenario():
        async with way() as here:
            here.credential = Credential("PLAIN", SILENT_USER, PASSWORD)
            for _ in range(2):
                answer = await here.send(here.to(nats_server.port, "orders.x"))
                assert answer.code == "permissions-violation-for-subscription"
            core = here.to(nats_server.port, "orders.x", jetstream=False)
            assert (await here.send(core)).code == "flushed"

    run(scenario())


@pytest.mark.parametrize("jetstream", [None, False])
def test_an_event_that_cannot_be_encoded_fails_alone(way, run, nats_server, jetstream):
    """It never gets an answer from anybody else, and stops nobody."""

    async def scenario():
        bad = Event({"specversion": "1.0", "id": "\ud800", "source": "/s", "type": "t"}, None)
        async with way() as here:
            destination = here.to(nats_server.port, "encode.x", jetstream=jetstream)
            for _ in range(2):
                answer = await here.send(destination, bad)
                assert answer.reason == "protocol"
                assert not answer.retryable
                assert (await here.send(destination)).code == "flushed"

    run(scenario())


def test_no_secret_is_in_what_is_said(way, run, nats_server):
    """Neither a wrong password nor a wrong token comes back in an answer."""

    async def scenario():
        async with way() as here:
            for credential in (
                Credential("PLAIN", "nobody", "canary-7"),
                Credential("ACCESSTOKEN", access_token="canary-7"),
            ):
                here.credential = credential
                answer = await here.send(here.to(nats_server.port, "orders.x"))
                assert answer.code == "authorization-violation"
                assert "canary-7" not in repr(answer)

    run(scenario())
