"""CPU that tracing adds to an event: nothing traced, tracing on with no event sampled, 1 % sampled.

Receiving (from the bytes of a request to its record) and delivering (from a task to its outcome at
the queue, over a connection in memory), each in turns of the three; what the threads of the SDK
spend until the spans are sent counts, what the collector spends does not. Run:
``PYTHONPATH=src:benchmarks:tests python benchmarks/tracing.py [rounds]``.
"""

import asyncio
import multiprocessing
import statistics
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from distributary.core.clock import SystemRandom
from distributary.core.deliver import Destination, Dispatcher, LoopTimers
from distributary.core.flow import Logged, Origin, Position, Stage, Task, events_of
from distributary.net.otlp import OtlpSettings
from distributary.net.otlp.spans import Spans
from distributary.partitions._tracing import Tracing
from distributary.protocols.http.sink import HttpTransport
from distributary.server.ingest import IngestSettings
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._protocol import IngestConnection
from distributary.server.ingest._traced import traced_connections
from distributary.server.processes.receiver.tracing import publish_tracing
from event_path import ANSWER, BODY, CLOCK, COUNT, REQUEST, Appends, Wire, Wires

REPEATED = 13
"""Runs over all events between two exports, which then hold a batch of spans each: a request to the
collector costs some milliseconds, however few spans are in it, and a process makes one in 5 s."""
KINDS = {"off": None, "on, 0 %": 0.0, "on, 1 %": 0.01}
WHOLE_US = 51.0
"""CPU of one event with one match, µs, with the kernel's part that is not here: 19 to receive it,
32 to deliver it (docs/design/cost.md)."""


def collect(port):
    """A collector that takes everything and looks at nothing."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port.put(server.server_port)
    server.serve_forever()


def receive(spans):
    """CPU time of all requests, and what they left in the log."""
    appends = Appends()
    requests = [REQUEST % (len(BODY), n, n % 60) + BODY for n in range(COUNT)]
    make = IngestConnection
    if spans is not None:
        make, _ = traced_connections(publish_tracing(spans))
    context = IngestContext(appends, IngestSettings(), CLOCK, None)
    started = time.process_time()
    for _ in range(REPEATED):
        appends.received.clear()
        connection = make(context)  # one takes a bounded number of requests
        connection.connection_made(Wire())
        for request in requests:
            connection.data_received(request)
    if spans is not None:
        spans.flush(60.0)
    spent = time.process_time() - started
    return spent, [Logged(n, 1, 1, r.kind, r.body) for n, r in enumerate(appends.received)]


async def deliver(records, tracing):
    """CPU time of one attempt for each record."""
    loop = asyncio.get_running_loop()
    wires, attempts = Wires(), []
    dispatcher = Dispatcher(
        {"HTTP": HttpTransport(wires, CLOCK, loop)},
        clock=CLOCK,
        timers=LoopTimers(loop),
        random=SystemRandom(),
        on_attempt=attempts.append,
        **({} if tracing is None else {"tracing": tracing.attempts}),
    )
    destination = Destination("http://127.0.0.1/in")
    tasks = []
    for number, logged in enumerate(records):
        held = events_of(logged)
        place = Position(0, number, 0)
        common = (place, 1, "u", held.events[0], Stage.PRIMARY, 1, 1, Origin.LIVE)
        tasks.append(Task(*common, carried=held.carried))
    dispatcher.offer(tasks[0], destination)
    for _ in range(3):
        await asyncio.sleep(0)
    (connection,) = wires.connections
    connection.data_received(ANSWER)
    started = time.process_time()
    for _ in range(REPEATED):
        attempts.clear()
        for task in tasks:
            dispatcher.offer(task, destination)
            connection.data_received(ANSWER)
    if tracing is not None:
        tracing.spans.flush(60.0)
    spent = time.process_time() - started
    assert len(attempts) == len(tasks)
    await dispatcher.close(abort=True)
    return spent


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    port = multiprocessing.Queue()
    process = multiprocessing.Process(target=collect, args=(port,), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{port.get()}"
    spans, tracing = {"off": None}, {"off": None}
    for kind, ratio in KINDS.items():
        if ratio is not None:
            settings = OtlpSettings(signals=("traces",), endpoint=url, sample_ratio=ratio)
            spans[kind] = Spans(settings, "ingest", print)
            tracing[kind] = Tracing.open(settings, f"owner {kind}", print, lambda _route: None)
    figures = {(step, kind): [] for step in ("receive", "deliver") for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            spent, records = receive(spans[kind])
            figures["receive", kind].append(spent / COUNT / REPEATED * 1e6)
            spent = asyncio.run(deliver(records, tracing[kind]))
            figures["deliver", kind].append(spent / COUNT / REPEATED * 1e6)
    whole = dict.fromkeys(KINDS, 0.0)
    for (step, kind), found in figures.items():
        pairs = zip(found, figures[step, "off"], strict=True)
        more = statistics.median(each - off for each, off in pairs)
        whole[kind] += more
        print(f"{step:8} {kind:8} lowest {min(found):6.2f} us, {more:+.2f} us by pairs")
    for kind, more in whole.items():
        print(f"{kind}: {more:+.2f} us of {WHOLE_US:.0f} an event, {more / WHOLE_US:+.1%}")
    process.terminate()


if __name__ == "__main__":
    main()
