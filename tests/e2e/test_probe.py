"""The thread that answers questions after health, with real sockets and no server."""

import http.client
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from distributary.core.clock import SystemClock
from distributary.server.processes.supervision import probe as probing
from distributary.server.processes.supervision.probe import Probe, listen_for_health

pytestmark = pytest.mark.slow


class Asked(NamedTuple):
    """A probe that runs: its port, and an entry for each time it was told of a connection."""

    port: int
    told: list[int]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """A probe that answers two connections at a time."""
    told: list[int] = []
    accept = Probe._accept

    def count(self: Probe, *arguments: object) -> None:
        told.append(1)
        accept(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Probe, "_accept", count)
    monkeypatch.setattr(probing, "ANSWERING_MAX", 2)
    health = SimpleNamespace(
        alive=lambda: (True, []), ready=lambda: (False, ["no /srv/data"]), ingest_silent=False
    )
    main, own = socket.create_server(("127.0.0.1", 0)), listen_for_health("127.0.0.1", 0)
    assert own is not None
    port = own.getsockname()[1]
    watchdog = SimpleNamespace(look=lambda: None)
    probe = Probe(health, watchdog, SystemClock(), port=main, own=own)  # type: ignore[arg-type]
    probe.start()
    yield Asked(port, told)
    probe.stop()
    main.close()


def test_connections_beyond_the_most_wait_without_work(asked: Asked) -> None:
    """They are told of a few times a second, not as often as the processor can, and answered."""
    silent = [socket.create_connection(("127.0.0.1", asked.port)) for _ in range(2)]
    waiting = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=60)
    waiting.request("GET", "/healthz")
    assert waiting.getresponse().status == 200
    assert len(asked.told) < 200
    for each in (*silent, waiting):
        each.close()


def test_nobody_is_told_why_a_server_is_not_ready(asked: Asked) -> None:
    """Here nobody is asked who is there, and reasons name folders and hosts."""
    connection = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=60)
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    assert answer.status == 503
    assert b"/srv/data" not in answer.read()
    connection.close()
