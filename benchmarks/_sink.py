"""The measuring sink: counts arrivals and how old they are, for as little CPU as Python allows.

Prints its port. ``GET /stats`` answers JSON of what arrived since the last ``GET /reset``.
"""

import array
import asyncio
import json
import time

import uvloop

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class Arrivals:
    """What arrived since the last reset."""

    def __init__(self):
        self.ages_ns = array.array("q")
        self.first_ns = self.last_ns = 0

    def report(self):
        found = sorted(self.ages_ns)
        report = {"count": len(found), "first_ns": self.first_ns, "last_ns": self.last_ns}
        if found:
            report["p50_ms"] = found[len(found) // 2] / 1e6
            report["p99_ms"] = found[len(found) * 99 // 100] / 1e6
            report["max_ms"] = found[-1] / 1e6
        return report


class Connection(asyncio.Protocol):
    """Requests of one connection; whole ones are answered 204."""

    arrivals = Arrivals()

    def connection_made(self, transport):
        self.transport = transport
        self.kept = b""

    def data_received(self, data):
        if self.kept:
            data = self.kept + data
        while data:
            head = data.find(b"\r\n\r\n")
            if head < 0:
                break
            if data[:3] == b"GET":
                self.ask(data[:head])
                data = data[head + 4 :]
                continue
            end = head + 4 + content_length(data, head)
            if len(data) < end:
                break
            self.arrived(data, head)
            data = data[end:]
        self.kept = data

    def arrived(self, data, head):
        self.count(data, head)
        self.transport.write(OK)

    def count(self, data, head):
        arrivals = Connection.arrivals
        now_ns = time.monotonic_ns()
        arrivals.ages_ns.append(now_ns - int(sent_ns(data, head)))
        if not arrivals.first_ns:
            arrivals.first_ns = now_ns
        arrivals.last_ns = now_ns

    def ask(self, head):
        if head.startswith(b"GET /reset"):
            Connection.arrivals = type(Connection.arrivals)()
        body = json.dumps(Connection.arrivals.report()).encode()
        self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


def content_length(data, head):
    """Of the body behind *head*."""
    at = data.find(b"ontent-length: ", 0, head)
    if at < 0:
        at = data.find(b"ontent-Length: ", 0, head)
    return int(data[at + 15 : data.find(b"\r", at)])


def sent_ns(data, head):
    """When the event was due, as digits."""
    at = data.find(b"e-sentns: ", 0, head)
    return data[at + 10 : data.find(b"\r", at)]


async def run(connection=Connection):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(run())
