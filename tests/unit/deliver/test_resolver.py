"""The system's resolver, with ``getaddrinfo`` replaced."""

import asyncio
import socket
import threading

import pytest

from distributary.deliver import SystemResolver, _resolver
from distributary.errors import TransportError


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
