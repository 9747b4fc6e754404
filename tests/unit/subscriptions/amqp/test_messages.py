"""Requests and answers as AMQP messages: what is read, what is refused, what is said."""

import asyncio
import json
import uuid

import pytest

from distributary.core.errors import RequestError, ResourceError
from distributary.protocols.amqp.engine import AmqpMessage, decode_message, encode_message
from distributary.protocols.amqp.engine._values import Symbol
from distributary.resource import RESOURCE_BYTES_MAX
from distributary.subscriptions.amqp._messages import (
    ANSWER_BYTES_MAX,
    AmqpCall,
    answer_of,
    correlation_of,
    discovery_of,
    problem_of,
    read_request,
)
from distributary.subscriptions.http.operations import OperationName, OperationResult, Status
from distributary.subscriptions.http.problem_details import Problem


def asked(**properties: object) -> tuple[OperationName | None, AmqpCall]:
    """What a message with these application properties asks."""
    return read_request(AmqpMessage(b"", properties), "default")


def refused(**properties: object) -> dict[str, str]:
    """Path -> code of what a message with these application properties is refused for."""
    with pytest.raises(ResourceError) as caught:
        asked(**properties)
    return {fault.path: fault.code for fault in caught.value.faults}


def read_body(body: object, content_type: str | None = "application/json") -> object:
    """The JSON value in *body*."""
    message = AmqpMessage(body, {"operation": "Create"}, content_type)
    return asyncio.run(read_request(message, "default")[1].read_body())


@pytest.mark.parametrize("operation", list(OperationName))
def test_operations_have_the_names_of_the_specification(operation):
    """Create, Retrieve, Query, Update and Delete."""
    needed = {} if operation in ("Create", "Query") else {"id": "mine"}
    assert asked(operation=operation.value, **needed)[0] is operation


@pytest.mark.parametrize(
    ("properties", "faults"),
    [
        ({}, {"operation": "missing"}),
        ({"operation": "create"}, {"operation": "value"}),
        ({"operation": 1}, {"operation": "value"}),
        ({"operation": ["Create"]}, {"operation": "value"}),
        ({"operation": "Create", "id": "mine"}, {"id": "unknown"}),
        ({"operation": "Retrieve"}, {"id": "missing"}),
        ({"operation": "Retrieve", "id": 7}, {"id": "type"}),
        ({"operation": "Retrieve", "id": None}, {"id": "type"}),
        ({"operation": "Update", "ifMatch": "*"}, {"ifMatch": "unknown", "id": "missing"}),
        ({"operation": "Delete", "id": "a", "ifmatch": "abc"}, {"ifmatch": "value"}),
        ({"operation": "Delete", "id": "a", "ifnonematch": 1}, {"ifnonematch": "type"}),
        ({"operation": "Query", "limit": 0}, {"limit": "value"}),
        ({"operation": "Query", "limit": 1001}, {"limit": "value"}),
        ({"operation": "Query", "limit": True}, {"limit": "value"}),
        ({"operation": "Query", "limit": "ten", "cursor": 1}, {"limit": "value", "cursor": "type"}),
        ({"operation": "Query", "limit": -1}, {"limit": "value"}),
    ],
    ids=str,
)
def test_what_cannot_be_followed_is_named(properties, faults):
    """All at once; a misspelt condition never looks as if it held."""
    assert refused(**properties) == faults


def test_an_answer_to_nonsense_is_no_longer_than_people_read():
    """However long the names, and however many."""
    assert refused(operation="Query", **{"n" * 5_000: 1}) == {"n" * 60: "unknown"}
    assert len(refused(operation="Query", **{f"n{number}": 1 for number in range(500)})) == 100


def test_what_tracing_adds_is_no_question():
    """W3C Trace Context and Baggage are on messages of clients that know nothing of it."""
    call = asked(operation="Query", traceparent="00-1-2-01", tracestate="a=b", baggage="c=d")[1]
    assert call.read_range().limit is None


def test_symbols_are_texts():
    """Some clients write property values so; nothing of AMQP goes further in."""
    operation, call = asked(operation=Symbol("Retrieve"), id=Symbol("mine"))
    assert (operation, call.id, type(call.id)) == (OperationName.RETRIEVE, "mine", str)


@pytest.mark.parametrize("limit", [7, "7"])
def test_a_limit_is_a_number_or_its_digits(limit):
    """Clients without integers in application properties exist."""
    wanted = asked(operation="Query", limit=limit, cursor="c")[1].read_range()
    assert (wanted.limit, wanted.cursor, wanted.body_bytes_max) == (7, "c", ANSWER_BYTES_MAX)


def test_conditions_are_entity_tags_as_http_writes_them():
    """Weak ones count for ``ifnonematch`` alone."""
    call = asked(operation="Update", id="a", ifmatch='"x", W/"y"', ifnonematch='W/"z"')[1]
    precondition = call.read_precondition()
    assert precondition.if_match == {'"x"', 'W/"y"'}
    assert precondition.if_none_match == {'"z"'}


@pytest.mark.parametrize("body", [b'{"a":1}', '{"a":1}'], ids=["bytes", "text"])
@pytest.mark.parametrize(
    "content_type", [None, "application/json", "application/json;charset=UTF-8"]
)
def test_a_body_is_json_in_bytes_or_text(body, content_type):
    """A data section, or a value that is a binary or a string."""
    assert read_body(body, content_type) == {"a": 1}


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{}", "text/plain", "unsupported-media-type"),
        (b"{}", "application/json; charset=utf-16", "unsupported-media-type"),
        ({"a": 1}, "application/json", "unsupported-media-type"),
        (None, None, "unsupported-media-type"),
        (b" " * (RESOURCE_BYTES_MAX + 1), "application/json", "content-too-large"),
    ],
    ids=["text", "utf-16", "map", "none", "large"],
)
def test_a_body_that_is_not_read(body, content_type, code):
    """With the codes that HTTP gives."""
    with pytest.raises(RequestError) as caught:
        read_body(body, content_type)
    assert caught.value.request_code == code


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", "{", b'"\\ud800"'], ids=repr)
def test_a_body_that_is_no_json(body):
    """It is the proposal that is wrong."""
    with pytest.raises(ResourceError):
        read_body(body)


@pytest.mark.parametrize("id_", [7, uuid.UUID(int=1), b"\x00\xff", "seven"], ids=str)
@pytest.mark.parametrize("place", ["message_id", "correlation_id"])
def test_an_answer_carries_the_id_of_its_request_as_it_was(id_, place):
    """Each of the four types survives the wire in both directions."""
    request = decode_message(encode_message(AmqpMessage(b"", {}, **{place: id_})))
    answer = decode_message(encode_message(discovery_of(request)))
    assert answer.correlation_id == id_
    assert type(answer.correlation_id) in (type(id_), int)


def test_a_correlation_id_counts_before_the_message_id():
    """Who sets it wants to see it again."""
    assert correlation_of(AmqpMessage(b"", message_id=1, correlation_id=2)) == 2
    assert correlation_of(AmqpMessage(b"")) is None


def test_a_result_is_said_in_application_properties():
    """The word, the number, and what HTTP says in header fields."""
    request = AmqpMessage(b"", reply_to="answers/1", message_id="m")
    result = OperationResult(Status.CREATED, b"{}", etag='"e"', created_id="mine", next_cursor="n")
    answer = answer_of(result, request)
    assert (answer.to, answer.content_type, answer.body) == ("answers/1", "application/json", b"{}")
    assert answer.application_properties == {
        "status": "ok",
        "statuscode": 201,
        "etag": '"e"',
        "id": "mine",
        "next": "n",
    }


def test_an_answer_without_a_body_has_no_content_type():
    """As 304 over HTTP."""
    answer = answer_of(OperationResult(Status.NOT_MODIFIED, etag='"e"'), AmqpMessage(b""))
    assert (answer.body, answer.content_type) == (b"", None)
    assert answer.application_properties["status"] == "notmodified"


def test_a_problem_is_said_as_problem_details():
    """With where the change is, and when to come back."""
    problem = Problem("log-unavailable", "full", subscription_id="mine")
    answer = problem_of(problem, AmqpMessage(b"", message_id=1))
    assert answer.content_type == "application/problem+json"
    assert json.loads(answer.body)["code"] == "log-unavailable"
    assert answer.application_properties == {
        "status": "log-unavailable",
        "statuscode": 503,
        "id": "mine",
        "retryafter": 1,
    }


def test_discovery_names_every_operation():
    """Itself too."""
    assert json.loads(discovery_of(AmqpMessage(b"")).body) == {
        "operations": ["Create", "Retrieve", "Query", "Update", "Delete", "Discover"]
    }
