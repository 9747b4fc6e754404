"""A server with its sinks, and what end-to-end tests do with both.

Callers: end-to-end tests. Hides: the form of an event on the wire, and waiting.
"""

from typing import Any

from distributary.cli._listen_server import Request
from kit.running_server import Answer, RunningServer, wait_until
from kit.traffic import Sink, Traffic

__all__ = ["ARRIVE_S_MAX", "World"]

ARRIVE_S_MAX = 60.0
"""Longest wait for a delivery: longer means that it never comes."""

JSON = {"content-type": "application/json"}


class World:
    """The server with its sinks; every test works with a source of its own."""

    def __init__(self, server: RunningServer, traffic: Traffic) -> None:
        self.server = server
        self.traffic = traffic

    def sink(self, name: str) -> Sink:
        """The sink called *name*."""
        return self.traffic.sinks[name]

    def subscribe(self, source: str, sink: str, **members: Any) -> str:
        """A subscription for events of *source*; its id."""
        return self.server.subscribe(self.sink(sink).url, source=source, **members)

    def publish(self, source: str, id_: str, data: bytes = b'{"a": 1}', **more: str) -> Answer:
        """One event in binary mode."""
        attributes = {"specversion": "1.0", "id": id_, "source": source, "type": "t.one", **more}
        headers = {f"ce-{name}": value for name, value in attributes.items()}
        return self.server.request("POST", "/events", data, headers | JSON)

    def requests(self, source: str, sink: str) -> list[Request]:
        """What the sink got of *source*, in the order of arrival."""
        wanted = source.encode()
        return [
            request
            for request in tuple(self.sink(sink).requests)
            if dict(request.headers).get(b"ce-source") == wanted
            or b'"source":"' + wanted in request.body.replace(b'": "', b'":"')
        ]

    def arrived(self, source: str, sink: str, count: int = 1) -> list[Request]:
        """Wait for *count* requests of *source* at *sink*."""
        wait_until(
            lambda: len(self.requests(source, sink)) >= count,
            ARRIVE_S_MAX,
            f"{count} requests of {source} at {sink}",
        )
        return self.requests(source, sink)

    def settle(self) -> None:
        """Wait until nothing is under way."""
        wait_until(self.server.settled, ARRIVE_S_MAX, "everything settles")
