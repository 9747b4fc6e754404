"""CPU of the receiver for each request, with a log that costs nothing.

Figures: protocol and group commit (bytes in memory, no sockets, no disk), without and with an API
key and a bearer token, and the whole receiver over loopback sockets with uvloop, its CPU time read
from the process itself.

Run: ``PYTHONPATH=tests python benchmarks/ingest_receive.py [seconds] [connections]``.
"""

import asyncio
import cProfile
import functools
import itertools
import multiprocessing
import pstats
import resource
import secrets
import socket
import statistics
import sys
import time

import uvloop

from distributary.access import AccessSnapshot, Grant, IssuerRecord, KeyRecord, Verb, make_key
from distributary.access.issuers import ClaimRule, Issuer
from distributary.core.clock import SystemClock
from distributary.core.log import GroupCommitter
from distributary.core.log.frame import encode_commit
from distributary.server.ingest import IngestSettings, serve
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._protocol import IngestConnection
from distributary.server.processes.receiver._appends import LogAppends
from kit.minted import AUDIENCE, URL, claims_of, signing_key

BODY = b'{"temperature": 21.5, "unit": "C", "padding": "' + b"x" * 950 + b'"}'
REQUEST = (
    b"POST /events HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\nce-specversion: 1.0\r\n"
    b"ce-id: 1234-5678\r\nce-source: /sensors/tn-1234567\r\nce-type: com.example.someevent\r\n"
    b"ce-time: 2026-01-01T00:00:00Z\r\nce-subject: abc\r\n\r\n"
) % len(BODY) + BODY


PUBLISHERS = 100
"""Connections in memory: as many with an identity as without one."""
TURN = 30
"""Requests of one turn of the loop, as under load of 64 connections."""


class Frames:
    """An appender without a disk: frames each commit, as the real one does."""

    def __init__(self):
        self.next_offset = 0

    def append(self, entries):
        encode_commit(entries, self.next_offset, 1, 1)
        self.next_offset += len(entries)
        return self.next_offset - len(entries)

    def prepare(self):
        pass


class GroupedAppends:
    """Settles all that came in one turn of the loop together, as a group commit does."""

    open = True
    splits = False

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


def showing(authorizations):
    """The request with each of *authorizations*; as many copies where there are none.

    Copies, since a publisher's request is no other's bytes: one object stays in the cache.
    """
    lines = [b"\r\nAuthorization: Bearer %b\r\n" % value for value in authorizations]
    lines = lines or [b"\r\n"] * PUBLISHERS
    head, rest = REQUEST.split(b"\r\n", 1)
    return [b"".join((head, line, rest)) for line in lines]


def in_memory(count, snapshot=None, authorizations=()):
    """Microseconds of CPU a request; each of *authorizations* has a connection of its own.

    With the group commit: all that come in one turn of the loop share one.
    """
    return uvloop.run(_in_memory(count, snapshot, showing(authorizations)))


async def _in_memory(count, snapshot, requests):
    clock = SystemClock()
    committer = GroupCommitter(Frames(), asyncio.get_running_loop(), clock=clock, inline=True)
    await asyncio.sleep(0.01)  # its thread rests
    context = IngestContext(LogAppends({0: committer}, 1, {}), IngestSettings(), clock, None)
    if snapshot is not None:
        context.gate.replace(snapshot)
    connections = [IngestConnection(context) for _ in requests]
    for connection in connections:
        connection.connection_made(NullTransport())
    calls = [
        functools.partial(connection.data_received, request)
        for connection, request in zip(connections, requests, strict=True)
    ]
    for _ in range(4):  # tokens are verified, and lines are known, after that
        await _turn(calls)
    await asyncio.sleep(0.05)
    start = time.process_time()
    for number in range(0, count, TURN):
        first = number % len(calls)
        await _turn((calls + calls)[first : first + TURN])
    took_s = time.process_time() - start
    turns = -(-count // TURN)
    accepted = context.counters.accepted_requests
    assert accepted == turns * TURN + 4 * len(calls), (accepted, count)
    await committer.close()
    return took_s / (turns * TURN) * 1e6


async def _turn(calls):
    for call in calls:
        call()
    for _ in range(2):  # the commit, and what it calls
        await asyncio.sleep(0)


def identities(publishers=PUBLISHERS):
    """What is shown, with what the receiver knows: nothing, API keys, tokens."""
    grant = Grant(may=(Verb.PUBLISH,), namespaces=("default",))
    keys = [make_key(secrets.token_bytes) for _ in range(publishers)]
    records = tuple(
        KeyRecord(id=key.id, name=f"k{at}", sha256=key.sha256, grants=(grant,))
        for at, key in enumerate(keys)
    )
    signs = signing_key("RS256")
    rule = ClaimRule(may=grant.may, subjects=("*",), namespaces=grant.namespaces)
    issuer = Issuer(name="a", url=URL, audiences=(AUDIENCE,), grants=(rule,))
    issuers = (IssuerRecord(issuer=issuer, keys=(signs.jwk(),)),)
    now_s = int(time.time())
    tokens = [
        signs.mint(claims_of(sub=f"s{at}", iat=now_s, exp=now_s + 3600)) for at in range(publishers)
    ]
    return {
        "without authentication": (None, ()),
        "with keys": (
            AccessSnapshot(required=True, keys=records),
            [key.text.encode() for key in keys],
        ),
        "with tokens": (AccessSnapshot(required=True, issuers=issuers), tokens),
    }


def with_identities(where, measure, rounds):
    """Microseconds of each kind, in turns, and how much more than none it is.

    CPU time and the median of the pairs: what else the machine does takes little part in them.
    """
    shown = identities()
    figures = {kind: [] for kind in shown}
    for _ in range(rounds):
        for kind, (snapshot, authorizations) in shown.items():
            figures[kind].append(measure(snapshot, authorizations))
    base = figures["without authentication"]
    for kind, found in figures.items():
        more_us = statistics.median(each - one for each, one in zip(found, base, strict=True))
        of = statistics.median(found)
        print(f"{where}, {kind}: {of:.2f} us of CPU a request, {more_us:+.2f} us")


def load(port, seconds, connections, requests, result):
    class Sender(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            self.request = next(shown)
            transport.write(self.request)

        def data_received(self, data):
            counts[0] += data.count(b" 202 ")
            if b"close" in data:
                self.transport.close()
                task = loop.create_task(loop.create_connection(Sender, "127.0.0.1", port))
                tasks.append(task)
            elif not over:
                self.transport.write(self.request)

    async def run():
        nonlocal loop
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await loop.create_connection(Sender, "127.0.0.1", port)
        await asyncio.sleep(seconds)
        over.append(True)

    counts, over, tasks, loop = [0], [], [], None
    shown = itertools.cycle(requests)
    uvloop.run(run())
    result.put(counts[0])


def over_sockets(seconds, connections, snapshot=None, authorizations=()):
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
            access=snapshot,
        )
        result = multiprocessing.Queue()
        sender = multiprocessing.Process(
            target=load,
            args=(sock.getsockname()[1], seconds, connections, showing(authorizations), result),
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
    with_identities("in memory", functools.partial(in_memory, 9_000), 40)

    def over_them(snapshot, authorizations):
        _, user_us, kernel_us = over_sockets(seconds, connections, snapshot, authorizations)
        return user_us + kernel_us

    with_identities(f"over {connections} sockets", over_them, 8)
    profile = cProfile.Profile()
    profile.enable()
    in_memory(20_000)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main()
