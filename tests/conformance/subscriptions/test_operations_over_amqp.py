"""Subscriptions API 3.4: the operations over AMQP, in the words of 3.2.5."""

import pytest

PROPOSAL = {"sink": "https://example.com/event-processor", "protocol": "HTTP"}


@pytest.fixture
def ask(amqp_client, standing):
    """Ask one thing; the answer."""

    def asking(operation, body=None, **properties):
        return standing.runner.run(amqp_client.ask(operation, body, **properties))

    return asking


@pytest.mark.clause("subscriptions-api.amqp-binding")
@pytest.mark.clause("subscriptions-api.manager.mechanism")
def test_a_subscription_lives_by_exchanges_over_amqp(ask, standing):
    """Each operation is a message that asks and one that answers; the log holds the route."""
    created = ask("Create", PROPOSAL)
    id_ = created.json()["id"]
    assert ask("Retrieve", id=id_).json() == created.json()
    assert ask("Update", PROPOSAL | {"types": ["a"]}, id=id_).json()["types"] == ["a"]
    assert [found["id"] for found in ask("Query").json()] == [id_]
    assert ask("Delete", id=id_).status == "ok"
    records = [(record.op, record.types) for record in standing.routes.applied(0)]
    assert records == [("put", ()), ("put", ("a",)), ("delete", ())]


@pytest.mark.clause("subscriptions-api.operations.discovery")
def test_the_binding_names_its_operations(ask):
    """As OPTIONS does over HTTP."""
    names = ask("Discover").json()["operations"]
    assert set(names) == {"Create", "Retrieve", "Query", "Update", "Delete", "Discover"}


@pytest.mark.clause("subscriptions-api.create.invalid")
def test_a_proposal_that_is_wrong_is_invalid(ask):
    """The word; and all that is wrong."""
    answer = ask("Create", {})
    assert answer.status == "invalid"
    assert {fault["path"] for fault in answer.json()["faults"]} == {"$.sink", "$.protocol"}


@pytest.mark.clause("subscriptions-api.create.conflict")
def test_an_id_that_is_taken_is_a_conflict(ask):
    """``ifnonematch`` ``*`` creates or conflicts."""
    assert ask("Update", PROPOSAL, id="mine", ifnonematch="*").status == "ok"
    assert ask("Update", PROPOSAL, id="mine", ifnonematch="*").status == "conflict"


@pytest.mark.clause("subscriptions-api.retrieve.notfound")
@pytest.mark.clause("subscriptions-api.delete.notfound")
@pytest.mark.parametrize("operation", ["Retrieve", "Delete"])
def test_what_is_not_there_is_notfound(ask, operation):
    """The word."""
    assert ask(operation, id="missing").status == "notfound"


@pytest.mark.clause("subscriptions-api.query.nocontent")
def test_a_query_without_results_is_nocontent(ask):
    """The word; ``ok`` once there is one."""
    assert ask("Query").status == "nocontent"
    ask("Create", PROPOSAL)
    assert ask("Query").status == "ok"
