"""CPU of the receiver for each request, with a log that costs nothing.

Two figures: the protocol alone (bytes in memory, no sockets), and the whole receiver over
loopback sockets with uvloop, its CPU time read from the process itself. Run:
``python benchmarks/ingest_receive.py [seconds] [connections]``.
"""

import asyncio
import cProfile
import multiprocessing
import pstats
import resource
import socket
import sys
import time

import uvloop

from distributary.core.clock import SystemClock
from distributary.server.ingest import IngestSettings, serve
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._protocol import IngestConnection

BODY = b'{"temperature": 21.5, "unit": "C", "padding": "' + b"x" * 950 + b'"}'
REQUEST = (
    b"POST /events HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\nce-specversion: 1.0\r\n"
    b"ce-id: 1234-5678\r\nce-source: /sensors/tn-1234567\r\nce-type: com.example.someevent\r\n"
    b"ce-time: 2026-01-01T00:00:00Z\r\nce-subject: abc\r\n\r\n"
) % len(BODY) + BODY


class InstantAppends:
    open = True
    full = False

    def submit(self, _received, done):
        done(None)


class GroupedAppends(InstantAppends):
    """Settles all that came in one turn of the loop together, as a group commit does."""

    def __init__(self):
        self.waiting = []

    def submit(self, _received, done):
        if not self.waiting:
            asyncio.get_running_loop().call_soon(self.settle)
        self.waiting.append(done)

    def settle(self):
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(None)


class NullTransport(asyncio.Transport):
    def write(self, data):
        pass


def in_memory(count):
    connection = IngestConnection(
        IngestContext(InstantAppends(), IngestSettings(), SystemClock(), None)
    )
    connection.connection_made(NullTransport())
    receive = connection.data_received
    start = time.perf_counter()
    for number in range(count):
        if number % 9_000 == 0:
            connection = IngestConnection(
                IngestContext(InstantAppends(), IngestSettings(), SystemClock(), None)
            )
            connection.connection_made(NullTransport())
            receive = connection.data_received
        receive(REQUEST)
    return (time.perf_counter() - start) / count * 1e6


def load(port, seconds, connections, result):
    class Sender(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            transport.write(REQUEST)

        def data_received(self, data):
            counts[0] += data.count(b" 202 ")
            if b"close" in data:
                self.transport.close()
                task = loop.create_task(loop.create_connection(Sender, "127.0.0.1", port))
                tasks.append(task)
            elif not over:
                self.transport.write(REQUEST)

    async def run():
        nonlocal loop
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await loop.create_connection(Sender, "127.0.0.1", port)
        await asyncio.sleep(seconds)
        over.append(True)

    counts, over, tasks, loop = [0], [], [], None
    uvloop.run(run())
    result.put(counts[0])


def over_sockets(seconds, connections):
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(1024)

    async def run():
        server = await serve(
            sock,
            GroupedAppends(),
            settings=IngestSettings(),
            control_socket=None,
            clock=SystemClock(),
        )
        result = multiprocessing.Queue()
        sender = multiprocessing.Process(
            target=load, args=(sock.getsockname()[1], seconds, connections, result)
        )
        sender.start()
        before = resource.getrusage(resource.RUSAGE_SELF)
        count = await asyncio.get_running_loop().run_in_executor(None, result.get)
        after = resource.getrusage(resource.RUSAGE_SELF)
        await server.close(1)
        user = after.ru_utime - before.ru_utime
        kernel = after.ru_stime - before.ru_stime
        return count / seconds, user / count * 1e6, kernel / count * 1e6

    return uvloop.run(run())


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    connections = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    print(f"in memory: {in_memory(50_000):.1f} us a request")
    rate, user_us, kernel_us = over_sockets(seconds, connections)
    print(
        f"over sockets, {connections} connections: {rate:,.0f} requests/s, "
        f"{user_us:.1f} us user + {kernel_us:.1f} us kernel a request"
    )
    profile = cProfile.Profile()
    profile.enable()
    in_memory(20_000)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main()
