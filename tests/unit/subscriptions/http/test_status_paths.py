"""How subscriptions stand: the member of each, the list by state, and the overview."""

import dataclasses

import msgspec
import pytest

from distributary.access import (
    IDENTITY_FIELD,
    Grant,
    Identity,
    IdentityKind,
    Verb,
    encode_identity,
)
from distributary.core.deliver.consent import AWAITS_CONSENT
from distributary.core.errors import StoreError
from distributary.core.outcome import FailingRoute, Tally, write_failing
from distributary.subscriptions.service import _status as status
from distributary.subscriptions.status import Point, Totals

FAILING = Tally(
    dead_lettered=1,
    failed=4,
    answer_ms=2_000,
    answer_status=503,
    waiting=2,
    failing_since_ms=1_000,
    failing_last_ms=2_000,
    failing_count=4,
    failing_reason="attempts-used-up: status-503",
)
SHORT = (
    "state",
    "failing",
    "lastSuccess",
    "inFlight",
    "waiting",
    "delivered",
    "deadLettered",
    "rate",
    "rates",
)


def put(api, id_, tally=None):
    """A subscription, and its numbers."""
    assert api.put(id_).status in {200, 201}
    if tally is not None:
        api.tallies.put({api.store.find(id_).uid: tally})
    api.watcher.turn()
    return api.store.find(id_).uid


def states(api, target):
    """Id and state of each subscription of a list."""
    return [(each["id"], each["status"]["state"]) for each in api.request("GET", target).json()]


def test_what_delivers_again_in_another_partition_does_not_fail(api):
    """Whatever the file of the partition says that has had no delivery since."""
    uid = put(api, "a", dataclasses.replace(FAILING, success_ms=3_000))
    row = FailingRoute(
        route=uid, since_ms=1_000, last_ms=2_000, count=4, reason="status-503", dest="http://x/"
    )
    write_failing(api.failing[0], [row])
    found = api.request("GET", "/subscriptions/a/status").json()
    assert (found["state"], found["failing"]) == ("ready", None)
    assert states(api, "/subscriptions") == [("a", "ready")]


def test_the_whole_status_reads_the_files_of_failing_routes(api):
    """Of all partitions, and before any tally says so; to wait for consent is no failure."""
    uid = put(api, "a")
    row = FailingRoute(
        route=uid, since_ms=1_000, last_ms=2_000, count=4, reason="status-503", dest="http://x/"
    )
    write_failing(api.failing[0], [row])
    write_failing(api.failing[1], [msgspec.structs.replace(row, last_ms=3_000, reason="timeout")])
    found = api.request("GET", "/subscriptions/a/status").json()
    assert (found["state"], found["failing"]["reason"]) == ("failing", "timeout")
    assert found["failing"]["count"] == 8
    for path in api.failing:
        write_failing(path, [msgspec.structs.replace(row, reason=AWAITS_CONSENT)])
    found = api.request("GET", "/subscriptions/a/status").json()
    assert (found["state"], found["failing"]) == ("ready", None)


def test_every_subscription_says_how_it_stands(api):
    """By itself and in the list alike, with the same members."""
    put(api, "fails", FAILING)
    put(api, "new")
    put(api, "works", Tally(delivered=7, success_ms=1_000, in_flight=1))
    one = api.request("GET", "/subscriptions/works").json()["status"]
    assert tuple(one) == SHORT
    assert (one["state"], one["delivered"], one["inFlight"]) == ("ready", 7, 1)
    assert one["lastSuccess"] == "1970-01-01T00:00:01.000+00:00"
    listed = api.request("GET", "/subscriptions").json()
    assert [each["status"] for each in listed] == [
        api.request("GET", f"/subscriptions/{id_}").json()["status"]
        for id_ in ("fails", "new", "works")
    ]
    assert listed[0]["status"]["failing"] == {
        "since": "1970-01-01T00:00:01.000+00:00",
        "last": "1970-01-01T00:00:02.000+00:00",
        "count": 4,
        "reason": "attempts-used-up: status-503",
        "sink": "http://127.0.0.1:9/",
        "status": 503,
    }


def test_the_entity_tag_is_that_of_the_configuration(api):
    """A delivery does not make a client's condition fail."""
    uid = put(api, "s", Tally(delivered=1))
    before = api.request("GET", "/subscriptions/s")
    api.tallies.put({uid: Tally(delivered=2)})
    after = api.request("GET", "/subscriptions/s")
    assert after.json()["status"]["delivered"] == 2
    assert after.headers["etag"] == before.headers["etag"]
    again = api.request("GET", "/subscriptions/s", b"", (("if-none-match", after.headers["etag"]),))
    assert again.status == 304


def test_a_status_that_is_sent_is_ignored(api):
    """What was read can be put back."""
    put(api, "s", Tally(delivered=1))
    read = api.request("GET", "/subscriptions/s").json()
    assert api.send("PUT", "/subscriptions/s", read | {"status": {"state": "no"}}).status == 200
    assert api.send("POST", "/subscriptions", read | {"status": 5}).status == 201
    assert b"status" not in api.store.find("s").realized


def test_the_whole_status_has_the_last_answer_and_conditions(api):
    """Also of what is paused while it fails."""
    uid = put(api, "s", FAILING)
    found = api.request("GET", "/subscriptions/s/status").json()
    assert found["state"] == "failing"
    assert found["lastAnswer"] == {"time": "1970-01-01T00:00:02.000+00:00", "status": 503}
    assert (found["deadLettered"], found["attemptsFailed"], found["dropped"]) == (1, 4, 0)
    ready, delivering = found["conditions"]
    assert (ready["status"], delivering["status"]) == ("True", "False")
    assert delivering["message"] == "attempts-used-up: status-503"
    api.store.disable(uid, "failing for 60 s", "server", 5_000)
    found = api.request("GET", "/subscriptions/s/status").json()
    assert found["state"] == "disabled"
    listed = api.request("GET", "/subscriptions").json()[0]["status"]
    assert listed["disabled"] == found["disabled"]
    assert found["disabled"] == {
        "since": "1970-01-01T00:00:05.000+00:00",
        "by": "server",
        "reason": "failing for 60 s",
    }
    ready = found["conditions"][0]
    assert (ready["status"], ready["reason"]) == ("False", "Disabled")
    assert ready["message"] == "failing for 60 s"
    assert states(api, "/subscriptions") == [("s", "disabled")]


def test_a_list_may_be_of_one_state(api, monkeypatch):
    """In the order of ids, and in parts; those that stand otherwise are not read."""
    for number in range(5):
        put(api, f"fails{number}", FAILING)
        put(api, f"works{number}", Tally(delivered=1))
    put(api, "waits", Tally(waiting=1))
    paused = put(api, "paused", FAILING)
    api.store.pause(paused, "ann", 5)
    api.watcher.turn()
    assert states(api, "/subscriptions?state=failing") == [
        (f"fails{number}", "failing") for number in range(5)
    ]
    read: list[str] = []
    some = api.store.some
    with monkeypatch.context() as patch:
        patch.setattr(api.store, "some", lambda ids, *rest: read.extend(ids) or some(ids, *rest))
        assert states(api, "/subscriptions?state=paused") == [("paused", "paused")]
    assert read == ["paused"]
    assert [id_ for id_, _ in states(api, "/subscriptions?state=ready")] == [
        "waits",
        *(f"works{number}" for number in range(5)),
    ]
    first = api.request("GET", "/subscriptions?state=failing&limit=3")
    rest = first.headers["link"].split(";")[0].strip("<>")
    assert "state=failing" in rest
    ids = [each["id"] for each in first.json()] + [id_ for id_, _ in states(api, rest)]
    assert ids == [f"fails{number}" for number in range(5)]
    assert api.request("GET", "/subscriptions?state=parked").json() == []


def test_a_state_that_there_is_not_is_refused(api):
    """With its place."""
    answer = api.request("GET", "/subscriptions?state=broken")
    assert (answer.status, answer.json()["faults"][0]["path"]) == (400, "state")


def test_the_overview_forgets_what_was_deleted_while_it_was_paused(api):
    """Also before anything became of it."""
    put(api, "s")
    assert api.request("POST", "/subscriptions/s/pause").status == 200
    api.watcher.turn()
    assert api.request("GET", "/status").json()["paused"] == 1
    assert api.request("DELETE", "/subscriptions/s").status in {200, 204}
    api.watcher.turn()
    assert api.request("GET", "/status").json()["paused"] == 0


def test_the_overview_counts_what_does_not_stand_well(api):
    """Of the namespace alone."""
    put(api, "fails", FAILING)
    put(api, "parked", Tally(parked=True, in_flight=2))
    paused = put(api, "paused", Tally(delivered=1))
    api.store.pause(paused, "ann", 5)
    api.send(
        "PUT",
        "/namespaces/other/subscriptions/s",
        {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"},
    )
    api.tallies.put({api.store.find("s", "other").uid: FAILING})
    api.watcher.turn()
    found = api.request("GET", "/status").json()
    assert {name: found[name] for name in ("failing", "parked", "paused", "disabled")} == {
        "failing": 1,
        "parked": 1,
        "paused": 1,
        "disabled": 0,
    }
    assert (found["waiting"], found["inFlight"], found["deadLetters"]) == (2, 2, 0)
    assert (found["seconds"], found["minutes"]) == ([], [])
    other = api.request("GET", "/namespaces/other/status").json()
    assert (other["namespace"], other["failing"], other["parked"]) == ("other", 1, 0)
    assert api.request("GET", "/namespaces/nobody/status").json()["failing"] == 0
    assert api.request("GET", "/namespaces/%C2%84/status").status == 404


def test_a_tenant_does_not_learn_how_busy_the_server_is(api, monkeypatch):
    """Latency and backlog are of all namespaces: for who may observe all of them."""

    def told(*namespaces):
        grants = (Grant(may=(Verb.READ, Verb.OBSERVE), namespaces=namespaces),)
        sender = Identity(name="key:k", how=IdentityKind.KEY, grants=grants)
        who = IDENTITY_FIELD.decode(), encode_identity(sender).decode()
        found = api.request("GET", "/status", b"", (who,)).json()
        return [found, *found["seconds"], *found["minutes"]]

    point = Point(5, Totals(), failing=0, waiting=0, backlog=7, p50_s=0.1, p99_s=0.2)
    monkeypatch.setattr(api.watcher, "past", lambda _namespace: ([point], [point]))
    for points in (told("default"), told("default", "other")):
        assert len(points) == 3
        assert {each["backlog"] for each in points} == {None}
        assert {each.get("p99") for each in points} == {None}
        assert points[0]["latency"] == {"p50": None, "p99": None}
    assert [each["backlog"] for each in told("*")] == [7, 7, 7]
    assert told("*")[0]["latency"] == {"p50": 0.1, "p99": 0.2}


def test_all_that_is_answered_is_as_described(api):
    """Each body satisfies its schema in the description of the API."""
    jsonschema = pytest.importorskip("jsonschema")
    put(api, "s", FAILING)
    document = api.request("GET", "/openapi.json").json()
    for name, body in (
        ("SubscriptionStatus", api.request("GET", "/subscriptions/s/status").json()),
        ("SubscriptionShortStatus", api.request("GET", "/subscriptions/s").json()["status"]),
        ("Overview", api.request("GET", "/status").json()),
    ):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(body)


def test_a_store_that_cannot_be_read_is_said(api, monkeypatch):
    """No list without status looks as if all were well."""
    put(api, "s")

    def fail(_uids):
        raise StoreError("locked")

    monkeypatch.setattr(api.store, "steering", fail)
    assert api.request("GET", "/subscriptions/s").status == 503


def test_a_list_by_state_looks_through_a_bounded_number_and_goes_on(api, monkeypatch):
    """A part may have nothing, and the Link leads on; a list without a limit is whole."""
    monkeypatch.setattr(status, "SLICE", 2)
    monkeypatch.setattr(status, "SLICES_MAX", 1)
    for number in range(6):
        put(api, f"s-{number}", FAILING if number < 4 else None)
    assert states(api, "/subscriptions?state=ready") == [("s-4", "ready"), ("s-5", "ready")]
    path, parts = "/subscriptions?limit=5&state=ready", []
    while path is not None:
        answer = api.request("GET", path)
        parts.append([each["id"] for each in answer.json()])
        link = answer.headers.get("link")
        path = None if link is None else link.removeprefix("<").partition(">")[0]
    assert parts == [[], [], ["s-4", "s-5"]]
