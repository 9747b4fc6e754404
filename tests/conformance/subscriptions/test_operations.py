"""Subscriptions API 3.2.5: the operations, over HTTP."""

import pytest


@pytest.mark.clause(
    "subscriptions-api.3.2.5.discovery",
    "SHOULD",
    "the operations of a path can be discovered: OPTIONS answers Allow",
)
def test_operations_can_be_discovered(sut):
    """On both paths."""
    assert sut.ask("OPTIONS", "/subscriptions").headers["allow"] == "GET, HEAD, POST, OPTIONS"
    member = sut.ask("OPTIONS", "/subscriptions/any")
    assert member.headers["allow"] == "GET, HEAD, PUT, DELETE, OPTIONS"


@pytest.mark.clause("subscriptions-api.3.2.5.1", "SHOULD", "Create is supported")
@pytest.mark.clause(
    "subscriptions-api.3.2.5.1.realized",
    "MUST",
    "Create returns the realized object with every default applied",
)
def test_create_returns_the_realized_object(sut):
    """What was proposed, an id, and the defaults of decision 21."""
    answer = sut.create(filters=[{"prefix": {"type": "com.example."}}])
    realized = answer.json()
    assert answer.status == 201
    assert answer.headers["location"] == f"/subscriptions/{realized.pop('id')}"
    assert realized == {
        "filters": [{"prefix": {"type": "com.example."}}],
        "sink": "https://example.com/event-processor",
        "protocol": "HTTP",
        "protocolsettings": {
            "headers": {},
            "method": "POST",
            "format": "binary",
            "delivery": {
                "retry": 10,
                "backoffPolicy": "exponential",
                "backoffDelay": "PT0.2S",
                "backoffMax": "PT5M",
                "timeout": "PT30S",
            },
        },
    }


@pytest.mark.clause(
    "subscriptions-api.3.2.5.1.required",
    "MUST",
    "a proposal holds every required property except the id; otherwise invalid, every fault named",
)
def test_a_proposal_holds_what_is_required(sut):
    """All that is missing is said at once."""
    answer = sut.ask("POST", "/subscriptions", {})
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
    assert {fault["path"] for fault in answer.json()["faults"]} == {"$.sink", "$.protocol"}


@pytest.mark.clause("subscriptions-api.3.2.5.2", "MUST", "Retrieve is supported")
@pytest.mark.clause(
    "subscriptions-api.3.2.5.2.notfound", "MUST", "Retrieve of an unknown id is notfound"
)
def test_retrieve_returns_the_object_or_notfound(sut):
    """200 with the object, 404 with the code."""
    created = sut.create()
    found = sut.ask("GET", created.headers["location"])
    assert (found.status, found.json()) == (200, created.json())
    missing = sut.ask("GET", "/subscriptions/missing")
    assert (missing.status, missing.json()["code"]) == (404, "notfound")


@pytest.mark.clause("subscriptions-api.3.2.5.3", "SHOULD", "Query is supported")
@pytest.mark.clause(
    "subscriptions-api.3.2.5.3.endpoint", "MUST", "Query is at the endpoint of Create"
)
@pytest.mark.clause(
    "subscriptions-api.3.2.5.3.all", "SHOULD", "Query without constraints returns all"
)
def test_query_returns_all_at_the_endpoint_of_create(sut):
    """Each object as Retrieve returns it."""
    created = [sut.create().json() for _ in range(3)]
    answer = sut.ask("GET", "/subscriptions")
    assert answer.status == 200
    assert sorted(answer.json(), key=str) == sorted(created, key=str)


@pytest.mark.clause(
    "subscriptions-api.3.2.5.3.nocontent",
    "MUST",
    "Query without results succeeds: 200 with an empty list (decision 3)",
)
def test_query_without_results_succeeds(sut):
    """An empty list is a list."""
    answer = sut.ask("GET", "/subscriptions")
    assert (answer.status, answer.json()) == (200, [])


@pytest.mark.clause(
    "subscriptions-api.3.2.5.3.pages", "MAY", "Query takes pagination arguments: limit and cursor"
)
def test_query_can_be_paged(sut):
    """rel=next leads on, and ends."""
    for name in ("a", "b", "c"):
        sut.put(name)
    first = sut.ask("GET", "/subscriptions?limit=2")
    target = first.headers["link"].partition(">")[0].removeprefix("<")
    second = sut.ask("GET", target)
    assert [found["id"] for found in first.json() + second.json()] == ["a", "b", "c"]
    assert "link" not in second.headers


@pytest.mark.clause("subscriptions-api.3.2.5.4", "MAY", "Update is supported")
@pytest.mark.clause(
    "subscriptions-api.3.2.5.4.id", "MUST", "the id of an update is that of the subscription"
)
@pytest.mark.clause(
    "subscriptions-api.3.2.5.4.realized",
    "MUST",
    "Update replaces the whole object and returns it realized",
)
def test_update_replaces_the_whole_object(sut):
    """What the update leaves out takes its default again."""
    sut.put("mine", types=["a"], protocolsettings={"method": "PUT"})
    answer = sut.put("mine", id="mine", source="/s")
    assert (answer.status, answer.json()["id"]) == (200, "mine")
    assert answer.json()["source"] == "/s"
    assert "types" not in answer.json()
    assert answer.json()["protocolsettings"]["method"] == "POST"
    assert sut.put("mine", id="other").status == 400


@pytest.mark.clause("subscriptions-api.3.2.5.4.upsert", "MAY", "Update of an unknown id creates it")
def test_update_of_an_unknown_id_creates_it(sut):
    """201, with its place."""
    answer = sut.put("mine")
    assert (answer.status, answer.headers["location"]) == (201, "/subscriptions/mine")


@pytest.mark.clause("subscriptions-api.3.2.5.5", "SHOULD", "Delete is supported")
@pytest.mark.clause(
    "subscriptions-api.3.2.5.5.result", "MUST", "Delete returns the subscription object"
)
@pytest.mark.clause(
    "subscriptions-api.3.2.5.5.notfound", "MUST", "Delete of an unknown id is notfound"
)
def test_delete_returns_the_object_or_notfound(sut):
    """200 with the object (decision 23), then 404."""
    created = sut.create()
    deleted = sut.ask("DELETE", created.headers["location"])
    assert (deleted.status, deleted.json()) == (200, created.json())
    again = sut.ask("DELETE", created.headers["location"])
    assert (again.status, again.json()["code"]) == (404, "notfound")
