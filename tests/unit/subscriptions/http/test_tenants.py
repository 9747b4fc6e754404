"""Subscriptions, their status and dead letters below ``/namespaces/{namespace}``."""

import pytest

from distributary.core.database import sqlite_url
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import DoneKey
from distributary.core.outcome import (
    Changes,
    DeadLetter,
    DeliveryStore,
    Failure,
    LetterChoice,
)

GOOD = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}


def path_of(namespace, rest=""):
    """A path below the subscriptions of *namespace*."""
    return f"/namespaces/{namespace}/subscriptions{rest}"


def keep(api, namespace, route, id_):
    """Let the owner of a partition keep a dead letter of *route*."""
    store = DeliveryStore(sqlite_url(api.databases[0]), 0)
    event = Event({"specversion": "1.0", "id": id_, "source": "/", "type": "t"}, b"")
    body = event_record.encode([event])
    key = DoneKey(int(id_), 0, route)
    letter = DeadLetter(key, 7, Failure("status-400", "http://s/", 400), body, 1, namespace)
    store.apply(Changes(dead_letters=[letter]))
    store.close()


@pytest.fixture
def both(api):
    """The subscription ``s`` in two namespaces, with a dead letter each; uid by namespace."""
    uids = {}
    for number, namespace in enumerate(("mine", "theirs")):
        api.send("PUT", path_of(namespace, "/s"), GOOD)
        uids[namespace] = api.store.find("s", namespace).uid
        keep(api, namespace, uids[namespace], str(number))
    return uids


def test_a_subscription_is_read_changed_and_deleted_below_its_namespace(api):
    """Links and locations lead there."""
    made = api.send("POST", path_of("mine"), GOOD)
    assert made.status == 201
    location = made.headers["location"]
    assert location == path_of("mine", f"/{made.json()['id']}")
    found = api.request("GET", location).json()
    assert found.pop("status")["state"] == "ready"
    assert found == made.json()
    api.send("POST", path_of("mine"), GOOD)
    link = api.request("GET", path_of("mine", "?limit=1")).headers["link"]
    assert link.startswith(f"<{path_of('mine')}?limit=1&cursor=")
    assert api.request("GET", link[1 : link.index(">")]).status == 200
    assert api.request("DELETE", location).status == 200
    assert api.request("GET", location).status == 404


def test_short_paths_mean_the_namespace_default(api):
    """Both ways."""
    api.put("s")
    assert api.request("GET", path_of("default", "/s")).status == 200
    api.send("PUT", path_of("default", "/t"), GOOD)
    listed = api.request("GET", "/subscriptions").json()
    assert [found["id"] for found in listed] == ["s", "t"]
    assert api.request("GET", path_of("default")).json() == listed
    answer = api.send("PUT", path_of("default", "/u"), GOOD)
    assert answer.headers["location"] == "/subscriptions/u"


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("method", "rest"),
    [("GET", ""), ("DELETE", ""), ("GET", "/status"), ("POST", "/resume")],
)
def test_an_id_of_another_namespace_is_none(api, method, rest):
    """Answered to the byte as one that never was."""
    foreign = api.request(method, path_of("other", f"/s{rest}"))
    never = api.request(method, path_of("other", f"/never{rest}"))
    assert (foreign.status, foreign.body) == (404, never.body)
    assert len(api.store.page("", 10, "mine")) == 1


def test_a_list_is_of_its_namespace(api, both):
    """Whole, and by parts."""
    assert len(both) == 2
    assert [found["id"] for found in api.request("GET", path_of("mine")).json()] == ["s"]
    assert api.request("GET", path_of("other")).json() == []
    assert api.request("GET", "/subscriptions").json() == []


@pytest.mark.parametrize("name", ["Shop", "-shop", "shop_1", "x" * 64])
def test_only_names_of_kubernetes_name_a_namespace(api, name):
    """The fault has a place; and nothing is there to be read."""
    answer = api.send("PUT", path_of(name, "/s"), GOOD)
    assert (answer.status, answer.json()["faults"][0]["path"]) == (400, "namespace")
    assert api.send("POST", path_of(name), GOOD).status == 400
    assert api.request("GET", path_of(name, "/s")).status == 404


def test_dead_letters_are_listed_by_namespace(api, both):
    """With the namespace of what they belong to; a uid of another finds none."""
    for namespace, uid in both.items():
        found = api.request("GET", f"/namespaces/{namespace}/dead-letters").json()
        assert [(one["route"], one["namespace"]) for one in found] == [(uid, namespace)]
    assert api.request("GET", "/dead-letters").json() == []
    foreign = api.request("GET", f"/namespaces/mine/dead-letters?route={both['theirs']}")
    assert (foreign.status, foreign.json()) == (200, [])
    assert api.request("GET", "/namespaces/mine/dead-letters?subscription=s").json()
    assert api.request("GET", "/namespaces/other/dead-letters?subscription=s").status == 404


def test_a_list_of_dead_letters_goes_on_in_its_namespace(api, both):
    """Its link does not leave it."""
    keep(api, "mine", both["mine"], "5")
    link = api.request("GET", "/namespaces/mine/dead-letters?limit=1").headers["link"]
    assert link.startswith("</namespaces/mine/dead-letters?limit=1&cursor=")
    (last,) = api.request("GET", link[1 : link.index(">")]).json()
    assert last["event"]["id"] == "5"


@pytest.mark.parametrize("kind", ["redrive", "purge"])
def test_a_run_of_all_is_of_its_namespace(api, both, kind):
    """Its name too: another namespace may have the same, and cannot read it."""
    runs = {}
    for namespace in both:
        answer = api.send(
            "POST", f"/namespaces/{namespace}/dead-letters/{kind}", {"all": True, "run": "r"}
        )
        assert (answer.status, answer.json()) == (202, {"run": "r"})
        runs[namespace] = answer.headers["location"]
    assert runs["mine"] == "/namespaces/mine/runs/r"
    assert api.request("GET", runs["mine"]).json()["run"] == "r"
    assert api.request("GET", "/namespaces/other/runs/r").status == 404
    assert api.request("GET", "/runs/r").status == 404


def test_a_run_of_a_foreign_route_is_refused(api, both):
    """As that of a route that never was."""
    path = "/namespaces/mine/dead-letters/purge"
    foreign = api.send("POST", path, {"route": both["theirs"]})
    never = api.send("POST", path, {"route": "never"})
    assert (foreign.status, foreign.body) == (404, never.body)
    assert api.send("POST", path, {"route": both["mine"]}).status == 202


def test_a_purge_of_a_namespace_spares_the_others(api, both):
    """What an owner does with such a demand."""
    demand = api.send("POST", "/namespaces/mine/dead-letters/purge", {"all": True}).json()["run"]
    stored = api.store.find_demand(f"mine {demand}")
    store = DeliveryStore(sqlite_url(api.databases[0]), 0)
    choice = LetterChoice(stored.route)
    chosen = store.chosen_letters(choice, 100, 0, 1_000_000)
    assert store.begin_run(stored.seq, choice).total == len(chosen)
    store.apply(Changes(taken=[kept.dead_letter.key for kept in chosen]))
    assert [kept.key.route for kept in store.dead_letters()] == [both["theirs"]]
    store.close()
