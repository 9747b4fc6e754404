"""An in-memory client of one connection: bytes in, answers out; no sockets, no real clock."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from distributary.core.errors import LogError
from distributary.core.flow import Received
from distributary.server.ingest import IngestSettings
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._protocol import IngestConnection

EVENT_FIELDS = (
    b"host: localhost\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
    b"content-type: application/json\r\n"
)


def event(body: bytes = b"{}", more: bytes = b"", version: bytes = b"1.1") -> bytes:
    """One binary-mode event as a request."""
    return (
        b"POST /events HTTP/%s\r\n%s%scontent-length: %d\r\n\r\n"
        % (version, EVENT_FIELDS, more, len(body))
    ) + body


class FakeClock:
    """Time stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 1_767_225_600_000 + int((self.now_s - 1000.0) * 1000)


class FakeAppends:
    """A log that is durable at once, or when a test says so."""

    def __init__(self) -> None:
        self.open = True
        self.splits = False
        self.held = False
        self.error: LogError | None = None
        self.received: list[Received] = []
        self.waiting: list[Callable[[LogError | None], None]] = []

    def submit(self, received: Received, done: Callable[[LogError | None], None]) -> None:
        self.received.append(received)
        if self.held:
            self.waiting.append(done)
        else:
            done(self.error)

    def settle(self, index: int = 0, error: LogError | None = None) -> None:
        self.waiting.pop(index)(error)


class MemoryTransport(asyncio.Transport):
    """Keeps what is written; tells its protocol when it is closed."""

    def __init__(self, protocol: asyncio.Protocol, peer: object = ("127.0.0.1", 1)) -> None:
        super().__init__({"peername": peer})
        self.protocol = protocol
        self.written = bytearray()
        self.reading = True
        self.eof_written = False
        self.closed = False
        self.aborted = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        assert not self.eof_written
        self.written += data

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof_written = True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.protocol.connection_lost(None)

    def abort(self) -> None:
        self.aborted = True
        self.close()


@dataclass
class Answer:
    """One answer, taken apart by the tests' own reading of HTTP."""

    status: int
    fields: dict[bytes, bytes]
    body: bytes

    @property
    def problem(self) -> dict:
        assert self.fields[b"content-type"] == b"application/problem+json"
        return msgspec.json.decode(self.body)


def split_answers(written: bytes, *, head: bool = False) -> list[Answer]:
    """All answers in *written*; fails on anything that is not whole."""
    answers = []
    while written:
        head_bytes, separator, written = written.partition(b"\r\n\r\n")
        assert separator
        line, *lines = head_bytes.split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in lines)
        length = 0 if head else int(fields.get(b"content-length", b"0"))
        assert len(written) >= length
        answers.append(Answer(int(line.split(b" ")[1]), fields, written[:length]))
        written = written[length:]
    return answers


@dataclass
class Client:
    """One connection to a receiver of its own, or of a given context."""

    settings: IngestSettings = field(default_factory=IngestSettings)
    appends: FakeAppends = field(default_factory=FakeAppends)
    clock: FakeClock = field(default_factory=FakeClock)
    dial: Callable | None = None
    context: IngestContext | None = None
    peer: object = ("127.0.0.1", 1)

    def __post_init__(self) -> None:
        if self.context is None:
            self.context = IngestContext(self.appends, self.settings, self.clock, self.dial)
            self.context.addresses.learn({"brokers/default/default": ""})
        self.connection = IngestConnection(self.context)
        self.transport = MemoryTransport(self.connection, self.peer)
        self.connection.connection_made(self.transport)

    def send(self, *pieces: bytes) -> list[Answer]:
        """Feeds *pieces*, each as one read, and gives all new answers."""
        for piece in pieces:
            if self.transport.closed:
                break
            self.connection.data_received(piece)
        return self.answers()

    def answers(self, *, head: bool = False) -> list[Answer]:
        written = bytes(self.transport.written)
        self.transport.written.clear()
        return split_answers(written, head=head)

    def statuses(self, *pieces: bytes) -> list[int]:
        return [answer.status for answer in self.send(*pieces)]

    def wait(self, seconds: float) -> list[Answer]:
        """Moves the clock and sweeps once."""
        self.clock.now_s += seconds
        self.context.sweep()
        return self.answers()

    @property
    def ended(self) -> bool:
        """No further request would be read."""
        return self.transport.closed or self.transport.eof_written


@pytest.fixture
def client() -> Client:
    """One connection to a receiver of its own, without a control process."""
    return Client()


@pytest.fixture
def connect() -> type[Client]:
    """Makes clients with other settings, or of one context."""
    return Client


@pytest.fixture(name="event")
def event_fixture() -> Callable[..., bytes]:
    """One event as a request: ``event(body, more_fields, version)``."""
    return event


@pytest.fixture
def post() -> Callable[..., bytes]:
    """The head of an event request with the given field lines instead of a length."""

    def head(lines: bytes, *, fields: bytes = EVENT_FIELDS, line: bytes = b"") -> bytes:
        return (line or b"POST /events HTTP/1.1") + b"\r\n" + fields + lines + b"\r\n"

    return head


class Control:
    """The control process: takes connections in memory, a test writes its answers."""

    def __init__(self, transport_of):
        self.transport_of = transport_of
        self.relays = []
        self.upstreams = []
        self.failed = []
        self.up = True

    def __call__(self, relay, failed, _path):
        self.relays.append(relay)
        self.failed.append(failed)
        if self.up:
            self.upstreams.append(self.transport_of(relay, ""))
            relay.connection_made(self.upstreams[-1])

    @property
    def request(self) -> bytes:
        return bytes(self.upstreams[-1].written)

    def answer(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.relays[-1].data_received(piece)

    def end(self) -> None:
        self.relays[-1].connection_lost(None)


@pytest.fixture
def control(client):
    """A control process for the client's receiver."""
    made = Control(type(client.transport))
    client.context.dial = made
    return made
