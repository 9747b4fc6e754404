"""``kubectl auth can-i`` and ``--list``: what the sender of a request may do.

Each asks about itself alone. The receiver has asked already whether a request may pass; here the
same grants and policies answer for requests that somebody thinks of.

Source:
    Kubernetes, ``authorization.k8s.io/v1``: ``SelfSubjectAccessReview``,
    ``SelfSubjectRulesReview``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from distributary.access import ALL_NAMESPACES, NOBODY, Gate, Identity, Permission, Verb, sender_of
from distributary.knative.apiserver.http._answers import json_answer
from distributary.knative.apiserver.http._requests import parse_object, read_body
from distributary.knative.apiserver.machinery import Object, StatusError

_API_VERSION: Final = "authorization.k8s.io/v1"
_FOLDER: Final = f"/apis/{_API_VERSION}/"
_ACCESS: Final = "SelfSubjectAccessReview"
_RULES: Final = "SelfSubjectRulesReview"

REVIEW_KINDS: Final = {
    f"{_FOLDER}selfsubjectaccessreviews": _ACCESS,
    f"{_FOLDER}selfsubjectrulesreviews": _RULES,
}
"""Kind of the object that is posted, by path."""

_READING: Final = ("get", "list", "watch")
_WRITING: Final = ("create", "update", "patch", "delete", "deletecollection")
_ALL_VERBS: Final = "*"
_VERBS: Final = frozenset((*_READING, *_WRITING, str(Verb.PUBLISH), _ALL_VERBS))
_OPEN_PATHS: Final = ("/api", "/apis", "/healthz", "/openapi", "/readyz", "/version")
_OBSERVED: Final[Mapping[str, str | None]] = {"/metrics": None, "/cluster": ALL_NAMESPACES}
"""Paths that show what is observed -> where one has to be allowed to; None: in any namespace."""
_OF_ANYBODY: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "apiextensions.k8s.io": {"customresourcedefinitions": _READING},
    "authorization.k8s.io": dict.fromkeys(
        ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), ("create",)
    ),
}
"""Group -> resource -> verbs: who shows an identity may do these, and nobody may do more."""


async def review_access(request: Request, kind: str, gate: Gate) -> Response:
    """``POST`` of a review of *kind*, one of ``REVIEW_KINDS``, which *gate* answers.

    Raises:
        StatusError: ``BadRequest``: the body is no such review.
    """
    review, _ = await parse_object(request, await read_body(request))
    if (review.get("apiVersion"), review.get("kind")) != (_API_VERSION, kind):
        raise StatusError("BadRequest", f"expected a {kind} of {_API_VERSION}")
    spec = review.get("spec")
    if not isinstance(spec, dict):
        raise StatusError("BadRequest", "spec: expected an object")
    sender = sender_of(request.scope["headers"])
    status = _access(sender, spec, gate) if kind == _ACCESS else _rules(sender, spec, gate)
    return json_answer({**review, "metadata": {}, "status": status}, 201)


def _access(sender: Identity, spec: Mapping[str, Any], gate: Gate) -> Object:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict) == isinstance(path, dict):
        raise StatusError(
            "BadRequest", "spec: expected either resourceAttributes or nonResourceAttributes"
        )
    if isinstance(resource, dict):
        verb, group = _text(resource, "verb"), _text(resource, "group")
        of_anybody = _OF_ANYBODY.get(group, {}).get(_text(resource, "resource"))
        if of_anybody is not None:
            allowed = verb in of_anybody and sender != NOBODY
            return {"allowed": allowed}
        if verb not in _VERBS:
            return {"allowed": False, "reason": f"nothing here knows the verb {verb!r}"}
        permission = _permission(resource)
        decision = gate.decide(sender, permission)
        allowed = decision.refusal is None
        reason = f"{sender.name} {'may' if allowed else 'may not'} {permission}"
        if not allowed and sender.may(permission):
            reason = str(decision.refusal).removesuffix(".")
        elif decision.filtered:
            reason += f"; events must pass the filters of {' or '.join(decision.filtered)}"
        return {"allowed": allowed, "reason": reason}
    assert isinstance(path, dict)
    text = _text(path, "path")
    if text in _OBSERVED:
        allowed = sender.may(Permission(Verb.OBSERVE, _OBSERVED[text]))
    else:
        allowed = any(text == one or text.startswith(f"{one}/") for one in _OPEN_PATHS)
    return {"allowed": allowed}


def _permission(asked: Mapping[str, Any]) -> Permission:
    """What a request with these ``resourceAttributes`` would need."""
    verb, resource, name = (_text(asked, member) for member in ("verb", "resource", "name"))
    namespace = _text(asked, "namespace") or ALL_NAMESPACES
    if resource == "namespaces" and name:
        namespace = name
    if verb == Verb.PUBLISH:
        return Permission(Verb.PUBLISH, namespace, f"{resource}/{name}" if name else "")
    if verb == _ALL_VERBS:
        return Permission(Verb.ADMIN, namespace)
    return Permission(Verb.READ if verb in _READING else Verb.WRITE, namespace)


def _rules(sender: Identity, spec: Mapping[str, Any], gate: Gate) -> Object:
    namespace = _text(spec, "namespace") or "default"
    verbs: list[str] = []
    if sender.may(Permission(Verb.READ, namespace)):
        verbs += _READING
    if sender.may(Permission(Verb.WRITE, namespace)):
        verbs += _WRITING
    published = _published(sender, namespace)
    resources = [{"verbs": verbs, "apiGroups": ["*"], "resources": ["*"]}] if verbs else []
    resources += [
        {
            "verbs": [str(Verb.PUBLISH)],
            "apiGroups": [_GROUPS[plural]],
            "resources": [plural],
            "resourceNames": names,
        }
        for plural, names in published.items()
    ]
    if sender != NOBODY:
        resources += [
            {"verbs": list(verbs), "apiGroups": [group], "resources": [resource]}
            for group, of_group in _OF_ANYBODY.items()
            for resource, verbs in of_group.items()
        ]
    paths = [path for one in _OPEN_PATHS for path in (one, f"{one}/*")]
    paths += [
        path for path, where in _OBSERVED.items() if sender.may(Permission(Verb.OBSERVE, where))
    ]
    told: Object = {
        "resourceRules": resources,
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": paths}],
        # Who may not publish there does not learn whether anything is protected.
        "incomplete": bool(published) and gate.narrows(namespace),
    }
    if told["incomplete"]:
        told["evaluationError"] = "EventPolicies narrow who may publish here; ask for one target"
    return told


_GROUPS: Final = {"brokers": "eventing.knative.dev", "channels": "messaging.knative.dev"}


def _published(sender: Identity, namespace: str) -> dict[str, list[str]]:
    """Names of Brokers and Channels by plural that *sender* may publish to; no name: all."""
    named = {name for grant in sender.grants for name in grant.names}
    found: dict[str, list[str]] = {}
    for plural in _GROUPS:
        if sender.may(Permission(Verb.PUBLISH, namespace, f"{plural}/")):
            found[plural] = []
            continue
        names = sorted(
            name.removeprefix(f"{plural}/")
            for name in named
            if name.startswith(f"{plural}/")
            and sender.may(Permission(Verb.PUBLISH, namespace, name))
        )
        if names:
            found[plural] = names
    return found


def _text(asked: Mapping[str, Any], member: str) -> str:
    found = asked.get(member, "")
    if not isinstance(found, str):
        raise StatusError("BadRequest", f"{member}: expected a string")
    return found
