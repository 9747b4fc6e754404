"""The memory for bodies, whatever becomes of each: shares hold, and all counts end at zero."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.server.ingest.conftest import Client, Control, MemoryTransport, event

from distributary.core.errors import LogUnavailableError
from distributary.server.ingest import IngestSettings
from distributary.server.ingest._limits import RECORD_BYTES_MIN

ADDRESSES = {"shop": "@shop", "till": "@till", "farm": "@farm", "default": ""}
PATHS = {f"namespaces/{name}/events": address for name, address in ADDRESSES.items()}
FEWER = {path: address for path, address in PATHS.items() if "farm" not in path}
BODY_MAX = 6_000
SETTINGS = IngestSettings(body_bytes_max=BODY_MAX, held_bytes_max=40_000)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from(sorted(ADDRESSES)), st.integers(0, BODY_MAX)),
        st.tuples(st.just("call"), st.just("shop"), st.integers(0, BODY_MAX)),
        st.tuples(st.just("go on"), st.integers(0, 99), st.integers(1, BODY_MAX)),
        st.tuples(st.just("end"), st.integers(0, 99), st.just(0)),
        st.tuples(st.just("disconnect"), st.integers(0, 99), st.just(0)),
        st.tuples(st.just("time out"), st.just(0), st.just(0)),
        st.tuples(st.just("log"), st.integers(0, 99), st.booleans()),
        st.tuples(st.just("control"), st.integers(0, 99), st.booleans()),
        st.tuples(st.just("learn"), st.booleans(), st.just(0)),
    ),
    max_size=60,
)


class World:
    """Connections to one receiver, whose log and control process answer when they are told to."""

    def __init__(self) -> None:
        self.first = Client(settings=SETTINGS)
        self.context = self.first.context
        self.control = self.context.dial = Control(MemoryTransport)
        self.context.learn(PATHS)
        self.first.appends.held = True
        self.left: list[tuple[Client, bytes]] = []

    def begin(self, namespace: str, size: int) -> None:
        """The head of a request, and a first byte."""
        sent = event(b"x" * size).replace(b"/events", b"/namespaces/%s/events" % namespace.encode())
        self._begin(sent, sent.index(b"\r\n\r\n") + 5)

    def call(self, _namespace: str, size: int) -> None:
        """The same, of a request that the control process answers."""
        head = b"PUT /subscriptions/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
        sent = head % size + b"x" * size
        self._begin(sent, sent.index(b"\r\n\r\n") + 5)

    def _begin(self, sent: bytes, now: int) -> None:
        client = Client(context=self.context)
        client.send(sent[:now])
        self.left.append((client, sent[now:]))

    def go_on(self, which: int, count: int) -> None:
        """More bytes of a body."""
        client, left = self._take(which)
        client.send(left[:count])
        self.left.append((client, left[count:]))

    def end(self, which: int, _count: int) -> None:
        """The rest of a body."""
        client, left = self._take(which)
        client.send(left)
        self.left.append((client, b""))

    def disconnect(self, which: int, _count: int) -> None:
        """The client goes away, whatever it waits for."""
        self._take(which)[0].transport.close()

    def time_out(self, _which: int, _count: int) -> None:
        """Bodies that come too slowly are given up."""
        self.first.wait(31.0)

    def log(self, which: int, fails: bool) -> None:
        """One append ends, in any order."""
        waiting = self.first.appends.waiting
        if waiting:
            self.first.appends.settle(
                which % len(waiting), LogUnavailableError("no space") if fails else None
            )

    def control_process(self, which: int, fails: bool) -> None:
        """One request that was passed on is answered, or its connection ends."""
        if self.control.relays:
            relay = self.control.relays[which % len(self.control.relays)]
            if not fails:
                relay.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            relay.connection_lost(None)

    def learn(self, fewer: bool, _count: int) -> None:
        """Addresses come and go."""
        self.context.learn(FEWER if fewer else PATHS)

    def _take(self, which: int) -> tuple[Client, bytes]:
        return self.left.pop(which % len(self.left)) if self.left else (Client(), b"")

    def finish(self) -> None:
        """Everything ends: the log goes on, and clients go."""
        while self.left:
            self.disconnect(0, 0)
        while self.first.appends.waiting:
            self.log(0, False)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_counts_end_at_zero_and_no_tenant_has_more_than_half(steps):
    """Over any order of arrival, end, disconnection, refusal and failure."""
    world = World()
    ways: dict[str, Callable] = {
        **{name: getattr(world, name.replace(" ", "_")) for name, *_ in steps if name != "control"},
        "control": world.control_process,
    }
    bodies, counters = world.context.bodies, world.context.counters
    known = {name: bodies.by_address[address] for name, address in ADDRESSES.items()}
    most = SETTINGS.held_bytes_max // 2 + BODY_MAX + RECORD_BYTES_MIN + 200
    for name, first, second in steps:
        ways[name](first, second)
        held = [share.bytes for share in known.values()]
        assert min(held) >= 0
        assert max(held) <= most
        assert sum(held) <= counters.held_bytes
    world.finish()
    assert counters.held_bytes == counters.appends_in_flight == counters.relays_in_flight == 0
    assert [share.bytes for share in known.values()] == [0] * len(known)
    assert {share.bytes for share in bodies.by_address.values()} == {0}
