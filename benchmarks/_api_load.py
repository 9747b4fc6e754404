"""Clients of the Subscriptions API, in a process of their own.

    python benchmarks/_api_load.py PORT create|read|update|delete --count 2000 --connections 16
    python benchmarks/_api_load.py PORT page --limit 100 --count 50
    python benchmarks/_api_load.py PORT stream

Each client sends its next request when the last was answered, over one kept connection. ``page``
asks for the first, a middle and the last part of the list in turn. ``stream`` reads the whole list
while other clients read single subscriptions: it tells what the list does to them. Prints one JSON
object.
"""

import argparse
import asyncio
import base64
import json
import time

import uvloop

PROPOSAL = json.dumps(
    {
        "sink": "http://127.0.0.1:9/sink",
        "protocol": "HTTP",
        "filters": [{"all": [{"exact": {"type": "com.example.a"}}, {"prefix": {"source": "/s"}}]}],
        "protocolsettings": {"delivery": {"retry": 3}},
    }
).encode()

METHODS = {"create": "PUT", "read": "GET", "update": "PUT", "delete": "DELETE"}
STATUSES = {"create": 201, "read": 200, "update": 200, "delete": 200}
OTHERS = 4
"""Clients that read single subscriptions beside a stream."""


class Client:
    """One kept connection."""

    async def open(self, port):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        return self

    async def ask(self, method, path, body=b""):
        """Status, body, and the seconds that the answer took."""
        began_s = time.perf_counter()
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        if body:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        lines = answer.lower().split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in lines[1:] if line)
        if b"content-length" in fields:
            got = await self.reader.readexactly(int(fields[b"content-length"]))
        else:
            got = await self._chunks()
        return int(lines[0].split()[1]), got, time.perf_counter() - began_s

    async def _chunks(self):
        pieces = []
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            pieces.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
            if not size:
                return b"".join(pieces)


def named(number):
    return f"/subscriptions/bench-{number:07d}"


async def each(options):
    """Every subscription once, by all clients together."""
    numbers = iter(range(options.count))
    took, body = [], PROPOSAL if METHODS[options.mode] == "PUT" else b""

    async def run():
        client = await Client().open(options.port)
        for number in numbers:
            status, answer, seconds = await client.ask(METHODS[options.mode], named(number), body)
            assert status == STATUSES[options.mode], answer
            took.append(seconds)

    began_s = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(options.connections)))
    return {"rate": options.count / (time.perf_counter() - began_s)} | quantiles(took)


async def page(options):
    """Parts of the list from its beginning, its middle and its end."""
    client = await Client().open(options.port)
    status, answer, _ = await client.ask("GET", "/subscriptions")
    ids = [found["id"] for found in json.loads(answer)]
    assert status == 200
    assert len(ids) > options.limit
    took = []
    for number in range(options.count):
        place = (None, len(ids) // 2, len(ids) - options.limit - 1)[number % 3]
        path = f"/subscriptions?limit={options.limit}"
        if place is not None:
            path += f"&cursor={base64.urlsafe_b64encode(ids[place].encode()).decode().rstrip('=')}"
        status, answer, seconds = await client.ask("GET", path)
        assert (status, len(json.loads(answer))) == (200, options.limit), answer[:300]
        took.append(seconds)
    return {"total": len(ids)} | quantiles(took)


async def stream(options):
    """The whole list, and how long single reads take meanwhile."""
    client = await Client().open(options.port)
    took, over = [], asyncio.Event()

    async def read():
        other = await Client().open(options.port)
        while not over.is_set():
            status, answer, seconds = await other.ask("GET", named(0))
            assert status == 200, answer
            took.append(seconds)
            await asyncio.sleep(0.002)

    readers = [asyncio.create_task(read()) for _ in range(OTHERS)]
    await asyncio.sleep(0.2)
    took.clear()
    status, answer, seconds = await client.ask("GET", "/subscriptions")
    over.set()
    await asyncio.gather(*readers)
    assert status == 200
    total, size = len(json.loads(answer)), len(answer)
    return {"total": total, "bytes": size, "seconds": seconds} | quantiles(took)


def quantiles(took):
    found = sorted(took)
    return {
        "p50_ms": 1e3 * found[len(found) // 2],
        "p99_ms": 1e3 * found[len(found) * 99 // 100],
        "max_ms": 1e3 * found[-1],
    }


MODES = {"page": page, "stream": stream}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("mode", choices=(*METHODS, *MODES))
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--limit", type=int, default=100)
    options = parser.parse_args()
    print(json.dumps(uvloop.run(MODES.get(options.mode, each)(options))), flush=True)


if __name__ == "__main__":
    main()
