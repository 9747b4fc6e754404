"""Dependencies injected into validation: filter checker, clock, sink policy.

This room knows no filter dialects and no operator's settings; ``server`` wires it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from distributary.core.clock import SystemClock
from distributary.core.errors import Fault
from distributary.resource.sinks import SinkRule


class FilterCheck(Protocol):
    """Finds everything that is wrong with filter expressions."""

    def __call__(self, filters: object, path: str = ..., /) -> list[Fault]:
        """Every fault of the array *filters*, which stands at the JSON path *path*."""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """What a resource is checked against.

    Attributes:
        sinks: Where events may be sent.
        check_filters: ``filter.check``.
        wall_ms: What the wall clock shows, milliseconds: what ends must end in the future.
        protocols_absent: Delivery protocols that this installation cannot speak -> what it needs
            to, for people.
    """

    sinks: SinkRule
    check_filters: FilterCheck
    wall_ms: Callable[[], int] = SystemClock().wall_ms
    protocols_absent: Mapping[str, str] = field(default_factory=dict)
