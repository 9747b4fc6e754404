"""Builders for parts of the API description: headers, parameters, responses, operations."""

from typing import Any, Final

from distributary.core.errors import CATALOGUE
from distributary.resource import Schema, ref
from distributary.subscriptions.http.problem_details import PROBLEM_TYPE
from distributary.subscriptions.service import PAGE_MAX

Node = dict[str, Any]

COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TEXT: Final[Schema] = {"type": "string"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}

EVERYWHERE: Final = (
    "bad-request",
    "unauthenticated",
    "invalid-credentials",
    "forbidden",
    "request-timeout",
    "content-too-large",
    "uri-too-long",
    "headers-too-large",
    "quota-exceeded",
    "internal",
    "unavailable",
)
"""Codes possible for any request: the receiver's, before the request is dispatched."""

RETRY_AFTER: Final[Node] = {
    "Retry-After": {
        "required": True,
        "schema": {"type": "integer", "minimum": 0},
        "description": "Seconds until a retry.",
    }
}


def header(text: str, schema: Schema | None = None, *, required: bool = True) -> Node:
    """A header field of a response."""
    return {"required": required, "schema": schema or {"type": "string"}, "description": text}


def parameter(name: str, place: str, text: str, schema: Schema) -> Node:
    """An optional parameter of a request; *place* is ``header`` or ``query``."""
    return {"name": name, "in": place, "description": text, "schema": schema}


def json_content(schema: str | Schema) -> Node:
    """``application/json`` of *schema*, a name or a schema."""
    return {"application/json": {"schema": ref(schema) if isinstance(schema, str) else schema}}


def answer(
    text: str, content: Node | None = None, headers: Node | None = None, links: Node | None = None
) -> Node:
    """One response of an operation."""
    node: Node = {"description": text}
    for name, value in (("content", content), ("headers", headers), ("links", links)):
        if value:
            node[name] = value
    return node


def problems(*codes: str, headers: dict[str, Node] | None = None) -> Node:
    """Responses for *codes* and those of ``EVERYWHERE``; codes of one status share one.

    Args:
        codes: Keys of the catalogue.
        headers: Status -> more header fields of its response.
    """
    texts: dict[str, list[str]] = {}
    for code in dict.fromkeys((*codes, *EVERYWHERE)):
        entry = CATALOGUE[code]
        texts.setdefault(str(entry.status), []).append(f"{entry.title} (`{code}`).")
    content = {PROBLEM_TYPE: {"schema": ref("Problem")}}
    more = {"429": RETRY_AFTER, "503": RETRY_AFTER} | (headers or {})
    return {
        status: answer(" ".join(sentences), content, more.get(status))
        for status, sentences in sorted(texts.items())
    }


def operation(name: str, tag: str, summary: str, responses: Node, **more: Any) -> Node:
    """One operation; *more* are its parameters, request body and so on."""
    return {"operationId": name, "tags": [tag], "summary": summary, **more, "responses": responses}


def one(method: str, name: str, tag: str, summary: str, answers: Node, **more: Any) -> Node:
    """The one operation of a path that names something; see ``operation``."""
    responses = answers | problems("notfound", "store-failed")
    return {method: operation(name, tag, summary, responses, **more)}


NEXT_PART: Final[Node] = {
    "Link": header('rel="next": the next part; absent after the last.', required=False)
}
"""Header of each part of a list."""

PART_SIZE: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": PAGE_MAX}

_PATH_PART: Final[Node] = {
    "type": "string",
    "pattern": r"^[^\x00-\x1f\x7f/\\]+$",
    "not": {"enum": [".", ".."]},
}
"""A path segment that the receiver accepts."""


_NAMESPACE: Final[Node] = {
    "name": "namespace",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"},
}


def in_namespaces(paths: dict[str, Node]) -> dict[str, Node]:
    """The same *paths* below each namespace, with operations of their own names."""
    return {
        f"/namespaces/{{namespace}}{path}": _in_namespace(item)
        | {"parameters": [_NAMESPACE, *item.get("parameters", ())]}
        for path, item in paths.items()
    }


def _in_namespace(node: Any) -> Any:
    if isinstance(node, list):
        return [_in_namespace(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {name: _in_namespace(value) for name, value in node.items()}
    name = found.get("operationId")
    if isinstance(name, str):
        found["operationId"] = f"{name}InNamespace"
        if "responses" not in found:  # a link
            place = {"namespace": "$request.path.namespace"}
            found["parameters"] = found["parameters"] | place
    return found


def with_head_and_options(path_item: Node) -> Node:
    """Add the operations that follow from others: ``HEAD`` from GET, and ``OPTIONS``."""
    found = dict(path_item)
    if "get" in found:
        found["head"] = _head_of(found["get"])
    first = next(item for name, item in found.items() if name != "parameters")
    # These do not look the resource up, so any path segment will do.
    loose = [each | {"schema": _PATH_PART} for each in found.get("parameters", ())]
    # The receiver answers where events are published, and knows which paths there are.
    published = first["tags"] == ["events"]
    found["options"] = operation(
        f"optionsOf{_titled(first['operationId'])}",
        first["tags"][0],
        "List the methods.",
        {"200": answer("In Allow.", headers={"Allow": header("The methods.")})}
        | (problems("notfound") if published else problems()),
        **({"parameters": loose} if loose else {}),
    )
    return found


def _head_of(get: Node) -> Node:
    responses = {
        status: {name: value for name, value in response.items() if name not in _NOT_OF_HEAD}
        for status, response in get["responses"].items()
    }
    more = {name: get[name] for name in ("parameters",) if name in get}
    name, summary = f"headOf{_titled(get['operationId'])}", "GET without its body."
    return operation(name, get["tags"][0], summary, responses, **more)


_NOT_OF_HEAD: Final = ("content", "links")


def _titled(name: str) -> str:
    return name[0].upper() + name[1:]
