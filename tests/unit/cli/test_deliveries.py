"""``subscriptions status|resume`` and ``dead-letters``: what they print, and how they end."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distributary.cli import _dead_letters, _http, _subscribe, main

ID = "0b9f0c3e-6c5a-4f6e-9a54-0c1d2e3f4a5b"
SINK = "http://orders.warehouse.example.com:9000/a/rather/long/path/of/a/sink"
STATUS = {
    "id": ID,
    "route": "r",
    "state": "failing",
    "waiting": 7,
    "lagging": False,
    "kept": {"count": 3, "bytes": 900},
    "lastError": {"reason": "status", "sink": SINK},
}
LETTER = {
    "id": "0-1",
    "route": "r",
    "subscription": ID,
    "kept": "2026-01-01T00:00:00.000+00:00",
    "reason": "status",
    "sink": SINK,
    "event": {"specversion": "1.0", "id": "e1", "type": "com.example.order", "source": "/s"},
}
RUN = {"run": "x", "kind": "redrive", "asked": "2026-01-01T00:00:00.000+00:00"}


class Server:
    """Answers by method and path, each time with the next; knows what was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, list[_http.Response]] = {}
        self.asked: list[tuple[str, bytes]] = []

    def says(self, asked: str, body: Any, status: int = 200, **headers: str) -> None:
        """To *asked*, such as ``GET /x``, once."""
        answer = _http.Response(status, headers, json.dumps(body).encode())
        self.answers.setdefault(asked, []).append(answer)

    def client(self, _address: _http.Address) -> "Server":
        """The client, which is the server itself."""
        return self

    async def request(
        self, method: str, path: str, _headers: _http.Headers = (), body: bytes = b""
    ) -> _http.Response:
        """The next answer."""
        self.asked.append((f"{method} {path}", body))
        return self.answers[f"{method} {path}"].pop(0)

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """In place of the network; a terminal of 80 columns, and no waits."""
    made = Server()
    monkeypatch.setattr(_subscribe, "Client", made.client)
    monkeypatch.setattr(_dead_letters, "LOOK_EVERY_S", 0)
    monkeypatch.setenv("COLUMNS", "80")
    yield made
    assert not any(made.answers.values())


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run a command: exit code, standard output, standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["distributary", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return run


def test_the_status_of_all_shows_whole_ids(server, run) -> None:
    """They are copied into other commands, however long the sinks are."""
    server.says("GET /subscriptions", [{"id": ID}])
    server.says(f"GET /subscriptions/{ID}/status", STATUS)
    code, out, _ = run("subscriptions", "status")
    assert code == 0
    assert out.split()[:6] == ["id", "state", "waiting", "kept", "last", "error"]
    assert out.splitlines()[1].split()[:4] == [ID, "failing", "7", "3"]


def test_the_status_of_one_and_of_all_as_json(server, run) -> None:
    """One is printed as the server says it; all are JSON lines."""
    for _ in range(2):
        server.says(f"GET /subscriptions/{ID}/status", STATUS)
    server.says("GET /subscriptions", [{"id": ID}])
    assert json.loads(run("subscriptions", "status", ID)[1]) == STATUS
    code, out, _ = run("subscriptions", "status", "--json")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, [STATUS])


def test_one_that_is_deleted_meanwhile_is_passed_over(server, run) -> None:
    """The others are shown all the same."""
    server.says("GET /subscriptions", [{"id": "gone"}, {"id": ID}])
    server.says("GET /subscriptions/gone/status", {"detail": "there is none"}, 404)
    server.says(f"GET /subscriptions/{ID}/status", STATUS)
    code, out, err = run("subscriptions", "status", "--json")
    assert (code, json.loads(out), err) == (0, STATUS, "")


def test_without_subscriptions_the_status_says_so(server, run) -> None:
    """Not an empty table."""
    server.says("GET /subscriptions", [])
    assert run("subscriptions", "status")[:2] == (0, "no subscriptions\n")


def test_resume_says_what_it_did(server, run) -> None:
    """Or why not, with exit code 1."""
    server.says("POST /subscriptions/orders/resume", {"run": "x"}, 202)
    assert run("subscriptions", "resume", "orders") == (0, "resumed orders\n", "")
    server.says("POST /subscriptions/gone/resume", {"detail": "there is none"}, 404)
    code, out, err = run("subscriptions", "resume", "gone")
    assert (code, out) == (1, "")
    assert "404 there is none" in err


@pytest.mark.parametrize(
    ("status", "dropped"),
    [
        ({}, "; dropped with it: about 7 waiting events, about 3 kept dead letters"),
        ({"waiting": 0}, "; dropped with it: about 3 kept dead letters"),
        (
            {"waiting": 1200, "kept": {"count": 0, "bytes": 0}, "lagging": True},
            "; dropped with it: about 1,200 waiting events, events that it had still to read",
        ),
        ({"waiting": 0, "kept": {"count": 0, "bytes": 0}}, ""),
    ],
)
def test_a_deletion_says_what_is_dropped_with_it(server, run, status, dropped) -> None:
    """About how much: it is asked before, and events come and go meanwhile."""
    server.says("GET /subscriptions/orders/status", {**STATUS, **status})
    server.says("DELETE /subscriptions/orders", {"id": "orders"})
    assert run("subscriptions", "delete", "orders") == (0, f"deleted orders{dropped}\n", "")


def test_what_cannot_be_asked_how_it_stands_is_deleted_all_the_same(server, run) -> None:
    """The store of the deliveries may be busy; a proxy may say anything."""
    for answer, status in (({"detail": "the store is busy"}, 503), ("<html>", 200)):
        server.says("GET /subscriptions/orders/status", answer, status)
        server.says("DELETE /subscriptions/orders", {"id": "orders"})
        assert run("subscriptions", "delete", "orders") == (0, "deleted orders\n", "")


def test_the_list_of_dead_letters_goes_on_to_the_last_part(server, run) -> None:
    """As JSON lines, each whole; and as a table from which nothing is cut."""
    parts = ("/dead-letters?limit=100&subscription=a", "/dead-letters?limit=100&cursor=0-1")
    for _ in range(2):
        server.says(f"GET {parts[0]}", [LETTER], link=f'<{parts[1]}>; rel="next"')
        server.says(f"GET {parts[1]}", [LETTER])
    code, out, _ = run("dead-letters", "list", "--subscription", "a", "--json")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, [LETTER, LETTER])
    code, out, _ = run("dead-letters", "list", "--subscription", "a")
    assert (code, "\N{HORIZONTAL ELLIPSIS}" in out) == (0, False)


def test_without_dead_letters_the_list_says_so(server, run) -> None:
    """Not an empty table."""
    server.says("GET /dead-letters?limit=100", [])
    assert run("dead-letters", "list")[:2] == (0, "no dead letters are kept\n")


@pytest.mark.parametrize(
    ("kind", "passed", "told"),
    [
        ("redrive", 0, "sent again: 4 (run x)"),
        ("redrive", 2, "sent again: 4, 2 left: filters do not match them (run x)"),
        ("purge", 0, "deleted: 4 (run x)"),
    ],
)
def test_a_run_is_waited_for(server, run, kind: str, passed: int, told: str) -> None:
    """Its counts are shown once it is over."""
    server.says(f"POST /dead-letters/{kind}", {"run": "x"}, 202)
    server.says("GET /dead-letters/runs/x", RUN | {"state": "running", "handled": 1, "passed": 0})
    done = {"state": "done", "handled": 4, "passed": passed}
    server.says("GET /dead-letters/runs/x", RUN | done)
    code, out, _ = run("dead-letters", kind, "--route", "r")
    assert (code, out) == (0, f"{told}\n")
    assert server.asked[0][1] == b'{"route":"r"}'


@pytest.mark.parametrize("words", [(), ("--all", "--route", "r"), ("--subscription", "a", "--all")])
def test_a_run_is_for_one_selection(server, run, words: tuple[str, ...]) -> None:
    """Exit code 2, and nothing is asked."""
    code, _, err = run("dead-letters", "purge", *words)
    assert (code, server.asked) == (2, [])
    assert "one of --subscription ID, --route UID and --all" in err


def test_nothing_is_replaced_without_an_id(server, run) -> None:
    """Or each run would make one subscription more."""
    code, _, err = run("subscribe", "--sink", SINK, "--replace")
    assert (code, server.asked) == (2, [])
    assert "--id" in err
