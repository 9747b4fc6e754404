"""Which events a subscription gets, apart from the rest of it: read, and explained on an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from distributary.core import filter as filters
from distributary.core.event import AttributeValue, shown
from distributary.core.filter import Explanation
from distributary.resource.faults import Faults
from distributary.resource.rules import FilterCheck
from distributary.resource.schema import checked
from distributary.subscriptions.resource._revisions import read_filters
from distributary.subscriptions.resource._schemas import SELECTION

SELECTING: Final = (*SELECTION, "filters", "filter")
"""Members of a subscription that decide which events match, in any revision."""


@dataclass(slots=True)
class FilterSelection:
    """The condition of a subscription: its ``source``, ``types`` and ``filters``, all ANDed.

    Attributes:
        source: Exact match; None: any.
        types: Any-of match; empty: any.
        filters: Filter expressions in the newest shape.
    """

    source: str | None = None
    types: tuple[str, ...] = ()
    filters: list[dict[str, Any]] = field(default_factory=list)

    def explain(self, attributes: Mapping[str, AttributeValue]) -> Explanation:
        """Whether an event with *attributes* matches, and why (decision 9, matching)."""
        expressions = filters.explain(self.filters, attributes)
        if self.source is None and not self.types:
            return expressions
        parts = []
        if self.source is not None:
            parts.append(_listed("source", "source", (self.source,), attributes))
        if self.types:
            parts.append(_listed("types", "type", self.types, attributes))
        if self.filters:
            parts.append(expressions)
        against = tuple(part for part in parts if not part.verdict)[:1]
        reason = "a part is false" if against else "every part is true"
        every = tuple(parts)
        return Explanation("subscription", "$", not against, reason, every, against or every)


def read_selection(faults: Faults, body: Mapping[str, Any], check: FilterCheck) -> FilterSelection:
    """Read the members ``SELECTING`` of *body*; valid only if no faults were noted."""
    found = {
        name: checked(faults, f"$.{name}", SELECTION[name], body[name])
        for name in SELECTION
        if name in body
    }
    expressions = read_filters(faults, body, check)
    return FilterSelection(found.get("source"), tuple(found.get("types") or ()), expressions)


def _listed(
    member: str, name: str, texts: tuple[str, ...], attributes: Mapping[str, AttributeValue]
) -> Explanation:
    """Explain whether attribute *name* is one of *texts*, from the subscription's *member*."""
    found = shown(str(attributes.get(name, "")))
    verdict = attributes.get(name) in texts
    wanted = f'"{shown(texts[0])}"' if len(texts) == 1 else f"among {member}"
    reason = f'{name} is "{found}": it is {"" if verdict else "not "}{wanted}'
    return Explanation(member, f"$.{member}", verdict, reason)
