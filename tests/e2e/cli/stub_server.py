"""A program that speaks the part of the HTTP API that the demo uses; no log, no Spark.

Usage: ``stub_server.py PORT [FAULT]``. FAULT plants a defect: ``lose`` (one event in ten goes
nowhere), ``double`` (every delivery is made twice), ``stuck`` (never ready).
"""

import asyncio
import contextlib
import signal
import sys
from typing import Any

import msgspec

from distributary.cli._http import Client, parse_address
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.filter import naive_matches
from distributary.net.http1 import RequestReader
from distributary.protocols.http import binding as event_http

BODY_BYTES_MAX = 1024 * 1024
FAULT = sys.argv[2] if len(sys.argv) > 2 else ""
subscriptions: list[dict[str, Any]] = []
tasks: set[asyncio.Task[None]] = set()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection."""
    requests = RequestReader(lambda _: None, BODY_BYTES_MAX, lambda _, size: size, {})
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(BODY_BYTES_MAX):
            requests.receive(data)
            while (came := requests.next_request()) is not None:
                method, path = came.method.decode(), came.path.decode()
                status, answered = handle(method, path, came.fields, came.body)
                head = f"HTTP/1.1 {status} x\r\ncontent-length: {len(answered)}\r\n\r\n"
                writer.write(head.encode() + answered)
            await writer.drain()
    writer.close()


def handle(method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> Any:
    """One request."""
    if (method, path) == ("GET", "/readyz"):
        return (503 if FAULT == "stuck" else 200), b""
    if (method, path) == ("POST", "/subscriptions"):
        subscriptions.append(msgspec.json.decode(body))
        return 201, body
    assert (method, path) == ("POST", "/events")
    for event in event_http.decode(headers, body):
        for subscription in subscriptions:
            if naive_matches(subscription["filters"], event.attributes):
                start(event, subscription)
    return 202, b""


def start(event: Event, subscription: dict[str, Any]) -> None:
    """Begin the delivery of one match."""
    if FAULT == "lose" and str(event.attributes["id"]).endswith("7"):
        return
    for _ in range(2 if FAULT == "double" else 1):
        task = asyncio.ensure_future(deliver(event, subscription))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def deliver(event: Event, subscription: dict[str, Any]) -> None:
    """Send until it is taken, or refused for good."""
    while True:
        status = await post(event, subscription["sink"])
        if status != 503:
            break
        await asyncio.sleep(0.05)
    delivery = subscription["protocolsettings"]["delivery"]
    if status >= 400 and "deadLetterSink" in delivery:
        added = {"knativeerrordest": subscription["sink"], "knativeerrorcode": str(status)}
        await post(Event({**event.attributes, **added}, event.data), delivery["deadLetterSink"])


async def post(event: Event, sink: str) -> int:
    """One attempt."""
    client = Client(parse_address(sink))
    lines, body = event_http.encode_binary(event)
    try:
        return (await client.request_raw("POST", "", lines, body)).status
    except TransportError:
        return 503
    finally:
        client.close()


async def main() -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1])):
        await stopped.wait()


asyncio.run(main())
