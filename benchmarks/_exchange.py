"""The bare exchange: a POST of 1 KB over a kept connection, httptools on uvloop at both ends.

    python benchmarks/_exchange.py [SECONDS]

Its rate and its CPU are the unit of rates and CPU times: the unit moves with the machine, as the
figures do. Client and server have a process each, which share the machine. The request is an event
of the load generator. Either end takes from the parser what a program needs (target, headers, body,
status) and does nothing with it. Prints one JSON object: exchanges a second, and microseconds of
CPU an exchange, both ends together.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import time

import httptools
import psutil
import uvloop

from _load import HEAD, TAIL

REQUEST = HEAD % b"/events" % 1234567 + b"123456789012345" + TAIL
ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
CONNECTIONS = 64
"""As many as the load generator has."""

WARM_UP_S = 0.5


class End(asyncio.Protocol):
    """One end of a connection: writes its own message when the other's is complete."""

    def __init__(self, parser, message):
        self._parser = parser(self)
        self._message = message
        self.count = 0

    def connection_made(self, transport):
        self.write = transport.write

    def data_received(self, data):
        self._parser.feed_data(data)

    def on_message_begin(self):
        self.headers, self.body = {}, b""

    def on_url(self, url):
        self.url = url

    def on_status(self, status):
        self.status = status

    def on_header(self, name, value):
        self.headers[name.lower()] = value

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.count += 1
        self.write(self._message)


async def answer():
    """Print the port, then answer until this process is killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: End(httptools.HttpRequestParser, ANSWER), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def send(port, seconds, server=None, connections=CONNECTIONS):
    """Rate, and CPU of this process and of *server*, over so many seconds."""
    loop, ends = asyncio.get_running_loop(), []
    for _ in range(connections):
        _, end = await loop.create_connection(
            lambda: End(httptools.HttpResponseParser, REQUEST), "127.0.0.1", port
        )
        ends.append(end)
    for end in ends:
        end.write(REQUEST)

    def look():
        answered_s = 0.0 if server is None else sum(server.cpu_times()[:2])
        count = sum(end.count for end in ends)
        return count, time.monotonic(), time.process_time(), answered_s

    await asyncio.sleep(WARM_UP_S)
    before = look()
    await asyncio.sleep(seconds)
    count, took_s, sent_s, answered_s = (
        after - earlier for after, earlier in zip(look(), before, strict=True)
    )
    return {"rate": count / took_s, "cpu_us": (sent_s + answered_s) / count * 1e6}


def measure(seconds):
    """What this program prints, run in processes of its own."""
    command = [sys.executable, __file__, str(seconds)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def crowd_us(clients, seconds):
    """CPU of one of so many clients an exchange, in microseconds.

    They share a server and the connections. Each is a process, as owners are: what it costs more
    than a single one is what processes cost each other on this machine.
    """
    with answering() as (port, _):
        words = ["send", str(port), str(seconds), str(max(1, CONNECTIONS // clients))]
        running = [
            subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE)
            for _ in range(clients)
        ]
        found = [json.loads(each.communicate()[0]) for each in running]
    rate = sum(each["rate"] for each in found)
    return sum(each["rate"] * each["cpu_us"] for each in found) / rate


@contextlib.contextmanager
def answering():
    """The port of a server, and its process."""
    with subprocess.Popen([sys.executable, __file__, "answer"], stdout=subprocess.PIPE) as server:
        try:
            yield int(server.stdout.readline()), psutil.Process(server.pid)
        finally:
            server.kill()


def main():
    match sys.argv[1:]:
        case ["answer"]:
            uvloop.run(answer())
        case ["send", port, seconds, connections]:
            found = uvloop.run(send(int(port), float(seconds), connections=int(connections)))
            print(json.dumps(found))
        case words:
            with answering() as (port, server):
                print(json.dumps(uvloop.run(send(port, float([*words, 3.0][0]), server))))


if __name__ == "__main__":
    main()
