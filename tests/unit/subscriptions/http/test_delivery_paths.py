"""How deliveries stand, and what people ask of owners: read from what owners wrote."""

import contextlib
import sqlite3

import pytest

from distributary.core.database import sqlite_url
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import (
    BackfillRow,
    Changes,
    DeadLetter,
    DeliveryStore,
    FailingRoute,
    Failure,
    ParkedRow,
    RetryRow,
    RunRow,
    write_failing,
)

SINK = "http://sink.example/"


def dead_letter(offset, route, namespace="default", **attributes):
    """A dead letter of *route*."""
    event = Event(
        {"specversion": "1.0", "id": str(offset), "source": "/", "type": "t", **attributes}, b"data"
    )
    failure = Failure("status-400", SINK, 400)
    body = event_record.encode([event])
    return DeadLetter(DoneKey(offset, 0, route), 7, failure, body, offset, namespace)


def write(api, partition, **changes):
    """Let the owner of *partition* write."""
    store = DeliveryStore(sqlite_url(api.databases[partition]), partition)
    store.apply(Changes(**changes))
    store.close()


def uid_of(api, id_):
    """Uid of the route of a subscription."""
    return api.store.find(id_).uid


def test_a_subscription_is_ready_before_any_owner_wrote(api):
    """Nothing waits, and nothing failed."""
    api.put("s")
    answer = api.request("GET", "/subscriptions/s/status")
    assert answer.status == 200
    found = answer.json()
    conditions = found.pop("conditions")
    assert found == {
        "id": "s",
        "route": uid_of(api, "s"),
        "revision": 1,
        "state": "ready",
        "failing": None,
        "lastSuccess": None,
        "inFlight": 0,
        "waiting": 0,
        "delivered": 0,
        "deadLettered": 0,
        "rate": 0.0,
        "rates": [],
        "dropped": 0,
        "attemptsFailed": 0,
        "lagging": False,
        "backfill": None,
        "kept": {"count": 0, "bytes": 0},
    }
    assert [(each["type"], each["status"]) for each in conditions] == [
        ("Ready", "True"),
        ("Delivering", "Unknown"),
    ]


def test_the_status_sums_what_all_owners_wrote_of_the_route(api):
    """Rows that wait, letters, the last error; and nothing of other routes."""
    api.put("s")
    uid = uid_of(api, "s")
    for partition, route in ((0, uid), (1, uid), (1, "other")):
        key = DoneKey(5, 0, route)
        row = RetryRow(key, 1, Stage.PRIMARY, 2, 0, Failure("timeout", SINK), done=False)
        done = row._replace(key=DoneKey(6, 0, route), done=True)
        backfill = BackfillRow(route, 1, 0, 1, None if partition else 9, b"{}")
        write(
            api,
            partition,
            rows={row.key: row, done.key: done},
            backfills={backfill.name: backfill},
            dead_letters=[dead_letter(3, route)],
        )
        failing = FailingRoute(
            route=route, since_ms=1_000, last_ms=2_000, count=3, reason="timeout", dest=SINK
        )
        write_failing(api.failing[partition], [failing])
    write_failing(api.failing[1], [])
    found = api.request("GET", "/subscriptions/s/status").json()
    assert (found["state"], found["waiting"], found["lagging"]) == ("failing", 2, True)
    assert found["kept"]["count"] == 2
    assert found["backfill"] == {
        "position": [{"partition": 1, "offset": 1, "end": 1}],
        "distance": 0,
    }
    api.awaited[1, 1] = "the archive"
    waits = api.request("GET", "/subscriptions/s/status").json()["backfill"]
    assert waits == found["backfill"] | {"waitsFor": "the archive"}
    assert found["failing"] == found["lastError"]
    assert found["lastError"] == {
        "since": "1970-01-01T00:00:01.000+00:00",
        "last": "1970-01-01T00:00:02.000+00:00",
        "count": 3,
        "reason": "timeout",
        "sink": SINK,
    }


def test_a_parked_subscription_says_so_and_is_resumed(api):
    """Since when, and why; to resume is a demand for its route."""
    api.put("s")
    uid = uid_of(api, "s")
    row = ParkedRow(uid, 1, 0, 1_000, "status-410", SINK)
    write(api, 1, parked={uid: row})
    found = api.request("GET", "/subscriptions/s/status").json()
    assert found["state"] == "parked"
    assert found["parked"] == {
        "since": "1970-01-01T00:00:01.000+00:00",
        "reason": "status-410",
        "sink": SINK,
        "partitions": 1,
    }
    answer = api.request("POST", "/subscriptions/s/resume")
    assert answer.status == 202
    demand = api.store.find_demand(answer.json()["run"])
    assert (demand.kind, demand.route) == ("resume", uid)


@pytest.mark.parametrize(("method", "what"), [("GET", "status"), ("POST", "resume")])
def test_what_is_not_there_has_no_deliveries(api, method, what):
    """As for every other operation."""
    answer = api.request(method, f"/subscriptions/absent/{what}")
    assert (answer.status, answer.json()["code"]) == (404, "notfound")


# -- dead letters -------------------------------------------------------------------------------


def test_kept_dead_letters_are_listed_part_by_part_over_all_partitions(api):
    """Each once, with its event, and what it belongs to."""
    api.put("s")
    uid = uid_of(api, "s")
    for partition in (0, 1):
        dead_letters = [
            dead_letter(offset, uid if offset % 2 else "gone") for offset in range(1, 46)
        ]
        write(api, partition, dead_letters=dead_letters)
    seen, path = [], "/dead-letters?limit=7"
    while path:
        answer = api.request("GET", path)
        assert answer.status == 200
        assert len(answer.json()) <= 7
        seen += answer.json()
        link = answer.headers.get("link", "")
        path = link[1 : link.index(">")] if link else ""
    assert [found["event"]["id"] for found in seen] == 2 * [str(n) for n in range(1, 46)]
    assert len({found["id"] for found in seen}) == 90
    assert {found.get("subscription") for found in seen} == {"s", None}
    first = seen[0]
    assert (first["reason"], first["status"], first["sink"]) == ("status-400", 400, SINK)
    assert first["event"]["data_base64"] == "ZGF0YQ=="
    assert "knativeerrordest" not in first["event"]


@pytest.mark.parametrize("marks", [{}, {"knativeerrordest": SINK}])
def test_a_dead_letter_that_the_medium_damaged_is_told_and_hides_no_other(api, marks):
    """It can be purged; the others can be read."""
    write(api, 0, dead_letters=[dead_letter(offset, "r", **marks) for offset in (1, 2)])
    with contextlib.closing(sqlite3.connect(api.databases[0])) as database, database:
        (last,) = database.execute("SELECT max(id) FROM letter_body").fetchone()
        database.execute("UPDATE letter_body SET event = x'ff00' WHERE id = ?", (last,))
    answer = api.request("GET", "/dead-letters")
    assert answer.status == 200
    whole, damaged = answer.json()
    assert whole["event"]["id"] == "1"
    assert "damaged" not in whole
    assert damaged["damaged"] is True
    assert "event" not in damaged


def test_dead_letters_of_one_subscription_or_route_are_listed(api):
    """And none of the others."""
    api.put("s")
    write(api, 1, dead_letters=[dead_letter(1, uid_of(api, "s")), dead_letter(1, "other")])
    mine = api.request("GET", "/dead-letters?subscription=s").json()
    assert [found["route"] for found in mine] == [uid_of(api, "s")]
    others = api.request("GET", "/dead-letters?route=other").json()
    assert [found["route"] for found in others] == ["other"]
    assert api.request("GET", "/dead-letters?subscription=absent").status == 404


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "cursor=x",
        "subscriptoin=s",
        "route=a&subscription=s",
        "route=",
        "subscription=a%0d%0ab",
    ],
)
def test_a_list_that_cannot_be_read_names_its_fault(api, query):
    """A misspelt parameter must not look as if it had been followed."""
    answer = api.request("GET", f"/dead-letters?{query}")
    assert (answer.status, answer.json()["code"]) == (400, "invalid")


@pytest.mark.parametrize("kind", ["redrive", "purge"])
def test_a_run_is_asked_for_once_and_says_how_far_it_is(api, kind):
    """The same id is the same run; another selection under it is a conflict."""
    api.put("s")
    asked = {"subscription": "s", "run": "mine"}
    for _ in range(2):
        answer = api.send("POST", f"/dead-letters/{kind}", asked)
        assert (answer.status, answer.json()) == (202, {"run": "mine"})
    assert api.send("POST", f"/dead-letters/{kind}", {"all": True, "run": "mine"}).status == 412
    demand = api.store.find_demand("mine")
    assert (demand.seq, demand.kind, demand.route) == (1, kind, uid_of(api, "s"))
    path = answer.headers["location"]
    assert api.request("GET", path).json()["state"] == "running"
    for partition in (0, 1):
        write(api, partition, runs={1: RunRow(1, 5, 5, 3, 2, done=True)})
    found = api.request("GET", path).json()
    assert (found["state"], found["handled"], found["passed"]) == ("done", 6, 4)
    assert api.request("GET", "/dead-letters/runs/absent").status == 404


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"all": False},
        {"all": True, "route": "r"},
        {"route": 1},
        {"route": ""},
        {"subscription": "a b"},
        {"al": True},
        {"all": True, "run": "a b"},
    ],
)
def test_a_selection_that_is_none_is_refused(api, body):
    """Nothing is asked by mistake."""
    answer = api.send("POST", "/dead-letters/purge", body)
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
