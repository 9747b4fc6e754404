"""Tables of docs/reference/knative-resources.md, from the schemas that admission checks by."""

import re
from collections.abc import Iterator
from typing import Any

import clauses

from distributary.knative.kinds import SCHEMAS

_PARTS = {
    "Broker": ("Spec", "Status"),
    "Trigger": ("Spec", "Status"),
    "EventPolicy": ("Spec", "To", "From", "Requirement", "Status"),
    "Channel": ("Spec", "Status"),
    "Subscription": ("Spec", "Status"),
}
"""Knative's kinds, and the definitions that make each of them."""

_SHARED = (
    "Destination",
    "KReference",
    "DeliverySpec",
    "TriggerFilter",
    "SubscriptionsAPIFilter",
    "Addressable",
    "Condition",
    "PhysicalSubscriptionStatus",
    "SubscriberSpec",
    "SubscriberStatus",
)
_CORE = ("ServiceSpec", "ServicePort", "ConfigMap", "NamespaceStatus", "Event")
_COMMON = frozenset({"apiVersion", "kind", "metadata"})
_NOT_USED = "It is kept and not used."
_DEFAULT = re.compile(r"(.*) Default: (.+)\.", re.DOTALL)
_BY_NAME = {name.rpartition(".")[2]: schema for name, schema in SCHEMAS.items()}


def draw() -> str:
    """Every kind with its spec and status, then what stands in them."""
    return "\n\n".join([*_kinds(), *_objects("##", _SHARED), *_objects("##", _CORE)])


def _kinds() -> Iterator[str]:
    for kind, parts in _PARTS.items():
        yield f"## {kind}\n\n{clauses.cell(_BY_NAME[kind]['description'])}"
        for part in parts:
            yield f"### {kind} {part.lower()}\n\n{_table(_BY_NAME[kind + part])}"


def _objects(level: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        schema = _BY_NAME[name]
        yield f"{level} {name}\n\n{clauses.cell(schema['description'])}\n\n{_table(schema)}"


def _table(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = (
        _row(name, member, required=name in required)
        for name, member in schema["properties"].items()
        if name not in _COMMON and _NOT_USED not in member["description"]
    )
    return clauses.table(("Field", "Type", "Default", "Meaning"), rows)


def _row(name: str, member: dict[str, Any], *, required: bool) -> tuple[str, str, str, str]:
    found = _DEFAULT.fullmatch(member["description"])
    meaning, default = found.groups() if found else (member["description"], "")
    kind = _type(member) + (", required" if required else "")
    return f"`{name}`", kind, clauses.cell(default), clauses.cell(meaning)


def _type(member: dict[str, Any]) -> str:
    """How a reader names the type: ``array of Condition``."""
    if "$ref" in member:
        name = member["$ref"].rpartition(".")[2]
        shown = name in {*_SHARED, *_CORE}
        return f"[{name}](#{name.lower()})" if shown else name
    if "enum" in member:
        return " or ".join(f"`{value}`" for value in member["enum"])
    if "items" in member:
        return f"array of {_type(member['items'])}"
    if "additionalProperties" in member:
        return f"map of {_type(member['additionalProperties'])}s"
    bounds = [str(member[name]) for name in ("minimum", "maximum") if name in member]
    return f"{member['type']} {' to '.join(bounds)}".strip()
