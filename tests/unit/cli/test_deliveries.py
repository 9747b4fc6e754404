"""``subscriptions status|resume`` and ``dead-letters``: what they print, and how they end."""

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distributary.cli import _api, _http, _runs, main

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
    monkeypatch.setattr(_api, "Client", made.client)
    monkeypatch.setattr(_runs, "LOOK_EVERY_S", 0)
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
    assert out.split()[:6] == ["id", "state", "waiting", "delivered", "dead", "why"]
    assert out.splitlines()[1].split()[:5] == [ID, "failing", "7", "-", "3"]


def test_the_status_says_why_a_sink_has_not_consented(server, run) -> None:
    """Whatever failed before; the list alone tells it, however many wait."""
    waits = {"sink": "http://s/", "state": "refused", "reason": "no-header", "next": "2026-01-02"}
    short = {"state": "awaiting-consent", "failing": {"reason": "timeout", "sink": "x"}}
    short |= {"consent": [{"sink": "x", "state": "given"}, waits]}
    server.says("GET /subscriptions", [{"id": id_, "status": short} for id_ in ("a", "b")])
    words = run("subscriptions", "status")[1].split()
    assert (words.count("awaiting-consent"), words.count("no-header")) == (2, 2)
    assert "timeout" not in words
    server.says(f"GET /subscriptions/{ID}/status", STATUS | short)
    told = "consent refused: no-header at http://s/; asked again 2026-01-02"
    assert told in " ".join(run("subscriptions", "status", ID)[1].split())


def test_the_status_of_one_and_of_all_as_json(server, run) -> None:
    """One is printed as the server says it; all are JSON lines, each whole."""
    for _ in range(2):
        server.says(f"GET /subscriptions/{ID}/status", STATUS)
    server.says("GET /subscriptions", [{"id": ID}])
    assert json.loads(run("subscriptions", "status", ID, "--json")[1]) == STATUS
    code, out, _ = run("subscriptions", "status", "--json")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, [STATUS])


def test_the_list_may_hold_the_statuses(server, run) -> None:
    """Then one request is enough."""
    short = {"state": "paused", "waiting": 2, "delivered": 9, "deadLettered": 1, "failing": None}
    server.says("GET /subscriptions", [{"id": ID, "status": short}])
    _, out, _ = run("subscriptions", "status")
    assert out.splitlines()[1].split() == [ID, "paused", "2", "9", "1"]


def test_the_list_says_who_has_stopped_what_and_why(server, run) -> None:
    """A disabled one has a reason, which counts more than what failed before."""
    numbers = {"waiting": 0, "delivered": 1, "deadLettered": 1, "failing": {"reason": "timeout"}}
    disabled = {"since": "2026-01-01", "by": "ann", "reason": "it floods us"}
    paused = {"since": "2026-01-01", "by": "bob"}
    rows = [
        {"id": "a", "status": numbers | {"state": "disabled", "disabled": disabled}},
        {"id": "b", "status": numbers | {"state": "paused", "failing": None, "paused": paused}},
    ]
    server.says("GET /subscriptions", rows)
    lines = run("subscriptions", "status")[1].splitlines()
    assert [line.split(maxsplit=5)[5].strip() for line in lines[1:]] == ["it floods us", "by bob"]


def test_the_list_and_the_statuses_may_be_of_one_state(server, run) -> None:
    """The server chooses; with an id there is nothing to choose."""
    row = {"id": ID, "sink": "http://s/", "status": {"state": "failing"}}
    for _ in range(2):
        server.says("GET /subscriptions?state=failing", [row])
    assert run("subscriptions", "list", "--state", "failing")[1].splitlines()[1].split()[:2] == [
        ID,
        "failing",
    ]
    assert ID in run("subscriptions", "status", "--state", "failing")[1]
    server.says("GET /subscriptions?state=no%20%26", {"detail": "unknown state"}, 400)
    assert run("subscriptions", "list", "--state", "no &")[0] == 1
    assert run("subscriptions", "status", ID, "--state", "failing")[0] == 2


def test_the_status_of_one_is_told_in_lines(server, run) -> None:
    """Members that the server does not know are left out."""
    whole = STATUS | {
        "revision": 3,
        "failing": {"since": "2026-01-01T00:00:00Z", "count": 34, "reason": "timeout", "sink": "x"},
        "lastSuccess": "2025-12-31T00:00:00Z",
        "inFlight": 2,
        "delivered": 12_345,
        "deadLettered": 0,
        "dropped": 1,
        "rate": 1.5,
        "paused": {"since": "2026-01-02T00:00:00Z", "by": "anna"},
        "backfill": {"position": [], "distance": 1_000},
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Failing", "message": "it fails"}
        ],
    }
    server.says(f"GET /subscriptions/{ID}/status", whole)
    code, out, _ = run("subscriptions", "status", ID)
    told = dict(line.split("  ", 1) for line in out.splitlines())
    assert code == 0
    assert {name.strip(): text.strip() for name, text in told.items()} == {
        "id": ID,
        "state": "failing",
        "route": "r",
        "revision": "3",
        "failing": "since 2026-01-01T00:00:00Z: timeout at x (34 attempts)",
        "last success": "2025-12-31T00:00:00Z",
        "paused": "since 2026-01-02T00:00:00Z by anna",
        "waiting": "7",
        "in flight": "2",
        "delivered": "12,345",
        "dead-lettered": "0",
        "dropped": "1",
        "rate": "1.5 deliveries a second",
        "dead letters kept": "3, 900 bytes",
        "behind in the log": "1,000 records",
        "Ready": "False Failing it fails",
    }
    server.says(f"GET /subscriptions/{ID}/status", {"id": ID, "state": "ready"})
    assert run("subscriptions", "status", ID)[1].split() == ["id", ID, "state", "ready"]


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


def test_rotate_prints_the_new_secret_and_asks_for_an_overlap(server, run) -> None:
    """The server decides what it may be; the default is a day."""
    rotated = {"id": "orders", "protocolsettings": {"signature": {"secret": "whsec_x"}}}
    path = "/subscriptions/orders/signature/rotate"
    for words, body in (
        ((), {"overlap": "P1D"}),
        (("--overlap", "0s", "--scheme", "v1a"), {"overlap": "PT0S", "scheme": "v1a"}),
        (("--overlap", "90m"), {"overlap": "PT1H30M"}),
    ):
        server.says(f"POST {path}", rotated)
        code, out, _ = run("subscriptions", "rotate", "orders", *words)
        assert (code, json.loads(out)) == (0, rotated)
        assert json.loads(server.asked[-1][1]) == body
    server.says(f"POST {path}", {"title": "x", "detail": "not signed"}, 400)
    code, out, err = run("subscriptions", "rotate", "orders")
    assert (code, out) == (1, "")
    assert "not signed" in err


@pytest.mark.parametrize(
    ("status", "dropped"),
    [
        ({}, "; dropped with it: about 7 waiting events, about 3 kept dead letters"),
        ({"waiting": 0}, "; dropped with it: about 3 kept dead letters"),
        ({"waiting": 1}, "; dropped with it: about 1 waiting event, about 3 kept dead letters"),
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


class Terminal(io.StringIO):
    """Somebody types."""

    def isatty(self) -> bool:
        """A terminal."""
        return True


@pytest.mark.parametrize(
    "asked",
    [
        (("a",), "y\n", ["a"]),
        (("a",), "\n", []),
        (("a", "b", "empty"), "n\ny\n", ["b", "empty"]),
        (("--yes", "a"), "", ["a"]),
    ],
)
def test_a_deletion_on_a_terminal_asks_where_something_waits(
    server, run, monkeypatch, asked
) -> None:
    """No is the default; the others go on, and the exit code tells."""
    words, typed, gone = asked
    empty = {"waiting": 0, "kept": {"count": 0, "bytes": 0}}
    names = [word for word in words if not word.startswith("-")]
    for name in names:
        status = STATUS | (empty if name == "empty" else {})
        server.says(f"GET /subscriptions/{name}/status", status)
    for name in gone:
        server.says(f"DELETE /subscriptions/{name}", {"id": name})
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    code, out, err = run("subscriptions", "delete", *words)
    assert re.findall(r"deleted (\w+)", out) == gone
    assert code == (gone != names)
    assert ("about 7 waiting events" in err) == bool(typed)


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
        ("redrive", 2, "sent again: 4, 2 left: filtered, paused, or waiting already (run x)"),
        ("purge", 0, "deleted: 4 (run x)"),
    ],
)
def test_a_run_is_waited_for(server, run, kind: str, passed: int, told: str) -> None:
    """Its counts are shown once it is over."""
    server.says(f"POST /dead-letters/{kind}", {"run": "x"}, 202)
    server.says("GET /runs/x", RUN | {"state": "running", "handled": 1, "passed": 0})
    done = {"state": "done", "handled": 4, "passed": passed}
    server.says("GET /runs/x", RUN | done)
    code, out, _ = run("dead-letters", kind, "--route", "r")
    assert (code, out) == (0, f"{told}\n")
    assert server.asked[0][1] == b'{"route":"r"}'


@pytest.mark.parametrize("words", [(), ("--all", "--route", "r"), ("--subscription", "a", "--all")])
def test_a_run_is_for_one_selection(server, run, words: tuple[str, ...]) -> None:
    """Exit code 2, and nothing is asked."""
    code, _, err = run("dead-letters", "purge", *words)
    assert (code, server.asked) == (2, [])
    assert "one of --subscription ID, --route UID, --all, or ids" in err


def test_nothing_is_replaced_without_an_id(server, run) -> None:
    """Or each run would make one subscription more."""
    code, _, err = run("subscribe", "--sink", SINK, "--replace")
    assert (code, server.asked) == (2, [])
    assert "--id" in err


@pytest.mark.parametrize(
    ("words", "done"),
    [("pause", "paused"), ("enable", "enabled"), ("resume", "resumed"), ("disable", "disabled")],
)
def test_deliveries_are_set_by_one_word(server, run, words: str, done: str) -> None:
    """And it is told."""
    server.says(f"POST /namespaces/shop/subscriptions/a/{words}", {})
    assert run("subscriptions", words, "a", "-n", "shop") == (0, f"{done} a\n", "")


def test_a_reason_goes_along_where_a_subscription_is_disabled(server, run) -> None:
    """For whoever asks why nothing comes."""
    server.says("POST /subscriptions/a/disable", {})
    assert run("subscriptions", "disable", "a", "--reason", "it floods us")[0] == 0
    assert json.loads(server.asked[0][1]) == {"reason": "it floods us"}


def test_a_replay_is_asked_for_with_all_that_was_said(server, run) -> None:
    """Its end tells how many, and what is missing."""
    server.says("POST /subscriptions/a/replay", {"run": "x"}, 202)
    done = {"state": "done", "handled": 4, "passed": 0, "dryRun": True, "oldest": "2026-01-02"}
    done["missing"] = [{"partition": 1, "from": 7, "to": 10, "records": 2}]
    waits = {"state": "running", "waitsFor": "the archive cannot be read"}
    server.says("GET /runs/x", RUN | waits)
    server.says("GET /runs/x", RUN | done)
    words = ["subscriptions", "replay", "a", "--from", "2026-01-01", "--rate", "50", "--dry-run"]
    words += ["--filter", '{"exact": {"type": "t"}}', "--to", "2026-01-03T00:00:00Z"]
    code, out, err = run(*words, "--run", "x")
    assert (code, err) == (0, "waits: the archive cannot be read\n")
    told = (
        "would be sent again: 4, the log begins at 2026-01-02: what came before is gone, missing of"
        " partition 1, between 7 and 9: 2 records (run x)"
    )
    assert out.replace("\n", " ").strip() == told
    assert json.loads(server.asked[0][1]) == {
        "filters": [{"exact": {"type": "t"}}],
        "rateLimit": 50.0,
        "dryRun": True,
        "run": "x",
        "from": "2026-01-01T00:00:00Z",
        "to": "2026-01-03T00:00:00Z",
    }


def test_who_does_not_wait_gets_the_name_of_the_run(server, run) -> None:
    """For a script that looks later."""
    server.says("POST /subscriptions/a/retry", {"run": "x"}, 202)
    assert run("subscriptions", "retry", "a", "--no-wait") == (0, "x\n", "")


def test_a_filter_that_is_no_json_is_refused(server, run) -> None:
    """Before anything is asked."""
    code, _, err = run("dead-letters", "redrive", "--all", "--filter", "{")
    assert (code, server.asked) == (2, [])
    assert "--filter: not JSON" in err


def test_dead_letters_are_redriven_by_id(server, run) -> None:
    """A cancelled run says so."""
    server.says("POST /dead-letters/redrive", {"run": "x"}, 202)
    server.says("GET /runs/x", RUN | {"state": "cancelled", "handled": 1, "passed": 0})
    code, out, _ = run("dead-letters", "redrive", "0-1", "0-2")
    assert (code, out) == (0, "sent again: 1, cancelled (run x)\n")
    assert json.loads(server.asked[0][1]) == {"ids": ["0-1", "0-2"]}


def test_a_run_that_ends_early_fails_and_says_why(server, run) -> None:
    """What was asked for has not been done."""
    server.says("POST /subscriptions/a/replay", {"run": "x"}, 202)
    state = {"state": "ended-early", "reason": "it was deleted", "handled": 7, "passed": 0}
    server.says("GET /runs/x", RUN | state)
    code, out, _ = run("subscriptions", "replay", "a", "--from", "2026-01-01")
    assert (code, out) == (1, "sent again: 7, ended early: it was deleted (run x)\n")


def test_an_id_of_no_dead_letter_is_told(server, run) -> None:
    """A number that was typed wrong must not pass for one that was sent."""
    server.says("POST /dead-letters/redrive", {"run": "x"}, 202)
    state = {"state": "done", "handled": 1, "passed": 0, "looked": 1, "ids": ["0-1", "0-999"]}
    server.says("GET /runs/x", RUN | state)
    code, out, _ = run("dead-letters", "redrive", "0-1", "0-999")
    told = "sent again: 1, no kept dead letter has 1 of 2 ids (run x)\n"
    assert (code, out) == (1, told)


def test_one_dead_letter_is_shown_as_the_server_has_it(server, run) -> None:
    """With its event."""
    server.says("GET /dead-letters/0-1", LETTER)
    assert json.loads(run("dead-letters", "show", "0-1")[1]) == LETTER


def test_one_fault_is_told_once_and_several_in_a_table(server, run) -> None:
    """The headline has the first."""
    faults = [{"path": "state", "message": "expected one of a, b"}, {"path": "k", "message": "no"}]
    detail = "state: expected one of a, b"
    server.says("GET /runs?limit=100&state=x", {"detail": detail, "faults": faults[:1]}, 400)
    assert run("runs", "list", "--state", "x") == (1, "", f"400 {detail}\n")
    more = {"detail": f"{detail} (and 1 more)", "faults": faults}
    server.says("GET /runs?limit=100&state=x", more, 400)
    assert run("runs", "list", "--state", "x")[2].count("expected one of a, b") == 2


def test_runs_are_listed_shown_and_cancelled(server, run) -> None:
    """Each whole where JSON is asked for."""
    state = RUN | {"state": "running", "handled": 1, "passed": 0, "dryRun": False, "by": "anna"}
    some = state | {"ids": ["0-1", "0-2"]}
    server.says("GET /runs?limit=100&kind=redrive&state=running", [state, some])
    server.says("GET /runs/x", state)
    server.says("POST /runs/x/cancel", state | {"state": "cancelling"}, 202)
    _, out, _ = run("runs", "list", "--kind", "redrive", "--state", "running")
    assert out.splitlines()[1].split()[:4] == ["x", "redrive", "all", "running"]
    assert "2 ids" in out
    assert json.loads(run("runs", "show", "x")[1]) == state
    assert run("runs", "cancel", "x")[1] == "cancelling: x\n"


def test_names_of_runs_are_quoted_in_paths(server, run) -> None:
    """Whatever somebody types stays one name, and reaches no other path."""
    server.says("GET /runs?limit=100&subscription=a%26kind%3Dpurge", [])
    server.says("GET /runs/..%2Fkeys", RUN)
    assert run("runs", "list", "--subscription", "a&kind=purge")[:2] == (0, "no runs\n")
    assert run("runs", "show", "../keys")[0] == 0


def test_who_stops_waiting_is_told_the_run(server, run, monkeypatch) -> None:
    """It goes on, and can be cancelled."""
    server.says("POST /dead-letters/redrive", RUN)

    def interrupted(*_said: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_runs, "_ended", interrupted)
    code, _, err = run("dead-letters", "redrive", "--all")
    assert code == 130
    assert "The run x goes on" in err
