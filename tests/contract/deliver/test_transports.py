"""The shipped suite over the HTTP transport and over the scripted fake; brokers have their own."""

import asyncio
import contextlib

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination, LoopTimers
from distributary.core.errors import TransportError
from distributary.core.policy import Reply
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.protocols.http import binding as http
from distributary.protocols.http.sink import HttpTransport
from distributary.testing import check_transport, scripted_transport
from distributary.testing.check_transport import Behaviour
from kit import fake_sink
from kit.cutting_proxy import CuttingProxy, Fate
from kit.ports import free_port

pytestmark = pytest.mark.slow


def replying(status):
    """A sink that answers with the reply of the suite, in binary mode."""
    fields, body = http.encode_binary(check_transport.a_reply())
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n".encode()
    return fake_sink.answer(head + fields + b"\r\n" + body)


class HttpRig:
    """The HTTP transport and a sink on loopback for each behaviour; two of them behind wires."""

    ordered = False  # requests of their own
    acknowledged = True

    def __init__(self, formats):
        clock = SystemClock()
        connector = Connector(
            AddressRule(loopback_allowed=True), CachingResolver(SystemResolver(), clock)
        )
        self.transport = HttpTransport(connector, clock, asyncio.get_running_loop())
        self.formats = formats
        self._cuts = {}
        self._sinks = {
            Behaviour.ACCEPT: fake_sink.FakeSink(),
            Behaviour.REJECT: fake_sink.FakeSink(
                fake_sink.answer(b"HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n")
            ),
            Behaviour.RESET: fake_sink.FakeSink(fake_sink.reset),
            Behaviour.HANG: fake_sink.FakeSink(fake_sink.hang),
            Behaviour.TRICKLE: fake_sink.FakeSink(
                fake_sink.trickle(b"HTTP/1.1 204 No Content\r\nx: " + b"y" * 1000, 0.01)
            ),
            Behaviour.REPLY: fake_sink.FakeSink(replying("200 OK")),
            Behaviour.REPLY_LATER: fake_sink.FakeSink(replying("202 Accepted")),
            Behaviour.BAD_REPLY: fake_sink.FakeSink(
                fake_sink.answer(
                    b"HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\ncontent-length: 0\r\n\r\n"
                )
            ),
        }

    async def open(self, stack):
        for sink in self._sinks.values():
            await stack.enter_async_context(sink)
        for behaviour in (Behaviour.ACCEPT, Behaviour.HANG):
            self._cuts[behaviour] = stack.enter_context(CuttingProxy(self._sinks[behaviour].port))
        stack.push_async_callback(self.transport.close)

    def destination(self, behaviour, format="binary"):
        if behaviour is Behaviour.REFUSE:
            port = free_port()
        else:
            port = self._cuts.get(behaviour, self._sinks[behaviour]).port
        return Destination(f"http://127.0.0.1:{port}/in?x=1", format=format)

    async def interrupt(self):
        for cut in self._cuts.values():
            await asyncio.to_thread(cut.reset)

    async def leave(self):
        for cut in self._cuts.values():
            await asyncio.to_thread(cut.cut, Fate.REFUSE)

    async def come_back(self):
        for cut in self._cuts.values():
            await asyncio.to_thread(cut.mend)

    def arrived(self):
        return [
            event
            for sink in self._sinks.values()
            for request in sink.requests
            for event in http.decode(request.headers, request.body)
        ]


def http_rig(*formats):
    """Makes rigs of the HTTP transport that use the first of these content modes."""

    @contextlib.asynccontextmanager
    async def make():
        async with contextlib.AsyncExitStack() as stack:
            rig = HttpRig(formats)
            await rig.open(stack)
            yield rig

    return make


class ScriptedRig:
    """The scripted transport; the behaviour stands in the URI."""

    formats = ("binary",)
    ordered = True
    acknowledged = True

    def __init__(self):
        self._away = False
        self.transport = scripted_transport.ScriptedTransport(
            LoopTimers(asyncio.get_running_loop()), self._step
        )

    def destination(self, behaviour, format="binary"):
        return Destination(f"scripted:{behaviour.value}", format=format)

    async def interrupt(self):
        self.transport.break_attempts(TransportError("reset", "cut"))

    async def leave(self):
        await self.interrupt()
        self._away = True

    async def come_back(self):
        self._away = False

    def _step(self, _event, destination):
        step = scripted_transport.Step
        if self._away:
            return step(TransportError("refused", "nobody there"), taken=False)
        return {
            "accept": step(),
            "reject": step(Reply(400, None, None, b"no")),
            "refuse": step(TransportError("refused", "nobody there"), taken=False),
            "reset": step(TransportError("reset", "cut")),
            "hang": step(None),
            "trickle": step(after_s=60.0),
            "reply": step(Reply(200, None, None, b"", event=check_transport.a_reply())),
            "reply-later": step(Reply(202, None, None, b"", event=check_transport.a_reply())),
            "bad-reply": step(Reply(200, None, None, b"", event_fault="no type")),
        }[destination.uri.partition(":")[2]]

    def arrived(self):
        return [event for event, _ in self.transport.arrived]


@contextlib.asynccontextmanager
async def scripted_rig():
    """A rig of the scripted transport."""
    yield ScriptedRig()


RIGS = {
    "http-binary": http_rig("binary", "structured"),
    "http-structured": http_rig("structured", "binary"),
    "scripted": scripted_rig,
}


CASES = [
    pytest.param(rig, check, id=f"{rig}-{check.__name__}")
    for rig in RIGS
    for check in check_transport.CHECKS
    if rig != "http-structured" or check in check_transport.CHECKS_OF_DELIVERIES
]
"""The content mode is how an event is written: refusals, breaks and the end know nothing of it."""


@pytest.mark.parametrize(("rig", "check"), CASES)
def test_keeps_the_promises_of_a_transport(rig, check):
    """Every transport, every check, on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check(RIGS[rig]))


@pytest.mark.parametrize("check", check_transport.CHECKS, ids=lambda check: check.__name__)
def test_http_keeps_them_on_the_standard_loop(check):
    """Nothing depends on uvloop but speed."""
    asyncio.run(check(RIGS["http-binary"]))


def test_the_whole_suite_runs_in_one_call():
    """``check_transport`` is what an author of another transport calls."""
    asyncio.run(check_transport.check_transport(scripted_rig))


def test_the_suite_finds_a_transport_that_answers_twice():
    """A suite that cannot fail shows nothing."""

    class Twice(ScriptedRig):
        def __init__(self):
            super().__init__()
            inner = self.transport.send

            def send(event, destination, timeout_s, done, identity="", *, carried=b""):
                def double(answer):
                    done(answer)
                    done(answer)

                inner(event, destination, timeout_s, double, identity, carried=carried)

            self.transport.send = send

    @contextlib.asynccontextmanager
    async def make():
        yield Twice()

    async def run():
        errors = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context["exception"])
        )
        await check_transport.CHECKS[0](make)
        return errors

    assert [str(error) for error in asyncio.run(run())] == ["done was called twice"]
