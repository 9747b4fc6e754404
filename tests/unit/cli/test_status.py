"""``distributary status``: what it asks, and what it prints."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from distributary.cli import _api, _http, main
from distributary.cli._status import bars

POINT = {"accepted": 0.0, "delivered": 0.0}
OVERVIEW: dict[str, Any] = {
    "accepted": 12.25,
    "delivered": 3.5,
    "failing": 2,
    "paused": 0,
    "inFlight": 1,
    "waiting": 7,
    "deadLetters": 4,
    "latency": {"p50": 0.002, "p99": 0.02},
    "backlog": 9,
    "minutes": [POINT, POINT | {"accepted": 5.0}, POINT | {"accepted": 10.0}],
}
CLUSTER: dict[str, Any] = {
    "nodes": [
        {
            "name": "node-1",
            "address": "m1:9418",
            "version": "0.9",
            "since": "2026-11-23T10:00:00Z",
            "ageSeconds": 0.26,
            "live": True,
            "leads": True,
            "takesEvents": True,
        },
        {
            "name": "node-2",
            "address": "m2:9418",
            "version": "0.9",
            "since": "2026-11-23T10:00:00Z",
            "ageSeconds": 61.0,
            "live": False,
            "leads": False,
            "takesEvents": False,
        },
    ],
    "leases": [
        {
            "name": "control",
            "holder": "node-1",
            "generation": 3,
            "held": True,
            "leftSeconds": 5.12,
        },
        {
            "name": "lock",
            "holder": "m1\x1b[2J",
            "generation": 1,
            "held": True,
            "leftSeconds": None,
        },
        {
            "name": "partition-0000",
            "holder": "",
            "generation": 8,
            "held": False,
            "leftSeconds": -3.0,
        },
    ],
    "partitions": [
        {
            "partition": 0,
            "owner": None,
            "generation": 8,
            "position": 40,
            "end": 42,
            "lag": 2,
        },
        {
            "partition": 1,
            "owner": {"host": "m3", "pid": 77, "executor": "1"},
            "generation": 2,
            "position": 7,
            "end": None,
            "lag": None,
        },
    ],
}
EVENTS = [{"event": {"type": kind}} for kind in ("a", "a", "b\x1b[2J")] + [{"event": None}]


class Server:
    """Answers by path."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.leads = True
        self.tells = 200
        self.ready = (200, b'{"ready":true}')

    async def request(
        self, _method: str, path: str, _headers: _http.Headers = (), _body: bytes = b""
    ) -> _http.Response:
        """The overview, or events."""
        self.asked.append(path)
        if path == "/cluster":
            return _http.Response(self.tells, {}, json.dumps(CLUSTER).encode())
        if path == "/readyz":
            return _http.Response(self.ready[0], {}, self.ready[1])
        if not self.leads:
            problem = {"code": "unavailable", "title": "not now", "detail": "no node leads"}
            return _http.Response(503, {}, json.dumps(problem).encode())
        return _http.Response(
            200, {}, json.dumps(EVENTS if "/events" in path else OVERVIEW).encode()
        )

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """In place of the network."""
    made = Server()
    monkeypatch.setattr(_api, "Client", lambda _address: made)
    monkeypatch.setenv("COLUMNS", "200")
    return made


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code."""
    monkeypatch.setattr(sys, "argv", ["distributary", "status", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_numbers_trouble_the_past_and_types_are_shown(server, monkeypatch, capsys) -> None:
    """What is nothing is left out; names of events repaint no terminal."""
    assert run(monkeypatch) == 0
    assert server.asked == ["/cluster", "/status", "/readyz", "/events?limit=200"]
    out = capsys.readouterr().out
    assert out.split()[:4] == ["server", "ready", "namespace", "default"]
    assert "12.2 events/s" in out
    assert "2 subscriptions" in out
    assert "paused" not in out
    assert "delivered, last hour" not in out
    assert " ▄█  at most 10.0/s" in out
    assert " 50%  a" in out
    assert "\x1b" not in out


def test_json_has_the_answer_and_the_types(server, monkeypatch, capsys) -> None:
    """Of the namespace that is named; without types nothing else is asked."""
    assert run(monkeypatch, "--json", "-n", "shop") == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("types") == {"a": 2, "b\x1b[2J": 1, "": 1}
    assert found.pop("cluster") == CLUSTER
    assert found == OVERVIEW | {"ready": True}
    server.asked.clear()
    assert run(monkeypatch, "--json", "--no-types", "--no-cluster") == 0
    assert server.asked == ["/status", "/readyz"]
    assert json.loads(capsys.readouterr().out) == OVERVIEW | {"ready": True}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b'{"detail":"the pipeline is \\u001b[2Jstarting"}', "the pipeline is \x1b[2Jstarting"),
        (b"[]", "it answered 503"),
        (b"<p>", "it answered 503"),
    ],
)
def test_a_server_that_is_not_ready_says_why(server, monkeypatch, capsys, answer, why) -> None:
    """Before the numbers, which look calm while nothing is delivered."""
    server.ready = (503, answer)
    assert run(monkeypatch, "--no-types", "--no-cluster") == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert " ".join(first.split()) == f"server not ready: {why}".replace("\x1b", "�")
    assert run(monkeypatch, "--json", "--no-types", "--no-cluster") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ready"], found["notReady"]) == (False, why)


def test_nodes_leases_and_partitions_are_shown(server, monkeypatch, capsys) -> None:
    """Who leads, who is gone, what has run out, and what nobody delivers."""
    assert run(monkeypatch, "--no-types") == 0
    assert server.asked == ["/cluster", "/status", "/readyz"]
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "node-1 m1:9418 0.9 2026-11-23T10:00:00Z 0.3 s ago leads, takes events" in lines
    assert "node-2 m2:9418 0.9 2026-11-23T10:00:00Z 61.0 s ago gone" in lines
    assert "control 3 node-1 in 5.1 s" in lines
    assert "lock 1 m1�[2J with its holder" in lines
    assert "partition-0000 8 has run out" in lines
    assert "0 nobody 8 40 42 2" in lines
    assert "1 m3, executor 1, process 77 2 7 unknown unknown" in lines


def test_who_may_not_observe_the_server_sees_the_namespace(server, monkeypatch, capsys) -> None:
    """And an older server, which knows no such path, is shown as before."""
    server.tells = 403
    assert run(monkeypatch, "--json", "--no-types") == 0
    assert json.loads(capsys.readouterr().out) == OVERVIEW | {"ready": True}
    assert run(monkeypatch, "--no-types") == 0
    assert "node" not in capsys.readouterr().out


def test_nodes_are_shown_also_while_none_leads(server, monkeypatch, capsys) -> None:
    """What the leader alone knows is missing, and the exit code says so."""
    server.leads = False
    assert run(monkeypatch) == 1
    shown = capsys.readouterr()
    assert "node-1" in shown.out
    assert "no node leads" in shown.err


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([0.0], " "),
        ([1.0], "█"),
        ([0.001, 1.0], "▁█"),
        ([1, 2, 4, 8], "▁▂▄█"),
    ],
)
def test_bars_are_as_high_as_their_share(values, drawn) -> None:
    """Nothing is no bar; a little is a low one."""
    assert bars(values) == drawn


@pytest.mark.usefixtures("server")
def test_a_small_rate_is_not_told_as_none(monkeypatch, capsys) -> None:
    """Three deliveries in a minute are some; and one record is not records."""
    monkeypatch.setitem(OVERVIEW, "delivered", 0.0512)
    monkeypatch.setitem(OVERVIEW, "backlog", 1)
    assert run(monkeypatch) == 0
    out = capsys.readouterr().out
    assert "0.051 deliveries/s" in out
    assert "1 record\n" in out
