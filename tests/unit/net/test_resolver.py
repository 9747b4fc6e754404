"""The system's resolver, with ``getaddrinfo`` replaced."""

import asyncio
import socket
import threading

import pytest

from distributary.core.errors import TransportError
from distributary.net import SystemResolver, _resolver
from distributary.testing.virtual_loop import VirtualLoop


def resolve(host="a.example"):
    """The addresses of a name, by the system's resolver."""

    async def scenario():
        return await SystemResolver().resolve(host)

    return asyncio.run(scenario())


def row(address):
    """A row of ``getaddrinfo``."""
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))


def test_gives_every_address_once_and_in_order(monkeypatch):
    """As the system sorted them."""
    rows = [row("2.2.2.2"), row("1.1.1.1"), row("2.2.2.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_k: rows)
    assert resolve() == ["2.2.2.2", "1.1.1.1"]


def test_of_thousands_of_addresses_some_are_taken(monkeypatch):
    """Each is checked before each connection."""
    rows = [row(f"1.2.{number >> 8}.{number & 255}") for number in range(4_000)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_k: rows)
    found = resolve()
    assert (len(found), found[-1]) == (_resolver.ADDRESSES_MAX, "1.2.0.63")


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure"),
        UnicodeError("label empty or too long"),
        OSError(24, "Too many open files"),
    ],
    ids=["nxdomain", "servfail", "label", "descriptors"],
)
def test_every_failure_is_one_of_dns(monkeypatch, error):
    """S9: retryable, with the system's reason."""

    def fail(*_arguments, **_options):
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(TransportError) as caught:
        resolve()
    assert (caught.value.reason, caught.value.retryable) == ("dns", True)


@pytest.mark.parametrize("waiting", [1, 3], ids=["one", "more-than-places"])
def test_gives_up_after_the_limit(monkeypatch, waiting):
    """S9: a silent server costs the limit, also while waiting for a place; threads end later."""
    end = threading.Event()
    monkeypatch.setattr(_resolver, "LOOKUP_S_MAX", 0.05)
    monkeypatch.setattr(_resolver, "PLACE_S_MAX", 0.05)
    monkeypatch.setattr(_resolver, "LOOKUPS_MAX", 1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_k: end.wait(10) and [])

    async def scenario():
        resolver = SystemResolver()
        names = [f"n{number}.example" for number in range(waiting)]
        return await asyncio.gather(*map(resolver.resolve, names), return_exceptions=True)

    errors = asyncio.run(scenario())
    end.set()
    assert {error.reason for error in errors} == {"dns"}
    assert len(errors) == waiting


def test_a_place_that_hung_is_given_back(monkeypatch):
    """When the system's resolver returns at last, the next look-up can start."""
    end = threading.Event()
    monkeypatch.setattr(_resolver, "LOOKUP_S_MAX", 0.05)
    monkeypatch.setattr(_resolver, "LOOKUPS_MAX", 1)

    def slow_once(host, *_arguments, **_options):
        if host == "slow.example":
            end.wait(10)
        return [row("1.1.1.1")]

    monkeypatch.setattr(socket, "getaddrinfo", slow_once)

    async def scenario():
        resolver = SystemResolver()
        with pytest.raises(TransportError):
            await resolver.resolve("slow.example")
        end.set()
        return await resolver.resolve("fast.example")

    assert asyncio.run(scenario()) == ["1.1.1.1"]


class Script:
    """Look-ups in virtual time: names of some domains hang for a while, the others answer."""

    def __init__(self, *silent, hangs_s=30.0):
        self.silent = silent
        self.hangs_s = hangs_s
        self.asked = []

    def __call__(self, host, tell):
        self.asked.append(host)
        after_s = self.hangs_s if host.endswith(self.silent) else 0.01
        addresses = [] if host.endswith(self.silent) else ["1.1.1.1"]
        error = socket.gaierror(socket.EAI_AGAIN, "no answer") if not addresses else None
        asyncio.get_running_loop().call_later(after_s, tell, addresses, error)


def in_virtual_time(scenario):
    """What comes of *scenario*, and the seconds that it took."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(scenario()), loop.time()


def test_silent_names_of_one_domain_hold_up_nobody_else():
    """A hundred of them: eight have a place, and the others wait among themselves."""
    script = Script("silent.example")
    resolver = SystemResolver(script)

    async def scenario():
        stuck = [
            asyncio.ensure_future(resolver.resolve(f"n{n}.silent.example")) for n in range(100)
        ]
        await asyncio.sleep(0.0)
        found = await resolver.resolve("victim.other.example")
        asked = len(script.asked)
        for each in stuck:
            each.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        return found, asked

    (found, asked), _ = in_virtual_time(scenario)
    assert found == ["1.1.1.1"]
    assert asked == _resolver.LOOKUPS_EACH_MAX + 1


def test_waiting_for_a_place_is_not_the_time_of_the_look_up():
    """All places are taken for longer than a look-up lasts; whoever waited then has its answer."""
    domains = tuple(f"d{n}.silent{n}" for n in range(8))
    resolver = SystemResolver(Script(*domains, hangs_s=12.0))

    async def scenario():
        stuck = [
            asyncio.ensure_future(resolver.resolve(f"n{n}.{domain}"))
            for domain in domains
            for n in range(8)
        ]
        await asyncio.sleep(0.0)
        found = await resolver.resolve("victim.example")
        await asyncio.gather(*stuck, return_exceptions=True)
        return found

    found, took_s = in_virtual_time(scenario)
    assert found == ["1.1.1.1"]
    assert took_s > _resolver.LOOKUP_S_MAX


def test_domains_that_were_silent_before_hold_a_place_each():
    """Twenty-five with twenty names each have all places once, and never again."""
    domains = tuple(f"d{n}.silent{n}" for n in range(25))
    resolver = SystemResolver(Script(*domains, hangs_s=12.0))

    async def scenario():
        waits = []
        for _ in range(4):
            stuck = [
                asyncio.ensure_future(resolver.resolve(f"n{n}.{domain}"))
                for domain in domains
                for n in range(20)
            ]
            await asyncio.sleep(0.0)
            begun = asyncio.get_running_loop().time()
            await resolver.resolve("victim.example")
            waits.append(asyncio.get_running_loop().time() - begun)
            await asyncio.gather(*stuck, return_exceptions=True)
            await asyncio.sleep(30.0)
        return waits

    waits, _ = in_virtual_time(scenario)
    assert waits[0] > 5.0
    assert max(waits[1:]) < 0.1


def test_a_domain_that_answers_again_has_its_places_again():
    """Also where the answer is that there is no such name."""
    script = Script("late.example", hangs_s=12.0)
    resolver = SystemResolver(script)

    async def scenario():
        await asyncio.gather(resolver.resolve("a.late.example"), return_exceptions=True)
        await asyncio.sleep(12.0)
        script.hangs_s = 1.0
        names = [f"n{n}.late.example" for n in range(5)]
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*map(resolver.resolve, names), return_exceptions=True)
        return asyncio.get_running_loop().time() - begun

    took_s, _ = in_virtual_time(scenario)
    assert took_s == pytest.approx(2.0, abs=0.1)


def test_the_domain_that_holds_fewest_places_is_next():
    """However many names of the others have waited for longer."""
    domains = tuple(f"d{n}.slow{n}" for n in range(8))
    script = Script(*domains, hangs_s=3.0)
    resolver = SystemResolver(script)

    async def scenario():
        stuck = [
            asyncio.ensure_future(resolver.resolve(f"n{n}.{domain}"))
            for domain in domains
            for n in range(80)
        ]
        await asyncio.sleep(0.0)
        begun = asyncio.get_running_loop().time()
        await resolver.resolve("victim.example")
        took_s = asyncio.get_running_loop().time() - begun
        for each in stuck:
            each.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        return took_s

    took_s, _ = in_virtual_time(scenario)
    assert took_s == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("a.b.shop.example", "shop.example"),
        ("SHOP.example.", "shop.example"),
        ("localhost", "localhost"),
        ("sink.default.svc", "default.svc"),
    ],
)
def test_a_domain_is_the_last_two_labels(host, domain):
    """Cheap, and wrong only under suffixes that strangers share."""
    assert _resolver.domain_of(host) == domain


def test_as_many_silent_names_as_there_are_places_leave_one_for_a_name_that_answers(monkeypatch):
    """With the threads of the real thing: each is held until the system's resolver gives up."""
    end = threading.Event()
    monkeypatch.setattr(_resolver, "LOOKUP_S_MAX", 0.3)

    def hang_or_answer(host, *_arguments, **_options):
        if host.endswith("silent.example"):
            end.wait(10)
        return [row("1.1.1.1")]

    monkeypatch.setattr(socket, "getaddrinfo", hang_or_answer)

    async def scenario():
        resolver = SystemResolver()
        names = [f"n{number}.silent.example" for number in range(_resolver.LOOKUPS_MAX)]
        stuck = [asyncio.ensure_future(resolver.resolve(name)) for name in names]
        await asyncio.sleep(0.0)
        try:
            return await resolver.resolve("victim.example")
        finally:
            end.set()
            await asyncio.gather(*stuck, return_exceptions=True)

    assert asyncio.run(scenario()) == ["1.1.1.1"]
