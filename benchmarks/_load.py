"""A load generator: 1 KB events over kept connections, in a process of its own.

    python benchmarks/_load.py PORT closed --connections 64 --count 200000
    python benchmarks/_load.py PORT open --rate 1000 --seconds 10

``closed``: every connection sends the next event when the last one was answered. ``open``: events
are due at a steady rate whatever the server does; latencies count from the moment an event was
due, so a stall is seen by every event that it held up. No pipelining. Prints one JSON object.

Requests are prebuilt; an event costs one concatenation and one write. Each carries the moment
it was due (``ce-sentns``, nanoseconds of the monotonic clock, which all processes of a machine
share), so that the sink can tell how old it is.
"""

import argparse
import array
import asyncio
import collections
import json
import time

import uvloop

BODY = b'{"reading": 21.5, "unit": "C", "pad": "' + b"x" * 983 + b'"}'
assert len(BODY) == 1024

HEAD = (
    b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    b"content-length: 1024\r\nce-specversion: 1.0\r\nce-source: /sensors/tn-1234567\r\n"
    b"ce-type: com.example.reading\r\nce-subject: abc\r\nce-id: %%d\r\nce-sentns: "
)
TAIL = b"\r\n\r\n" + BODY
ACCEPTED = b"HTTP/1.1 202"
TICK_S = 0.001
KINDS_STRIDE = 7919
"""A prime: neighbours in time are not neighbours among the kinds."""


class Load:
    """Counts, latencies and what is to be sent."""

    def __init__(self, options):
        self.options = options
        self.count_max = options.count or 1 << 60
        self.begun = 0
        self.answered = 0
        self.refused = collections.Counter()
        self.latencies_ns = array.array("q")
        self.idle = []
        self.due = collections.deque()
        self.over = asyncio.Event()
        self.stopping = False
        self.connections = 0
        self.sender = Sender
        if options.kinds:
            self.heads, self.sender = kinds_heads(options.kinds, options.path), MixedSender

    def connect(self):
        return asyncio.get_running_loop().create_connection(
            lambda: self.sender(self), "127.0.0.1", self.options.port
        )

    async def closed(self):
        for _ in range(self.options.connections):
            await self.connect()
        self.began_ns = time.monotonic_ns()
        for sender in tuple(self.idle):
            sender.send_next()
        if self.options.seconds:
            await asyncio.sleep(self.options.seconds)
            self.stopping = True
        await self.over.wait()

    async def open(self):
        for _ in range(self.options.connections):
            await self.connect()
        step_ns = int(1e9 / self.options.rate)
        self.began_ns = next_ns = time.monotonic_ns()
        end_ns = self.began_ns + int(self.options.seconds * 1e9)
        while next_ns < end_ns:
            now_ns = time.monotonic_ns()
            while next_ns <= now_ns and next_ns < end_ns:
                self.due.append(next_ns)
                next_ns += step_ns
            while self.due and self.idle:
                self.idle.pop().send(self.due.popleft())
            await asyncio.sleep(TICK_S)
        self.stopping = True
        while self.due or self.answered < self.begun:
            while self.due and self.idle:
                self.idle.pop().send(self.due.popleft())
            await asyncio.sleep(TICK_S)

    def report(self):
        ended_ns = time.monotonic_ns()
        found = sorted(self.latencies_ns)
        seconds = (ended_ns - self.began_ns) / 1e9
        return {
            "began_ns": self.began_ns,
            "count": self.answered,
            "seconds": seconds,
            "rate": self.answered / seconds,
            "refused": dict(self.refused),
            "ack_p50_ms": found[len(found) // 2] / 1e6,
            "ack_p99_ms": found[len(found) * 99 // 100] / 1e6,
            "ack_max_ms": found[-1] / 1e6,
        }


class Sender(asyncio.Protocol):
    """One connection with one request under way."""

    def __init__(self, load):
        self.load = load
        self.closed_loop = load.options.mode == "closed"
        self.first = load.options.first
        self.head = HEAD % load.options.path.encode()
        if load.options.key:
            key = b"ce-partitionkey: %s\r\nce-sentns: " % load.options.key.encode()
            self.head = self.head.replace(b"ce-sentns: ", key)
        if load.options.bearer:
            shown = b"authorization: Bearer %s\r\nce-sentns: " % load.options.bearer.encode()
            self.head = self.head.replace(b"ce-sentns: ", shown)

    def connection_made(self, transport):
        self.transport = transport
        self.write = transport.write
        self.busy = False
        self.load.idle.append(self)
        if self.load.begun and self.closed_loop:
            self.send_next()

    def send_next(self):
        load = self.load
        if load.stopping or load.begun >= load.count_max:
            if load.answered >= load.begun:
                load.over.set()
            return
        self.send(time.monotonic_ns())

    def send(self, due_ns):
        load = self.load
        self.due_ns = due_ns
        self.busy = True
        number = self.first + load.begun
        load.begun += 1
        self.write(b"".join((self.head % number, b"%d" % due_ns, TAIL)))

    def data_received(self, data):
        load = self.load
        load.latencies_ns.append(time.monotonic_ns() - self.due_ns)
        load.answered += 1
        self.busy = False
        if data[:12] != ACCEPTED:
            load.refused[data[9:12].decode("latin-1")] += 1
        if b"close" in data:
            return  # connection_lost opens another
        if self.closed_loop:
            self.send_next()
        else:
            load.idle.append(self)

    def connection_lost(self, _error):
        load = self.load
        if self.busy:
            load.answered += 1
            load.refused["lost"] += 1
        if self in load.idle and not self.closed_loop:
            load.idle.remove(self)
        if not load.stopping:
            task = asyncio.get_running_loop().create_task(load.connect())
            load.task = task


class MixedSender(Sender):
    """Sends events of all kinds of the matching benchmark, in an order that looks random."""

    def send(self, due_ns):
        heads = self.load.heads
        self.head = heads[(self.first + self.load.begun) * KINDS_STRIDE % len(heads)]
        super().send(due_ns)


def kinds_heads(count, path):
    """Beginnings of requests, one of each kind."""
    import _routes  # noqa: PLC0415 - only where kinds are asked for: it imports the filters

    heads = []
    for kind in map(_routes.Kind, range(count)):
        head = HEAD % path.encode()
        for default, own in (
            (b"/sensors/tn-1234567", kind.source),
            (b"com.example.reading", kind.type),
            (b"subject: abc", f"subject: 7{kind.subject}"),
            (b"ce-sentns: ", "ce-region: eu-west\r\nce-level: 5\r\nce-sentns: "),
        ):
            head = head.replace(default, own.encode())
        heads.append(head)
    return heads


async def run(options):
    load = Load(options)
    await (load.closed() if options.mode == "closed" else load.open())
    print(json.dumps(load.report()), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("mode", choices=("closed", "open"))
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--path", default="/events", help="may hold no per cent sign")
    parser.add_argument("--key", default="", help="partitionkey of all events")
    parser.add_argument("--bearer", default="", help="key or token that every event shows")
    parser.add_argument("--kinds", type=int, default=0, help="of ``_routes``; no key with them")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
