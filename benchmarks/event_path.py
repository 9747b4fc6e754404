"""CPU of one event without a disk, a network or Spark: received, read, matched, sent.

Compare versions in one run, since the machine moves: ``python benchmarks/event_path.py [rounds]
[SRC ...]`` runs each folder of sources in turn, in processes of their own, and prints the lowest
CPU time of each step in microseconds. An event has its own id and time; everything else repeats.
"""

import asyncio
import dataclasses
import importlib.util
import os
import subprocess
import sys
import time
import types
import unittest.mock
from pathlib import Path

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.origins import origin_of
from distributary.core.engine import EngineLimits
from distributary.core.engine._completion import Completion
from distributary.core.engine._outcomes import Outcomes
from distributary.core.engine.effects import Effects
from distributary.core.engine.state import PartitionState
from distributary.core.flow import (
    Attempt,
    DoneKey,
    Logged,
    Mark,
    Origin,
    Position,
    RouteRecord,
    Stage,
    Task,
    events_of,
)
from distributary.core.meter import Meter
from distributary.core.policy import Reply
from distributary.core.route import RouteTable
from distributary.history.rows import Recorder
from distributary.net import AddressRule, CachingResolver, Connector
from distributary.protocols.http.sink import HttpTransport
from distributary.server.ingest import IngestSettings
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._protocol import IngestConnection

COUNT = 4_000
SIGNS = importlib.util.find_spec("distributary.core.deliver.signing") is not None
SCHEMES = ("v1", "v1a") if SIGNS else ()
TIMES = 5
RECORD = ("attempted", "succeeded", "ended")
"""Effects that the row of the history is."""
BODY = b'{"temperature": 21.5, "unit": "C", "padding": "' + b"x" * 950 + b'"}'
REQUEST = (
    b"POST /events HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\nce-specversion: 1.0\r\n"
    b"ce-id: %032d\r\nce-source: /sensors/tn-1234567\r\nce-type: com.example.someevent\r\n"
    b"ce-time: 2026-01-01T00:00:%02dZ\r\nce-subject: abc\r\n\r\n"
)
ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
CLOCK = SystemClock()
FILTERS = {
    "read, match exact": {"exact": {"type": "com.example.someevent"}},
    "read, match prefix": {"prefix": {"source": "/sensors/"}},
    "read, match CESQL": {"sql": "type = 'com.example.someevent' AND subject LIKE 'a%'"},
}


class Appends:
    open = True
    splits = False

    def __init__(self):
        self.received = []

    def submit(self, received, done):
        self.received.append(received)
        done(None)


class Wire(asyncio.Transport):
    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 80)})

    def write(self, data):
        pass

    def is_closing(self):
        return False

    def abort(self):
        pass

    close = abort


class Wires(Connector):
    def __init__(self):
        rule = AddressRule(loopback_allowed=True)
        super().__init__(rule, CachingResolver(None, CLOCK), CLOCK)
        self.connections = []

    async def open(self, _endpoint, make):
        connection = make()
        self.connections.append(connection)
        connection.connection_made(Wire())


def receive():
    """CPU time of all requests, and what they left in the log."""
    appends = Appends()
    requests = [REQUEST % (len(BODY), n, n % 60) + BODY for n in range(COUNT)]
    connection = IngestConnection(IngestContext(appends, IngestSettings(), CLOCK, None))
    connection.connection_made(Wire())
    started = time.process_time()
    for request in requests:
        connection.data_received(request)
    spent = time.process_time() - started
    return spent, [Logged(n, 1, 1, r.kind, r.body) for n, r in enumerate(appends.received)]


def read_and_match(records, expression):
    """CPU time of reading all events and finding the ten routes of each."""
    routes = RouteTable()
    for n in range(10):
        change = RouteRecord(seq=n + 1, op="put", uid=f"u{n}", revision=1, filters=(expression,))
        routes.apply(change)
    assert len(routes.match(first_of(records[0]))) == 10
    started = time.process_time()
    for logged in records:
        for event in events_of(logged).events:
            routes.match(event)
    return time.process_time() - started


def first_of(logged):
    return events_of(logged).events[0]


async def send(events, *, scheme=None):
    """CPU time of a delivery of each, over a connection that is kept; signed if by a *scheme*."""
    wires = Wires()
    transport = HttpTransport(wires, CLOCK, asyncio.get_running_loop())
    destination = Destination("http://127.0.0.1/in")
    if scheme is not None:
        from distributary.core.deliver import signing as made  # noqa: PLC0415 - not in older ones

        key = made.SigningKey(scheme, bytes(range(32)), 0)
        signing = made.SigningKeys(origin_of(destination.uri), (key,))
        destination = dataclasses.replace(destination, signing=signing)
    answers = []
    identity = "0123456789abcdef0123456789abcdef.0.1234567.0.89abcdef.1" if scheme else ""
    transport.send(events[0], destination, 5.0, answers.append, identity)
    for _ in range(3):
        await asyncio.sleep(0)
    (connection,) = wires.connections
    connection.data_received(ANSWER)
    started = time.process_time()
    for event in events:
        transport.send(event, destination, 5.0, answers.append, identity)
        connection.data_received(ANSWER)
    spent = time.process_time() - started
    await transport.close()
    assert [answer.status for answer in answers] == [202] * (COUNT + 1)
    return spent


def history_rows(events):
    """CPU time of the row of the history of each, until it is in a flush."""
    tasks = [
        Task(Position(0, offset, 0), 1, "u", event, Stage.PRIMARY, 1, 1, Origin.LIVE)
        for offset, event in enumerate(events)
    ]
    attempts = [Attempt(task, Reply(202, None, None, b""), 0.001) for task in tasks]
    recorder = Recorder(0, lambda _uid: None)
    started = time.process_time()
    for offset, attempt in enumerate(attempts):
        recorder.succeeded(attempt, DoneKey(offset, 0, "u"), 1)
    recorder.take()
    return time.process_time() - started


def complete(events):
    """CPU time of an accepted delivery of each in the engine: counts, latency, outcome."""
    nothing = unittest.mock.Mock(return_value=None)
    ports = {field.name: nothing for field in dataclasses.fields(Effects)}
    effects = Effects(**ports | {"watch": None} | dict.fromkeys(RECORD, ignore))
    state = PartitionState(
        partition=0,
        mark=Mark(0, 0),
        follower=nothing,
        targets=nothing,
        effects=effects,
        meter=Meter(),
        limits=EngineLimits(),
    )
    state.now_ms = 1
    outcomes = Outcomes(state)
    outcomes._tracker = types.SimpleNamespace(finish=ignore)  # is another step
    outcomes._done = outcomes._final = ignore
    parts = (nothing, nothing, nothing)
    completion = Completion(state, outcomes, *parts)
    routes = [f"u{n}" for n in range(10)]  # a task has the string of the table of routes
    attempts = [
        Attempt(
            Task(Position(0, n, 0), 1, routes[n % 10], event, Stage.PRIMARY, 1, 1, Origin.LIVE),
            Reply(202, None, None, b""),
            0.001,
        )
        for n, event in enumerate(events)
    ]
    take = completion.take
    started = time.process_time()
    for attempt in attempts:
        take(attempt)
    return time.process_time() - started


def ignore(*_told):
    return True


def measure():
    """Print each step of the version on the path, tab, its microseconds."""
    lowest = {}
    for _ in range(TIMES):
        spent, records = receive()
        steps = {"receive": spent}
        for step, expression in FILTERS.items():
            steps[step] = read_and_match(records, expression)
        events = list(map(first_of, records))
        steps["first delivery"] = asyncio.run(send(events))
        steps["another delivery"] = asyncio.run(send(events))
        for scheme in SCHEMES:
            steps[f"signed {scheme}"] = asyncio.run(send(events, scheme=scheme))
        steps["completion"] = complete(events)
        steps["history"] = history_rows(list(map(first_of, records)))
        for step, seconds in steps.items():
            lowest[step] = min(lowest.get(step, seconds), seconds)
    print("\n".join(f"{step}\t{seconds / COUNT * 1e6:.2f}" for step, seconds in lowest.items()))


def compare(rounds, sources):
    """Run each of *sources* in turn, *rounds* times, and print their steps side by side."""
    lowest = [{} for _ in sources]
    for _ in range(rounds):
        for found, source in zip(lowest, sources, strict=True):
            command = [sys.executable, __file__, "--measure"]
            environment = os.environ | {"PYTHONPATH": source}
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            for line in done.stdout.splitlines():
                step, _, figure = line.partition("\t")
                found[step] = min(found.get(step, float(figure)), float(figure))
    for step in lowest[0]:
        print(f"{step:20}" + "".join(f"{found[step]:10.2f}" for found in lowest))


def main():
    if sys.argv[1:2] == ["--measure"]:
        measure()
    else:
        here = str(Path(__file__).resolve().parents[1] / "src")
        compare(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2:] or [here])


if __name__ == "__main__":
    main()
