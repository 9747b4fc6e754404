"""Pauses, replays and runs over HTTP: what is set is told, each request is answered for good."""

from types import SimpleNamespace

import pytest
from tests.unit.subscriptions.http.test_delivery_paths import dead_letter, uid_of, write

from distributary.core.database import sqlite_url
from distributary.core.outcome import Changes, DeliveryStore, RunRow
from distributary.subscriptions.service import Runs
from distributary.subscriptions.store import Directory, demands


def post(api, path, body=None):
    """Send one request; with a body as JSON."""
    return api.send("POST", path, {} if body is None else body)


def test_a_pause_is_set_and_ended(api):
    """Again and again with the same effect; who asked is told."""
    api.put("s")
    first = post(api, "/subscriptions/s/pause")
    assert first.status == 200
    assert first.json()["paused"]["by"]
    assert post(api, "/subscriptions/s/pause").json() == first.json()
    assert api.store.steering([uid_of(api, "s")])[uid_of(api, "s")].halted
    assert post(api, "/subscriptions/s/resume").status == 202
    assert post(api, "/subscriptions/s/resume").status == 202
    assert not api.store.steering([uid_of(api, "s")])[uid_of(api, "s")].halted


def test_what_is_disabled_is_not_resumed_but_enabled(api):
    """The refusal says why, and what to do."""
    api.put("s")
    found = post(api, "/subscriptions/s/disable", {"reason": "it floods us"})
    assert found.json()["disabled"]["reason"] == "it floods us"
    refused = post(api, "/subscriptions/s/resume")
    assert (refused.status, refused.json()["code"]) == (412, "conflict")
    assert "it floods us" in refused.json()["detail"]
    assert "enable it" in refused.json()["detail"]
    assert post(api, "/subscriptions/s/enable").json() == {"paused": None, "disabled": None}
    assert post(api, "/subscriptions/s/resume").status == 202


@pytest.mark.parametrize("what", ["pause", "resume", "disable", "enable", "retry", "replay"])
def test_nobody_steers_what_is_not_there(api, what):
    """Nor what another namespace has."""
    api.put("s")
    body = {"from": "2026-01-01T00:00:00Z"} if what == "replay" else {}
    for path in ("/subscriptions/absent", "/namespaces/shop/subscriptions/s"):
        answer = post(api, f"{path}/{what}", body)
        assert (answer.status, answer.json()["code"]) == (404, "notfound")


def test_a_replay_is_a_run(api):
    """It has an id, tells what was asked, and sums what all partitions did."""
    api.put("s")
    body = {"from": "1970-01-01T00:00:00Z", "rateLimit": 50, "dryRun": True, "run": "mine"}
    made = post(api, "/subscriptions/s/replay", body)
    assert (made.status, made.json()) == (202, {"run": "mine"})
    assert made.headers["location"] == "/runs/mine"
    assert post(api, "/subscriptions/s/replay", body).json() == {"run": "mine"}
    other = post(api, "/subscriptions/s/replay", body | {"rateLimit": 51})
    assert (other.status, other.json()["code"]) == (412, "conflict")
    demand = api.store.find_demand("mine")
    assert (demand.kind, demand.details.rate, demand.details.dry) == ("replay", 50.0, True)
    assert demand.details.partitions == len(api.databases)
    running = api.request("GET", "/runs/mine").json()
    assert (running["state"], running["kind"], running["subscription"]) == (
        "running",
        "replay",
        "s",
    )
    assert not {"waitsFor", "missing"} & running.keys()
    write(api, 1, runs={demand.seq: RunRow(demand.seq, 5, 9, 0, 0, done=False)})
    api.awaited[1, 5] = "the archive"
    assert api.request("GET", "/runs/mine").json()["waitsFor"] == "the archive"
    for partition in range(len(api.databases)):
        row = RunRow(
            demand.seq,
            9,
            9,
            3,
            1,
            done=True,
            selected=4,
            looked=9,
            total=9,
            oldest_ms=partition * 1_000,
        )
        row = row.passing(2, 4).passing(6, 7) if partition else row
        write(api, partition, runs={demand.seq: row})
    count = len(api.databases)
    done = api.request("GET", "/runs/mine").json()
    assert done["state"] == "done"
    assert (done["selected"], done["handled"], done["passed"]) == (4 * count, 3 * count, count)
    assert (done["looked"], done["total"], done["dryRun"]) == (9 * count, 9 * count, True)
    assert done["oldest"] == f"1970-01-01T00:00:0{count - 1}.000+00:00"
    missing = {"from": 2, "to": 7, "records": 3}
    assert done["missing"] == [{"partition": n, **missing} for n in range(1, count)]
    assert api.request("GET", "/dead-letters/runs/mine").json() == done
    assert post(api, "/runs/mine/cancel").json()["state"] == "done"


@pytest.mark.parametrize("word", ["paused", "disabled"])
def test_a_run_of_a_halted_subscription_says_what_it_waits_for(api, word):
    """It stays running, and nothing else would tell why; one that only counts does not wait."""
    api.put("s")
    post(api, f"/subscriptions/s/{word.removesuffix('d')}", {})
    body = {"from": "1970-01-01T00:00:00Z"}
    post(api, "/subscriptions/s/replay", body | {"run": "sends"})
    post(api, "/subscriptions/s/replay", body | {"run": "counts", "dryRun": True})
    assert api.request("GET", "/runs/sends").json()["waitsFor"].endswith(f"is {word}")
    assert "waitsFor" not in api.request("GET", "/runs/counts").json()
    seq = api.store.find_demand("sends").seq
    for partition in range(len(api.databases)):
        write(api, partition, runs={seq: RunRow(seq, 0, 0, 0, 0, done=True)})
    assert "waitsFor" not in api.request("GET", "/runs/sends").json()


def test_a_run_whose_subscription_ends_meanwhile_says_so(api):
    """In any partition: with what it has done, and why there is no more."""
    api.put("s")
    post(api, "/subscriptions/s/retry", {"run": "r1"})
    seq, route = api.store.find_demand("r1").seq, api.store.find("s").uid
    api.request("DELETE", "/subscriptions/s")
    for partition in range(len(api.databases)):
        row = RunRow(seq, 0, 0, 2, 0, done=True, selected=2, route_deleted=partition > 0)
        write(api, partition, runs={seq: row})
    found = api.request("GET", "/runs/r1").json()
    assert (found["state"], found["handled"]) == ("ended-early", 2 * len(api.databases))
    assert "subscription" in found["reason"]
    assert found["route"] == route  # of which it was
    (listed,) = api.request("GET", "/runs?state=ended-early").json()
    assert listed == found
    assert post(api, "/runs/r1/cancel").json()["state"] == "ended-early"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "$.from"),
        ({"from": "yesterday"}, "$.from"),
        ({"from": "2100-01-01T00:00:00Z"}, "$.from"),
        ({"from": "1970-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}, "$.to"),
        ({"from": "1970-01-02T00:00:00Z", "to": "1970-01-01T00:00:00Z"}, "$.to"),
        ({"from": "1970-01-01T00:00:00Z", "rateLimit": 0}, "$.rateLimit"),
        ({"from": "1970-01-01T00:00:00Z", "filters": [{"exct": {"type": "t"}}]}, "$.filters"),
        ({"from": "1970-01-01T00:00:00Z", "run": "a b"}, "$.run"),
        ({"from": "1970-01-01T00:00:00Z", "speed": 1}, "$"),
    ],
)
def test_a_wrong_replay_is_refused_with_its_place(api, body, path):
    """And nothing was asked for."""
    api.put("s")
    answer = post(api, "/subscriptions/s/replay", body)
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
    assert any(fault["path"].startswith(path) for fault in answer.json()["faults"])
    assert api.request("GET", "/runs").json() == []


def test_a_run_is_cancelled_once(api):
    """It is so once every partition has ended it."""
    api.put("s")
    post(api, "/dead-letters/redrive", {"subscription": "s", "run": "r1"})
    for _ in range(2):
        found = post(api, "/runs/r1/cancel")
        assert (found.status, found.json()["state"]) == (202, "cancelling")
    seq = api.store.find_demand("r1").seq
    reader = Directory(sqlite_url(api.databases[0].parent / "control.db"))
    reader.refresh()
    (end,) = reader.demands(seq)
    reader.close()
    assert end.details.of == seq
    for partition in range(len(api.databases)):
        row = RunRow(seq, 0, 0, 0, 0, done=True, cancelled=not partition)
        write(api, partition, runs={seq: row})
    assert api.request("GET", "/runs/r1").json()["state"] == "cancelled"
    assert post(api, "/runs/absent/cancel").status == 404


def test_a_run_is_forgotten_once_it_is_over(api, monkeypatch):
    """After a week, if it is: an owner that starts goes on with those whose demand is there."""
    monkeypatch.setattr(demands, "FORGOTTEN_AT_ONCE_MAX", 2)
    api.put("s")
    names = [f"p{number}" for number in range(5)]
    for name in names:
        post(api, "/dead-letters/redrive", {"subscription": "s", "run": name})
    post(api, "/runs/p3/cancel")
    seqs = {name: api.store.find_demand(name).seq for name in names}
    for partition in range(len(api.databases)):
        done = {seqs[name]: RunRow(seqs[name], 0, 0, 0, 0, done=True) for name in ("p0", "p1")}
        half = RunRow(seqs["p2"], 0, 0, 0, 0, done=not partition)
        write(api, partition, runs=done | {half.seq: half})
    asked_ms = api.store.find_demand("p0").asked_ms

    def kept_at(now_ms):
        clock = SimpleNamespace(wall_ms=lambda: now_ms)
        Runs(api.store, clock, api.readers).forget_ended()
        return [run["run"] for run in api.request("GET", "/runs").json()][::-1]

    assert kept_at(asked_ms + demands.KEPT_MS) == names
    assert kept_at(asked_ms + demands.KEPT_MS + 1) == ["p2", "p3", "p4"]
    assert api.request("GET", "/runs/p3").json()["state"] == "cancelling"
    assert api.request("GET", "/runs/p0").status == 404


def _ask(api, first, last):
    for number in range(first, last):
        post(api, "/subscriptions/s/retry", {"run": f"p{number}"})


def _end(api, names):
    seqs = [api.store.find_demand(name).seq for name in names]
    done = {seq: RunRow(seq, 0, 0, 0, 0, done=True) for seq in seqs}
    for partition in range(len(api.databases)):
        write(api, partition, runs=done)


def _kept(api):
    Runs(api.store, SimpleNamespace(wall_ms=lambda: 0), api.readers).forget_ended()
    return [run["run"] for run in api.request("GET", "/runs").json()][::-1]


@pytest.mark.parametrize(
    "most", ["DEMANDS_OF_NAMESPACE_MAX", "DEMANDS_MAX"], ids=["of a namespace", "of all"]
)
def test_runs_that_are_over_make_room(api, monkeypatch, most):
    """The oldest of them, until half of the places are free; what cancelled one goes with it."""
    monkeypatch.setattr(demands, most, 6)
    monkeypatch.setattr(demands, "FORGOTTEN_AT_ONCE_MAX", 2)
    api.put("s")
    _ask(api, 0, 6)
    post(api, "/runs/p1/cancel")
    refused = post(api, "/subscriptions/s/retry", {"run": "p6"})
    assert (refused.status, refused.json()["code"]) == (503, "unavailable")
    assert "6 runs" in refused.json()["detail"]
    assert "over make room within a minute" in refused.json()["detail"]
    assert len(_kept(api)) == 6
    seq = api.store.find_demand("p1").seq
    _end(api, ["p1", "p3", "p4", "p5"])
    assert _kept(api) == ["p0", "p2", "p5"]
    assert not [one for one in api.store.oldest_demands(2**60, 0) if one.details.of == seq]
    _ask(api, 6, 9)
    assert _kept(api) == ["p0", "p2", "p6", "p7", "p8"]


def test_runs_that_are_over_are_forgotten_before_partitions_forget_them(api, monkeypatch):
    """A partition that begins a demand anew must not find one that it was done with."""
    monkeypatch.setattr(demands, "NUMBERS_KEPT", 4)
    api.put("s")
    _ask(api, 0, 2)
    _end(api, ["p0"])
    for _ in range(2):
        post(api, "/subscriptions/s/resume")
    assert _kept(api) == ["p0", "p1"]
    post(api, "/subscriptions/s/resume")
    assert _kept(api) == ["p1"]


def test_runs_are_listed_part_by_part(api, monkeypatch):
    """The newest first; by subscription, kind and state; another namespace has its own."""
    for name in ("s", "t"):
        api.put(name)
    for number in range(5):
        post(api, "/dead-letters/purge", {"subscription": "st"[number % 2], "run": f"p{number}"})
    post(api, "/subscriptions/s/retry", {"run": "again"})
    post(api, "/subscriptions/s/resume")
    assert [run["run"] for run in api.request("GET", "/runs").json()] == [
        "again",
        "p4",
        "p3",
        "p2",
        "p1",
        "p0",
    ]
    names, path = [], "/runs?limit=2&subscription=s"
    while path:
        part = api.request("GET", path)
        names += [run["run"] for run in part.json()]
        path = part.headers.get("link", "<>")[1:].partition(">")[0]
    assert names == ["again", "p4", "p2", "p0"]
    assert [run["run"] for run in api.request("GET", "/runs?kind=retry").json()] == ["again"]
    for partition in range(len(api.databases)):
        seq = api.store.find_demand("p3").seq
        write(api, partition, runs={seq: RunRow(seq, 0, 0, 0, 0, done=True)})
    assert [run["run"] for run in api.request("GET", "/runs?state=done").json()] == ["p3"]
    assert len(api.request("GET", "/runs?state=running").json()) == 5
    names, path = [], "/runs?limit=2&state=running"
    while path:
        part = api.request("GET", path)
        names += [run["run"] for run in part.json()]
        path = part.headers.get("link", "<>")[1:].partition(">")[0]
    assert (len(names), len(set(names))) == (5, 5)
    reads: list[int] = []
    page = api.store.page_demands
    with monkeypatch.context() as patch:
        patch.setattr(
            api.store, "page_demands", lambda *key, **more: reads.append(1) or page(*key, **more)
        )
        done = api.request("GET", "/runs?state=cancelled&limit=1")
    assert (done.json(), len(reads)) == ([], 1)
    assert api.request("GET", "/namespaces/shop/runs").json() == []
    assert api.request("GET", "/namespaces/shop/runs/p3").status == 404
    assert api.request("GET", "/runs?cursor=x").status == 400


def test_dead_letters_are_chosen(api):
    """By id, by time, by filters: exactly one way, and what else is said."""
    api.put("s")
    uid = uid_of(api, "s")
    body = {
        "ids": ["0-1", "1-7"],
        "filters": [{"exact": {"type": "t"}}],
        "since": "1970-01-01T00:00:01Z",
        "until": "1970-01-02T00:00:00Z",
        "run": "chosen",
    }
    assert post(api, "/dead-letters/redrive", body).status == 202
    details = api.store.find_demand("chosen").details
    assert (details.ids, details.since_ms, details.until_ms) == (("0-1", "1-7"), 1_000, 86_400_000)
    assert details.filters == ({"exact": {"type": "t"}},)
    shown = api.request("GET", "/runs/chosen").json()
    assert (shown["ids"], shown["since"][:19]) == (["0-1", "1-7"], "1970-01-01T00:00:01")
    for wrong in (
        {},
        {"all": True, "ids": ["0-1"]},
        {"ids": []},
        {"ids": ["zero"]},
        {"all": True, "filters": [{"sql": "1 +"}]},
        {"subscription": "s", "route": uid},
    ):
        answer = post(api, "/dead-letters/purge", wrong)
        assert (answer.status, answer.json()["code"]) == (400, "invalid"), wrong


def test_one_dead_letter_is_shown(api):
    """As in the list; one of another namespace is as one that never was."""
    api.put("s")
    letters = [
        dead_letter(3, uid_of(api, "s")),
        dead_letter(4, "theirs", "shop"),
        dead_letter(5, uid_of(api, "s")),
    ]
    write(api, 1, dead_letters=letters)
    listed = api.request("GET", "/dead-letters").json()
    assert len(listed) == 2
    for one in listed:
        assert api.request("GET", f"/dead-letters/{one['id']}").json() == one
    (foreign,) = api.request("GET", "/namespaces/shop/dead-letters").json()
    for absent in (foreign["id"], "1-999", "9-1", "x"):
        assert api.request("GET", f"/dead-letters/{absent}").status == 404
    since = api.request("GET", "/dead-letters?since=1970-01-01T00:00:00.004Z").json()
    assert [one["event"]["id"] for one in since] == ["5"]
    until = api.request("GET", "/dead-letters?until=1970-01-01T00:00:00.004Z").json()
    assert [one["event"]["id"] for one in until] == ["3"]


def test_a_list_of_many_dead_letters_has_each_once(api):
    """However large the parts are."""
    api.put("s")
    store = DeliveryStore(sqlite_url(api.databases[0]), 0)
    letters = [dead_letter(n, uid_of(api, "s")) for n in range(25)]
    store.apply(Changes(dead_letters=letters))
    store.close()
    for limit in (1, 7, 25, 26):
        ids, path = [], f"/dead-letters?limit={limit}&subscription=s"
        while path:
            part = api.request("GET", path)
            ids += [one["event"]["id"] for one in part.json()]
            path = part.headers.get("link", "<>")[1:].partition(">")[0]
        assert ids == [str(n) for n in range(25)]
