"""Subscriptions API 3.2.5: the operations, over HTTP and over AMQP.

The requests are written in HTTP's words; ``OverAmqp`` asks the same over AMQP.
"""

import pytest


@pytest.fixture
def sut(either):
    """By each binding."""
    return either


@pytest.mark.clause("subscriptions-api.operations.discovery")
def test_operations_can_be_discovered(subscription_manager):
    """On both paths."""
    sut = subscription_manager
    assert sut.ask("OPTIONS", "/subscriptions").headers["allow"] == "GET, HEAD, POST, OPTIONS"
    member = sut.ask("OPTIONS", "/subscriptions/any")
    assert member.headers["allow"] == "GET, HEAD, PUT, DELETE, OPTIONS"


@pytest.mark.clause("subscriptions-api.operations.create")
@pytest.mark.clause("subscriptions-api.create.parameter")
@pytest.mark.clause("subscriptions-api.create.realized")
@pytest.mark.clause("subscriptions-api.create.result")
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


@pytest.mark.clause("subscriptions-api.create.proposal")
@pytest.mark.clause("subscriptions-api.create.invalid")
def test_a_proposal_holds_what_is_required(sut):
    """All that is missing is said at once."""
    answer = sut.ask("POST", "/subscriptions", {})
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
    assert {fault["path"] for fault in answer.json()["faults"]} == {"$.sink", "$.protocol"}


@pytest.mark.clause("subscriptions-api.operations.retrieve")
@pytest.mark.clause("subscriptions-api.retrieve.parameter")
@pytest.mark.clause("subscriptions-api.retrieve.result")
@pytest.mark.clause("subscriptions-api.retrieve.notfound")
def test_retrieve_returns_the_object_or_notfound(sut):
    """200 with the object, 404 with the code."""
    created = sut.create()
    found = sut.ask("GET", created.headers["location"])
    assert (found.status, found.json()) == (200, created.json())
    missing = sut.ask("GET", "/subscriptions/missing")
    assert (missing.status, missing.json()["code"]) == (404, "notfound")


@pytest.mark.clause("subscriptions-api.operations.query")
@pytest.mark.clause("subscriptions-api.query.endpoint")
@pytest.mark.clause("subscriptions-api.query.result")
@pytest.mark.clause("subscriptions-api.query.all")
def test_query_returns_all_at_the_endpoint_of_create(sut):
    """Each object as Retrieve returns it."""
    created = [sut.create().json() for _ in range(3)]
    answer = sut.ask("GET", "/subscriptions")
    assert answer.status == 200
    assert sorted(answer.json(), key=str) == sorted(created, key=str)


@pytest.mark.clause("subscriptions-api.query.nocontent")
def test_query_without_results_succeeds(sut):
    """An empty list is a list."""
    answer = sut.ask("GET", "/subscriptions")
    assert (answer.status, answer.json()) == (200, [])


@pytest.mark.clause("subscriptions-api.query.arguments")
def test_query_can_be_paged(sut):
    """rel=next leads on, and ends."""
    for name in ("a", "b", "c"):
        sut.put(name)
    first = sut.ask("GET", "/subscriptions?limit=2")
    target = first.headers["link"].partition(">")[0].removeprefix("<")
    second = sut.ask("GET", target)
    assert [found["id"] for found in first.json() + second.json()] == ["a", "b", "c"]
    assert "link" not in second.headers


@pytest.mark.clause("subscriptions-api.operations.update")
@pytest.mark.clause("subscriptions-api.update.parameter")
@pytest.mark.clause("subscriptions-api.update.realized")
@pytest.mark.clause("subscriptions-api.update.result")
@pytest.mark.clause("subscriptions-api.update.others")
def test_update_replaces_the_whole_object(sut):
    """What the update leaves out takes its default again."""
    sut.put("mine", types=["a"], protocolsettings={"method": "PUT"})
    answer = sut.put("mine", id="mine", source="/s")
    assert (answer.status, answer.json()["id"]) == (200, "mine")
    assert answer.json()["source"] == "/s"
    assert "types" not in answer.json()
    assert answer.json()["protocolsettings"]["method"] == "POST"
    assert sut.put("mine", id="other").status == 400


@pytest.mark.clause("subscriptions-api.update.upsert")
def test_update_of_an_unknown_id_creates_it(sut):
    """201, with its place."""
    answer = sut.put("mine")
    assert (answer.status, answer.headers["location"]) == (201, "/subscriptions/mine")


@pytest.mark.clause("subscriptions-api.operations.delete")
@pytest.mark.clause("subscriptions-api.delete.parameter")
@pytest.mark.clause("subscriptions-api.delete.result")
@pytest.mark.clause("subscriptions-api.delete.notfound")
def test_delete_returns_the_object_or_notfound(sut):
    """200 with the object (decision 23), then 404."""
    created = sut.create()
    deleted = sut.ask("DELETE", created.headers["location"])
    assert (deleted.status, deleted.json()) == (200, created.json())
    again = sut.ask("DELETE", created.headers["location"])
    assert (again.status, again.json()["code"]) == (404, "notfound")


@pytest.mark.clause("subscriptions-api.update.rejected")
@pytest.mark.parametrize(
    "members",
    [{"filters": [{"exact": {}}]}, {"sink": "x"}, {"filtres": []}, {"protocol": "KAFKA"}],
    ids=str,
)
def test_a_refused_update_leaves_the_subscription_as_it_was(sut, members):
    """Its object, its entity tag, and its route in the log."""
    before = sut.put("mine", filters=[{"exact": {"type": "a"}}])
    routes = sut.routes.applied(0)
    sut.faults(sut.put("mine", **members))
    after = sut.ask("GET", "/subscriptions/mine")
    assert (after.json(), after.headers["etag"]) == (before.json(), before.headers["etag"])
    assert sut.routes.applied(0) == routes


@pytest.mark.clause("subscriptions-api.create.conflict")
def test_a_client_learns_that_its_id_is_taken(sut):
    """``If-None-Match: *`` creates or conflicts; it never replaces (decision 2)."""
    target, new = "/subscriptions/mine", {"if-none-match": "*"}
    assert sut.ask("PUT", target, sut.proposal(), new).status == 201
    taken = sut.ask("PUT", target, sut.proposal(source="/other"), new)
    assert (taken.status, taken.json()["code"]) == (412, "conflict")
    assert "source" not in sut.ask("GET", target).json()


def test_changes_can_be_bound_to_what_was_read(sut):
    """``If-Match`` with the entity tag of the last read; a stale one changes nothing."""
    target = "/subscriptions/mine"
    read = {"if-match": sut.put("mine").headers["etag"]}
    assert sut.ask("PUT", target, sut.proposal(source="/new"), read).status == 200
    for method, body in (("PUT", sut.proposal()), ("DELETE", None)):
        stale = sut.ask(method, target, body, read)
        assert (stale.status, stale.json()["code"]) == (412, "conflict")
    assert sut.ask("GET", target).json()["source"] == "/new"


@pytest.mark.clause("subscriptions-api.manager.mechanism")
@pytest.mark.clause("subscriptions-api.http-binding")
def test_a_subscription_lives_by_the_methods_of_the_http_binding(subscription_manager):
    """POST, GET, PUT and DELETE; the log holds its route from the beginning to the end."""
    sut = subscription_manager
    created = sut.ask("POST", "/subscriptions", sut.proposal())
    path = f"/subscriptions/{created.json()['id']}"
    assert sut.ask("GET", path).json() == created.json()
    changed = sut.ask("PUT", path, sut.proposal(types=["a"]))
    assert (changed.status, changed.json()["types"]) == (200, ["a"])
    assert sut.ask("DELETE", path).status == 200
    assert sut.ask("GET", path).status == 404
    records = [(record.op, record.types) for record in sut.routes.applied(0)]
    assert records == [("put", ()), ("put", ("a",)), ("delete", ())]
