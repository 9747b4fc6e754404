"""Whatever a client of the AMQP binding sends: an answer or a refusal, and no harm to others."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.clock import SystemClock
from distributary.core.database import sqlite_url
from distributary.core.errors import RequestError, ResourceError
from distributary.protocols.amqp.engine import AmqpMessage
from distributary.resource import SinkRule
from distributary.subscriptions.amqp import AmqpServer
from distributary.subscriptions.amqp._messages import read_request
from distributary.subscriptions.service import Subscriptions, rules
from distributary.subscriptions.store.store import Store
from kit.amqp_client import AmqpClient, join
from kit.memory_routes import MemoryRouteAppender

NAMES = st.sampled_from(
    ["operation", "id", "limit", "cursor", "ifmatch", "ifnonematch", "traceparent", "x"]
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2000)
    | st.sampled_from(["Create", "Query", "Update", "Delete", "Retrieve", "*", '"e"', "a", "7"])
    | st.text()
    | st.binary()
    | st.lists(st.text())
)
BODIES = st.binary() | st.text() | st.none() | st.dictionaries(st.text(), st.text())


@given(st.dictionaries(NAMES, VALUES), BODIES, st.none() | st.text())
def test_any_message_is_a_request_or_is_refused(properties, body, content_type):
    """Nothing else is raised, and what is read is of its type."""
    message = AmqpMessage(body, properties, content_type=content_type)
    try:
        _, call = read_request(message, "default")
    except ResourceError:
        return
    assert isinstance(call.id, str)
    limit = call.read_range().limit
    assert limit is None or 1 <= limit <= 1000
    try:
        asyncio.run(call.read_body())
    except (RequestError, ResourceError):
        return


class Raw(asyncio.Protocol):
    """A client that says what it is told."""


HEADERS = [b"", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"]
FRAME = st.builds(
    lambda kind, body: (8 + len(body)).to_bytes(4, "big") + bytes((2, kind, 0, 0)) + body,
    st.sampled_from([0, 1, 2]),
    st.binary(max_size=64)
    | st.builds(
        lambda code, rest: b"\x00\x53" + bytes((code,)) + rest,
        st.sampled_from([0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x41, 0x43]),
        st.sampled_from([b"\x45", b"\xc0\x01\x00", b"\xc0\x02\x01\x40"]) | st.binary(max_size=32),
    ),
)


@pytest.mark.slow
def test_any_bytes_end_their_own_connection_at_most(tmp_path):
    """Frames that are nearly right among them: a client beside is answered every time."""
    pytest.importorskip("cproton", reason="Qpid Proton is not installed")
    with asyncio.Runner() as runner:
        store = Store(sqlite_url(tmp_path / "control.db"))
        sinks = rules(SinkRule(local_allowed=True))
        subscriptions = Subscriptions(store, MemoryRouteAppender(), sinks, SystemClock())
        failed: list[object] = []
        runner.get_loop().set_exception_handler(lambda _loop, context: failed.append(context))
        runner.run(subscriptions.start())
        server = AmqpServer(subscriptions)

        async def connect() -> AmqpClient:
            client = AmqpClient()
            join(client.engine, server.meet())
            return client

        beside = runner.run(connect())

        async def disturb(pieces: list[bytes]) -> str:
            wire, _ = join(Raw(), server.meet())
            for piece in pieces:
                wire.write(piece)
            answer = await beside.ask("Discover")
            wire.abort()
            assert failed == []
            return answer.status

        @settings(max_examples=150, deadline=None)
        @given(st.sampled_from(HEADERS), st.lists(FRAME | st.binary(max_size=64), max_size=6))
        def run(header: bytes, frames: list[bytes]) -> None:
            assert runner.run(disturb([header, *frames])) == "ok"

        run()
        runner.run(server.close())
        runner.run(subscriptions.close())
        store.close()
