"""Requests and responses of the Subscriptions API as AMQP messages. Pure: no links, no I/O."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from distributary.core.errors import Fault, RequestError, ResourceError
from distributary.protocols.amqp.engine import AmqpMessage, MessageId
from distributary.resource import FAULTS_MAX, RESOURCE_BYTES_MAX, decode_json
from distributary.subscriptions.http.operations import ListRange, OperationName, OperationResult
from distributary.subscriptions.http.parameters import (
    LIMIT_EXPECTED,
    is_json,
    parse_limit,
    parse_tags,
    precondition,
)
from distributary.subscriptions.http.problem_details import PROBLEM_TYPE, Problem
from distributary.subscriptions.store.stored import NO_PRECONDITION, Precondition

DISCOVER: Final = "Discover"
"""The operation that lists the others (3.2.5), as ``OPTIONS`` does over HTTP."""

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""A list is cut after about so many bytes, some 5,000 subscriptions, with ``next`` for the rest: a
response is one message, and a message is held in memory as a whole."""

NAME_CHARS_SHOWN: Final = 60
"""Characters of an unknown property's name that a response repeats."""

_JSON: Final = "application/json"

_TAKEN: Final[Mapping[str, frozenset[str]]] = {
    OperationName.CREATE: frozenset(),
    OperationName.RETRIEVE: frozenset(("id", "ifnonematch")),
    OperationName.QUERY: frozenset(("limit", "cursor")),
    OperationName.UPDATE: frozenset(("id", "ifmatch", "ifnonematch")),
    OperationName.DELETE: frozenset(("id", "ifmatch", "ifnonematch")),
    DISCOVER: frozenset(),
}
"""Operation -> application properties that it accepts beside ``operation``."""

_TRACING: Final = frozenset(("traceparent", "tracestate", "baggage"))
"""Added to any message by instrumentation (W3C Trace Context and Baggage); ignored."""

_TAGS_EXPECTED: Final = "expected * or entity tags in double quotes"


@dataclass(frozen=True, slots=True)
class AmqpCall:
    """A request as an ``ApiCall``.

    Attributes:
        namespace: Of the link that it came on.
        id: Id of the subscription; empty where the operation has none.
        precondition: Of the operation.
        range: Part of the list that is requested.
        content_type: Of the body; None: absent.
        body: As received.
    """

    namespace: str
    id: str
    precondition: Precondition
    range: ListRange
    content_type: str | None
    body: object

    async def read_body(self) -> object:
        """Return the JSON value in the body; raises as ``ApiCall.read_body``."""
        if self.content_type is not None and not is_json(self.content_type):
            text = "the content type of a subscription is application/json (in UTF-8)"
            raise RequestError("unsupported-media-type", text)
        body = self.body.encode() if isinstance(self.body, str) else self.body
        if not isinstance(body, bytes):
            text = "JSON stands in a data section, or in an AMQP value that is a string or binary"
            raise RequestError("unsupported-media-type", text)
        if len(body) > RESOURCE_BYTES_MAX:
            text = f"a subscription has at most {RESOURCE_BYTES_MAX} bytes"
            raise RequestError("content-too-large", text)
        return decode_json(body)

    def read_precondition(self) -> Precondition:
        return self.precondition

    def read_range(self) -> ListRange:
        return self.range


def read_request(message: AmqpMessage, namespace: str) -> tuple[OperationName | None, AmqpCall]:
    """Read the operation of *message* (None for ``Discover``) and its parameters.

    Raises:
        ResourceError: It is not a request: an unknown operation, or a property that this operation
            does not accept, is missing or is invalid. Names every fault: a misspelt property must
            not look as if it had been followed.
    """
    given: dict[str, Any] = {
        name: str(value) if isinstance(value, str) else value  # a symbol counts as text
        for name, value in message.application_properties.items()
        if name not in _TRACING
    }
    operation = given.pop("operation", None)
    if not isinstance(operation, str) or operation not in _TAKEN:
        raise ResourceError([_operation_fault(operation)])
    faults = list(itertools.islice(_property_faults(operation, given), FAULTS_MAX))
    if faults:
        raise ResourceError(faults)
    call = AmqpCall(
        namespace=namespace,
        id=given.get("id", ""),
        precondition=_precondition(given) if given else NO_PRECONDITION,
        range=ListRange(_limit(given), given.get("cursor"), ANSWER_BYTES_MAX),
        content_type=message.content_type,
        body=message.body,
    )
    return (None if operation == DISCOVER else OperationName(operation)), call


def answer_of(result: OperationResult, to: AmqpMessage) -> AmqpMessage:
    """Make the message that carries *result* in response to the request *to*."""
    assert isinstance(result.body, bytes)
    said: dict[str, Any] = {}
    if result.etag is not None:
        said["etag"] = result.etag
    if result.created_id is not None:
        said["id"] = result.created_id
    if result.next_cursor is not None:
        said["next"] = result.next_cursor
    said = _status(result.status.word, result.status.code) | said
    return _answer(to, said, result.body, _JSON if result.body else None)


def problem_of(problem: Problem, to: AmqpMessage) -> AmqpMessage:
    """Make the message that carries *problem* in response to the request *to*."""
    said = _status(problem.code, problem.status)
    if problem.subscription_id is not None:
        said["id"] = problem.subscription_id
    if problem.retry_after_s is not None:
        said["retryafter"] = problem.retry_after_s
    return _answer(to, said, problem.encode(), PROBLEM_TYPE)


def discovery_of(to: AmqpMessage) -> AmqpMessage:
    """Make the message that lists the operations in response to the request *to*."""
    body = msgspec.json.encode({"operations": list(_TAKEN)})
    return _answer(to, _status("ok", 200), body, _JSON)


def correlation_of(message: AmqpMessage) -> MessageId | None:
    """The correlation id of the response to *message*; None: the request has no id."""
    return message.message_id if message.correlation_id is None else message.correlation_id


def _status(word: str, code: int) -> dict[str, Any]:
    return {"status": word, "statuscode": code}


def _answer(
    to: AmqpMessage, said: Mapping[str, Any], body: bytes, content_type: str | None
) -> AmqpMessage:
    return AmqpMessage(
        body=body,
        application_properties=said,
        content_type=content_type,
        to=to.reply_to,
        correlation_id=correlation_of(to),
    )


def _operation_fault(operation: object) -> Fault:
    known = ", ".join(_TAKEN)
    if operation is None:
        return Fault("operation", "missing", f"expected one of {known}")
    return Fault("operation", "value", f"unknown operation; known: {known}")


def _property_faults(operation: str, given: Mapping[str, Any]) -> Iterator[Fault]:
    known = _TAKEN[operation]
    for name, value in given.items():
        if name not in known:
            takes = ", ".join(sorted(known)) or "no others"
            shown = name[:NAME_CHARS_SHOWN]
            yield Fault(shown, "unknown", f"{operation} does not take it; it takes: {takes}")
        elif name == "limit":
            if _limit(given) is None:
                yield Fault(name, "value", LIMIT_EXPECTED)
        elif not isinstance(value, str):
            yield Fault(name, "type", "expected a string")
        elif name.startswith("if") and parse_tags(value) is None:
            yield Fault(name, "value", _TAGS_EXPECTED)
    if "id" in known and "id" not in given:
        yield Fault("id", "missing", f"{operation} needs the id of a subscription")


def _limit(given: Mapping[str, Any]) -> int | None:
    """Read the limit: an AMQP number, or its digits."""
    value = given.get("limit")
    number = isinstance(value, int) and not isinstance(value, bool)
    return parse_limit(str(value)) if number or isinstance(value, str) else None


def _precondition(given: Mapping[str, Any]) -> Precondition:
    return precondition(
        *(
            None if given.get(name) is None else parse_tags(given[name])
            for name in ("ifmatch", "ifnonematch")
        )
    )
