"""Every row of AMQP's table, said by a peer; and what a broker cannot be made to say."""

import asyncio

import pytest

from distributary.core.deliver.credential import ClientCertificate, Credential
from distributary.core.errors import TransportError
from distributary.core.policy import (
    Acknowledgement,
    Decision,
    acknowledgement_rule,
    acknowledgement_rules,
)
from distributary.protocols.amqp.engine import DeliveryState, Outcome, decode_message
from distributary.testing.check_transport import an_event
from kit import fake_amqp
from kit.fake_amqp import FakeAmqp, FakeLogin

RULES = acknowledgement_rules("AMQP").values()
SASL = {"sasl-auth": 1, "sasl-sys": 2, "sasl-sys-perm": 3, "sasl-sys-temp": 4}


def _outcome(code):
    """The outcome that a row is about; None: it is about something else."""
    word, _, condition = code.partition(" ")
    if code == "rejected other":
        return Outcome(DeliveryState.REJECTED, "vendor:whim", "no")
    if word == "rejected":
        return Outcome(DeliveryState.REJECTED, condition, "no" if condition else "")
    return {
        "accepted": Outcome(DeliveryState.ACCEPTED),
        "released": Outcome(DeliveryState.RELEASED),
        "settled": Outcome(DeliveryState.NONE),
        "modified": Outcome(DeliveryState.MODIFIED, failed=True, undeliverable=bool(condition)),
    }.get(word)


def _peer(code):
    """A peer that says what the row *code* is about."""
    outcome = _outcome(code)
    word, _, condition = code.partition(" ")
    if outcome is not None:
        return FakeAmqp(fake_amqp.answers(outcome))
    if word == "link":
        return FakeAmqp(on_link=lambda link: link.close(condition or "vendor:whim", "no"))
    if word == "connection":
        return FakeAmqp(on_link=lambda link: link.engine.close(condition or "vendor:whim", "no"))
    if word == "sasl-mechanism":
        return FakeLogin(("KERBEROS_V4",))
    return FakeLogin(("ANONYMOUS",), SASL[word])


@pytest.mark.parametrize("code", [rule.code for rule in RULES if rule.code != "other"])
def test_each_row_is_what_its_answer_becomes(run, way, code):
    """The peer says it, the attempt is answered with the row's code, once."""

    async def scenario():
        async with _peer(code) as peer, way() as here:
            answer = await here.send(here.to(peer.port))
        assert isinstance(answer, Acknowledgement), answer
        assert answer.code == code
        assert acknowledgement_rule(answer).code == code

    run(scenario())


@pytest.mark.parametrize(
    "code", ["link amqp:resource-deleted", "connection amqp:connection:forced"]
)
def test_an_end_in_the_middle_answers_all_under_way_and_the_next_is_taken(run, way, code):
    """The link, or the connection, ends with messages under way; the next attempt opens another."""
    where, _, condition = code.partition(" ")
    seen = []

    def end(link, incoming):
        seen.append(incoming)
        if len(seen) == 3:
            (link if where == "link" else link.engine).close(condition, "no")
        elif len(seen) > 3:
            fake_amqp.accepts(link, incoming)

    async def scenario():
        async with FakeAmqp(end) as peer, way() as here:
            target = here.to(peer.port)
            answers = await asyncio.gather(*[here.start(target) for _ in range(3)])
            assert {answer.code for answer in answers} == {code}
            assert (await here.send(target)).code == "accepted"

    run(scenario())


def _ends_for(culprits, close):
    """What a peer does that cannot stand some messages, and says it by *close*."""

    def on_message(link, incoming):
        event = decode_message(incoming.payload).application_properties["cloudEvents:id"]
        if event in culprits:
            close(link)
        else:
            fake_amqp.accepts(link, incoming)

    return on_message


async def _until_each_has_an_answer_of_its_own(here, target, numbers):
    """Attempts as the pipeline makes them, all at once; the answers, and how many each took."""
    found, attempts = {}, dict.fromkeys(numbers, 0)
    while due := [number for number in numbers if number not in found]:
        answers = await asyncio.gather(*[here.start(target, an_event(each)) for each in due])
        for number, answer in zip(due, answers, strict=True):
            attempts[number] += 1
            assert attempts[number] < 10, f"{number} does not get out: {answer}"
            if isinstance(answer, TransportError):
                continue
            if acknowledgement_rule(answer).decision is not Decision.RETRY:
                found[number] = answer.code
    return found, attempts


@pytest.mark.parametrize(
    "code",
    [
        "link amqp:link:message-size-exceeded",
        "link amqp:precondition-failed",
        "link amqp:decode-error",
    ],
)
def test_a_message_that_ends_its_link_gets_out_and_condemns_no_other(run, way, code):
    """Which of several it was is not said: the next link takes them one at a time."""
    condition = code.removeprefix("link ")
    bad = {f"check-{number}" for number in (7, 11, 12, 19)}

    async def scenario():
        peer = FakeAmqp(_ends_for(bad, lambda link: link.close(condition, "one of them")))
        async with peer, way() as here:
            found, attempts = await _until_each_has_an_answer_of_its_own(
                here, here.to(peer.port), range(25)
            )
            for number in range(25):
                expected = code if f"check-{number}" in bad else "accepted"
                assert found[number] == expected
            assert max(attempts.values()) <= 2, "nobody pays for the others more than once"
            assert len(peer.engines) == 1

    run(scenario())


@pytest.mark.parametrize(
    ("settled", "own"), [(False, "link amqp:decode-error"), (True, "accepted")]
)
def test_what_waits_behind_a_message_that_ends_its_link_goes_by_the_next(run, way, settled, own):
    """A link with credit for one: the others were never sent, and cost no attempt.

    Also where the message was sent settled, so that nothing is in flight as the link ends.
    """

    def meagre(link):
        link.accept()
        link.grant(1)

    async def scenario():
        ends = _ends_for({"check-0"}, lambda link: link.close("amqp:decode-error", "garbage"))
        async with FakeAmqp(ends, meagre) as peer, way() as here:
            target = here.to(peer.port, settled=settled)
            answers = await asyncio.gather(*[here.start(target, an_event(n)) for n in range(5)])
            assert [answer.code for answer in answers] == [own] + ["accepted"] * 4

    run(scenario())


def test_a_message_that_ends_its_connection_costs_the_others_one_attempt(run, way):
    """Also on other links: the next connection takes one at a time, and what waits was not sent."""

    def dies(link):
        link.engine.abort()

    async def scenario():
        async with FakeAmqp(_ends_for({"check-3"}, dies)) as peer, way() as here:
            places = [here.to(peer.port, name) for name in ("a", "b", "c")]
            attempts = dict.fromkeys(range(12), 0)
            due = list(attempts)
            for _ in range(4):
                tried = [here.start(places[n % 3], an_event(n)) for n in due]
                answers = await asyncio.gather(*tried)
                for number in due:
                    attempts[number] += 1
                codes = dict(zip(due, (answer.code for answer in answers), strict=True))
                due = [number for number in due if codes[number] != "accepted"]
            assert due == [3]
            assert max(attempts[number] for number in attempts if number != 3) <= 2

    run(scenario())


def test_an_address_that_takes_nothing_uses_up_nobody_s_room(run, way, until, monkeypatch):
    """More wait for it than a connection has room for; all run out of time at once."""
    monkeypatch.setattr("distributary.protocols.amqp.sink._session.WINDOW", 4)
    monkeypatch.setattr("distributary.protocols.amqp.sink._session.SWEEP_S", 0.2)

    def on_link(link):
        link.accept()
        if link.address != "tight":
            link.grant(100)

    async def scenario():
        async with FakeAmqp(on_link=on_link) as peer, way() as here:
            assert (await here.send(here.to(peer.port, "free"))).code == "accepted"
            tight = [here.start(here.to(peer.port, "tight"), timeout_s=0.1) for _ in range(40)]
            await until(lambda: len(peer.links) == 2)
            answers = [await here.send(here.to(peer.port, "free")) for _ in range(3)]
            assert {answer.code for answer in answers} == {"accepted"}
            assert {answer.reason for answer in await asyncio.gather(*tight)} == {"timeout"}
            assert (await here.send(here.to(peer.port, "free"))).code == "accepted"
            (link,) = here.transport._links.values()
            await until(lambda: link.session.window == 4)
            assert len(peer.engines) == 1, "nobody's connection was ended for it"

    run(scenario())


def test_more_addresses_than_a_connection_has_room_for_take_turns(run, way, monkeypatch):
    """Links that nobody uses make room; while there is none the attempt is made again."""
    monkeypatch.setattr("distributary.protocols.amqp.engine._sessions.SESSIONS_MAX", 16)

    async def scenario():
        async with FakeAmqp() as peer, way() as here:
            refused = 0
            for number in range(50):
                answer = await here.send(here.to(peer.port, f"a{number}"))
                while isinstance(answer, TransportError):
                    assert answer.reason == "refused"
                    refused += 1
                    answer = await here.send(here.to(peer.port, f"a{number}"))
                assert answer.code == "accepted"
            assert not refused, "room is made ahead of time"
            flights = [here.start(here.to(peer.port, f"b{number}")) for number in range(40)]
            answers = await asyncio.gather(*flights)
            codes = {getattr(answer, "reason", answer.code) for answer in answers}
            assert codes == {"accepted", "refused"}
            assert len(peer.engines) == 1

    run(scenario())


def test_a_link_that_the_broker_neither_opens_nor_refuses_is_asked_for_again(
    run, way, until, monkeypatch
):
    """Those that wait are told, and the place is not lost for as long as the connection lives."""
    monkeypatch.setattr("distributary.protocols.amqp.sink._session.ATTACH_S_MAX", 0.0)
    monkeypatch.setattr("distributary.protocols.amqp.sink._session.SWEEP_S", 0.05)
    asked = []

    def ignores_the_first(link):
        asked.append(link)
        if len(asked) > 1:
            fake_amqp.takes_links(link)

    async def scenario():
        async with FakeAmqp(on_link=ignores_the_first) as peer, way() as here:
            answer = await here.send(here.to(peer.port))
            assert isinstance(answer, TransportError)
            assert answer.reason == "timeout"
            assert (await here.send(here.to(peer.port))).code == "accepted"
            await until(lambda: asked[0].ended is not None)
            assert len(peer.engines) == 1

    run(scenario())


def test_what_a_session_that_was_given_up_still_hears_condemns_nobody(run, way, until):
    """What waited there waits for the next one; the old broker's last words are not about it."""
    opened = []

    def on_link(link):
        opened.append(link)
        link.accept()
        if len(opened) != 2:
            link.grant(10)

    def on_message(link, incoming):
        if link is not opened[0]:
            fake_amqp.accepts(link, incoming)

    async def scenario():
        async with FakeAmqp(on_message, on_link) as peer, way() as here:
            unheard = here.start(here.to(peer.port, "mute"))
            waiting = here.start(here.to(peer.port, "tight"))
            await until(lambda: peer.messages and len(opened) == 2)
            (link,) = here.transport._links.values()
            link._lost(link.session, TransportError("reset", "The broker has fallen silent"))
            await asyncio.sleep(0)  # the goodbye begins
            opened[1].close("amqp:not-allowed", "and none of your others")
            assert (await unheard).reason == "reset"
            answer = await waiting
            assert isinstance(answer, Acknowledgement), answer
            assert answer.code == "accepted"
            assert len(peer.engines) == 2

    run(scenario())


def test_a_message_that_the_link_does_not_take_is_not_sent(run, way):
    """The peer's limit is known: the event is a dead letter, the link goes on."""

    async def scenario():
        async with FakeAmqp() as peer, way() as here:
            target = here.to(peer.port)
            answer = await here.send(target, an_event(data=bytes(9 * 1024 * 1024)))
            assert answer.code == "link amqp:link:message-size-exceeded"
            assert not peer.messages
            assert (await here.send(target)).code == "accepted"

    run(scenario())


def test_what_has_no_credit_waits_and_delays_no_other(run, way, monkeypatch):
    """A link without credit: attempts end in time, others go through, order is kept."""
    monkeypatch.setattr("distributary.net.link._link.SILENT_S_MIN", 0.0)

    def grudging(link):
        link.accept()
        if link.address != "tight":
            link.grant(100)

    async def scenario():
        async with FakeAmqp(on_link=grudging) as peer, way() as here:
            tight, free = here.to(peer.port, "tight"), here.to(peer.port, "free")
            late = here.start(tight, an_event(0), timeout_s=0.3)
            waiting = [here.start(tight, an_event(number)) for number in (1, 2, 3)]
            answer = await late
            assert isinstance(answer, TransportError)
            assert answer.reason == "timeout"
            assert (await here.send(free)).code == "accepted"
            assert len(peer.engines) == 1, "nobody else's connection was ended for it"
            (link,) = [link for link in peer.links if link.address == "tight"]
            link.grant(10)
            assert {answer.code for answer in await asyncio.gather(*waiting)} == {"accepted"}
            ids = [m.application_properties["cloudEvents:id"] for m in peer.messages[1:]]
            assert ids == ["check-1", "check-2", "check-3"]

    run(scenario())


@pytest.mark.clause("subscriptions-api.settings.amqp.others")
def test_settled_is_delivered_when_it_is_written(run, way, until):
    """A peer that says nothing about messages is no obstacle."""

    async def scenario():
        async with FakeAmqp(fake_amqp.hangs) as peer, way() as here:
            target = here.to(peer.port, settled=True)
            answers = await asyncio.gather(*[here.start(target) for _ in range(50)])
            assert {answer.code for answer in answers} == {"accepted"}
            await until(lambda: len(peer.messages) == 50)
            assert peer.links[0].settlement == "settled"

    run(scenario())


@pytest.mark.clause("subscriptions-api.settings.amqp.address")
@pytest.mark.clause("subscriptions-api.settings.amqp.others")
def test_the_peer_sees_every_setting(run, way):
    """Address, name of the link, its properties, settlement, host and durability."""
    properties = (("tenant", "blue"), ("level", 7), ("ratio", 0.5), ("yes", True))

    async def scenario():
        async with FakeAmqp() as peer, way() as here:
            target = here.to(peer.port, "a/b?c", linkname="my link", linkproperties=properties)
            assert (await here.send(target)).code == "accepted"
            (link,) = peer.links
            assert (link.address, link.name) == ("a/b?c", "my link")
            assert link.properties == dict(properties)
            assert link.settlement == "unsettled"
            assert peer.messages[0].durable

    run(scenario())


@pytest.mark.clause("subscriptions-api.settings.amqp.linkname.optional")
def test_a_link_without_a_name_gets_a_random_one(run, way):
    """Two links of two subscriptions never have the same."""

    async def scenario():
        async with FakeAmqp() as peer, way() as here:
            await here.send(here.to(peer.port, "a"))
            await here.send(here.to(peer.port, "b"))
            assert len({link.name for link in peer.links}) == 2
            assert len(peer.engines) == 1

    run(scenario())


TOKEN = Credential("ACCESSTOKEN", "me", access_token="t0k", access_token_type="Bearer")


@pytest.mark.parametrize(
    ("offered", "credential", "said"),
    [
        (("PLAIN", "ANONYMOUS"), None, ("ANONYMOUS", b"distributary")),
        (("ANONYMOUS", "PLAIN"), Credential("PLAIN", "u", "p:w"), ("PLAIN", b"\0u\0p:w")),
        (("PLAIN", "XOAUTH2"), TOKEN, ("XOAUTH2", b"user=me\x01auth=Bearer t0k\x01\x01")),
        (("PLAIN",), TOKEN, ("PLAIN", b"\0me\0t0k")),
        (
            ("XOAUTH2", "OAUTHBEARER"),
            TOKEN,
            ("OAUTHBEARER", b"n,a=me,\x01host=127.0.0.1\x01auth=Bearer t0k\x01\x01"),
        ),
    ],
    ids=["anonymous", "plain", "xoauth2", "token-as-password", "oauthbearer"],
)
def test_logs_in_by_the_best_way_that_the_peer_offers(run, way, offered, credential, said):
    """And never by one that says less about who we are."""

    async def scenario():
        async with FakeLogin(offered) as peer, way() as here:
            answer = await here.send(here.to(peer.port, credential=credential))
            assert answer.code == "sasl-auth"
            assert peer.said == [said]
            assert "t0k" not in repr(answer)

    run(scenario())


@pytest.mark.parametrize(
    ("offered", "credential", "said"),
    [
        (("ANONYMOUS", "EXTERNAL"), None, "EXTERNAL"),
        (("ANONYMOUS", "PLAIN"), None, "ANONYMOUS"),
        (("EXTERNAL", "PLAIN"), Credential("PLAIN", "u", "p:w"), "PLAIN"),
    ],
    ids=["offered", "not-offered", "with-a-password"],
)
def test_a_client_certificate_may_be_the_account(run, way, offered, credential, said):
    """The peer takes it from the certificate that TLS has shown, where nothing else is said."""

    async def scenario():
        certificate = ClientCertificate("certificate", "key")
        async with FakeLogin(offered) as peer, way() as here:
            await here.send(
                here.to(peer.port, credential=credential, client_certificate=certificate)
            )
            assert [mechanism for mechanism, _ in peer.said] == [said]

    run(scenario())


def test_a_token_that_is_challenged_is_refused_and_nothing_waits(run, way):
    """The peer explains itself before the outcome: the client says nothing more, and hears it."""

    async def scenario():
        async with FakeLogin(("OAUTHBEARER",), 1, b'{"status":"401"}') as peer, way() as here:
            answer = await here.send(here.to(peer.port, credential=TOKEN))
            assert answer.code == "sasl-auth"
            assert peer.said[1] == ("", b"")

    run(scenario())


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x03\x01\x00\x00\x00\x00\x00\x00\x02\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00\xff\xff\xff\xff\x02\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00\x00\x00\x00\x09\x02\x01\x00\x00\x45",
        b"AMQP\x03\x01\x00\x00" + b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x42\x45" * 9,
    ],
    ids=["http", "amqp-0-9", "empty-frame", "endless-frame", "no-performative", "challenges"],
)
def test_a_peer_that_speaks_no_amqp_is_told_apart(run, way, garbage):
    """Nothing hangs, nothing is sent, and the reason is said."""

    async def scenario():
        async def talk(reader, writer):
            writer.write(garbage)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server, way() as here:
            port = server.sockets[0].getsockname()[1]
            answer = await here.send(here.to(port))
        assert isinstance(answer, TransportError)
        assert answer.reason == "protocol"

    run(scenario())
