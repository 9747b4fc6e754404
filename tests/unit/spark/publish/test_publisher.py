"""Publishing the events of a task: batches, refusals, waits; against a scripted server."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from distributary.core.errors import Fault, RequestError, TransportError
from distributary.core.event import Event
from distributary.protocols.http import binding
from distributary.spark.publish._publisher import Publisher, ServerResponse, Waits
from distributary.spark.publish._rows import RowEvent

TAKEN = ServerResponse(202, None, b"")
BUSY = ServerResponse(503, "7", b'{"code":"unavailable","detail":"Too many events wait."}')


def _row(number: int, data: bytes | None = None, faults: tuple[Fault, ...] = ()) -> RowEvent:
    attributes: dict[str, Any] = {"specversion": "1.0", "id": f"e{number}", "source": "/s"}
    return RowEvent(number, Event({**attributes, "type": "t"}, data), faults)


def _problem(status: int, code: str, *faults: Fault) -> ServerResponse:
    body = {"code": code, "detail": "as it is", "faults": faults}
    return ServerResponse(status, None, msgspec.json.encode(body))


class Server:
    """Answers by a script; remembers what it took and how long the sender waited."""

    def __init__(self, answer: Callable[[list[Event]], ServerResponse | TransportError]) -> None:
        self.answer = answer
        self.taken: list[str] = []
        self.sizes: list[int] = []
        self.waits: list[float] = []

    def post(self, lines: bytes, body: bytes) -> ServerResponse:
        fields = [tuple(line.split(b": ", 1)) for line in lines.splitlines()]
        events = binding.decode(fields, body)  # type: ignore[arg-type]  # pairs, as lists say
        self.sizes.append(len(events))
        answer = self.answer(events)
        if isinstance(answer, TransportError):
            raise answer
        if answer.status < 300:
            self.taken += [str(event.attributes["id"]) for event in events]
        return answer

    def publisher(
        self, events_max: int = 3, bytes_max: int = 10_000, retries: int = 2
    ) -> Publisher:
        waits = Waits(self.waits.append, lambda: 0, lambda: 0.0)
        return Publisher(
            self.post,
            waits,
            batch_events_max=events_max,
            batch_bytes_max=bytes_max,
            retries=retries,
        )


def _ids(*numbers: int) -> list[str]:
    return [f"e{number}" for number in numbers]


def test_events_go_in_batches_in_order() -> None:
    """A request has at most so many events; the last one has what is left."""
    server = Server(lambda _events: TAKEN)
    publisher = server.publisher()
    for number in range(7):
        publisher.add(_row(number))
    publisher.finish()
    assert (server.taken, server.sizes) == (_ids(*range(7)), [3, 3, 1])
    assert (publisher.taken, publisher.refused_count) == (7, 0)


def test_a_large_event_goes_alone_and_in_its_turn() -> None:
    """What is larger than a request may be goes in binary mode, byte for byte."""
    bodies: list[list[bytes | None]] = []

    def answer(events: list[Event]) -> ServerResponse:
        bodies.append([event.data for event in events])
        return TAKEN

    server = Server(answer)
    publisher = server.publisher(bytes_max=400)
    for row in (_row(0), _row(1, b"\xff" * 1000), _row(2)):
        publisher.add(row)
    publisher.finish()
    assert server.taken == _ids(0, 1, 2)
    assert bodies == [[None], [b"\xff" * 1000], [None]]


def test_rows_with_faults_are_refused_and_never_sent() -> None:
    """They are named with their faults, and counted by code."""
    server = Server(lambda _events: TAKEN)
    publisher = server.publisher()
    publisher.add(_row(0))
    publisher.add(_row(1, faults=(Fault("time", "timestamp", "no"), Fault("id", "missing", "no"))))
    publisher.finish()
    assert server.taken == _ids(0)
    assert [(each.row, len(each.faults)) for each in publisher.refused] == [(1, 2)]
    assert publisher.codes == {"timestamp": 1, "missing": 1}


@pytest.mark.parametrize("status", [400, 403])
def test_events_that_the_server_refuses_are_named_and_the_others_taken(status: int) -> None:
    """Faults name events of the batch by their index; the rest is sent again."""

    def answer(events: list[Event]) -> ServerResponse:
        bad = [i for i, each in enumerate(events) if each.attributes["id"] == "e1"]
        if bad and len(events) > 1:
            return _problem(status, "forbidden", Fault(f"$[{bad[0]}].type", "policy", "not you"))
        return _problem(status, "forbidden", Fault("$", "policy", "not you")) if bad else TAKEN

    server = Server(answer)
    publisher = server.publisher()
    for number in range(3):
        publisher.add(_row(number))
    publisher.finish()
    assert server.taken == _ids(0, 2)
    (refused,) = publisher.refused
    assert (refused.row, refused.id) == (1, "e1")
    assert refused.faults == (Fault("type", "policy", "not you"),)


@pytest.mark.parametrize("status", [400, 413])
def test_a_batch_that_is_refused_as_a_whole_is_halved(status: int) -> None:
    """Where nobody says which event is too much, it is found."""

    def answer(events: list[Event]) -> ServerResponse:
        large = any(len(event.data or b"") > 10 for event in events)
        return _problem(status, "content-too-large") if large else TAKEN

    server = Server(answer)
    publisher = server.publisher(events_max=4)
    for number in range(4):
        publisher.add(_row(number, b"x" * 20 if number == 2 else b"x"))
    publisher.finish()
    assert server.taken == _ids(0, 1, 3)
    assert [(each.row, each.faults[0].code) for each in publisher.refused] == [
        (2, "content-too-large")
    ]


def test_a_server_without_batches_gets_single_events() -> None:
    """After one 415 all events go in binary mode."""

    def answer(events: list[Event]) -> ServerResponse:
        return TAKEN if len(events) == 1 else _problem(415, "unsupported-media-type")

    server = Server(answer)
    publisher = server.publisher(events_max=2)
    for number in range(4):
        publisher.add(_row(number))
    publisher.finish()
    assert (server.taken, server.sizes) == (_ids(0, 1, 2, 3), [2, 1, 1, 1, 1])


def test_a_busy_server_gets_the_same_again_when_it_asks_for_it() -> None:
    """``Retry-After`` is the least wait; no answer waits for the backoff."""
    script = iter([BUSY, TransportError("reset", "gone"), TAKEN])
    server = Server(lambda _events: next(script))
    publisher = server.publisher()
    publisher.add(_row(0))
    publisher.finish()
    assert (server.taken, server.waits) == (_ids(0), [7.0, 0.4])


def test_the_longest_wait_is_bounded() -> None:
    """A server cannot hold a task for an hour."""
    script = iter([ServerResponse(429, "3600", b""), TAKEN])
    server = Server(lambda _events: next(script))
    publisher = server.publisher()
    publisher.add(_row(0))
    publisher.finish()
    assert server.waits == [60.0]


def test_a_server_that_stays_busy_fails_the_write() -> None:
    """After so many requests; the error says how far the task came."""
    server = Server(lambda events: TAKEN if events[0].attributes["id"] == "e0" else BUSY)
    publisher = server.publisher(events_max=1)
    publisher.add(_row(0))
    publisher.add(_row(1))
    expected = r"503 unavailable: Too many events wait. \(3 requests; 1 events of this task are"
    with pytest.raises(RequestError, match=expected):
        publisher.finish()
    assert len(server.waits) == 2


def test_a_server_that_is_away_fails_the_write() -> None:
    """As one that stays busy; what can never succeed is tried once."""
    server = Server(lambda _events: TransportError("refused", "nobody there"))
    publisher = server.publisher()
    publisher.add(_row(0))
    with pytest.raises(TransportError, match=r"nobody there \(3 requests\)"):
        publisher.finish()
    server = Server(lambda _events: TransportError("tls", "a stranger", retryable=False))
    publisher = server.publisher()
    publisher.add(_row(0))
    with pytest.raises(TransportError, match=r"a stranger \(1 requests\)"):
        publisher.finish()


@pytest.mark.parametrize("status", [301, 401, 403, 404, 405, 421])
def test_an_answer_that_is_not_about_events_ends_the_write_at_once(status: int) -> None:
    """No repeat changes it, and no row is to blame."""
    server = Server(lambda _events: _problem(status, "notfound"))
    publisher = server.publisher()
    publisher.add(_row(0))
    with pytest.raises(RequestError, match=f"the server answered {status}"):
        publisher.finish()
    assert (len(server.sizes), server.waits, publisher.refused_count) == (1, [], 0)
