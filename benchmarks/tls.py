"""What TLS costs the receiver: an event, a connection, the memory of an idle one, and strangers.

Plain HTTP and TLS in turns, over loopback, with a log that costs nothing; CPU time is that of the
receiver's process. Run: ``PYTHONPATH=tests python benchmarks/tls.py [seconds] [connections]``;
with ``0`` seconds it measures strangers alone: clients without a key, and long bodies.
"""

import asyncio
import multiprocessing
import re
import resource
import socket
import ssl
import statistics
import sys
import time
from pathlib import Path

import uvloop

from distributary.access import AccessSnapshot
from distributary.core.clock import SystemClock
from distributary.net.tls import HTTP_ONLY, Handshakes, ServerCertificates, make_context
from distributary.server.ingest import IngestSettings, serve
from ingest_receive import REQUEST, GroupedAppends
from kit.certificates import Authority

AUTHORITY = Authority()
STRANGERS = 1_000
LONG = (
    REQUEST.partition(b"Content-Length")[0] + b"Content-Length: 1048576\r\n\r\n",
    *([b"x" * 65_536] * 16),
)


def trusting(secure):
    """The context of a client; None: plain HTTP."""
    return ssl.create_default_context(cadata=AUTHORITY.pem.decode()) if secure else None


def server_context():
    """The context of a server with an ECDSA certificate."""
    pair = AUTHORITY.server("127.0.0.1")
    found = ServerCertificates(
        chain=pair.certificate.decode(),
        key=pair.key.decode(),
        client_ca=None,
        required=False,
        not_after_s=0.0,
    )
    return make_context(found, alpn=HTTP_ONLY)


def load(port, seconds, connections, secure, result):
    class Sender(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            transport.write(REQUEST)

        def data_received(self, data):
            counts[0] += data.count(b" 202 ")
            if b"close" in data:
                self.transport.close()
                again = loop.create_connection(Sender, "127.0.0.1", port, ssl=tls)
                tasks.append(loop.create_task(again))
            elif not over:
                self.transport.write(REQUEST)

    async def run():
        nonlocal loop
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await loop.create_connection(Sender, "127.0.0.1", port, ssl=tls)
        await asyncio.sleep(seconds)
        over.append(True)

    counts, over, tasks, loop, tls = [0], [], [], None, trusting(secure)
    uvloop.run(run())
    result.put(counts[0])


def serving(sock, secure, access=None):
    """A receiver on *sock*."""
    context = server_context() if secure else None
    return serve(
        sock,
        GroupedAppends(),
        settings=IngestSettings(connections_max=10_000),
        control_socket=None,
        clock=SystemClock(),
        access=access,
        tls=None if context is None else Handshakes(lambda: context),
    )


def over_sockets(seconds, connections, secure):
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)

    async def run():
        server = await serving(sock, secure)
        result = multiprocessing.Queue()
        sender = multiprocessing.Process(
            target=load, args=(sock.getsockname()[1], seconds, connections, secure, result)
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


def connect_many(port, count, secure, result, release):
    """Open *count* connections, one after another; closes them when *release* is set."""

    async def run():
        tls = trusting(secure)
        opened = [await asyncio.open_connection("127.0.0.1", port, ssl=tls) for _ in range(count)]
        result.put(count)
        while not release.is_set():  # noqa: ASYNC110 - set by another process
            await asyncio.sleep(0.02)
        for _, writer in opened:
            writer.transport.abort()

    uvloop.run(run())


def connections_cost(count, secure):
    """CPU of the receiver for a new connection, microseconds, and memory of an idle one, KiB."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)

    async def run():
        server = await serving(sock, secure)
        result, release = multiprocessing.Queue(), multiprocessing.Event()
        arguments = (sock.getsockname()[1], count, secure, result, release)
        client = multiprocessing.Process(target=connect_many, args=arguments)
        client.start()
        kib = private_kib()
        before = resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.get_running_loop().run_in_executor(None, result.get)
        after = resource.getrusage(resource.RUSAGE_SELF)
        held = private_kib() - kib
        release.set()
        await server.close(1)
        client.join()
        cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return cpu_s / count * 1e6, held / count

    return uvloop.run(run())


def send_as_stranger(port, secure, pipe):
    """Open connections; on a word, send the head of a long body on each, and the body."""

    async def ask(opened):
        reader, writer = opened
        for piece in LONG:
            writer.write(piece)
            await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")

    async def run():
        tls = trusting(secure)
        opened = [
            await asyncio.open_connection("127.0.0.1", port, ssl=tls) for _ in range(STRANGERS)
        ]
        pipe.send("open")
        await asyncio.to_thread(pipe.recv)
        await asyncio.gather(*map(ask, opened))
        pipe.send("refused")
        await asyncio.to_thread(pipe.recv)
        for _, writer in opened:
            writer.transport.abort()

    uvloop.run(run())


def strangers_cost(secure):
    """Most memory of the receiver above that of open connections, MiB, and its CPU seconds."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)

    async def run():
        server = await serving(sock, secure, AccessSnapshot(required=True))
        pipe, theirs = multiprocessing.Pipe()
        client = multiprocessing.Process(
            target=send_as_stranger, args=(sock.getsockname()[1], secure, theirs)
        )
        client.start()
        await asyncio.to_thread(pipe.recv)
        begin_peak()
        before_kib, before_s = status_kib("VmRSS"), time.process_time()
        pipe.send("go")
        await asyncio.to_thread(pipe.recv)
        cost = (status_kib("VmHWM") - before_kib) / 1024, time.process_time() - before_s
        pipe.send("end")
        await asyncio.to_thread(client.join)
        await server.close(1)
        return cost

    return uvloop.run(run())


def begin_peak():
    """Let the most memory of this process be counted from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def status_kib(name):
    """A line of this process's status, KiB."""
    (line,) = re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line)


def private_kib():
    """Memory of this process alone."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(kib) for kib in re.findall(r"Private_\w+: +(\d+)", text))


def with_tls(seconds, connections, rounds=5):
    """Plain HTTP and TLS in turns: medians."""
    figures = {False: [], True: []}
    for _ in range(rounds):
        for secure, found in figures.items():
            found.append(over_sockets(seconds, connections, secure))
    for secure, found in figures.items():
        rate, user_us, kernel_us = map(statistics.median, zip(*found, strict=True))
        connect_us, held_kib = connections_cost(500, secure)
        print(
            f"over sockets, {connections} connections, {'TLS' if secure else 'plain'}: "
            f"{rate:,.0f} requests/s, {user_us:.1f} us user + {kernel_us:.1f} us kernel a request; "
            f"{connect_us:,.0f} us a connection, which holds {held_kib:.0f} KiB"
        )
    pairs = zip(figures[True], figures[False], strict=True)
    ratios = [(tls[0] / plain[0], sum(tls[1:]) / sum(plain[1:])) for tls, plain in pairs]
    rate, cpu = map(statistics.median, zip(*ratios, strict=True))
    print(f"TLS against plain: {rate:.2f} of the rate, {cpu:.2f} of the CPU a request")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    connections = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    if seconds:
        with_tls(seconds, connections)
    for secure in (False, True):
        mib, cpu_s = strangers_cost(secure)
        how = "TLS" if secure else "plain"
        print(
            f"{STRANGERS:,} strangers with 1 MiB each, {how}: {mib:.1f} MiB, {cpu_s:.1f} s of CPU"
        )


if __name__ == "__main__":
    main()
