"""``events find|show|tail``: what they ask, what they print, and how they end."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distributary.cli import _api, _events, _http, main


def event(number: int, **attributes: Any) -> dict[str, Any]:
    """An item of the list."""
    given = {"specversion": "1.0", "id": f"e{number}", "source": "/s", "type": "t"} | attributes
    return {
        "position": f"0-{number}-0",
        "time": f"2026-01-01T00:00:{number:02}.000+00:00",
        "by": None,
        "address": "/events",
        "event": given,
    }


WAY = event(7, data="hello") | {
    "attempts": "failures",
    "more": True,
    "matches": [
        {
            "uid": "u1",
            "subscription": "orders",
            "revision": 2,
            "matched": True,
            "outcome": "dead-lettered",
            "reason": "status",
            "attempts": [
                {
                    "time": "2026-01-01T00:00:08.000+00:00",
                    "stage": "event",
                    "attempt": 1,
                    "duration": 0.25,
                    "status": 503,
                    "decision": "retry",
                    "reason": "status",
                    "answer": "no \x1b[2Jroom [red]",
                }
            ],
        },
        {
            "uid": "u2",
            "trigger": "t2",
            "revision": 1,
            "matched": False,
            "why": [{"path": "$.types", "reason": "type 't' is none of its types"}],
            "changed": True,
            "outcome": None,
            "attempts": [],
        },
        {"uid": "u3", "revision": 1, "matched": True, "outcome": None, "attempts": []},
        {
            "uid": "u4",
            "subscription": "gone",
            "revision": 1,
            "matched": True,
            "deleted": True,
            "outcome": "delivered",
            "attempts": [],
        },
    ],
}


class Server:
    """Answers request after request, and knows what was asked."""

    def __init__(self) -> None:
        self.answers: list[_http.Response] = []
        self.asked: list[str] = []

    def says(self, body: Any, status: int = 200, **headers: str) -> None:
        """Next."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append(_http.Response(status, named, json.dumps(body).encode()))

    def client(self, _address: _http.Address) -> "Server":
        """The client, which is the server itself."""
        return self

    async def request(
        self, method: str, path: str, _headers: _http.Headers = (), _body: bytes = b""
    ) -> _http.Response:
        """The next answer."""
        self.asked.append(f"{method} {path}")
        return self.answers.pop(0)

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """In place of the network; a wide terminal, and no waits."""
    made = Server()
    monkeypatch.setattr(_api, "Client", made.client)
    monkeypatch.setattr(_events, "LOOK_S_MIN", 0)
    monkeypatch.setenv("COLUMNS", "200")
    yield made
    assert made.answers == []


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run a command: exit code, standard output, standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["distributary", "events", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return run


def test_find_asks_for_all_that_is_said_and_prints_a_table(server, run) -> None:
    """Times in any spelling; the position can be copied."""
    server.says([event(9, subject="x"), event(8)])
    code, out, _ = run(
        "find", "--type", "t", "--source", "/s", "--since", "2026-01-01", "-n", "shop"
    )
    assert code == 0
    assert server.asked == [
        "GET /namespaces/shop/events?type=t&source=%2Fs&since=2026-01-01T00%3A00%3A00Z&limit=20"
    ]
    assert out.splitlines()[0].split()[:3] == ["position", "time", "id"]
    assert out.splitlines()[1].split()[0] == "0-9-0"


def test_programs_get_each_event_in_one_line(server, run, monkeypatch) -> None:
    """Nothing is folded where the output is no terminal, however long it is."""
    monkeypatch.delenv("COLUMNS")
    server.says([event(9, subject="x" * 150), event(8)])
    _, out, _ = run("find", "--type", "t")
    assert [line.split()[0] for line in out.splitlines()] == ["position", "0-9-0", "0-8-0"]
    assert "x" * 150 in out


def test_find_follows_links_until_it_has_enough(server, run) -> None:
    """A part may be empty while there is a next one."""
    server.says([], link='</events?limit=2&cursor=1>; rel="next"', distributary_looked_to="x")
    server.says([event(3), event(2)], link='</events?limit=2&cursor=2>; rel="next"')
    server.says([event(1), event(0)])
    code, out, _ = run("find", "--limit", "3", "--json")
    assert code == 0
    assert [json.loads(line)["position"] for line in out.splitlines()] == [
        "0-3-0",
        "0-2-0",
        "0-1-0",
    ]


def test_find_fails_where_nothing_is_found(server, run) -> None:
    """Exit code 1, for scripts."""
    server.says([])
    assert run("find", "--id", "x")[:2] == (1, "no such events\n")


def test_show_tells_the_way(server, run) -> None:
    """What was accepted, each subscription, each attempt; foreign text paints nothing."""
    server.says(WAY)
    code, out, _ = run("show", "0-7-0")
    assert (code, server.asked) == (0, ["GET /events/0-7-0"])
    assert "hello" in out
    lines = [line.strip() for line in out.splitlines()]
    assert "orders dead-lettered (status)" in lines
    assert "2026-01-01T00:00:08.000+00:00 attempt 1 503 retry, took 250.0 ms: status" in lines
    assert "answer: no \N{REPLACEMENT CHARACTER}[2Jroom [red]" in lines
    assert "t2 does not match (it has changed since)" in lines
    assert "$.types: type 't' is none of its types" in lines
    assert "u3 matches; no outcome yet" in lines
    assert "gone delivered (deleted since, or ended)" in lines
    assert "recorded attempts: failures" in lines
    assert "\x1b" not in out


def test_show_says_what_a_repeat_repeats(server, run) -> None:
    """It is for nobody, and no subscription is missing."""
    server.says(WAY | {"matches": [], "repeats": "0-3-0"})
    lines = [line.strip() for line in run("show", "0-7-0")[1].splitlines()]
    assert "a repeat of the event at 0-3-0: delivered to nobody" in lines
    assert "no subscription or Trigger was there for it" not in lines


def test_show_says_why_an_event_waits(server, run) -> None:
    """The state of each subscription without an outcome, as far as it is told."""
    waiting = {"revision": 1, "matched": True, "outcome": None, "attempts": []}
    states = {"held": "paused\x1b[2J", "well": "ready", "gone": None}
    server.says(WAY | {"matches": [waiting | {"uid": id_, "subscription": id_} for id_ in states]})
    for state in states.values():
        server.says({"state": state}, 404 if state is None else 200)
    _, out, _ = run("show", "0-7-0")
    lines = out.splitlines()
    assert "held matches; no outcome yet: it is paused\N{REPLACEMENT CHARACTER}[2J" in lines
    assert {"well matches; no outcome yet", "gone matches; no outcome yet"} <= set(lines)
    assert server.asked[1:] == [f"GET /subscriptions/{id_}/status" for id_ in states]


def test_show_says_that_an_outcome_is_not_kept(server, run) -> None:
    """It waits for nothing, so nobody asks for the state of its subscription."""
    ended = {"revision": 1, "matched": True, "outcome": None, "waiting": False, "attempts": []}
    server.says(WAY | {"matches": [ended | {"uid": "u", "subscription": "old"}]})
    _, out, _ = run("show", "0-7-0")
    assert "old matches; it has ended, and its outcome is not kept" in out.splitlines()
    assert len(server.asked) == 1


def test_show_tells_the_way_to_one_alone(server, run) -> None:
    """To a subscription, or to the route of a Trigger."""
    server.says(WAY)
    assert run("show", "0-7-0", "--subscription", "orders")[0] == 0
    server.says(WAY)
    assert run("show", "0-7-0", "--route", "r7")[0] == 0
    assert server.asked == [
        "GET /events/0-7-0?subscription=orders",
        "GET /events/0-7-0?route=r7",
    ]


def test_show_as_json_is_what_the_server_says(server, run) -> None:
    """Whole."""
    server.says(WAY)
    assert json.loads(run("show", "0-7-0", "--json")[1]) == WAY


def test_show_of_what_is_no_position_asks_nobody(server, run) -> None:
    """Exit code 2."""
    code, _, err = run("show", "e7")
    assert (code, server.asked) == (2, [])
    assert "0-4711-0" in err


def test_tail_tells_each_event_once(server, run) -> None:
    """The oldest first, although looks overlap."""
    server.says([event(2), event(1)])
    server.says([event(4), event(2), event(3), event(1)])
    code, out, _ = run("tail", "--since", "2026-01-01", "--limit", "4", "--interval", "0", "--json")
    assert code == 0
    assert [json.loads(line)["position"] for line in out.splitlines()] == [
        "0-1-0",
        "0-2-0",
        "0-3-0",
        "0-4-0",
    ]
    assert server.asked[0] == "GET /events?since=2026-01-01T00%3A00%3A00Z&limit=1000"


def test_tail_says_where_more_came_than_it_shows(server, run, monkeypatch) -> None:
    """It does not fall behind for ever."""
    monkeypatch.setattr(_events, "PART_MAX", 2)
    server.says([event(3), event(2)], link='</events?cursor=1>; rel="next"')
    server.says([event(1)])
    code, out, err = run("tail", "--since", "2026-01-01", "--limit", "2")
    assert (code, len(out.splitlines())) == (0, 2)
    assert "more events came" in err
    assert out.splitlines()[1].split()[1] == "0-3-0"


@pytest.mark.parametrize(
    ("date", "begin"),
    [
        ("Thu, 01 Jan 2026 00:00:50 GMT", "50Z"),
        ("Thu, 01 Jan 2026 00:01:00 GMT", "00.500Z"),
        ("Thu, 01 Jan 2026 00:01:09 GMT", "09Z"),
        ("soon", "00.500Z"),
    ],
    ids=["ours is ahead", "they agree", "ours is behind", "no date"],
)
def test_tail_begins_at_the_clock_of_the_server(server, run, monkeypatch, date, begin) -> None:
    """Its events have the times of that one."""
    now_ms = 1_767_225_660_500  # 2026-01-01T00:01:00.500Z
    monkeypatch.setattr(_events, "_now_ms", lambda: now_ms)
    server.says([], date=date)
    server.says([event(1)])
    code, _, _ = run("tail", "--limit", "1")
    assert code == 0
    asked = server.asked[1].replace("%3A", ":")
    assert asked.startswith("GET /events?since=2026-01-01T00:0")
    assert asked.split("&")[0].endswith(f":{begin}")
    assert server.asked[0].endswith("&limit=1")
