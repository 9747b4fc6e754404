"""The transports of an owner, where a package has one that cannot be made."""

import asyncio
import dataclasses
import importlib.metadata
import sys
from types import ModuleType, SimpleNamespace

import pytest

from distributary.core import protocol as _protocol
from distributary.core.deliver import UNREADABLE, Destination
from distributary.core.event import Event
from distributary.core.protocol import protocols
from distributary.partitions import _transports
from distributary.resource import Reach

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, None)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """The packages of one test are not those of the next."""
    yield
    monkeypatch.undo()
    _protocol._found.cache_clear()


def declare(monkeypatch, package, **changes):
    """Install *package*, which declares the protocol of its name in capitals."""
    module = ModuleType(package)
    changes |= {"name": package.upper(), "sink": f"{package}:make"}
    module.PROTOCOLS = (dataclasses.replace(protocols()["NATS"], **changes),)
    monkeypatch.setitem(sys.modules, package, module)
    dist = SimpleNamespace(name=package)
    entry = SimpleNamespace(name="half", value=f"{package}:PROTOCOLS", dist=dist)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: (entry,))
    _protocol._found.cache_clear()
    return module


def made(reports, name):
    """Make transports, attempt one delivery by *name*, close them.

    Returns:
        Their names; the answers while the attempt began, and those afterwards.
    """

    async def run():
        loop = asyncio.get_running_loop()
        transports = _transports.make_transports(
            loop, Reach(), lambda event, fields: reports.append((event, fields))
        )
        answers = []
        destination = Destination("nats://127.0.0.1:9", protocol=name)
        transports[name].send(EVENT, destination, 5.0, answers.append)
        before = list(answers)
        await asyncio.sleep(0)
        for transport in dict.fromkeys(transports.values()):
            await transport.close()
        return set(transports), before, answers

    return asyncio.run(run())


def fails(error):
    """A function that makes no transport."""

    def make(*_arguments):
        raise error

    return make


@pytest.mark.parametrize(
    ("package", "make", "reason"),
    [
        ("missing", None, "AttributeError: module 'missing' has no attribute 'make'"),
        ("bare", fails(ImportError("no client library")), "ImportError: no client library"),
        ("lost", fails(RuntimeError("no folder")), "RuntimeError: no folder"),
    ],
    ids=["missing", "import", "anything"],
)
def test_a_sink_that_cannot_be_made_fails_its_own_deliveries(monkeypatch, package, make, reason):
    """Each attempt fails and may be made again; all other protocols have their transports."""
    module = declare(monkeypatch, package)
    if make is not None:
        module.make = make
    reports = []
    names, before, answers = made(reports, package.upper())
    assert names == set(protocols()) >= {package.upper(), "HTTP", "NATS"}
    assert before == []  # never from inside the call
    (answer,) = answers
    message = f"the package {package} cannot be used ({package}:make): {reason}"
    assert (answer.reason, answer.retryable, str(answer)) == (UNREADABLE, True, message)
    assert reports == [("protocol-unavailable", {"protocol": package.upper(), "reason": message})]


def test_a_table_of_answers_that_cannot_be_read_makes_a_sink_unusable(monkeypatch):
    """An event that was sent would have an answer that nobody can judge."""
    declare(monkeypatch, "mute", answers="mute:ANSWERS").make = lambda *_: None
    reports = []
    _, _, (answer,) = made(reports, "MUTE")
    assert answer.retryable
    assert str(answer).endswith("AttributeError: module 'mute' has no attribute 'ANSWERS'")


def test_it_is_reported_once_and_each_owner_tries_again(monkeypatch):
    """A cause that passes (a folder that was not mounted, say) needs no restart of the server."""
    module = declare(monkeypatch, "mended")
    reports = []
    made(reports, "MENDED")
    made(reports, "MENDED")
    assert len(reports) == 1
    sent = []

    class Sink:
        def send(self, *arguments, **_words):
            sent.append(arguments)

        async def close(self):
            """Nothing is open."""

    module.make = lambda *_arguments: Sink()
    made(reports, "MENDED")
    assert len(sent) == len(reports) == 1


def test_a_protocol_of_the_project_that_cannot_be_made_is_an_error(monkeypatch):
    """An installation that is broken says so at once."""
    monkeypatch.setattr(_transports, "load", lambda _sink: fails(RuntimeError("broken")))
    with pytest.raises(RuntimeError, match="broken"):
        made([], "HTTP")
