"""Many watchers of one kind, in one process; each notes what it was told.

    python benchmarks/_watchers.py PORT PATH --version V --count 1000 [--stalled]

PATH is of a collection. Prints ``ready`` once all watch. Then reads one line: the resource version
of the last change, waits until every watcher has it, and prints one JSON object. The first watcher
checks each line: versions must rise. That the others were told the same is shown by a checksum
over all that they got; nothing may change after that version. Ages are of every tenth watcher, by
the annotation ``sentns`` of what changed.

``--stalled``: each begins one version after the one before; they read nothing until that line has
come, then everything; the report says how each of them ended.
"""

import argparse
import array
import asyncio
import collections
import json
import re
import resource
import socket
import sys
import time
import zlib

import httptools
import uvloop

AGED = 10
"""Every such watcher notes ages: enough of them, and the client stays quicker than the server."""

WAIT_S_MAX = 60.0
CONNECT_AT_ONCE = 50
STALLED_BYTES = 4096
"""Receive buffer of a watcher that does not read: the kernel doubles it."""

SENT = re.compile(rb'"sentns":"(\d+)"')
VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


class Watcher(asyncio.Protocol):
    """One watch: size and checksum of its body."""

    def __init__(self, run, number):
        self.run = run
        self.number = number
        self.aged = number % AGED == 0
        self.first = number == 0
        self.size = self.crc = 0
        self.ended = None
        self.tail = b""
        self.lines = []
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.run.request(self.number))

    def data_received(self, data):
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.ended = repr(error)
            self.transport.close()

    def on_headers_complete(self):
        self.run.answered[self.parser.get_status_code()] += 1
        if self.run.options.stalled:
            self.transport.pause_reading()

    def on_body(self, body):
        if self.aged:
            self.note_ages(body)
        if self.first or self.run.options.stalled:
            self.keep(body)
        self.size += len(body)
        self.crc = zlib.crc32(body, self.crc)

    def note_ages(self, body):
        """A change cut in two between its digits is rare, and not noted."""
        now_ns = time.monotonic_ns()
        self.run.ages_ns.extend(now_ns - int(found) for found in SENT.findall(body))

    def keep(self, body):
        *lines, self.tail = (self.tail + body).split(b"\n")
        size = self.size - len(self.tail) + len(body)  # where the last whole line ends
        for line in lines:
            found = VERSION.search(line)
            self.lines.append((line[:24], int(found[1]) if found else 0))
            if b'"ERROR"' in line:
                self.ended = line.decode()
        if self.first and self.run.end_bytes is None and self.lines:
            self.run.told(self.lines[-1][1], size)

    def on_message_complete(self):
        self.ended = self.ended or "ended"

    def connection_lost(self, error):
        self.ended = self.ended or repr(error)


class Run:
    """All watchers."""

    def __init__(self, options):
        self.options = options
        self.answered = collections.Counter()
        self.ages_ns = array.array("q")
        self.end_bytes = None
        self.last = None
        self.newest = (0, 0)
        self.watchers = []

    def request(self, number):
        options = self.options
        version = options.version + number * options.stalled
        path = f"{options.path}?watch=true&resourceVersion={version}"
        return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()

    def told(self, version, size):
        """The first watcher was told of *version*, whose line ends at *size*."""
        self.newest = (version, size)
        if self.last is not None and version >= self.last:
            self.end_bytes = size

    async def watch(self):
        loop = asyncio.get_running_loop()
        for number in range(self.options.count):
            watcher = Watcher(self, number)
            self.watchers.append(watcher)
            await loop.create_connection(lambda watcher=watcher: watcher, sock=self.connected())
            if number % CONNECT_AT_ONCE == 0:
                await self.until(lambda: self.answered.total() >= len(self.watchers))
        await self.until(lambda: self.answered.total() == self.options.count)
        print("ready", flush=True)
        self.last = int(await loop.run_in_executor(None, sys.stdin.readline))
        if self.options.stalled:
            for watcher in self.watchers:
                watcher.transport.resume_reading()
            await self.until(lambda: all(watcher.ended for watcher in self.watchers))
            return
        self.told(*self.newest)
        await self.until(
            lambda: (
                self.end_bytes is not None
                and all(
                    watcher.size >= self.end_bytes or watcher.ended for watcher in self.watchers
                )
            )
        )

    def connected(self):
        sock = socket.socket()
        if self.options.stalled:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STALLED_BYTES)
        sock.connect(("127.0.0.1", self.options.port))
        sock.setblocking(False)
        return sock

    async def until(self, holds):
        end_s = time.monotonic() + WAIT_S_MAX
        while not holds() and time.monotonic() < end_s:  # noqa: ASYNC110 - of 1,000 watchers
            await asyncio.sleep(0.02)

    def report(self):
        first = self.watchers[0]
        versions = [version for _, version in first.lines]
        ages = sorted(self.ages_ns)
        report = {
            "count": len(self.watchers),
            "answered": dict(self.answered),
            "versions": versions,
            "in_order": versions == sorted(set(versions)),
            "differ": sum(
                (watcher.size, watcher.crc) != (first.size, first.crc) for watcher in self.watchers
            ),
            "bytes": sum(watcher.size for watcher in self.watchers),
            "ended": collections.Counter(each.ended for each in self.watchers if each.ended),
        }
        if ages:
            report["p50_ms"] = ages[len(ages) // 2] / 1e6
            report["p99_ms"] = ages[len(ages) * 99 // 100] / 1e6
            report["max_ms"] = ages[-1] / 1e6
        return report


async def run(options):
    watching = Run(options)
    await watching.watch()
    print(json.dumps(watching.report()), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--stalled", action="store_true")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
