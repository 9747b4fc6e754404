"""Targets on loopback that are asked for consent: honest, slow, endless or hostile.

No address that is not allowed is dialled: a canary listens behind every name that must not be.
"""

import asyncio
import ssl

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver.consent import Consent
from distributary.core.errors import TransportError
from distributary.net import AddressRule, CachingResolver, Connector, parse_networks
from distributary.subscriptions.consent import (
    Allowed,
    HttpAsker,
    OptionsReply,
    Question,
    Withheld,
    _asker,
    read_answer,
)
from kit import fake_sink
from kit.fake_sink import FakeSink, answer, answer_and_close
from kit.http_attempts import TableResolver, opened, send
from kit.servers import Authority

ORIGIN = "events.example.com"
CALLBACK = "https://events.example.com/consent/abc?key=canary"
YES = b"HTTP/1.1 200 OK\r\nwebhook-allowed-origin: *\r\nwebhook-allowed-rate: 120\r\n"
EMPTY = b"content-length: 0\r\n\r\n"
METADATA = "169.254.169.254"


def run(scenario):
    """Run on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario)


def connector(rule=None, names=None):
    """One that may dial loopback, where nothing else is said."""
    resolver = names if isinstance(names, TableResolver) else TableResolver(names or {})
    return Connector(
        rule or AddressRule(loopback_allowed=True), CachingResolver(resolver, SystemClock())
    )


def ask(behave, rule=None, names=None, host="127.0.0.1", rate=None):
    """What one question comes to, and the target that was asked."""

    async def scenario():
        dialler = connector(rule, names)
        async with FakeSink(behave) as sink:
            where = dialler.endpoint(sink.uri("/hook?code=x", host))
            try:
                found = await HttpAsker(dialler).ask(Question(where, ORIGIN, rate, CALLBACK))
            except TransportError as error:
                found = error
            return found, sink

    return run(scenario())


def meaning(found):
    """What an answer means."""
    assert isinstance(found, OptionsReply)
    return read_answer(found.status, found.fields, ORIGIN)


def test_the_question_is_the_one_of_the_specification():
    """http-webhook 4.1: OPTIONS to the exact URI, with origin, rate and callback; no credential."""
    found, sink = ask(answer(YES + EMPTY), rate=300)
    assert meaning(found) == Allowed(120)
    (request,) = sink.requests
    assert (request.method, request.target, request.body) == ("OPTIONS", "/hook?code=x", b"")
    assert request.header("webhook-request-origin") == ORIGIN
    assert request.header("webhook-request-rate") == "300"
    assert request.header("webhook-request-callback") == CALLBACK
    assert request.header("host") == f"127.0.0.1:{sink.port}"
    assert request.header("authorization") is None


@pytest.mark.parametrize(
    "response",
    [
        YES + b"content-length: 5\r\n\r\nhello",
        YES + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        YES + b"\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + YES + EMPTY,
        YES.replace(b"1.1", b"1.0") + b"\r\n",
        YES.replace(b"200 OK", b"405 No") + EMPTY,
    ],
    ids=["body", "chunked", "until the end", "interim", "1.0", "another status"],
)
def test_the_head_is_enough(response):
    """However its body is framed: nobody waits for it."""
    found, _ = ask(answer_and_close(response))
    assert meaning(found) == Allowed(120)


@pytest.mark.parametrize(
    "behave",
    [
        fake_sink.endless(YES + b"\r\n"),
        fake_sink.endless(YES + b"content-length: 9000000000\r\n\r\n"),
        fake_sink.endless(YES + b"transfer-encoding: chunked\r\n\r\n", b"1000\r\n"),
    ],
    ids=["endless", "too long", "endless chunk"],
)
def test_an_endless_body_is_cut_off(behave):
    """The connection is closed with the head; no byte of the body is kept."""
    found, sink = ask(behave)
    assert meaning(found) == Allowed(120)
    assert sink.connections == 1


@pytest.mark.parametrize(
    ("head", "silent"),
    [
        (b"HTTP/1.1 200 OK\r\nallow: POST\r\n", True),
        (b"HTTP/1.1 204 No Content\r\naccess-control-allow-origin: *\r\n", True),
        (b"HTTP/1.1 404 No\r\n", True),
        (
            b"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\nwebhook-allowed-origin: *\r\n",
            True,
        ),
        (b"HTTP/1.1 200 OK\r\nwebhook-allowed-origin: other.example.com\r\n", False),
        (b"HTTP/1.1 200 OK\r\nwebhook-allowed-origin: *\r\nwebhook-allowed-rate: 0\r\n", False),
        (b"HTTP/1.1 200 OK\r\nwebhook-allowed-origin: *\r\nwebhook-allowed-rate: -5\r\n", False),
        (b"HTTP/1.1 200 OK\r\nwebhook-allowed-origin: *\r\nwebhook-allowed-rate: lots\r\n", False),
        (b"HTTP/1.1 410 Gone\r\nwebhook-allowed-origin: *\r\n", False),
    ],
    ids=[
        "no header",
        "another system's header",
        "not found",
        "redirect",
        "another origin",
        "rate 0",
        "negative rate",
        "rate in words",
        "gone",
    ],
)
def test_what_is_no_permission_is_none(head, silent):
    """By the header alone; and a redirect is not followed."""
    found, sink = ask(answer(head + EMPTY))
    refusal = meaning(found)
    assert isinstance(refusal, Withheld)
    assert refusal.silent is silent
    assert len(sink.requests) == 1


def test_permission_in_a_trailer_or_a_body_is_none():
    """Only the head of the final response counts, not an interim one."""
    hidden = b"webhook-allowed-origin: *\r\n"
    trailer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + hidden + b"\r\n"
    early = b"HTTP/1.1 103 Early Hints\r\n" + hidden + b"\r\nHTTP/1.1 200 OK\r\n" + EMPTY
    for response in (trailer, early, b"HTTP/1.1 200 OK\r\n\r\n" + hidden):
        found, _ = ask(answer_and_close(response))
        assert isinstance(meaning(found), Withheld)


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (fake_sink.endless(b"HTTP/1.1 200 OK\r\nx: "), "protocol"),
        (
            fake_sink.endless(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 P\r\n\r\n"),
            "protocol",
        ),
        (answer(b"SSH-2.0-canary\r\n\r\n"), "protocol"),
        (answer_and_close(YES), "protocol"),
        (answer_and_close(b""), "protocol"),
        (fake_sink.reset, "reset"),
    ],
    ids=["endless head", "endless interim", "not HTTP", "cut off", "nothing", "reset"],
)
def test_an_answer_that_is_none_is_an_error(behave, reason):
    """It says what was wrong, and quotes nothing."""
    found, _ = ask(behave)
    assert isinstance(found, TransportError)
    assert found.reason == reason
    assert "canary" not in str(found)


@pytest.mark.parametrize(
    "behave", [fake_sink.hang, fake_sink.trickle(YES + EMPTY, 0.05)], ids=["silent", "trickle"]
)
def test_one_deadline_holds_for_all_of_it(monkeypatch, behave):
    """However little comes, however steadily."""
    monkeypatch.setattr(_asker, "ASK_S_MAX", 0.3)
    found, sink = ask(behave)
    assert isinstance(found, TransportError)
    assert found.reason == "timeout"
    assert sink.connections == 1


def test_a_name_server_that_is_silent_counts_too(monkeypatch):
    """The deadline begins with the look-up, of either step."""
    monkeypatch.setattr(_asker, "ASK_S_MAX", 0.1)
    found, _ = ask(fake_sink.accept, names={"slow.example": None}, host="slow.example")
    assert found.reason == "timeout"

    async def look():
        dialler = connector(names={"slow.example": None})
        await HttpAsker(dialler).is_private(dialler.endpoint("http://slow.example/"))

    with pytest.raises(TransportError, match="No answer"):
        run(look())


def test_a_refused_connection_is_no_answer():
    """Nobody listens there."""

    async def scenario():
        dialler = connector()
        async with FakeSink() as sink:
            uri = sink.uri()
        with pytest.raises(TransportError) as caught:
            await HttpAsker(dialler).ask(Question(dialler.endpoint(uri), ORIGIN, None, None))
        return caught.value.reason

    assert run(scenario()) == "refused"


@pytest.mark.parametrize(
    ("rule", "names", "host"),
    [
        (AddressRule(), {}, "127.0.0.1"),
        (AddressRule(), {}, "127.1"),
        (AddressRule(), {}, "2130706433"),
        (AddressRule(), {}, "0x7f.1"),
        (AddressRule(), {"in.example": ["127.0.0.1"]}, "in.example"),
        (AddressRule(), {"in.example": ["::ffff:127.0.0.1"]}, "in.example"),
        (AddressRule(), {"mixed.example": ["203.0.114.9", "127.0.0.1"]}, "mixed.example"),
        (AddressRule(loopback_allowed=True), {"m.example": [METADATA]}, "m.example"),
        (AddressRule(loopback_allowed=True), {"m.example": ["127.0.0.1", METADATA]}, "m.example"),
        (AddressRule(parse_networks(["0.0.0.0/0"])), {"m.example": [METADATA]}, "m.example"),
    ],
    ids=[
        "loopback",
        "short form",
        "as a number",
        "hexadecimal",
        "a name",
        "mapped",
        "mixed answers",
        "metadata",
        "metadata beside loopback",
        "metadata in a network",
    ],
)
def test_no_address_that_is_not_allowed_is_dialled(rule, names, host):
    """Neither to look at a target nor to ask it; the canary on loopback hears nothing."""

    async def scenario():
        dialler = connector(rule, names)
        asker = HttpAsker(dialler)
        async with FakeSink() as canary:
            where = dialler.endpoint(canary.uri("/", host))
            reasons = []
            for question in (
                asker.is_private(where),
                asker.ask(Question(where, ORIGIN, None, None)),
            ):
                with pytest.raises(TransportError) as caught:
                    await question
                reasons.append(caught.value.reason)
            return reasons, canary.connections

    reasons, connections = run(scenario())
    assert reasons == ["blocked-address"] * 2
    assert connections == 0


class Flipping(TableResolver):
    """A name that is allowed when it is looked at, and leads inside when it is dialled."""

    async def resolve(self, host):
        """Another answer each time."""
        self.asked.append(host)
        return ["127.0.0.2"] if len(self.asked) % 2 else ["127.0.0.1"]


def test_a_name_that_changes_between_look_and_question_leads_nowhere():
    """Each connection resolves once, checks what it got, and dials that number."""

    async def scenario():
        resolver = Flipping({})
        rule = AddressRule(parse_networks(["127.0.0.2"]))
        dialler = Connector(rule, resolver)
        asker = HttpAsker(dialler)
        async with FakeSink() as canary:
            where = dialler.endpoint(canary.uri("/", "flip.example"))
            assert await asker.is_private(where)
            with pytest.raises(TransportError) as caught:
                await asker.ask(Question(where, ORIGIN, None, None))
            return caught.value.reason, canary.connections

    assert run(scenario()) == ("blocked-address", 0)


def test_public_and_private_names_are_told_apart():
    """One public address among others makes a target that must be asked."""
    names = {
        "in.example": ["127.0.0.1", "10.0.0.1"],
        "out.example": ["203.0.114.9"],
        "both.example": ["10.0.0.1", "203.0.114.9"],
    }

    async def scenario():
        dialler = connector(names=names)
        asker = HttpAsker(dialler)
        return [await asker.is_private(dialler.endpoint(f"http://{name}/")) for name in names]

    assert run(scenario()) == [True, False, False]


def test_a_certificate_that_is_not_trusted_is_no_answer(certificate):
    """The question goes to whom the URI names, or to nobody."""

    async def scenario():
        dialler = connector()
        async with FakeSink(answer(YES + EMPTY), tls=certificate) as sink:
            where = dialler.endpoint(sink.uri())
            with pytest.raises(TransportError) as caught:
                await HttpAsker(dialler).ask(Question(where, ORIGIN, None, None))
            return caught.value.reason, sink.requests

    assert run(scenario()) == ("tls", [])


@pytest.fixture
def certificate(tmp_path):
    """A server's TLS, with a certificate of an authority that nobody trusts."""
    files = Authority(tmp_path).server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context


# -- deliveries -------------------------------------------------------------------------------


def test_each_delivery_says_who_sends_it():
    """http-webhook 4.1.2; a subscriber's own header of that name does not speak for another."""
    consent = Consent(given=True, origin=ORIGIN)

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            await send(transport, sink.uri(), consent=consent)
            await send(transport, sink.uri(), consent=consent, format="structured")
            await send(transport, sink.uri())
            return sink.requests

    *asked, never = run(scenario())
    for request in asked:
        values = [value for name, value in request.headers if name == b"webhook-request-origin"]
        assert values == [ORIGIN.encode()]
    assert never.header("webhook-request-origin") is None


def test_a_target_that_was_not_asked_gets_nothing_once_it_is_public():
    """A private name was repointed: blocked, retryable, and nothing is dialled."""
    alone = Consent(given=True, private_alone=True)
    names = TableResolver({"in.example": ["127.0.0.1"], "out.example": ["203.0.114.9"]})

    async def scenario():
        rule = AddressRule(loopback_allowed=True)
        async with FakeSink() as sink, opened(rule=rule, resolver=names) as transport:
            inside = await send(transport, sink.uri("/", "in.example"), consent=alone)
            outside = await send(transport, sink.uri("/", "out.example"), consent=alone)
            return inside, outside

    inside, outside = run(scenario())
    assert inside.status == 204
    assert (outside.reason, outside.retryable) == ("blocked-address", True)


def test_connections_are_not_shared_with_targets_that_have_consented():
    """One made under the looser rule does not serve the stricter."""
    alone = Consent(given=True, private_alone=True)

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            await send(transport, sink.uri())
            await send(transport, sink.uri(), consent=alone)
            return sink.connections

    assert run(scenario()) == 2
