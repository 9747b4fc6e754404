"""Whether a route matches an event, and why not, by its newest filters. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from distributary.core import filter as filters
from distributary.core.event import Event
from distributary.core.flow import RouteRecord

REASONS_MAX: Final = 5
"""Reasons that are told of one route."""


class Reason(NamedTuple):
    """One reason why a route does not match.

    Attributes:
        path: JSON path in the subscription.
        reason: For people.
    """

    path: str
    reason: str


class Effort(NamedTuple):
    """What it takes to evaluate filters for one event.

    Attributes:
        parts: Expressions, those within others too.
        sql_chars: Characters of CloudEvents SQL, which has to be parsed.
    """

    parts: int
    sql_chars: int


def effort_of(expressions: Iterable[Mapping[str, Any]]) -> Effort:
    """What it takes to evaluate *expressions*."""
    parts = sql_chars = 0
    for expression in expressions:
        parts += 1
        for name, value in expression.items():
            if name == "sql":
                sql_chars += len(value)
            elif name in {"all", "any", "not"}:
                inner = effort_of((value,) if name == "not" else value)
                parts, sql_chars = parts + inner.parts, sql_chars + inner.sql_chars
    return Effort(parts, sql_chars)


def passes(record: RouteRecord, event: Event) -> bool:
    """Whether the filters of *record* pass *event*: several times as fast as telling why not."""
    attributes = event.attributes
    return (
        (record.source is None or event.text("source") == record.source)
        and (not record.types or event.text("type") in record.types)
        and attributes.keys() >= set(record.present)
        and filters.naive_matches(record.filters, attributes)
    )


def why_not(record: RouteRecord, event: Event) -> list[Reason]:
    """Why the filters of *record* do not pass *event*; empty: they do."""
    attributes = event.attributes
    found: list[Reason] = []
    source, type_ = event.text("source"), event.text("type")
    if record.source is not None and source != record.source:
        found.append(Reason("$.source", f"source is {source!r}, not {record.source!r}"))
    if record.types and type_ not in record.types:
        found.append(Reason("$.types", f"type {type_!r} is none of its types"))
    missing = sorted(set(record.present) - attributes.keys())
    if missing:
        found.append(Reason("$.filter.attributes", f"the event has no {missing[0]}"))
    if not filters.naive_matches(record.filters, attributes):
        explanation = filters.explain(record.filters, attributes)
        found += [Reason(part.path, part.reason) for part in explanation.deciding()]
    return found[:REASONS_MAX]
