"""Sink URIs taken apart, names looked up, answers checked: all before anything is dialled."""

import asyncio
import contextlib
import gc
import ipaddress
import threading

import pytest

from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.net import AddressRule, CachingResolver, Connector, _connector
from distributary.testing.virtual import VirtualClock


class Names:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def resolve(self, _host):
        self.asked += 1
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, TransportError):
            raise answer
        return answer


def connector(*answers, **rule):
    """A connector whose resolver gives these answers in turn; by default loopback."""
    return Connector(AddressRule(**rule), Names(*answers or (["127.0.0.1"],)))


def checked(connector, uri):
    """The addresses that would be dialled."""
    return asyncio.run(connector.checked_addresses(connector.endpoint(uri).host))


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "gopher://a.example/",
        "ftp://a.example/",
        "data:text/plain,x",
        "unix:/run/sock",
        "http+unix://%2Frun%2Fsock/",
        "//a.example/",
        "a.example",
        "",
        "http://",
        "http:///path",
        "http://a@127.0.0.1/",
        "http://a:b@a.example/",
        "http://@a.example/",
        "http://a.example\\@127.0.0.1/",
        "http://a.example\\.b.example/",
        "http://a.example /",
        "http://a.exa\tmple/",
        "http://a.exa\nmple/",
        "http://a.example/\r\nx: y",
        "http://a.example/\x00",
        "\x01http://a.example/",
        "http://a.example:0/",
        "http://a.example:65536/",
        "http://a.example:-1/",
        "http://a.example:+80/",
        "http://a.example:8o/",
        "http://[fe80::1%25lo]/",
        "http://[fe80::1%lo]/",
        "http://[::1/",
        "http://[::1]x/",
        "http://::1/",
        "http://a..example/" + "x" * 9000,
        "http://-a.example/",
        "http://a%2eexample/",
        "http://127.0.0.1%2f/",
        "http://a,b.example/",
        "http://*.example/",
        "http://" + "a" * 254 + "/",
        "http://a.example/\ud800",
    ],
)
def test_refuses_uris_that_could_be_read_two_ways(uri):
    """``blocked-address``, for good, and the message does not repeat the URI."""
    with pytest.raises(TransportError) as caught:
        connector().endpoint(uri)
    assert (caught.value.reason, caught.value.retryable) == ("blocked-address", False)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "\uff11\uff12\uff17.0.0.1",
        "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460",
        "127\u30020\u30020\u30021",
        "127\uff0e0\uff0e0\uff0e1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "127.0.0.1.nip.io",
        "10.0.0.1",
        "169.254.169.254",
        "metadata.google.internal",
        "xn--e1afmkfd.example",
        "\u043f\u0440\u0438\u043c\u0435\u0440.example",
    ],
)
def test_checks_the_address_behind_every_spelling(host):
    """Literals in any form, names by their answers (here: loopback), none is allowed."""
    with pytest.raises(TransportError) as caught:
        checked(connector(), f"http://{host}/")
    assert caught.value.reason == "blocked-address"


@pytest.mark.parametrize(
    ("host", "answers"),
    [
        ("public-and-private", ["93.184.216.34", "10.0.0.1"]),
        ("private-last-of-many", ["93.184.216.34"] * 99 + ["127.0.0.1"]),
        ("v6-private-only", ["fd00::1"]),
        ("zone", ["fe80::1%eth0"]),
        ("garbage", ["not an address"]),
    ],
)
def test_one_bad_answer_refuses_the_name(host, answers):
    """Every answer is checked, not the one that would be used."""
    with pytest.raises(TransportError) as caught:
        checked(connector(answers), f"http://{host}.example/")
    assert caught.value.reason == "blocked-address"


def test_checks_again_for_every_connection():
    """DNS rebinding: the second answer is checked like the first."""
    rebinding = connector(["93.184.216.34"], ["127.0.0.1"])
    assert checked(rebinding, "http://a.example/") == ["93.184.216.34"]
    with pytest.raises(TransportError):
        checked(rebinding, "http://a.example/")


def test_dials_the_unmapped_address():
    """What was checked is what is dialled, in one notation."""
    assert checked(connector(["::ffff:93.184.216.34"]), "http://a/") == ["93.184.216.34"]


@pytest.mark.parametrize(
    ("uri", "host", "port", "target", "authority"),
    [
        ("http://a.example", "a.example", 80, b"/", b"a.example"),
        ("HTTP://A.Example:80/X?y=%20#z", "a.example", 80, b"/X?y=%20", b"a.example"),
        ("https://a.example:8443/p", "a.example", 8443, b"/p", b"a.example:8443"),
        ("https://a.example:443?q", "a.example", 443, b"/?q", b"a.example"),
        ("http://[2001:DB8::1]:81/", "2001:db8::1", 81, b"/", b"[2001:db8::1]:81"),
        (
            "http://b\u00fccher.example/\u00fc?\u00df",
            "xn--bcher-kva.example",
            80,
            b"/%C3%BC?%C3%9F",
            b"xn--bcher-kva.example",
        ),
        ("http://my_service:8080/", "my_service", 8080, b"/", b"my_service:8080"),
        ("http://127.0.0.1#@a.example", "127.0.0.1", 80, b"/", b"127.0.0.1"),
    ],
)
def test_takes_a_uri_apart(uri, host, port, target, authority):
    """Host, port, request target and Host header."""
    endpoint = connector().endpoint(uri)
    assert endpoint[1:5] == (host, port, target, authority)


def test_a_name_without_addresses_is_a_failure_of_dns():
    """Not an index error."""
    with pytest.raises(TransportError) as caught:
        checked(connector([]), "http://a.example/")
    assert caught.value.reason == "dns"


# The cache


def test_keeps_answers_for_seconds_and_then_asks_again():
    """Five seconds; not longer, so that a moved sink is found."""
    clock, names = VirtualClock(), Names(["1.1.1.1"], ["2.2.2.2"])
    cache = CachingResolver(names, clock)

    async def scenario():
        first = await cache.resolve("a.example")
        clock.move_to(4.9)
        second = await cache.resolve("a.example")
        clock.move_to(5.1)
        return first, second, await cache.resolve("a.example")

    assert asyncio.run(scenario()) == (["1.1.1.1"], ["1.1.1.1"], ["2.2.2.2"])
    assert names.asked == 2


def test_asks_once_for_a_crowd():
    """A hundred connections to one name are one question."""
    names = Names(["1.1.1.1"])
    cache = CachingResolver(names, VirtualClock())

    async def scenario():
        return await asyncio.gather(*(cache.resolve("a.example") for _ in range(100)))

    assert asyncio.run(scenario()) == [["1.1.1.1"]] * 100
    assert names.asked == 1


def test_a_name_that_failed_rests_for_longer_each_time():
    """5, 10, 20 and then 30 s; an answer ends that."""
    clock, names = VirtualClock(), Names(TransportError("dns", "no"))
    cache = CachingResolver(names, clock)
    asked_at = []

    async def scenario():
        for second in range(120):
            clock.move_to(float(second))
            before = names.asked
            with contextlib.suppress(TransportError):
                await cache.resolve("a.example")
            if names.asked > before:
                asked_at.append(second)
        names.answers = [["1.1.1.1"]]
        clock.move_to(200.0)
        return await cache.resolve("a.example")

    assert asyncio.run(scenario()) == ["1.1.1.1"]
    assert asked_at == [0, 5, 15, 35, 65, 95]


def test_one_attempt_that_gives_up_does_not_end_the_look_up_for_others():
    """The look-up belongs to all who wait for it."""
    names = Names(["1.1.1.1"])
    cache = CachingResolver(names, VirtualClock())

    async def scenario():
        one = asyncio.ensure_future(cache.resolve("a.example"))
        two = asyncio.ensure_future(cache.resolve("a.example"))
        await asyncio.sleep(0)
        one.cancel()
        return await two

    assert asyncio.run(scenario()) == ["1.1.1.1"]


def test_the_cache_is_bounded():
    """A flood of names pushes out the oldest."""
    names = Names(["1.1.1.1"])
    cache = CachingResolver(names, VirtualClock())

    async def scenario():
        for number in range(1100):
            await cache.resolve(f"n{number}.example")
        await cache.resolve("n1099.example")
        assert names.asked == 1100
        await cache.resolve("n0.example")

    asyncio.run(scenario())
    assert names.asked == 1101


@pytest.mark.parametrize("address", ["10.0.0.1", "192.0.2.1", "93.184.216.34", "2606:4700::1111"])
def test_what_stays_here_is_never_dialled_elsewhere(address):
    """A name of this machine that resolves to another one; it may be another one's by now."""
    found = connector([address], allow=(ipaddress.ip_network("0.0.0.0/0"),), loopback_allowed=True)
    for staying in (found, found.staying_here()):
        with pytest.raises(TransportError) as caught:
            asyncio.run(staying.checked_addresses("localhost.example", 80, stays_here=True))
        assert (caught.value.reason, caught.value.retryable) == ("blocked-address", True)
    with pytest.raises(TransportError):
        asyncio.run(found.staying_here().checked_addresses("a.example"))


def test_what_stays_here_is_dialled_here():
    """By either version; the other rules hold too."""
    for address in ("127.0.0.1", "127.8.9.1", "::1"):
        found = connector([address], loopback_allowed=True).staying_here()
        assert asyncio.run(found.checked_addresses("a.example")) == [address]
    with pytest.raises(TransportError):
        asyncio.run(connector(stays_here=True).checked_addresses("a.example"))


class Maker:
    """Makes contexts of TLS that are texts, and says where and when."""

    def __init__(self, monkeypatch):
        self.made = []
        self.threads = set()
        self.wrong = None
        self.begun = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()
        monkeypatch.setattr(_connector, "_context_of", self)

    def __call__(self, ca_certs, _client_certificate):
        self.threads.add(threading.current_thread())
        self.made.append(ca_certs)
        self.begun.set()
        assert self.goes_on.wait(60)
        if ca_certs == self.wrong:
            raise TransportError("tls", "rubbish")
        return f"trusts {ca_certs}"


def of_sink(host, ca_certs, tenant="default"):
    """The endpoint of a tenant's sink with certificates of its own."""
    sink = Destination(f"https://{host}/", ca_certs=ca_certs, tenant=tenant)
    return connector().endpoint_of(sink)


def test_a_context_is_made_once_and_never_on_the_loop(monkeypatch):
    """The system's certificates are read for each: 20 ms in which nothing would be delivered."""
    maker, found = Maker(monkeypatch), connector()

    async def scenario():
        asked = [found.tls_context(of_sink("a.example", "one")) for _ in range(3)]
        asked += [asyncio.wait_for(found.tls_context(of_sink("a.example", "one")), 0.0)]
        *contexts, late = await asyncio.gather(*asked, return_exceptions=True)
        assert contexts == ["trusts one"] * 3
        assert isinstance(late, TimeoutError)
        assert await found.tls_context(of_sink("b.example", "one")) == "trusts one"

    asyncio.run(scenario())
    assert maker.made == ["one"]
    assert threading.current_thread() not in maker.threads


def test_a_context_that_cannot_be_made_is_told_to_all_who_asked_and_made_again(monkeypatch):
    """Each by an error of its own attempt."""
    maker, found = Maker(monkeypatch), connector()
    maker.wrong = "one"

    async def scenario():
        for _ in range(2):
            asked = [found.tls_context(of_sink("a.example", "one")) for _ in range(2)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert [answer.reason for answer in answers] == ["tls"] * 2

    asyncio.run(scenario())
    assert maker.made == ["one"] * 2


ADDRESSES = [of_sink(f"203.0.{n}.{n}", f"many {n}", "many") for n in range(20)]
NAMES_OF_ONE = [of_sink(f"{n}.many.example", f"many {n}") for n in range(20)]


@pytest.mark.parametrize(
    ("many", "other"),
    [
        (ADDRESSES, of_sink("other.example", "other", "other")),
        (ADDRESSES, of_sink("other.example", "many 19", "other")),  # that both trust
        (NAMES_OF_ONE, of_sink("other.example", "other")),
    ],
)
def test_many_sinks_with_certificates_of_their_own_delay_nobody_else(monkeypatch, many, other):
    """Tenants take turns, however many addresses one has, and in each its domains."""
    maker, found = Maker(monkeypatch), connector()

    async def scenario():
        await asyncio.gather(*map(found.tls_context, [*many, other]))

    asyncio.run(scenario())
    assert maker.made.index(other.ca_certs) <= 2
    assert len(maker.made) == len(set(maker.made))


def test_a_context_that_nobody_waits_for_any_more_is_not_made(monkeypatch):
    """Attempts end in time: what is left of them must not hold up those that come."""
    maker, found = Maker(monkeypatch), connector()
    maker.goes_on.clear()

    async def scenario():
        wanted = ["begun", *(f"gone {number}" for number in range(20)), "wanted", "wanted"]
        asked = [asyncio.create_task(found.tls_context(of_sink("a.example", n))) for n in wanted]
        await asyncio.to_thread(maker.begun.wait)
        others = asyncio.all_tasks() - {asyncio.current_task(), *asked}
        for attempt in asked[:-1]:
            attempt.cancel()
        await asyncio.wait(asked[:-1])
        await asyncio.sleep(0)
        assert sum(not other.done() for other in others) == 2
        again = asyncio.create_task(found.tls_context(of_sink("a.example", "gone 7")))
        late = found.tls_context(of_sink("a.example", "begun"))  # its thread is at it
        maker.goes_on.set()
        return await asyncio.gather(again, late, asked[-1])

    assert asyncio.run(scenario()) == ["trusts gone 7", "trusts begun", "trusts wanted"]
    assert maker.made == ["begun", "wanted", "gone 7"]


@pytest.mark.parametrize("steps", range(6))
def test_an_attempt_leaves_its_turn_to_others_whenever_it_ends(monkeypatch, steps):
    """Also where it has been given a place, and has not begun."""
    Maker(monkeypatch)
    found = connector()

    async def scenario():
        gone = asyncio.create_task(found.tls_context(of_sink("a.example", "gone")))
        for _ in range(steps):
            await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        return await found.tls_context(of_sink("a.example", "other"))

    assert asyncio.run(scenario()) == "trusts other"


def test_a_failure_that_nobody_waits_for_is_not_logged(monkeypatch, caplog):
    """It is the far side's, and the next attempt tells it."""
    maker, found = Maker(monkeypatch), connector()
    maker.wrong = "wrong"
    maker.goes_on.clear()

    async def scenario():
        gone = asyncio.create_task(found.tls_context(of_sink("a.example", "wrong")))
        await asyncio.to_thread(maker.begun.wait)
        gone.cancel()
        await asyncio.wait([gone])
        maker.goes_on.set()
        await found.tls_context(of_sink("a.example", "right"))

    asyncio.run(scenario())
    gc.collect()
    assert maker.made == ["wrong", "right"]
    assert not caplog.records


def test_contexts_are_bounded(monkeypatch):
    """The one that was not used for longest makes room."""
    monkeypatch.setattr(_connector, "CONTEXTS_MAX", 2)
    maker, found = Maker(monkeypatch), connector()

    async def scenario():
        for ca_certs in ("one", "two", "one", "three", "one", "two"):
            await found.tls_context(of_sink("a.example", ca_certs))

    asyncio.run(scenario())
    assert maker.made == ["one", "two", "three", "two"]
