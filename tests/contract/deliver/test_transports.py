"""Every transport passes the shipped suite: the real one, the adapter, and the scripted fake."""

import asyncio
import contextlib
import socket

import pytest
import uvloop

from distributary.clock import SystemClock
from distributary.deliver import (
    AddressRule,
    CachingResolver,
    Connector,
    Destination,
    LoopTimers,
    SystemResolver,
    from_coroutine,
)
from distributary.deliver.transports.http import HttpTransport
from distributary.errors import TransportError
from distributary.event import http
from distributary.policy import Reply
from distributary.testing import check_transport, fake_sink, scripted_transport
from distributary.testing.check_transport import Behaviour

pytestmark = pytest.mark.slow


def replying(status):
    """A sink that answers with the reply of the suite, in binary mode."""
    fields, body = http.encode_binary(check_transport.a_reply())
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n".encode()
    return fake_sink.answer(head + fields + b"\r\n" + body)


class HttpRig:
    """The HTTP transport and a sink on loopback for each behaviour."""

    def __init__(self, mode):
        clock = SystemClock()
        connector = Connector(
            AddressRule(loopback_allowed=True), CachingResolver(SystemResolver(), clock)
        )
        self.transport = HttpTransport(connector, clock, asyncio.get_running_loop())
        self._mode = mode
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
        stack.push_async_callback(self.transport.close)

    def destination(self, behaviour):
        if behaviour is Behaviour.REFUSE:
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                uri = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        else:
            uri = self._sinks[behaviour].uri("/in?x=1")
        return Destination(uri, format=self._mode)

    def arrived(self):
        return [
            event
            for sink in self._sinks.values()
            for request in sink.requests
            for event in http.decode(request.headers, request.body)
        ]


def http_rig(mode):
    """Makes rigs of the HTTP transport in that content mode."""

    @contextlib.asynccontextmanager
    async def make():
        async with contextlib.AsyncExitStack() as stack:
            rig = HttpRig(mode)
            await rig.open(stack)
            yield rig

    return make


class ScriptedRig:
    """The scripted transport; the behaviour stands in the URI."""

    def __init__(self):
        self.transport = scripted_transport.ScriptedTransport(
            LoopTimers(asyncio.get_running_loop()), self._step
        )

    def destination(self, behaviour):
        return Destination(f"scripted:{behaviour.value}")

    def _step(self, _event, destination):
        step = scripted_transport.Step
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


class CoroutineRig:
    """The adapter around a client of five lines."""

    def __init__(self):
        self.transport = from_coroutine(self._send, self._close)
        self._arrived = []

    def destination(self, behaviour):
        if "reply" in behaviour.value:
            return None  # such a client gets nothing back but a yes or no
        return Destination(f"memory:{behaviour.value}")

    async def _send(self, event, destination):
        behaviour = destination.uri.partition(":")[2]
        if behaviour == "refuse":
            raise TransportError("refused", "nobody there")
        self._arrived.append(event)
        if behaviour == "reset":
            raise TransportError("reset", "cut")
        if behaviour in ("hang", "trickle"):
            await asyncio.Event().wait()
        return Reply(204 if behaviour == "accept" else 400, None, None, b"")

    async def _close(self):
        pass

    def arrived(self):
        return self._arrived


@contextlib.asynccontextmanager
async def coroutine_rig():
    """A rig of the adapter."""
    yield CoroutineRig()


RIGS = {
    "http-binary": http_rig("binary"),
    "http-structured": http_rig("structured"),
    "scripted": scripted_rig,
    "coroutine": coroutine_rig,
}


@pytest.mark.parametrize("check", check_transport.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("rig", RIGS)
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

            def send(event, destination, timeout_s, done):
                def double(answer):
                    done(answer)
                    done(answer)

                inner(event, destination, timeout_s, double)

            self.transport.send = send

    @contextlib.asynccontextmanager
    async def make():
        yield Twice()

    async def run():
        errors = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context["exception"])
        )
        await check_transport.delivers_an_event_once_and_unchanged(make)
        return errors

    assert [str(error) for error in asyncio.run(run())] == ["done was called twice"]
